package e2e

import (
	"testing"
	"time"
)

// A grant that expires asks again, for every node that uses it, and its end is
// on the record once.
func TestAGrantExpires(t *testing.T) {
	r := New(t)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	b := r.Agent(AgentOptions{Session: "other"})
	b.Send("SessionStart", nil)
	r.Attach(a.Node(), DenyAll)
	r.Attach(b.Node(), DenyAll)
	if got := a.Gate(Bash("touch x")); got.Allowed() {
		t.Fatalf("%+v", got)
	}
	if code, out := r.Permd("grant", "--last", "--user", "--for", "3s", "--yes"); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	began := time.Now()
	for _, x := range []*Agent{a, b} {
		if got := x.Gate(Bash("touch x")); !got.Allowed() && time.Since(began) < 3*time.Second {
			t.Errorf("%+v", got)
		}
	}
	r.Until("it to expire", 10*time.Second, func() bool { return !b.Gate(Bash("touch x")).Allowed() })
	if time.Since(began) < 2*time.Second {
		t.Error("it expired early")
	}
	if got := a.Gate(Bash("touch x")); got.Allowed() {
		t.Errorf("%+v", got)
	}
	if n := r.Count("grant.expired", 1); n != 1 {
		t.Errorf("its end is %d times on the record", n)
	}
	if code, out := r.Permd("policy", "grants", "list"); code != 0 || out != "nothing is granted\n" {
		t.Errorf("%d %s", code, out)
	}
}
