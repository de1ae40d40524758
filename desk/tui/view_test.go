package tui

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"permd/api"
	"permd/ask"
	"permd/desk/desktest"
)

// TestEverySize: a screen has never more rows and columns than the terminal,
// and its last rows, the choices, are never what is left out.
func TestEverySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 80, 24)
		defer s.end()
		s.show(command(t, "a", strings.Repeat("echo ", 100)))
		s.show(command(t, "b", "make \U0001F600 日本語 "+strings.Repeat("x", 300)))
		for i := range 30 {
			s.tell(&api.Sessions{Sessions: []api.SessionState{{ID: fmt.Sprintf("claude-%d", i), Tripped: true}, {ID: "claude-x", Tripped: true}, {ID: "claude-y", PausedMS: 1}}})
			s.m.note("something happened")
		}
		for w := 1; w <= 130; w += 9 {
			for h := 1; h <= 60; h += 3 {
				s.send(tea.WindowSizeMsg{Width: w, Height: h})
				for _, mode := range []mode{modeChoose, modeConfirm, modeReason} {
					s.m.mode, s.m.chosen, s.m.reason = mode, verbSession, strings.Repeat("why ", 50)
					s.m.layout()
					rows := s.m.screen()
					if len(rows) > h {
						t.Fatalf("%dx%d, mode %d: %d rows", w, h, mode, len(rows))
					}
					for _, r := range rows {
						if got := ansi.StringWidth(r); got > w && w > 1 { // a wide character has two cells
							t.Fatalf("%dx%d, mode %d: a row of %d cells: %q", w, h, mode, got, r)
						}
					}
				}
				s.m.leaveMode()
			}
		}
	})
}

// TestSmallTerminal: at 20 columns and 8 rows the choices are there, and the
// allow only after the whole text.
func TestSmallTerminal(t *testing.T) {
	onScreen(t, 20, 8, func(s *screen) {
		s.show(command(t, "a", "make -C some/where all && rm -rf build"))
		s.pass(long)
		s.sees("d deny", "r why", "space more")
		s.seesNot("a once")
		s.press("a")
		s.pass(long)
		s.press("enter")
		s.pass(long)
		s.undecided()
		for range 30 {
			s.press("space")
		}
		s.sees("a once", "d deny", "ld")
		s.press("a")
		s.pass(long)
		s.sees("Allow this once?", "enter yes")
		s.press("enter")
		s.pass(time.Millisecond)
		s.decided()
	})
	onScreen(t, 12, 4, func(s *screen) { // nothing can be read here
		s.show(command(t, "a", "make"))
		s.pass(long)
		s.sees("d deny")
		s.press("a")
		s.pass(long)
		s.press("enter")
		s.pass(long)
		s.undecided()
		s.press("d")
		s.pass(time.Millisecond)
		s.decided()
	})
}

// TestHintsAreLive: every key that is shown does what it says now, and every
// verb that has words and can be used is shown where there is room.
func TestHintsAreLive(t *testing.T) {
	states := map[string]func(*screen){
		"nothing":     func(*screen) {},
		"one":         func(s *screen) { s.show(command(t, "a", "make a")) },
		"two":         func(s *screen) { s.show(command(t, "a", "make a")); s.show(command(t, "b", "make b")) },
		"long":        func(s *screen) { s.show(command(t, "a", strings.Repeat("make\n", 200))) },
		"no grants":   func(s *screen) { x := command(t, "a", "make a"); x.Offers = nil; s.show(x) },
		"put away":    func(s *screen) { s.show(command(t, "a", "make a")); s.pass(long); s.press("h") },
		"confirm":     func(s *screen) { s.show(command(t, "a", "make a")); s.pass(long); s.press("a") },
		"confirm two": func(s *screen) { s.show(command(t, "a", "make a")); s.pass(long); s.press("s") },
		"sent": func(s *screen) {
			s.desk.verdict = say(api.AnswerVerdict{Verdict: api.VerdictInvalid})
			s.show(command(t, "a", "make a"))
			s.pass(long)
			s.m.item().sent = time.Now()
		},
		"offline": func(s *screen) { s.show(command(t, "a", "make a")); s.tell(offline{}) },
	}
	for name, prepare := range states {
		t.Run(name, func(t *testing.T) {
			onScreen(t, 200, 60, func(s *screen) {
				prepare(s)
				s.pass(long)
				hints := ansi.Strip(strings.Join(s.m.hints(), "\n"))
				for _, b := range keymap {
					shown := b.hint != "" && strings.Contains(hints, "["+b.keys[0]+"] "+b.hint)
					usable := b.hint != "" && s.m.inMode(b.verb) && s.m.unavailable(b.verb) == ""
					if shown != usable {
						t.Errorf("key %s (%s): shown %v, usable %v", b.keys[0], b.hint, shown, usable)
					}
				}
			})
		})
	}
}

func TestKeymapHasNoKeyTwice(t *testing.T) {
	seen := map[string]verb{}
	for _, b := range keymap {
		for _, k := range b.keys {
			if old, twice := seen[k]; twice {
				t.Errorf("%s is bound to %d and %d", k, old, b.verb)
			}
			seen[k] = b.verb
		}
	}
	for _, never := range []verb{verbAllow, verbSession, verbTree} {
		for k, v := range seen {
			if v == never && (len(k) != 1 || k == "y") {
				t.Errorf("%q allows", k)
			}
		}
	}
}

// hostile is text that tries to be something else on a screen.
var hostile = []string{
	"\x1b[2J\x1b[H\x1b]0;owned\x07", "a\rb", "a\x08b", "\u202egnirts", "zero\u200bwidth\u200d", "\U000E0041\U000E0042 tags",
	"\uFE0F\u2028\u2029\u0085", "\xff\xfe", "nul\x00", strings.Repeat(" ", 5000) + "rm -rf /", strings.Repeat("\n", 500) + "rm -rf /",
	strings.Repeat("\t", 900) + "rm -rf /", "z" + strings.Repeat("\u0301", 60), "\u3164\u2800",
	"Allow this once?\n[a] allow once\n-- end --", "│ not mine", strings.Repeat("日本語", 90),
}

// TestHostileText: no text of an agent gets a control character to the
// terminal, passes for permd's own words, or pushes anything out of sight.
func TestHostileText(t *testing.T) {
	for i, h := range hostile {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			onScreen(t, 60, 200, func(s *screen) {
				valid := strings.ToValidUTF8(h, "\uFFFD")
				b := desktest.Gate("a", "claude-1", "x "+valid)
				b.Title, b.Preface, b.From.Agent = "t "+valid, valid, valid
				b.Cause = "no rule " + valid
				x := sealed(t, b)
				s.show(x)
				s.tell(&api.Notice{Kind: "k", Text: h})
				s.tell(&api.Settled{Ask: "none", Why: h})
				s.pass(long)
				agents := false // between the label and the end of an agent's text
				for _, row := range s.m.screen() {
					text := ansi.Strip(row)
					for _, r := range text {
						if r < ' ' || r == 0x7f || ask.Hidden(r) {
							t.Fatalf("%U is on the screen: %q", r, text)
						}
					}
					if !utf8.ValidString(text) {
						t.Fatalf("not UTF-8: %q", text)
					}
					if agents = agents || text == "command:"; agents && strings.HasPrefix(text, "--") {
						break
					}
					if agents && text != "" && !strings.HasSuffix(text, ":") && !strings.HasPrefix(text, "│ ") && !strings.HasPrefix(text, "┆ ") && !strings.HasPrefix(text, "! ") {
						t.Errorf("a line of the agent's has no mark: %q", text)
					}
				}
				if strings.Contains(h, "rm -rf /") {
					s.sees("rm -rf /")
					if n := len(s.m.page.rows); n > 120 {
						t.Errorf("it takes %d rows", n)
					}
				}
			})
		})
	}
}

func TestPathMarksWhatIsClaimed(t *testing.T) {
	x := command(t, "a", "make")
	a := *x.Ask
	a.Header.Path = []ask.Hop{{Session: "claude-1", Node: "n-1", Claimed: true}, {Session: "claude-2", Node: "n-2"}, {Session: "claude-3", Node: "n-3", Claimed: true}}
	x.Ask = &a
	if got, want := whoAsks(x), "claude-1 (claude) →(claimed) claude-2 → claude-3 →(claimed) node n-1"; got != want {
		t.Errorf("path %q, want %q", got, want)
	}
	x.Denied = 3
	x.Elsewhere = []string{"the client's own dialog"}
	var all []string
	for _, r := range rows(document(x), 200) {
		all = append(all, r.text)
	}
	doc := strings.Join(all, "\n")
	for _, want := range []string{"! a parent on its way is only claimed", "denied this, or nearly this, 3 times before", "also: open at the client's own dialog"} {
		if !strings.Contains(doc, want) {
			t.Errorf("it does not say %q:\n%s", want, doc)
		}
	}
}

// TestDocumentIsWhole: every field of what the client sent is in the text.
func TestDocumentIsWhole(t *testing.T) {
	b := desktest.Gate("a", "claude-1", "make")
	b.Action.Input = []byte(`{"command":"make","timeout":5,"dangerouslyDisableSandbox":true,"env":{"A":"b"},"note":"two\nlines"}`)
	write := desktest.Gate("b", "claude-1", "x")
	write.Action.Tool, write.Action.ClientTool, write.Action.Command = ask.ToolWrite, "Write", ""
	write.Action.Paths = []ask.Path{{Given: "/home/dev/link", Real: "/etc/passwd", Access: ask.AccessWrite}}
	write.Action.Input = []byte(`{"file_path":"/home/dev/link","content":"root::0:0\n"}`)
	mcp := desktest.Gate("c", "claude-1", "x")
	mcp.Action.Tool, mcp.Action.ClientTool, mcp.Action.Command = ask.ToolMCP, "mcp__db__drop", ""
	mcp.Action.MCP = &ask.MCP{Server: "db", Name: "drop", Source: "project"}
	mcp.Action.Input = []byte(`["all"]`)
	for _, c := range []struct {
		name string
		body ask.Body
		want []string
	}{
		{"bash", b, []string{"│ make", "input timeout:", "│ 5", "input dangerouslyDisableSandbox:", "│ true", `│ {"A":"b"}`, "│ two", "│ lines"}},
		{"write", write, []string{"│ Write (write)", "│ write /home/dev/link", "│   really /etc/passwd", "input content:", "│ root::0:0"}},
		{"mcp", mcp, []string{"│ drop of server db (declared by: project)", `│ ["all"]`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []string
			for _, r := range rows(document(sealed(t, c.body)), 100) {
				all = append(all, r.text)
			}
			doc := strings.Join(all, "\n")
			for _, want := range c.want {
				if !strings.Contains(doc, want) {
					t.Errorf("it does not say %q:\n%s", want, doc)
				}
			}
		})
	}
}

func TestEmptyCommandIsNotAllowed(t *testing.T) {
	x := command(t, "a", "make")
	a := *x.Ask
	action := *a.Body.Action
	action.Command = " \n"
	a.Body.Action = &action
	x.Ask = &a
	if _, err := allow(x, nil); err == nil {
		t.Error("an empty command can be allowed")
	}
	a.Body.Action = nil
	if _, err := allow(x, nil); err == nil {
		t.Error("an action that nobody sees can be allowed")
	}
}

func TestFold(t *testing.T) {
	for _, c := range [][2]string{
		{"a" + strings.Repeat(" ", 40) + "b", "a" + strings.Repeat(" ", 40) + "b"},
		{"a" + strings.Repeat(" ", 41) + "b", "a⟨41 spaces⟩b"},
		{strings.Repeat("\t", 11), "⟨44 spaces⟩"},
		{"a\n\nb", "a\n\nb"},
		{"a" + strings.Repeat("\n", 21) + "b", "a\n⟨21 line breaks⟩\nb"},
	} {
		if got := fold(c[0]); got != c[1] {
			t.Errorf("fold(%q) = %q, want %q", c[0], got, c[1])
		}
	}
}
