package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"permd/ask"
	"permd/review"
)

// lead starts a session with a desk attached to its node.
func lead(r *Rig, name string, answer bool) (*Agent, *Surface) {
	l := r.Agent(AgentOptions{Session: name})
	l.Send("SessionStart", nil)
	if answer {
		return l, r.Attach(l.Node(), AllowAll)
	}
	return l, r.Attach(l.Node(), nil)
}

func below(l *Agent) []string { return []string{"PERMD_SESSION=" + l.ID()} }

func TestASubagentRelaysOverOneAndTwoHops(t *testing.T) {
	r := New(t)
	l, desk := lead(r, "lead", false)
	sub := r.Agent(AgentOptions{Session: "sub", Under: l, Env: below(l)})
	subsub := r.Agent(AgentOptions{Session: "subsub", Under: sub, Env: below(sub)})
	for _, c := range []struct {
		a    *Agent
		hops int
	}{{sub, 1}, {subsub, 2}} {
		p := c.a.BeginGate(Bash("touch " + c.a.Session))
		r.Until("the ask of "+c.a.Session, 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
		x := desk.Waiting()[0]
		if len(x.Ask.Header.Path) != c.hops || x.Ask.Header.Claimed() || x.Ask.Body.From.Session != c.a.ID() {
			t.Errorf("%s: path %+v", c.a.Session, x.Ask.Header.Path)
		}
		desk.Answer(ask.AllowAnswer(x.Ask))
		got, err := p.Answer()
		if err != nil || !got.Allowed() {
			t.Errorf("%s: %+v, %v", c.a.Session, got, err)
		}
	}
	started := r.Records(review.Filter{Event: "forwarded_permission.serving_started"})
	if len(started) == 0 {
		t.Error("the parent's record does not say that it serves")
	}
}

// A session with a dialog of its own relays to a parent that serves, asks
// here when it does not, and the records of both sides line up.
func TestRelayFollowsTheParent(t *testing.T) {
	r := New(t)
	child := r.Agent(AgentOptions{Session: "child", Attended: true, Env: []string{"PERMD_PARENT_SESSION=claude-lead"}})
	child.Send("SessionStart", nil)
	gate := func(cmd, want string) {
		t.Helper()
		if got := child.Gate(Bash(cmd)); got.Decision != want {
			t.Errorf("%s: %+v, want %s", cmd, got, want)
		}
	}
	gate("touch 1", "ask") // nobody there yet: the child's own dialog
	l, _ := lead(r, "lead", true)
	gate("touch 2", "allow") // the parent started late
	l.Kill()
	gate("touch 3", "ask") // it died
	l2, _ := lead(r, "lead", true)
	gate("touch 4", "allow") // it returned, as another process
	l2.Signal(syscall.SIGSTOP)
	node := r.nodePID(l2.Node())
	syscall.Kill(node, syscall.SIGSTOP)
	// Seldom, since a session that asks too often is refused.
	r.Slowly("the stopped parent to count as stuck", 15*time.Second, func() bool {
		return child.Gate(Bash("touch 5")).Decision == "ask"
	})
	syscall.Kill(node, syscall.SIGCONT)
	l2.Signal(syscall.SIGCONT)
	r.Slowly("the parent to be back", 15*time.Second, func() bool { return child.Gate(Bash("touch 6")).Decision == "allow" })

	var line []string
	for _, x := range r.Records(review.Filter{Session: child.ID()}) {
		switch x.Event {
		case review.RelayStarted:
			if x.Field(review.KeyChannel) != "env" || x.Field(review.KeyFoundBy) != "PERMD_PARENT_SESSION" {
				t.Errorf("relay_started says %v", x.Fields)
			}
			line = append(line, "start "+x.Field(review.KeyTargetSession))
		case review.RelayStopped:
			line = append(line, "stop "+x.Field(review.KeyTargetSession))
		}
	}
	want := "start claude-lead, stop claude-lead, start claude-lead, stop claude-lead, start claude-lead"
	if got := strings.Join(line, ", "); got != want {
		t.Errorf("the child's record: %s\nwant: %s", got, want)
	}
	starts := len(r.Records(review.Filter{Session: l.ID(), Event: "forwarded_permission.serving_started"}))
	if starts != 2 {
		t.Errorf("the parent's record has %d serving_started, want one for each life", starts)
	}
}

// An ask that waits with the parent when it dies is not lost: a session with
// a dialog asks there.
func TestParentDiesInTheMiddleOfAnAsk(t *testing.T) {
	r := New(t)
	l, desk := lead(r, "lead", false)
	child := r.Agent(AgentOptions{Session: "child", Attended: true, Env: []string{"PERMD_PARENT_SESSION=claude-lead"}})
	child.Send("SessionStart", nil)
	p := child.BeginGate(Bash("touch x"))
	r.Until("the ask at the lead", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	begin := time.Now()
	r.killNode(l.Node())
	got, err := p.Answer()
	if err != nil || got.Decision != "ask" {
		t.Errorf("%+v, %v", got, err)
	}
	if d := time.Since(begin); d > 3*time.Second {
		t.Errorf("it took %s", d)
	}
}

func TestHeadlessChildOfADeadParent(t *testing.T) {
	r := New(t)
	l, desk := lead(r, "lead", false)
	child := r.Agent(AgentOptions{Session: "child", Under: l, Env: below(l)})
	p := child.BeginGate(Bash("touch x"))
	r.Until("the ask at the lead", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	r.killNode(l.Node())
	got, err := p.Answer()
	if err != nil || got.Decision != "deny" || !strings.Contains(got.Reason, "claude-lead") || strings.Contains(got.Reason, "user") {
		t.Errorf("%+v, %v", got, err)
	}
}

// A parent that is only claimed may carry an ask to a person, but what it has
// on record allows nothing.
func TestAClaimedParentAllowsNothingByItself(t *testing.T) {
	r := New(t)
	l, desk := lead(r, "lead", false)
	p := l.BeginGate(Bash("touch x"))
	r.Until("the lead's own ask", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	x := desk.Waiting()[0]
	ans := ask.AllowAnswer(x.Ask)
	for _, o := range x.Offers {
		if o.Scope == ask.ScopeTree {
			ans.Offer = o.ID
		}
	}
	d, _ := ask.OffersDigest(x.Offers)
	ans.OfferDigest = &d
	desk.Answer(ans)
	p.Answer()
	// A verified child is allowed by the tree grant at the lead.
	child := r.Agent(AgentOptions{Session: "child", Under: l, Env: below(l)})
	if got := child.Gate(Bash("touch x")); !got.Allowed() {
		t.Errorf("a verified child: %+v", got)
	}
	stranger := r.Agent(AgentOptions{Session: "stranger", Env: []string{"PERMD_PARENT_SESSION=claude-lead"}})
	q := stranger.BeginGate(Bash("touch x"))
	r.Until("the stranger's ask", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	y := desk.Waiting()[0]
	if !y.Ask.Header.Claimed() {
		t.Error("the claim is not shown")
	}
	if len(y.Offers) != 0 {
		t.Errorf("a claim is offered to be remembered: %v", y.Offers)
	}
	desk.Answer(ask.AllowAnswer(y.Ask))
	if got, err := q.Answer(); err != nil || !got.Allowed() {
		t.Errorf("a person may allow what a claim carries: %+v, %v", got, err)
	}
	// A person confirms the claim, for this session.
	if code, out := r.Permd("confirm", stranger.ID(), l.ID()); code != 0 {
		t.Errorf("confirm: %d %s", code, out)
	}
	if got := stranger.Gate(Bash("touch x")); !got.Allowed() {
		t.Errorf("a confirmed child: %+v", got)
	}
}

func TestASessionNeverRelaysToItself(t *testing.T) {
	r := New(t)
	a := r.Agent(AgentOptions{Session: "s", Attended: true, Env: []string{"PERMD_PARENT_SESSION=claude-s", "PERMD_SESSION=claude:s"}})
	a.Send("SessionStart", nil)
	if got := a.Gate(Bash("touch x")); got.Decision != "ask" {
		t.Errorf("%+v", got)
	}
	if r.Count("forwarded_permission.", 0) != 0 {
		t.Error("it relayed, or served")
	}
}

func TestAnInProcessSubagentRelaysToItsRoot(t *testing.T) {
	r := New(t)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	desk := r.Attach(a.Node(), nil)
	x := Bash("touch x")
	x.Agent = "adaa760ee05dcd046"
	p := a.BeginGate(x)
	r.Until("the subagent's ask", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	got := desk.Waiting()[0].Ask
	if !strings.HasPrefix(got.Body.From.Session, a.ID()+".") || len(got.Header.Path) != 1 {
		t.Errorf("%+v %+v", got.Body.From, got.Header)
	}
	desk.Answer(ask.AllowAnswer(got))
	if ans, err := p.Answer(); err != nil || !ans.Allowed() {
		t.Errorf("%+v, %v", ans, err)
	}
}
