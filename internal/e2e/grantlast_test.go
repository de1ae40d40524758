package e2e

import (
	"strings"
	"testing"
	"time"

	"permd/review"
)

// permd grant --last turns what a person just denied, or missed, into a grant,
// shown first; never what a rule denies, and never for an agent.
func TestGrantLast(t *testing.T) {
	r := New(t)
	r.Policy("[[rule]]\naction = \"deny\"\ncommand = \"touch never\"\nreason = \"use the other one\"\n")
	if code, out := r.Permd("grant", "--last", "--yes"); code != 1 || !strings.Contains(out, "nothing to grant") {
		t.Errorf("without a session: %d %s", code, out)
	}
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	if code, out := r.Permd("grant", "--last", "--yes"); code != 1 || !strings.Contains(out, "nothing to grant") {
		t.Errorf("before any call: %d %s", code, out)
	}
	r.Attach(a.Node(), DenyAll)
	if got := a.Gate(Bash("git push origin x")); got.Allowed() {
		t.Fatalf("%+v", got)
	}
	if code, _, out, err := a.Run("", nil, r.Bin+"/permd", "--root", r.Root, "grant", "--last", "--yes"); err != nil || code == 0 || !strings.Contains(out, "refused") {
		t.Fatalf("an agent granted it: %d %s, %v", code, out, err)
	}
	if code, out := r.Permd("grant", "--last"); code != 1 || !strings.Contains(out, "git push origin x") || !strings.Contains(out, "nothing was granted") {
		t.Errorf("without a terminal: %d %s", code, out)
	}
	if code, out := r.Permd("grant", "--last", "--session", "--project"); code != 2 {
		t.Errorf("two scopes: %d %s", code, out)
	}
	for rule, want := range map[string]string{
		"action = \"allow\"\ncommand = \"git *\"":                                 "only an exact command",
		"action = \"allow\"\ncommand = \"git push other *\"\nclient = \"claude\"": "not the one that was asked about",
		"action = \"allow\"\ncommand = \"git push origin *\"":                     "wider",
		"action = \"deny\"\ncommand = \"git push *\"":                             "lifts ask",
		"action = \"allow\"\ncommand = \"git push *\"\nx = \"y\"":                 "unknown",
	} {
		if code, out := r.Permd("grant", "--last", "--subcommand", "--yes", "--rule", rule); code == 0 || !strings.Contains(out, want) {
			t.Errorf("%s: %d %s", rule, code, out)
		}
	}
	code, out := r.Permd("grant", "--last", "--project", "--subcommand", "--for", "1h", "--yes", "--rule", "action = \"allow\"\ncommand = \"git push origin *\"\nclient = \"claude\"")
	if code != 0 || !strings.Contains(out, "granted") {
		t.Fatalf("%d %s", code, out)
	}
	b := r.Agent(AgentOptions{Session: "other"})
	for _, x := range []*Agent{a, b} {
		if got := x.Gate(Bash("git push origin x")); !got.Allowed() {
			t.Errorf("the grant does not hold, or the denial is remembered: %+v", got)
		}
		if got := x.Gate(Bash("git push fork x")); got.Allowed() {
			t.Errorf("it is wider than what was shown: %+v", got)
		}
	}
	given := r.Records(review.Filter{Event: "grant.given"})
	if len(given) != 1 || given[0].Field(review.KeyExpiresMS) != "3600000" || given[0].By == nil || !given[0].By.Person() || !strings.Contains(given[0].Field(review.KeyRule), "git push origin *") {
		t.Errorf("on the record: %d", len(given))
	}
	if got := a.Gate(Bash("touch never")); got.Decision != "deny" {
		t.Fatalf("%+v", got)
	}
	if code, out := r.Permd("grant", "--last", "--of", a.ID(), "--yes"); code == 0 || !strings.Contains(out, "use the other one") {
		t.Errorf("a grant for what a rule denies: %d %s", code, out)
	}
	if got := a.Gate(Bash("crontab x")); got.Allowed() {
		t.Fatalf("%+v", got)
	}
	if code, out := r.Permd("grant", "--last", "--of", a.ID(), "--yes"); code != 1 || !strings.Contains(out, "longer than once") {
		t.Errorf("a grant for what runs later: %d %s", code, out)
	}
	if got := b.Gate(Bash("touch mine")); got.Allowed() {
		t.Fatalf("%+v", got)
	}
	if code, out := r.Permd("grant", "--last", "--yes", "--json"); code != 0 || !strings.Contains(out, `"command":"touch mine"`) || !strings.Contains(out, `"session":"`+b.ID()+`"`) {
		t.Errorf("the newest of all sessions: %d %s", code, out)
	}
	id := given[0].Field(review.KeyGrant)
	if code, out := r.Permd("policy", "grants", "list"); code != 0 || !strings.Contains(out, "project "+r.Work) || !strings.Contains(out, "used 2 times") || !strings.Contains(out, "never used") {
		t.Errorf("%d %s", code, out)
	}
	if code, out := r.Permd("policy", "grants", "show", id); code != 0 || !strings.Contains(out, "git push origin *") || !strings.Contains(out, "in      "+r.Work) || !strings.Contains(out, "used    2 times, last 2") {
		t.Errorf("%d %s", code, out)
	}
	if code, out := r.Permd("policy", "grants", "show", id, "--json"); code != 0 || !strings.Contains(out, `"uses":2`) || !strings.Contains(out, `"left_ms":`) {
		t.Errorf("%d %s", code, out)
	}
	r.Until("the grant", 5*time.Second, func() bool { return b.Gate(Bash("touch mine")).Allowed() })
}
