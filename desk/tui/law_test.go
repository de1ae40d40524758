package tui

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"pgregory.net/rapid"

	"permd/api"
	"permd/ask"
)

// happened is one line of the trace that the law judges by. It is written by
// the test, not by the model.
type happened struct {
	at    time.Time
	what  string // a key, or "arrives", "settled", "moved", "size", "focus", ...
	about string // the ask on the screen after it
}

// TestLawOfAllow: whatever is pressed, pasted, resized, arrives and goes, an
// answer is for what was on the screen, and an allow comes only from a chosen
// letter and an Enter, each after its pause, with nothing between.
func TestLawOfAllow(t *testing.T) {
	texts := map[string]string{"a": "make a", "b": "make b", "c": strings.Repeat("make c\n", 40)}
	shown := map[string]api.Shown{}
	for id, text := range texts {
		shown[id] = command(t, id, text)
	}
	kinds := []string{"key", "key", "key", "key", "key", "pass", "pass", "pass", "arrive", "settle", "size", "blur", "focus", "paste", "try", "try", "try", "no"}
	keys := []string{"a", "s", "t", "d", "r", "enter", "enter", "esc", "space", "n", "p", "h", "u", "x", "down", "up", "tab", "y"}
	allowed, denied := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		type step struct {
			kind, arg string
			ms        int
		}
		var plan []step
		for range rapid.IntRange(5, 40).Draw(r, "steps") {
			s := step{kind: rapid.SampledFrom(kinds).Draw(r, "kind")}
			switch s.kind {
			case "key":
				s.arg = rapid.SampledFrom(keys).Draw(r, "key")
			case "arrive", "settle":
				s.arg = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "id")
			case "pass":
				s.ms = rapid.SampledFrom([]int{1, 30, 150, 250, 450, 1100}).Draw(r, "ms")
			case "size":
				s.ms = rapid.SampledFrom([]int{8, 16, 24, 40}).Draw(r, "rows")
			case "no":
				plan = append(plan, step{"pass", "", rapid.SampledFrom([]int{390, 450}).Draw(r, "before")})
				s = step{"key", "d", 0}
			case "try": // something that might allow, with pauses that may be too short
				letter := rapid.SampledFrom([]string{"a", "s", "t"}).Draw(r, "letter")
				before := rapid.SampledFrom([]int{390, 450, 450}).Draw(r, "before")
				between := rapid.SampledFrom([]int{150, 250, 450, 450}).Draw(r, "between")
				plan = append(plan, step{"pass", "", before}, step{"key", letter, 0}, step{"pass", "", between})
				s = step{"key", "enter", 0}
			}
			plan = append(plan, s)
		}
		var wrong string
		synctest.Test(t, func(t *testing.T) {
			s := newScreen(t, 80, 24)
			defer s.end()
			var trace []happened
			s.desk.check = func(a ask.Answer) {
				if allows(shown[a.Ask], a) {
					allowed++
				} else {
					denied++
				}
				if wrong == "" {
					wrong = judge(trace, a, allows(shown[a.Ask], a))
				}
			}
			for _, p := range plan {
				switch p.kind {
				case "key":
					before := s.m.current
					trace = append(trace, happened{time.Now(), "key " + p.arg, before})
					s.press(p.arg)
					s.drain() // an answer is judged by what led to it
					if s.m.current != before {
						trace = append(trace, happened{time.Now(), "changed", s.m.current})
					}
					continue
				case "pass":
					s.pass(time.Duration(p.ms) * time.Millisecond)
				case "arrive":
					s.show(shown[p.arg])
				case "settle":
					s.tell(&api.Settled{Ask: p.arg, How: api.SettledCancel})
				case "size":
					s.send(tea.WindowSizeMsg{Width: 80, Height: p.ms})
				case "blur":
					s.send(tea.BlurMsg{})
				case "focus":
					s.send(tea.FocusMsg{})
				case "paste":
					s.send(tea.PasteMsg{Content: "a\nd\n"})
				}
				if p.kind != "pass" {
					trace = append(trace, happened{time.Now(), p.kind, s.m.current})
				} else if n := len(trace); n > 0 && trace[n-1].about != s.m.current {
					trace = append(trace, happened{time.Now(), "changed", s.m.current})
				}
			}
		})
		if wrong != "" {
			r.Fatalf("%s\nplan %v", wrong, plan)
		}
	})
	if allowed == 0 || denied == 0 {
		t.Errorf("%d allowed, %d denied: the plans never get there", allowed, denied)
	}
}

// judge says what is wrong with an answer, by the trace alone.
func judge(trace []happened, a ask.Answer, allow bool) string {
	bad := func(format string, v ...any) string {
		return fmt.Sprintf(format, v...) + fmt.Sprintf(": %v\ntrace %v", a, trace)
	}
	last := len(trace) - 1
	press := trace[last]
	if press.about != a.Ask {
		return bad("answered %s with %s on the screen", a.Ask, press.about)
	}
	// Another ask that comes or goes beside it is no reason to wait.
	quiet := func(i int, d time.Duration) string {
		for i > 0 && (trace[i-1].what == "arrive" || trace[i-1].what == "settle") {
			i--
		}
		if i > 0 && press.at.Sub(trace[i-1].at) < d {
			return bad("%q came %s after %q", press.what, press.at.Sub(trace[i-1].at), trace[i-1].what)
		}
		return ""
	}
	switch {
	case allow && press.what != "key enter":
		return bad("allowed by %q", press.what)
	case !allow && press.what == "key d":
		return "" // scrolling before it is no reason to wait
	case !allow && press.what == "key enter" && a.Reason != "":
		return quiet(last, pasteDelay)
	case !allow:
		return bad("denied by %q", press.what)
	}
	if why := quiet(last, confirmDelay); why != "" {
		return why
	}
	letter := -1
	for i := last - 1; i >= 0 && letter < 0; i-- {
		switch trace[i].what {
		case "key a", "key s", "key t":
			letter = i
		case "key esc", "changed":
			return bad("between the letter and Enter came %q", trace[i].what)
		}
		if trace[i].about != a.Ask {
			return bad("between the letter and Enter %s was on the screen", trace[i].about)
		}
	}
	if letter < 0 {
		return bad("allowed without a letter")
	}
	// It has been on the screen for a while before the letter.
	since := trace[letter].at
	for i := letter - 1; i >= 0 && trace[i].about == a.Ask; i-- {
		since = trace[i].at
	}
	if d := trace[letter].at.Sub(since); d < armDelay {
		return bad("the letter came %s after the ask", d)
	}
	return ""
}
