package e2e

import (
	"strings"
	"testing"
	"time"

	"permd/review"
)

// A file that breaks in mid-session leaves the last good rules in force, and
// says so at once: on the record, on the surfaces and in permd policy check.
func TestABrokenRuleFileInMidSession(t *testing.T) {
	r := New(t)
	r.Policy(rules)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	desk := r.Attach(a.Node(), nil)
	if got := a.Gate(Bash("rm x")); got.Decision != "deny" {
		t.Fatalf("%+v", got)
	}
	r.Policy(rules + "\n[[rule]]\nacton = \"deny\"\n")
	if got := a.Gate(Bash("rm x")); got.Decision != "deny" || !strings.Contains(got.Reason, "use the trash") {
		t.Errorf("the last good rules do not hold: %+v", got)
	}
	if got := a.Gate(Bash("make check")); !got.Allowed() {
		t.Errorf("the last good rules do not hold: %+v", got)
	}
	r.Until("the record of the fault", 5*time.Second, func() bool { return len(r.Records(review.Filter{Event: "policy.rejected"})) == 1 })
	said := false
	for _, n := range desk.Notices() {
		said = said || strings.Contains(n.Text, "policy.toml:") && strings.Contains(n.Text, "acton")
	}
	if !said {
		t.Errorf("the surface was not told: %v", desk.Notices())
	}
	if code, out := r.Permd("policy", "check"); code != 1 || !strings.Contains(out, "policy.toml:") {
		t.Errorf("check: %d %s", code, out)
	}
}

// An edit that loosens waits for a person; one that tightens holds at once.
func TestLooseningWaitsForAPerson(t *testing.T) {
	r := New(t)
	r.Policy(rules)
	a := r.Agent(AgentOptions{Session: "s"})
	if got := a.Gate(Bash("make check")); !got.Allowed() {
		t.Fatalf("%+v", got)
	}
	r.Policy(rules + `
[[rule]]
action = "allow"
tool = "bash"
command = "touch x"

[[rule]]
action = "deny"
tool = "bash"
command = "make check"
`)
	if got := a.Gate(Bash("touch x")); got.Allowed() {
		t.Error("an edit that loosens holds without a person")
	}
	if got := a.Gate(Bash("make check")); got.Decision != "deny" {
		t.Errorf("an edit that tightens does not hold: %+v", got)
	}
	if code, out := r.Permd("policy", "apply", "--yes"); code != 0 || !strings.Contains(out, "touch x") {
		t.Fatalf("apply: %d %s", code, out)
	}
	if got := a.Gate(Bash("touch x")); !got.Allowed() {
		t.Errorf("after it was applied: %+v", got)
	}
	if r.Count("policy.applied", 1) != 1 {
		t.Error("applying is not on the record")
	}
}
