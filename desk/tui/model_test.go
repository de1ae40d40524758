package tui

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"permd/api"
	"permd/ask"
)

// long is more than any arming delay.
const long = time.Second

func TestAllowOnce(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		x := command(t, "a", "make a")
		s.show(x)
		s.pass(long)
		s.sees("make a", "claude-1", "/home/dev/proj", "no rule allows it")
		s.press("a")
		s.pass(long)
		s.sees("Allow this once?")
		s.undecided()
		s.press("enter")
		s.pass(time.Millisecond)
		if a := s.decided(); !allows(x, a) || a.Offer != "" || a.Digest != x.Ask.Digest {
			t.Errorf("answered %+v", a)
		}
		s.sees("Nothing waits", "allowed once: accepted")
		s.tell(&api.Delivered{Ask: "a", How: "released"})
		s.sees("make a: done")
	})
}

func TestDenyIsOneKey(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		x := command(t, "a", "make a")
		s.show(x)
		s.pass(long)
		s.press("d")
		s.pass(time.Millisecond)
		if a := s.decided(); allows(x, a) || a.Outcome != ask.Answered || a.Reason != "" {
			t.Errorf("answered %+v", a)
		}
		s.sees("denied: accepted")
	})
}

// TestTypedAhead is the field case d-typed-ahead: keys typed before the ask, or
// within a moment after it came, answer nothing, however many there are.
func TestTypedAhead(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.write("a cat photo, also a dog")
		s.show(command(t, "a", "rm -rf dist"))
		s.pass(60 * time.Millisecond)
		s.write("and d r s t y yes\r") // faster than the delay: it never runs out
		s.undecided()
		s.sees("not counted")
		if s.m.mode != modeChoose {
			t.Errorf("typing led to mode %d", s.m.mode)
		}
		s.pass(309 * time.Millisecond) // 399 ms after the last key
		s.press("d")
		s.pass(long)
		s.undecided()
		s.pass(400 * time.Millisecond)
		s.press("d")
		s.pass(time.Millisecond)
		s.decided()
	})
}

// TestEnterAloneAnswersNothing is the field case d-enter-default.
func TestEnterAloneAnswersNothing(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", "rm -rf dist"))
		s.pass(200 * time.Millisecond)
		s.press("enter")
		s.pass(long)
		s.press("enter", "enter")
		s.pass(long)
		s.press("enter")
		s.pass(long)
		s.undecided()
		s.sees("Enter alone answers nothing")
	})
}

func TestNoKeyAllowsByAccident(t *testing.T) {
	for name, keys := range map[string]func(*screen){
		"held letter":             func(s *screen) { s.press("a", "a", "a", "a", "a", "a") },
		"letter and Enter as one": func(s *screen) { s.press("a", "enter") },
		"held Enter": func(s *screen) {
			for range 50 {
				s.press("enter")
				s.pass(30 * time.Millisecond)
			}
		},
		"letter, another letter, Enter": func(s *screen) { s.press("a"); s.pass(long); s.press("x", "enter") },
		"letter, Esc, Enter": func(s *screen) {
			s.press("a")
			s.pass(long)
			s.press("esc")
			s.pass(long)
			s.press("enter")
		},
		"capital letter": func(s *screen) {
			s.send(tea.KeyPressMsg{Code: 'a', ShiftedCode: 'A', Text: "A", Mod: tea.ModShift})
			s.pass(long)
			s.press("enter")
		},
		"letter with control": func(s *screen) { s.send(tea.KeyPressMsg{Code: 'a', Mod: tea.ModCtrl}); s.pass(long); s.press("enter") },
		"repeated by the terminal": func(s *screen) {
			k := keyOf("a")
			k.IsRepeat = true
			s.send(k)
			s.pass(long)
			s.press("enter")
		},
		"Enter repeated by the terminal": func(s *screen) {
			s.press("a")
			s.pass(long)
			k := keyOf("enter")
			k.IsRepeat = true
			s.send(k)
		},
		"pasted": func(s *screen) {
			s.send(tea.PasteMsg{Content: "a\n"})
			s.pass(long)
			s.send(tea.PasteMsg{Content: "\n"})
		},
		"y":     func(s *screen) { s.press("y"); s.pass(long); s.press("enter") },
		"space": func(s *screen) { s.press("space"); s.pass(long); s.press("space") },
		"confirmed after focus was lost": func(s *screen) {
			s.press("a")
			s.pass(long)
			s.send(tea.BlurMsg{})
			s.send(tea.FocusMsg{})
			s.press("enter")
		},
		"confirmed at another size": func(s *screen) {
			s.press("a")
			s.pass(long)
			s.send(tea.WindowSizeMsg{Width: 40, Height: 24})
			s.press("enter")
		},
		"while the terminal has no focus": func(s *screen) { s.send(tea.BlurMsg{}); s.pass(long); s.press("d") },
		"after it was stopped":            func(s *screen) { s.send(tea.ResumeMsg{}); s.press("d") },
	} {
		t.Run(name, func(t *testing.T) {
			onScreen(t, 80, 24, func(s *screen) {
				s.show(command(t, "a", "rm -rf dist"))
				s.pass(long)
				keys(s)
				s.pass(long)
				s.undecided()
			})
		})
	}
}

// TestTwoAsks is the field case d-two-asks-swap: a newcomer takes neither the
// screen nor the focus, and a key answers what was on the screen.
func TestTwoAsks(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", "touch a"))
		s.pass(long)
		s.press("a")
		s.pass(long)
		s.show(command(t, "b", "rm -rf b"))
		s.sees("│ touch a", "1 of 2", "Allow this once?")
		s.seesNot("│ rm -rf b")
		s.press("enter")
		s.pass(time.Millisecond)
		if a := s.decided(); a.Ask != "a" {
			t.Errorf("answered %s", a.Ask)
		}
		s.sees("│ rm -rf b")
		// What is typed on is not an answer to the next one.
		s.press("d", "a", "enter")
		s.pass(time.Millisecond)
		s.decided()
		s.pass(long)
		s.press("d")
		s.pass(time.Millisecond)
		if got := s.desk.given(); len(got) != 2 || got[1].Ask != "b" {
			t.Errorf("answered %+v", got)
		}
	})
}

func TestOlderNewcomerDoesNotTakeTheScreen(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", "touch a"))
		s.pass(long)
		old := command(t, "b", "rm -rf b")
		old.AgeMS = 60_000
		s.show(old)
		s.sees("│ touch a", "2 of 2")
		s.press("d")
		s.pass(time.Millisecond)
		if a := s.decided(); a.Ask != "a" {
			t.Errorf("answered %s", a.Ask)
		}
	})
}

func TestSettledElsewhereVanishes(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", "touch a"))
		s.show(command(t, "b", "rm -rf b"))
		s.pass(long)
		s.press("a")
		s.pass(long)
		s.tell(&api.Settled{Ask: "a", How: api.SettledLocally, Surface: "terminal pts/7\x1b[31m", Outcome: ask.Answered, Allowed: true})
		s.sees("touch a: allowed at terminal pts/7⟨U+001B⟩[31m", "│ rm -rf b")
		s.seesNot("│ touch a", "Allow this once?")
		s.press("enter") // meant for the one that vanished
		s.pass(long)
		s.undecided()
		s.press("enter")
		s.pass(long)
		s.undecided()
	})
}

func TestMovedToAnotherNodeIsReadAgain(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		x := command(t, "a", "touch a")
		s.show(x)
		s.pass(long)
		x.Node = "n-2"
		s.show(x)
		s.press("d")
		s.pass(long)
		s.undecided()
		s.sees("it waits at another node now")
		if len(s.m.list.items) != 1 {
			t.Errorf("%d asks", len(s.m.list.items))
		}
	})
}

func TestOtherTextUnderTheSameID(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", "touch a"))
		s.pass(long)
		s.press("a")
		s.pass(long)
		s.show(command(t, "a", "rm -rf b"))
		s.sees("│ rm -rf b")
		s.press("enter")
		s.pass(long)
		s.undecided()
	})
}

func TestAllowNeedsTheWholeText(t *testing.T) {
	text := strings.Repeat("echo some harmless words\n", 60) + "rm -rf /"
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", text))
		s.pass(long)
		s.sees("lines more; no allow before the end", "[space] read on", "[d] deny")
		s.seesNot("[a]", "[s]", "[t]", "rm -rf /")
		s.press("a")
		s.pass(long)
		s.sees("read it to its end first")
		s.press("enter")
		s.pass(long)
		s.undecided()
		for range 20 {
			s.press("space")
			s.pass(10 * time.Millisecond)
		}
		s.sees("rm -rf /", "-- end --", "[a] allow once")
		s.press("home")
		s.sees("[a] allow once") // it was read
		s.press("a")
		s.pass(long)
		s.press("enter")
		s.pass(time.Millisecond)
		s.decided()
	})
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", text))
		s.pass(long)
		s.press("d") // a no needs no reading
		s.pass(time.Millisecond)
		s.decided()
	})
}

func TestReadingAtAnotherWidthBeginsAnew(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", strings.Repeat("echo some harmless words\n", 60)))
		s.pass(long)
		s.press("space", "space")
		s.send(tea.WindowSizeMsg{Width: 60, Height: 24})
		if s.m.page.top != 0 || s.m.page.all {
			t.Errorf("it goes on at row %d, read %v", s.m.page.top, s.m.page.all)
		}
		s.pass(long)
		for range 20 {
			s.press("space")
		}
		s.send(tea.WindowSizeMsg{Width: 40, Height: 24})
		if !s.m.page.all {
			t.Error("what was read whole is not")
		}
	})
}

func TestGrantShowsItsRule(t *testing.T) {
	onScreen(t, 100, 30, func(s *screen) {
		x := command(t, "a", "make a")
		s.show(x)
		s.pass(long)
		s.press("s")
		s.sees("Keep this rule?", "command: make a", "says: allow", "in session claude-1", "Allow, and keep this rule for the session? (1 of 2)")
		s.press("enter") // too soon to have been read
		s.pass(long)
		s.undecided()
		s.press("n")
		s.sees("command: make *", "(2 of 2)")
		s.press("enter")
		s.pass(long)
		s.undecided()
		s.press("p")
		s.pass(long)
		s.press("enter")
		s.pass(time.Millisecond)
		a := s.decided()
		if !allows(x, a) || a.Offer != "o-session" {
			t.Errorf("answered %+v", a)
		}
		if err := x.Ask.Validate(&a, x.Offers); err != nil {
			t.Error(err)
		}
		s.sees("allowed, remembered for the session: accepted")
	})
	onScreen(t, 100, 30, func(s *screen) {
		x := command(t, "a", "make a")
		s.show(x)
		s.pass(long)
		s.press("t")
		s.pass(long)
		s.sees("in every session below it")
		s.press("enter")
		s.pass(time.Millisecond)
		if a := s.decided(); a.Offer != "o-tree" {
			t.Errorf("answered %+v", a)
		}
	})
}

// Beyond the tree come the project and the user, each with its own question.
func TestWiderGrantsComeAfterTheTree(t *testing.T) {
	onScreen(t, 100, 30, func(s *screen) {
		x := command(t, "a", "make a")
		for _, scope := range []ask.Scope{ask.ScopeUser, ask.ScopeProject} {
			o := x.Offers[0]
			o.ID, o.Scope = "o-"+string(scope), scope
			x.Offers = append(x.Offers, o)
		}
		s.show(x)
		s.pass(long)
		s.press("t")
		s.pass(long)
		s.sees("keep this rule for the tree? (1 of 3)")
		s.press("n")
		s.pass(long)
		s.sees("in this project, until you revoke it", "keep this rule for the project? (2 of 3)")
		s.press("n")
		s.pass(long)
		s.sees("everywhere, until you revoke it", "keep this rule for the user? (3 of 3)")
		s.press("p")
		s.press("enter") // the project's rule was not read again
		s.undecided()
		s.pass(long)
		s.press("enter")
		s.pass(time.Millisecond)
		if a := s.decided(); a.Offer != "o-project" || !allows(x, a) {
			t.Errorf("answered %+v", a)
		}
		s.sees("allowed, remembered for the project: accepted")
	})
}

func TestLongRuleIsReadToo(t *testing.T) {
	onScreen(t, 80, 16, func(s *screen) {
		x := command(t, "a", "make a")
		for range 40 {
			x.Offers[2].Rule.Except = append(x.Offers[2].Rule.Except, ask.Rule{Action: ask.Allow, Tool: "bash", Command: "make x"})
		}
		s.show(x)
		s.pass(long)
		s.press("t")
		s.pass(long)
		s.seesNot("[enter]")
		s.press("enter")
		s.pass(long)
		s.undecided()
		for range 40 {
			s.press("space")
		}
		s.sees("[enter] yes")
		s.press("enter") // still scrolling
		s.pass(long)
		s.undecided()
		s.press("enter")
		s.pass(time.Millisecond)
		s.decided()
	})
}

func TestGrantThatIsNotOffered(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		x := command(t, "a", "make a")
		x.Offers = nil
		s.show(x)
		s.pass(long)
		s.seesNot("[s]", "[t]")
		s.press("s")
		s.sees("it cannot be remembered for the session")
		s.pass(long)
		s.press("enter")
		s.pass(long)
		s.undecided()
	})
}

func TestDenyWithReason(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		x := command(t, "a", "make a")
		s.show(x)
		s.pass(long)
		s.press("r")
		s.write("ask a dad") // a, d, s are letters here
		s.undecided()
		s.send(tea.PasteMsg{Content: "\nand \"two\"\nlines\x1b[2J"})
		s.press("backspace")
		s.sees("> ask a dad", "lines⟨U+001B⟩[2")
		s.press("é", "enter") // as one: the end of a pasted line
		s.undecided()
		s.write("over")
		s.press("enter")
		s.pass(time.Millisecond)
		if a := s.decided(); allows(x, a) || a.Reason != "ask a dad\nand \"two\"\nlines\x1b[2é\nover" {
			t.Errorf("answered %+v", a)
		}
		s.sees("denied, with a reason: accepted")
	})
}

func TestReasonIsNotEmptyAndNotTooLong(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", "make a"))
		s.pass(long)
		s.press("r")
		s.pass(long)
		s.press("enter")
		s.pass(long)
		s.undecided()
		s.sees("write a reason")
		s.send(tea.PasteMsg{Content: strings.Repeat("x", ask.MaxText+1)})
		s.sees("does not fit")
		s.send(tea.PasteMsg{Content: "\xff"})
		if s.m.reason != "" {
			t.Errorf("it took %q", s.m.reason)
		}
		s.write("n\u0303o")
		s.press("backspace", "backspace", "backspace")
		if s.m.reason != "" {
			t.Errorf("left %q", s.m.reason)
		}
		s.write("no")
		s.press("ctrl+u")
		if s.m.reason != "" {
			t.Errorf("left %q", s.m.reason)
		}
	})
}

// TestTypedTextSurvives: an ask that ends while its reason is written takes the
// text off the screen, not away; and nothing of it decides the next one.
func TestTypedTextSurvives(t *testing.T) {
	onScreen(t, 80, 24, func(s *screen) {
		s.show(command(t, "a", "make a"))
		s.show(command(t, "b", "make b"))
		s.pass(long)
		s.press("r")
		s.write("not with")
		s.tell(&api.Settled{Ask: "a", How: api.SettledCancel, Why: "its agent ended"})
		s.write(" my data dir")
		s.undecided()
		s.sees("│ make b", "no longer waits: its agent ended")
		s.pass(long)
		s.press("r")
		s.sees("> not with_")
		s.press("esc")
		s.pass(long)
		s.press("r")
		s.pass(long)
		s.press("enter")
		s.pass(time.Millisecond)
		if a := s.decided(); a.Ask != "b" || a.Reason != "not with" {
			t.Errorf("answered %+v", a)
		}
	})
}
