package e2e

import (
	"strings"
	"testing"
	"time"

	"permd/review"
)

// A child that names two parents goes to the second when the first dies, and
// back when it returns. A redirect is a stop and a start, and each parent's own
// record says when it served.
func TestRedirectToAnotherParent(t *testing.T) {
	r := New(t)
	first, _ := lead(r, "first", true)
	second, _ := lead(r, "second", true)
	child := r.Agent(AgentOptions{Session: "child", Attended: true,
		Env: []string{"PERMD_PARENT_SESSION=claude-first", "PERMD_SESSION=claude-second"}})
	child.Send("SessionStart", nil)
	at := func(cmd, want string) {
		t.Helper()
		if got := child.Gate(Bash(cmd)); !got.Allowed() {
			t.Fatalf("%s: %+v", cmd, got)
		}
		for _, x := range r.Records(review.Filter{Event: "forwarded_permission.approved"}) {
			if x.Action != nil && x.Action.Command == cmd && x.Field(review.KeyResponderSession) != want {
				t.Errorf("%s was decided at %s, want %s", cmd, x.Field(review.KeyResponderSession), want)
			}
		}
	}
	at("touch 1", "claude-first")
	first.Kill()
	r.Until("the first parent's node to end", 5*time.Second, func() bool { return len(r.Nodes()) == 2 })
	at("touch 2", "claude-second")
	lead(r, "first", true)
	at("touch 3", "claude-first")
	second.Kill()
	at("touch 4", "claude-first")

	var line []string
	for _, x := range r.Records(review.Filter{Session: child.ID()}) {
		switch x.Event {
		case review.RelayStarted, review.RelayStopped:
			line = append(line, strings.TrimPrefix(string(x.Event), "forwarded_permission.relay_")+" "+x.Field(review.KeyTargetSession))
		}
	}
	want := "started claude-first, stopped claude-first, started claude-second, stopped claude-second, started claude-first"
	if got := strings.Join(line, ", "); got != want {
		t.Errorf("the child's record: %s\nwant: %s", got, want)
	}
	for id, lives := range map[string]int{"claude-first": 2, "claude-second": 1} {
		n := len(r.Records(review.Filter{Session: id, Event: "forwarded_permission.serving_started"}))
		if n != lives {
			t.Errorf("%s served %d times on its record, want %d", id, n, lives)
		}
	}
	if _, out := r.Permd("sessions"); !strings.Contains(out, "relays to claude-first") {
		t.Errorf("sessions: %s", out)
	}
}
