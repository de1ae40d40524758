package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/review"
	"permd/review/story"
)

// drill notes what a test does, to be compared with what the record says.
type drill struct {
	r     *Rig
	asks  map[string]string // a command → who decided it, and over whom it went
	times []drilled
}

// drilled is a time in which nobody did anything, and who relayed to whom.
type drilled struct {
	what     string
	from, to time.Time
	relays   map[string]string
}

// decided notes what a gate call came to and who made that.
func (d *drill) decided(cmd string, got Answer, verdict, by string, path ...string) {
	d.r.T.Helper()
	if got.Decision != verdict {
		d.r.T.Errorf("%s: %+v, want %s", cmd, got, verdict)
	}
	d.asks[cmd] = verdict + " by " + by + " over " + strings.Join(path, " ")
}

// still notes that for a while these relay, as "child>parent", and nobody else.
func (d *drill) still(what string, relays ...string) {
	d.r.T.Helper()
	x := drilled{what: what, relays: map[string]string{}}
	for _, s := range relays {
		child, parent, _ := strings.Cut(s, ">")
		x.relays["claude-"+child] = "claude-" + parent
	}
	// Who relays where changes with the sessions' own calls, and a node says
	// so at once; an end is seen by others.
	d.r.Until("the record of: "+what, 10*time.Second, func() bool {
		return maps.Equal(relaysOf(story.At(d.r.Records(review.Filter{}), time.Now())), x.relays)
	})
	x.from = time.Now()
	time.Sleep(30 * time.Millisecond) // the while in which nobody does anything
	x.to = time.Now()
	d.times = append(d.times, x)
}

func relaysOf(tree []story.Session) map[string]string {
	out := map[string]string{}
	for _, s := range tree {
		if s.Parent != "" && s.Lost.IsZero() {
			out[s.ID] = s.Parent
		}
	}
	return out
}

// yes allows what is asked, but for what says no.
func yes(s api.Shown) *ask.Answer {
	if strings.Contains(s.Ask.Body.Action.Command, "no") {
		return DenyAll(s)
	}
	return AllowAll(s)
}

// TestAuditDrill: a lead and three subagents, one below another, and a second
// lead. The lead is killed, one subagent goes to the second lead and back, one
// answers by itself meanwhile, an answer comes late, a surface goes away in the
// middle of an ask. From the record alone the story is told of who relayed to
// whom at each time and who decided each ask, and it is what the test did.
func TestAuditDrill(t *testing.T) {
	r := New(t)
	d := &drill{r: r, asks: map[string]string{}}
	l, _ := lead(r, "lead", false)
	backup := r.Agent(AgentOptions{Session: "backup"})
	backup.Send("SessionStart", nil)
	r.Attach(backup.Node(), yes)
	one := r.Agent(AgentOptions{Session: "one", Env: []string{"PERMD_PARENT_SESSION=claude-lead", "PERMD_SESSION=claude-backup"}})
	two := r.Agent(AgentOptions{Session: "two", Env: []string{"PERMD_PARENT_SESSION=claude-lead"}})
	two.Send("SessionStart", nil)
	r.Attach(two.Node(), yes) // somebody can answer there, too
	three := r.Agent(AgentOptions{Session: "three", Env: []string{"PERMD_SESSION=claude-two"}})
	for _, a := range []*Agent{one, three} {
		a.Send("SessionStart", nil)
	}

	// Two surfaces at the lead beside the one that says nothing: one leaves in
	// the middle of an ask, one is late with its answer.
	silent := r.Attach(l.Node(), nil)
	late := r.Attach(l.Node(), nil)
	p := one.BeginGate(Bash("touch first yes"))
	r.Until("the ask at the lead", 10*time.Second, func() bool { return len(late.Waiting()) == 1 && len(silent.Waiting()) == 1 })
	x := late.Waiting()[0].Ask
	silent.Close()
	answering := r.Attach(l.Node(), yes)
	got, err := p.Answer()
	if err != nil {
		t.Fatal(err)
	}
	d.decided("touch first yes", got, "allow", `user "desk"`, "claude-one", "claude-lead")
	if v, err := late.Answer(ask.DenyAnswer(x, "late")); err != nil || v.Verdict != api.VerdictTooLate {
		t.Errorf("the late answer: %+v, %v", v, err)
	}
	lateAsk := x.Body.ID
	d.decided("touch a yes", two.Gate(Bash("touch a yes")), "allow", `user "desk"`, "claude-two", "claude-lead")
	d.decided("touch b yes", three.Gate(Bash("touch b yes")), "allow", `user "desk"`, "claude-three", "claude-two", "claude-lead")
	d.decided("touch c no", three.Gate(Bash("touch c no")), "deny", `user "desk"`, "claude-three", "claude-two", "claude-lead")
	d.decided("ls", three.Gate(Bash("ls")), "allow", "baseline", "claude-three")
	d.still("all relay to the lead", "one>lead", "two>lead", "three>two")

	// The lead is killed, its node first: it says no word of its end.
	answering.Close()
	r.killNode(l.Node())
	l.Kill()
	d.decided("touch d yes", one.Gate(Bash("touch d yes")), "allow", `user "desk"`, "claude-one", "claude-backup")
	d.decided("touch e yes", two.Gate(Bash("touch e yes")), "allow", `user "desk"`, "claude-two")
	d.decided("touch f no", three.Gate(Bash("touch f no")), "deny", `user "desk"`, "claude-three", "claude-two")
	d.still("the lead is dead", "one>backup", "three>two")

	// It comes back as another process.
	again := r.Agent(AgentOptions{Session: "lead"})
	again.Send("SessionStart", nil)
	r.Attach(again.Node(), yes)
	r.Until("its surface", 10*time.Second, func() bool { return r.faces(again.Node()) == 1 })
	d.decided("touch g yes", two.Gate(Bash("touch g yes")), "allow", `user "desk"`, "claude-two", "claude-lead")
	d.decided("touch h yes", one.Gate(Bash("touch h yes")), "allow", `user "desk"`, "claude-one", "claude-lead")
	d.decided("touch i yes", three.Gate(Bash("touch i yes")), "allow", `user "desk"`, "claude-three", "claude-two", "claude-lead")
	d.still("the lead is back", "one>lead", "two>lead", "three>two")

	// One of them ends.
	three.Kill()
	r.Until("its node to end", 10*time.Second, func() bool { return !slices.Contains(r.Nodes(), three.Node()) })
	d.still("one has ended", "one>lead", "two>lead")
	for _, a := range []*Agent{one, two, again, backup} {
		a.Kill()
	}
	r.Until("all nodes to end", 15*time.Second, func() bool { return len(r.Nodes()) == 0 })
	d.still("nobody is left")

	all := r.Records(review.Filter{})
	d.compareTrees(all)
	d.compareAsks(all)
	for _, a := range story.Asks(all) {
		if a.ID == lateAsk && !slices.ContainsFunc(a.Steps, func(s story.Step) bool { return s.Event == review.AnswerLate }) {
			t.Errorf("the late answer is not in the story: %+v", a.Steps)
		}
	}
	d.commands(lateAsk)
	if rep := r.verify(); rep.Status == review.Tampered {
		t.Error("the record is said to be tampered with")
	}
}

// compareTrees holds who relayed to whom, at any time of each while, against
// what the test had them do; from the trees and from the spans.
func (d *drill) compareTrees(all []review.Record) {
	spans := story.Relays(all)
	for _, x := range d.times {
		for at := x.from; !at.After(x.to); at = at.Add(x.to.Sub(x.from) / 10) {
			if got := relaysOf(story.At(all, at)); !maps.Equal(got, x.relays) {
				d.r.T.Errorf("%s, at %s: %v, want %v", x.what, at, got, x.relays)
			}
			got := map[string]string{}
			for _, s := range spans {
				if !s.From.After(at) && (s.To.IsZero() || s.To.After(at)) {
					got[s.Session] = s.Parent
				}
			}
			if !maps.Equal(got, x.relays) {
				d.r.T.Errorf("%s, at %s: the spans say %v, want %v", x.what, at, got, x.relays)
			}
		}
	}
	if len(d.times) < 5 {
		d.r.T.Errorf("%d times: the drill is blind", len(d.times))
	}
}

func (d *drill) compareAsks(all []review.Record) {
	got := map[string]string{}
	for _, a := range story.Asks(all) {
		if a.Decision == nil || a.Action == nil {
			d.r.T.Errorf("ask %s has no decision on the record", a.ID)
			continue
		}
		x := a.Decision
		if !x.Confirmed || x.Outcome != ask.Answered {
			d.r.T.Errorf("%s: %+v", a.Action.Command, x)
		}
		got[a.Action.Command] = fmt.Sprintf("%s by %s over %s", x.Verdict, story.By(x.By.Decider()), strings.Join(a.Path, " "))
		if at := a.Path[len(a.Path)-1]; x.By.Decider().Session != "" && x.By.Decider().Session != at {
			d.r.T.Errorf("%s: decided at %s, and it went to %s", a.Action.Command, x.By.Decider().Session, at)
		}
	}
	if !maps.Equal(got, d.asks) {
		for cmd := range maps.Keys(d.asks) {
			if got[cmd] != d.asks[cmd] {
				d.r.T.Errorf("%s: the record says %q, the test did %q", cmd, got[cmd], d.asks[cmd])
			}
		}
		d.r.T.Errorf("the record has %d asks, the test made %d", len(got), len(d.asks))
	}
}

// commands asks permd itself.
func (d *drill) commands(lateAsk string) {
	t := d.r.T
	for _, x := range d.times[:len(d.times)-1] {
		code, out := d.r.Permd("review", "tree", "--at", x.from.Format(time.RFC3339Nano), "--json")
		got := map[string]string{}
		for line := range strings.Lines(out) {
			var s struct{ Session, Relays_to string }
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Errorf("%v: %s", err, line)
			}
			if s.Relays_to != "" && !strings.Contains(line, `"lost"`) {
				got[s.Session] = s.Relays_to
			}
		}
		if code != 0 || !maps.Equal(got, x.relays) {
			t.Errorf("%s: permd review tree ended with %d and says %v, want %v", x.what, code, got, x.relays)
		}
	}
	code, out := d.r.Permd("review", "show", lateAsk)
	if code != 0 || !strings.Contains(out, `decided   allow by user "desk" at claude-lead`) || !strings.Contains(out, "hears a late answer from") {
		t.Errorf("permd review show ended with %d: %s", code, out)
	}
	if code, out := d.r.Permd("review", "query", "--undecided"); code != 1 || out != "" {
		t.Errorf("permd review query --undecided ended with %d: %s", code, out)
	}
}
