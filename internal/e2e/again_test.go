package e2e

import (
	"strings"
	"testing"

	"permd/api"
	"permd/ask"
	"permd/review"
)

// An agent that asks for the same denied call ten times, slightly reworded,
// gets the person asked only where the call is another one, and tells the
// person how often; too many questions are refused.
func TestAskingAgainInOtherWords(t *testing.T) {
	r := New(t)
	r.Config("asks_a_minute = 6\n")
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	denied := make(chan int, 20)
	r.Attach(a.Node(), func(s api.Shown) *ask.Answer {
		denied <- s.Denied
		return DenyAll(s)
	})
	asked := func(cmd string) (int, Answer) {
		got := a.Gate(Bash(cmd))
		if got.Allowed() {
			t.Fatalf("%s: %+v", cmd, got)
		}
		select {
		case n := <-denied:
			return n, got
		default:
			return -1, got
		}
	}
	if n, _ := asked("git push origin main"); n != 0 {
		t.Errorf("the first time: denied %d times", n)
	}
	for _, cmd := range []string{"git push origin main", "git  push origin main", "git push 'origin' main", "git push origin \"main\"", "git push origin main # again"} {
		if n, got := asked(cmd); n != -1 || !strings.Contains(got.Reason, "denied") || strings.Contains(got.Reason, "by the user") {
			t.Errorf("%s: asked (%d), %+v", cmd, n, got)
		}
	}
	last := 0
	for _, cmd := range []string{"git push -f origin main", "git push origin HEAD", "git push fork main"} {
		n, _ := asked(cmd)
		if n <= last {
			t.Errorf("%s: the person is told %d, after %d", cmd, n, last)
		}
		last = n
	}
	refused := 0
	for _, cmd := range []string{"touch a", "touch b", "touch c", "touch d"} {
		if n, got := asked(cmd); n == -1 && strings.Contains(got.Reason, "within a minute") {
			refused++
		}
	}
	if refused < 2 {
		t.Errorf("%d of 10 questions within a minute were refused", refused)
	}
	by := 0
	for _, x := range r.Records(review.Filter{Event: "permission_request.denied"}) {
		if x.By != nil && x.By.Kind == ask.KindRepeat {
			by++
		}
	}
	if by != 5+refused {
		t.Errorf("%d refusals on the record, want %d", by, 5+refused)
	}
}
