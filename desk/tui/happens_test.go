package tui

import (
	"errors"
	"strings"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
)

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name    string
		verdict func(ask.Answer) (api.AnswerVerdict, error)
		says    string
		stays   bool
	}{
		{"too late", say(api.AnswerVerdict{Verdict: api.VerdictTooLate, Winner: "terminal pts/9", Text: "x"}), "too late: answered at terminal pts/9", false},
		{"timed out", say(api.AnswerVerdict{Verdict: api.VerdictTooLate, Text: "nobody answered within 10m"}), "too late: nobody answered within 10m", false},
		{"unknown", say(api.AnswerVerdict{Verdict: api.VerdictUnknownAsk}), "too late: it no longer waits", false},
		{"not recorded", say(api.AnswerVerdict{Verdict: api.VerdictNotRecorded, Text: "disk full"}), "it did not count and the ask is denied: disk full", false},
		{"invalid", say(api.AnswerVerdict{Verdict: api.VerdictInvalid, Text: "one item too many"}), "not taken: one item too many", true},
		{"another text", say(api.AnswerVerdict{Verdict: api.VerdictWrongDigest}), "its text has changed", true},
		{"scope", say(api.AnswerVerdict{Verdict: api.VerdictScope}), "cannot be given here", true},
		{"not offered", say(api.AnswerVerdict{Verdict: api.VerdictNotOffered}), "not open at this desk", true},
		{"not trusted", say(api.AnswerVerdict{Verdict: api.VerdictNotTrusted}), "not trusted", true},
		{"a word nobody knows", say(api.AnswerVerdict{Verdict: "granted\x1b"}), "not taken: \"granted⟨U+001B⟩\"", true},
		{"an error", fail("answer: it is not known whether the answer counted"), "not known whether the answer counted", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			onScreen(t, 120, 30, func(s *screen) {
				s.desk.verdict = c.verdict
				s.show(command(t, "a", "make a"))
				s.pass(long)
				s.press("d")
				s.pass(time.Millisecond)
				s.decided()
				s.sees(c.says)
				if stays := s.m.list.find("a") != nil; stays != c.stays {
					t.Errorf("it stays: %v, want %v", stays, c.stays)
				}
				if c.stays {
					s.desk.verdict = accept
					s.pass(long)
					s.press("d")
					s.pass(time.Millisecond)
					if len(s.desk.given()) != 2 {
						t.Error("it cannot be answered again")
					}
				}
			})
		})
	}
}

// TestNoVerdict: an answer whose verdict does not come locks the ask for a
// while, not for ever.
func TestNoVerdict(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		answer := make(chan struct{})
		s.desk.verdict = func(a ask.Answer) (api.AnswerVerdict, error) { <-answer; return accept(a) }
		s.show(command(t, "a", "make a"))
		s.pass(long)
		s.press("d")
		s.pass(long)
		s.sees("sent; waiting")
		s.press("d")
		s.pass(long)
		s.decided()
		s.sees("an answer is on its way")
		s.pass(verdictPatience)
		s.sees("you may answer again")
		s.press("d")
		s.pass(time.Millisecond)
		if got := len(s.desk.given()); got != 2 {
			t.Errorf("%d answers", got)
		}
		close(answer)
		s.pass(time.Millisecond)
		s.sees("denied: accepted", "Nothing waits")
	})
}

func TestPutAway(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", "make a"))
		s.show(command(t, "b", "make b"))
		s.pass(long)
		s.press("h")
		s.sees("│ make b", "1 put away", "not answered")
		s.pass(long)
		s.press("h")
		s.sees("Nothing else waits; what you put away does", "[u] bring back")
		s.pass(long)
		s.press("u")
		s.sees("│ make a", "1 of 2")
		s.undecided()
		s.pass(long)
		s.press("n")
		s.sees("│ make b", "2 of 2")
		s.pass(long)
		s.press("n")
		s.sees("│ make a")
		s.pass(long)
		s.press("p")
		s.sees("│ make b")
		s.pass(long)
		s.tell(&api.Settled{Ask: "a", How: api.SettledTimeout, Why: "10m"})
		s.sees("│ make b", "nobody answered in time: 10m")
	})
}

func TestDetachAnswersNothing(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.press("q")
		s.pass(time.Millisecond)
		if !s.quit {
			t.Error("q does not detach when nothing waits")
		}
	})
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", "make a"))
		s.press("q") // one letter of a text
		s.pass(time.Millisecond)
		if s.quit {
			t.Error("a letter of a text detaches, and the rest of it would go to the shell")
		}
		s.press("ctrl+c")
		s.pass(time.Millisecond)
		if !s.quit {
			t.Error("ctrl+c does not detach")
		}
		s.undecided()
	})
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", "make a"))
		s.pass(long)
		s.press("r", "ctrl+c")
		s.pass(time.Millisecond)
		if !s.quit {
			t.Error("ctrl+c does not detach while a reason is written")
		}
		s.undecided()
	})
}

func TestWhatCannotBeAllowed(t *testing.T) {
	question := ask.Body{ID: "q", Origin: ask.OriginAsk, From: ask.Who{Session: "claude-1", Client: "claude"}, Title: "A question",
		Items: []ask.Item{{ID: "lib", Prompt: "Which library?", Type: ask.ItemChoice, MaxPicks: 1,
			Options: []ask.Option{{ID: "a", Label: "Alpha"}, {ID: "b", Label: "Beta", Description: "newer"}}}},
		Verbs: ask.Verbs{Decline: true}}
	for _, c := range []struct {
		name  string
		body  ask.Body
		says  []string
		deny  bool
		ended ask.Outcome
	}{
		{"a question", question, []string{"Which library?", "- Alpha", "- Beta: newer", "answer it at the agent"}, true, ask.Declined},
	} {
		t.Run(c.name, func(t *testing.T) {
			onScreen(t, 100, 30, func(s *screen) {
				s.show(sealed(t, c.body))
				s.pass(long)
				s.sees(c.says...)
				s.seesNot("[a]", "[s]", "[t]")
				s.press("a")
				s.pass(long)
				s.press("enter")
				s.pass(long)
				s.undecided()
				s.press("d")
				s.pass(time.Millisecond)
				if a := s.decided(); a.Outcome != c.ended {
					t.Errorf("answered %+v", a)
				}
			})
		})
	}
	question.Verbs.Decline = false
	onScreen(t, 100, 30, func(s *screen) {
		s.show(sealed(t, question))
		s.pass(long)
		s.seesNot("[d]", "[r]")
		s.press("d")
		s.pass(long)
		s.undecided()
	})
}

func TestConnectionLost(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		x := command(t, "a", "make a")
		s.show(x)
		s.pass(long)
		s.press("a")
		s.pass(long)
		s.tell(offline{errors.New("read: broken\x07 pipe")})
		s.sees("cannot be reached", "⟨U+0007⟩", "Waiting for the desk")
		s.press("enter", "d")
		s.pass(long)
		s.undecided()
		again := &fakeDesk{verdict: accept}
		s.tell(online{again})
		s.tell(&api.Snapshot{Asks: []api.Shown{x}})
		s.sees("│ make a")
		s.press("d") // not on the screen for long yet
		s.pass(long)
		if len(again.given()) > 0 {
			t.Error("answered at once")
		}
		s.press("d")
		s.pass(time.Millisecond)
		if len(again.given()) != 1 || len(s.desk.given()) != 0 {
			t.Error("it is not answered over the new connection")
		}
	})
}

func TestShownIsReportedOnce(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", "make a"))
		s.show(command(t, "b", "make b"))
		s.pass(100 * time.Millisecond)
		if len(s.desk.shown) != 0 {
			t.Error("reported before anybody could read it")
		}
		s.pass(long)
		s.press("n")
		s.pass(long)
		s.press("n")
		s.pass(long)
		if got := strings.Join(s.desk.shown, " "); got != "a b" {
			t.Errorf("reported %q", got)
		}
	})
}

func TestBellOnlyWhenTheFirstComes(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", "make a"))
		s.show(command(t, "b", "make b"))
		s.pass(long)
		if s.rung != 1 {
			t.Errorf("rung %d times", s.rung)
		}
	})
}

func TestAlarms(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.tell(&api.Sessions{Sessions: []api.SessionState{{ID: "claude-1", Tripped: true}, {ID: "claude-2", PausedMS: 5000}}})
		s.sees("! session claude-1 ran something that was not let go", "! paused: 1 session left", "2 sessions")
		s.tell(&api.Notice{Kind: "surface", Text: "a surface was attached\x1b[2J"})
		s.sees("a surface was attached⟨U+001B⟩")
		s.tell(&api.Sessions{})
		s.seesNot("ran something")
	})
}
