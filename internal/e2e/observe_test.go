package e2e

import (
	"strings"
	"testing"
	"time"

	"permd/ask"
	"permd/review"
)

// Where permd only observes, it records what it would have decided and what
// ran, says nothing to the client and asks nobody; everything that shows
// sessions says so.
func TestObserving(t *testing.T) {
	r := New(t)
	r.Policy("[[rule]]\naction = \"deny\"\ncommand = \"rm *\"\n[[rule]]\naction = \"allow\"\ncommand = \"make *\"\n")
	a := r.Agent(AgentOptions{Session: "s"})
	observe := func(event string, tool *Tool) {
		t.Helper()
		code, out, errOut, err := a.Run(a.event(event, tool), nil, r.Bin+"/permd-hook", "--root", r.Root, "--observe", "claude")
		if err != nil || code != 0 || out != "" || errOut != "" {
			t.Fatalf("%s: the hook says something: %d %q %q, %v", event, code, out, errOut, err)
		}
	}
	observe("SessionStart", nil)
	desk := r.Attach(a.Node(), nil)
	for i, cmd := range []string{"make x", "rm x", "touch x"} {
		tool := Bash(cmd)
		tool.Call = "toolu_" + string(rune('a'+i))
		observe("PreToolUse", &tool)
		observe("PermissionRequest", &tool)
		observe("PostToolUse", &tool)
	}
	seen := r.Records(review.Filter{Event: "permission_request.observed"})
	var got []string
	for _, x := range seen {
		got = append(got, x.Action.Command+" "+x.Verdict.String())
		if x.By == nil || x.By.Kind != ask.KindRule && x.By.Kind != ask.KindDefault {
			t.Errorf("%s", x.Raw)
		}
	}
	if strings.Join(got, ", ") != "make x allow, rm x deny, touch x ask" {
		t.Errorf("observed %q", got)
	}
	if n := len(desk.Waiting()); n != 0 {
		t.Errorf("%d asks wait", n)
	}
	for name, want := range map[string]int{"effect": 3, "ran_ungated": 0, "ran_other": 0, "session.strict": 0, "permission_request.waiting": 0, "permission_request.auto_approved": 0, "handed_to_client_dialog": 0} {
		if n := r.Count(name, want); n != want {
			t.Errorf("%d %s, want %d", n, name, want)
		}
	}
	for _, args := range [][]string{{"status"}, {"sessions"}} {
		if _, out := r.Permd(args...); !strings.Contains(strings.ToLower(out), "observed only") {
			t.Errorf("permd %s does not say so: %s", args[0], out)
		}
	}
	r.Until("the desk's tree", 5*time.Second, func() bool {
		for _, s := range desk.Tree() {
			if s.ID == a.ID() && s.Observed {
				return true
			}
		}
		return false
	})
	if code, _, out, _ := a.Run(a.event("PreToolUse", &Tool{Name: "Bash"}), nil, r.Bin+"/permd-hook", "--gate", "--observe", "claude"); code != 2 || !strings.Contains(out, "no gate") {
		t.Errorf("a gate that observes: %d %s", code, out)
	}
}

// An agent that observes its own calls gets nothing by it: the gate decides as
// before, and what was not let go trips the wire.
func TestObservingIsNoWayAroundTheGate(t *testing.T) {
	r := New(t)
	a := r.Agent(AgentOptions{Session: "s"})
	forge := func(tool Tool) {
		t.Helper()
		if code, out, errOut, err := a.Run(a.event("PreToolUse", &tool), nil, r.Bin+"/permd-hook", "--root", r.Root, "--observe", "claude"); err != nil || code != 0 {
			t.Fatalf("%d %s %s %v", code, out, errOut, err)
		}
	}
	tool := Bash("touch x")
	tool.Call = "toolu_1"
	forge(tool) // before any gate has called
	if got := a.Gate(Bash("touch y")); got.Allowed() {
		t.Errorf("%+v", got)
	}
	forge(tool)
	a.Ran(tool)
	ungated := func() int { return len(r.Records(review.Filter{Event: "ran_ungated"})) }
	r.Until("the wire to trip on the record", 10*time.Second, func() bool { return ungated() > 0 })
	if n := ungated(); n != 1 {
		t.Errorf("%d records that it ran ungated", n)
	}
	if _, out := r.Permd("sessions"); strings.Contains(out, "OBSERVED") || !strings.Contains(out, "TRIPPED") {
		t.Errorf("%s", out)
	}
}
