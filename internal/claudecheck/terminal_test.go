package claudecheck

import (
	"slices"
	"strings"
	"testing"

	"permd/api"
	"permd/ask"
	"permd/internal/realclient"
	"permd/internal/standin"
	"permd/review"
)

// dialog is a text of the client's own dialog.
const dialog = "Do you want to proceed?"

// The client's own dialog is open while the desk has the ask. In every mode in
// which the codec says so: first the person at the dialog is faster, then the
// one at the desk, who allows one call and denies another.
func TestTheDialogAndTheDeskRace(t *testing.T) {
	for _, mode := range []string{"default", "manual", "auto", "bypassPermissions", "acceptEdits", "plan"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := govern(t, place{}, simple(standin.Bash("touch ran-1"), standin.Bash("touch ran-2"), standin.Bash("touch ran-3")))
			term := g.Terminal(realclient.Run{Args: []string{"--permission-mode", mode}, Time: 2 * realclient.DefaultTime})
			desk := g.desk(term.Pid(), nil)
			term.Say("SCENARIO:x go")

			term.WaitScreen(dialog, "touch ran-1", "no rule allows it")
			one := g.next(desk)
			if e := desk.Waiting()[0].Elsewhere; !slices.Equal(e, []string{"the client's own dialog"}) {
				t.Errorf("the desk hears of %q beside it", e)
			}
			g.order(review.HandedToClientDialog, review.AskWaiting)
			if g.ran() != "" {
				t.Errorf("ran %q before an answer", g.ran())
			}
			term.Answer("1", "touch ran-1\n")
			two := g.after(desk, one)
			if v, err := desk.Answer(ask.AllowAnswer(one)); err != nil || v.Verdict != api.VerdictTooLate {
				t.Errorf("the desk after the dialog: %+v, %v", v, err)
			}

			term.WaitScreen(dialog, "touch ran-2")
			g.answer(desk, ask.AllowAnswer(two))
			three := g.after(desk, two)
			if g.ran() != "ran-1 ran-2" {
				t.Errorf("ran %q", g.ran())
			}

			term.WaitScreen(dialog, "touch ran-3")
			g.answer(desk, ask.DenyAnswer(three, "enough of that"))
			screen := term.WaitScreen(standin.Done)
			if strings.Contains(screen, dialog) || g.ran() != "ran-1 ran-2" || !strings.Contains(g.told(), "denied by the user: enough of that") {
				t.Errorf("ran %q, told %q, screen:\n%s", g.ran(), g.told(), screen)
			}
			term.Close()

			g.quiet(true)
			for i, a := range []*ask.Ask{one, two, three} {
				g.story(a, [][]string{
					{"handed_to_client_dialog", "permission_request.waiting", "effect ran client_dialog inferred", "permission_request.approved client_dialog inferred", "answer.late"},
					{"handed_to_client_dialog", "permission_request.waiting", "permission_request.approved user", "answer.delivered sent", "effect ran"},
					{"handed_to_client_dialog", "permission_request.waiting", "permission_request.denied user", "effect not_seen"},
				}[i])
			}
		})
	}
}

// Nobody at a desk: the dialog alone decides, the hook of the request ends at
// once, and nothing is said of a person.
func TestTheDialogAlone(t *testing.T) {
	t.Parallel()
	g := govern(t, place{}, simple(standin.Bash("touch ran-1"), standin.Bash("touch ran-2")))
	term := g.Terminal(realclient.Run{})
	term.Say("SCENARIO:x go")
	term.WaitScreen(dialog, "touch ran-1")
	g.waitRecord(review.HandedToClientDialog, 1) // it is durable before the dialog opens
	g.WaitFor("the hooks to end", limit, func() bool { return len(g.processes("permd-hook")) == 0 })
	term.Answer("1", "touch ran-1\n")
	term.WaitScreen(dialog, "touch ran-2")
	term.Keys("Escape")
	term.WaitScreen("Interrupted")
	if g.ran() != "ran-1" {
		t.Errorf("ran %q", g.ran())
	}
	term.Close()
	g.verify()
	handed := g.records(review.HandedToClientDialog)
	if len(handed) != 2 {
		t.Fatalf("%d calls were handed over, want 2", len(handed))
	}
	g.storyOf(handed[0].Ask, []string{"handed_to_client_dialog", "effect ran client_dialog inferred"})
	// The client tells no hook of an Escape at its dialog.
	g.storyOf(handed[1].Ask, []string{"handed_to_client_dialog", "effect not_seen"})
	g.quiet(false)
}

// Escape takes the ask back everywhere, and nobody is said to have denied it:
// while the dialog races, and while the call waits in the gate.
func TestEscapeWithdraws(t *testing.T) {
	for _, where := range []struct{ name, config, shows string }{
		{"at the dialog", "", dialog},
		{"in the gate", "client_dialog = \"off\"\n", "running PreToolUse hook"},
	} {
		t.Run(where.name, func(t *testing.T) {
			t.Parallel()
			g := govern(t, place{config: where.config}, simple(standin.Bash("touch ran-1")))
			term := g.Terminal(realclient.Run{})
			desk := g.desk(term.Pid(), nil)
			term.Say("SCENARIO:x go")
			term.WaitScreen(where.shows)
			a := g.next(desk)
			term.Keys("Escape")
			g.WaitFor("the ask to leave the desk", limit, func() bool { return len(desk.Waiting()) == 0 })
			term.WaitScreen("Interrupted")
			g.waitRecord(review.WithdrawnByClient, 1)
			if v, err := desk.Answer(ask.AllowAnswer(a)); err != nil || v.Verdict == api.VerdictAccepted {
				t.Errorf("an answer to what was taken back: %+v, %v", v, err)
			}
			term.Close()
			g.quiet(false)
			if g.ran() != "" {
				t.Errorf("ran %q", g.ran())
			}
			want := []string{"permission_request.waiting", "permission_request.withdrawn withdrawn", "withdrawn_by_client", "answer.late"}
			if where.config == "" {
				want = slices.Concat([]string{"handed_to_client_dialog"}, want, []string{"effect not_seen"})
			}
			g.storyOf(a.Body.ID, want)
		})
	}
}

// Without the client's dialog (client_dialog is off, or the mode has none) a
// call waits in the gate for the desk, and is refused when there is none.
func TestCallsWaitInTheGate(t *testing.T) {
	for _, how := range []struct{ name, config, mode string }{
		{"client_dialog off", "client_dialog = \"off\"\n", "default"},
		{"dontAsk", "", "dontAsk"},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			g := govern(t, place{config: how.config}, map[string][]standin.Step{
				"x": {standin.Bash("touch ran-1")}, "y": {standin.Bash("touch ran-2")},
			})
			term := g.Terminal(realclient.Run{Args: []string{"--permission-mode", how.mode}})
			desk := g.desk(term.Pid(), nil)
			term.Say("SCENARIO:x go")
			a := g.next(desk)
			screen := term.WaitScreen("running PreToolUse hook")
			if strings.Contains(screen, dialog) || g.ran() != "" {
				t.Errorf("ran %q, screen:\n%s", g.ran(), screen)
			}
			g.answer(desk, ask.AllowAnswer(a))
			term.WaitScreen(standin.Done)
			if g.ran() != "ran-1" {
				t.Errorf("ran %q, told %q", g.ran(), g.told())
			}
			desk.Close()
			g.waitRecord(review.SurfaceDetached, 1)
			term.Say("SCENARIO:y go")
			g.WaitFor("the refusal", limit, func() bool { return strings.Contains(g.told(), "nobody can answer") })
			if g.ran() != "ran-1" || len(g.records(review.HandedToClientDialog)) != 0 {
				t.Errorf("ran %q", g.ran())
			}
			g.storyOf(g.waitRecord(review.AskUnavailable, 1)[0].Ask, []string{"permission_request.unavailable unavailable"}) // at once
			term.Close()
			g.quiet(true)
		})
	}
}
