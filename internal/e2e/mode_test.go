package e2e

import (
	"strings"
	"testing"
	"time"

	"permd/ask"
	"permd/review"
)

// A mode is switched by a person, seen everywhere, on the record, and over
// when its time is.
func TestModes(t *testing.T) {
	r := New(t)
	r.Policy("[[rule]]\naction = \"deny\"\ncommand = \"rm *\"\n")
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	b := r.Agent(AgentOptions{Session: "other"})
	b.Send("SessionStart", nil)
	desk := r.Attach(a.Node(), nil)
	waits := a.BeginGate(Bash("touch first"))
	r.Until("the ask", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })

	if code, _, out, err := a.Run("", nil, r.Bin+"/permd", "--root", r.Root, "mode", "yolo", "--for", "1h", "--yes"); err != nil || code == 0 || !strings.Contains(out, "refused") {
		t.Fatalf("an agent switched it: %d %s, %v", code, out, err)
	}
	if code, out := r.Permd("mode", "yolo", "--for", "1h", "--session", a.ID()); code != 1 || !strings.Contains(out, "nothing was switched") {
		t.Fatalf("without a terminal to ask at: %d %s", code, out)
	}
	if code, out := r.Permd("mode", "yolo", "--for", "1h", "--session", a.ID(), "--yes"); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	if got, err := waits.Answer(); err != nil || !got.Allowed() {
		t.Errorf("what waited is not settled by the mode: %+v, %v", got, err)
	}
	if got := a.Gate(Bash("touch x")); !got.Allowed() {
		t.Errorf("%+v", got)
	}
	for cmd, want := range map[string]string{"rm x": "deny", "permd stop": "deny"} {
		if got := a.Gate(Bash(cmd)); got.Decision != want {
			t.Errorf("%s: %+v", cmd, got)
		}
	}
	if got := b.Gate(Bash("touch x")); got.Allowed() {
		t.Errorf("the mode of one session holds in another: %+v", got)
	}
	for _, args := range [][]string{{"status"}, {"sessions"}, {"status", "--short"}} {
		if _, out := r.Permd(args...); !strings.Contains(strings.ToLower(out), "yolo") {
			t.Errorf("permd %s does not show it: %s", args[0], out)
		}
	}
	said := false
	for _, n := range desk.Notices() {
		said = said || n.Kind == "mode" && strings.Contains(n.Text, "yolo")
	}
	if !said {
		t.Error("the desk was not told")
	}
	r.Until("the desk's tree", 5*time.Second, func() bool {
		for _, s := range desk.Tree() {
			if s.ID == a.ID() && s.Lifted == "yolo" && s.LiftedMS > 0 {
				return true
			}
		}
		return false
	})
	used := 0
	for _, x := range r.Records(review.Filter{Session: a.ID()}) {
		if x.By != nil && x.By.Kind == ask.KindMode && x.By.Surface == "yolo" {
			used++
		}
	}
	if used != 2 {
		t.Errorf("%d calls on the record by the mode, want 2", used)
	}
	if code, _ := r.Permd("mode", "normal"); code != 0 {
		t.Error("normal")
	}
	if got := a.BeginGate(Bash("touch y")); got != nil {
		r.Until("it is asked again", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
		desk.Answer(ask.DenyAnswer(desk.Waiting()[0].Ask, ""))
		got.Answer()
	}
	if code, out := r.Permd("mode", "accept-edits", "--for", "300ms", "--yes"); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	r.Until("the end of the mode on the record", 5*time.Second, func() bool {
		n := 0
		for _, x := range r.Records(review.Filter{Event: "policy.mode"}) {
			if x.Reason != "" {
				n++
			}
		}
		return n == 2 // one a node
	})
	if code, out := r.Permd("mode", "yolo", "--for", "9h", "--yes"); code != 1 || !strings.Contains(out, "at most") {
		t.Errorf("%d %s", code, out)
	}
	if code, out := r.Permd("mode", "yolo", "--for", "1m", "--session", "claude-nobody", "--yes"); code != 1 || !strings.Contains(out, "not running") {
		t.Errorf("%d %s", code, out)
	}
}

// A mode does not outlive its node, and lifts nothing in a session that ran
// what was not let go.
func TestAModeEndsWithItsNode(t *testing.T) {
	r := New(t)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	if code, out := r.Permd("mode", "yolo", "--for", "1h", "--yes"); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	if got := a.Gate(Bash("touch x")); !got.Allowed() {
		t.Fatalf("%+v", got)
	}
	r.killNode(a.Node())
	if got := a.Gate(Bash("touch x")); got.Allowed() {
		t.Errorf("a mode outlives its node: %+v", got)
	}
	if code, out := r.Permd("mode", "yolo", "--for", "1h", "--yes"); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	other := Bash("touch never-asked")
	other.Call = "toolu_ungated"
	a.Ran(other)
	if got := a.Gate(Bash("touch x")); got.Allowed() {
		t.Errorf("a mode lifts what a tripped session asks: %+v", got)
	}
}
