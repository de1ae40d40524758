package claudecheck

import (
	"strings"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/internal/realclient"
	"permd/internal/standin"
	"permd/review"
)

type answerer = func(api.Shown) *ask.Answer

func allow(a *ask.Ask) ask.Answer { return ask.AllowAnswer(a) }

// What the rules decide is decided without a person, and the model is told why
// a call was refused.
func TestRulesDecideHeadless(t *testing.T) {
	t.Parallel()
	g := govern(t, place{}, simple(
		standin.Bash("touch ran-rule"), standin.Bash("touch ran-bad"), standin.Bash("touch ran-rule && touch ran-bad"),
	))
	res := g.Print(realclient.Run{Scenario: "x"})
	if res.Code != 0 || !strings.Contains(res.Stdout, standin.Done) {
		t.Errorf("the client ended with %+v", res)
	}
	if g.ran() != "ran-rule" {
		t.Errorf("ran %q; told %q", g.ran(), g.told())
	}
	for _, want := range []string{"this file is not for agents", "policy.toml line 7"} {
		if n := strings.Count(g.told(), want); n != 2 {
			t.Errorf("the model was told %q, want %q in it for both refusals", g.told(), want)
		}
	}
	g.order(review.AskAutoApproved, review.Effect, review.AskDenied, review.AskDenied)
	for _, r := range g.records(review.AskAutoApproved) {
		if r.By == nil || r.By.Kind != ask.KindRule || r.By.Rule == nil || r.By.Rule.Line != 2 {
			t.Errorf("allowed by %+v", r.By)
		}
	}
	g.quiet(false)
}

// A person at the desk allows one call and denies the next with a reason.
func TestThePersonAtTheDeskDecidesHeadless(t *testing.T) {
	t.Parallel()
	g := govern(t, place{hold: true}, simple(standin.Bash("touch ran-1"), standin.Bash("touch ran-2")))
	p := g.Start(realclient.Run{Scenario: "x"})
	desk := g.desk(p.Pid(), nil)
	a := g.next(desk)
	if a.Body.Action.Command != "touch ran-1" || a.Body.Cause == "" || a.Body.Action.Project != g.Project || len(a.Header.Path) != 0 {
		t.Errorf("the desk shows %+v by way of %+v", a.Body, a.Header.Path)
	}
	g.answer(desk, ask.AllowAnswer(a))
	g.WaitFor("the second ask", limit, func() bool {
		w := desk.Waiting()
		return len(w) == 1 && w[0].Ask.Body.ID != a.Body.ID
	})
	if g.ran() != "ran-1" {
		t.Errorf("ran %q before the second answer", g.ran())
	}
	g.answer(desk, ask.DenyAnswer(g.next(desk), "not on a friday"))
	p.Wait()
	if g.ran() != "ran-1" || !strings.Contains(g.told(), "denied by the user: not on a friday") {
		t.Errorf("ran %q; told %q", g.ran(), g.told())
	}
	g.order(review.AskWaiting, review.AskApproved, review.Released, review.Effect, review.AskWaiting, review.AskDenied)
	g.quiet(true)
}

// With nobody to ask a call is refused at once, with the way out.
func TestNobodyToAskHeadless(t *testing.T) {
	t.Parallel()
	g := govern(t, place{}, simple(standin.Bash("touch ran-1")))
	g.Print(realclient.Run{Scenario: "x"})
	if g.ran() != "" || !strings.Contains(g.told(), "nobody") || !strings.Contains(g.told(), "permd desk") {
		t.Errorf("ran %q; told %q", g.ran(), g.told())
	}
	// It never waited for anybody.
	g.order(review.AskUnavailable)
	g.quiet(false)
}

// A call that waits longer than a silent node would be given is still decided
// by the person: the hook and the client both wait on.
func TestALongWaitIsNotCutShort(t *testing.T) {
	t.Parallel()
	g := govern(t, place{hold: true}, simple(standin.Bash("touch ran-1")))
	p := g.Start(realclient.Run{Scenario: "x"})
	desk := g.desk(p.Pid(), nil)
	a := g.next(desk)
	began := time.Now()
	g.WaitFor("more than the silence a node is allowed", limit, func() bool { return time.Since(began) > 6500*time.Millisecond })
	if len(desk.Waiting()) != 1 || g.ran() != "" {
		t.Errorf("waiting %d, ran %q", len(desk.Waiting()), g.ran())
	}
	g.answer(desk, ask.AllowAnswer(a))
	p.Wait()
	if g.ran() != "ran-1" {
		t.Errorf("ran %q; told %q", g.ran(), g.told())
	}
	g.quiet(true)
}
