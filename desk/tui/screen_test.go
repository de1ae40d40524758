package tui

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"permd/api"
	"permd/ask"
	"permd/desk/desktest"
)

// screen drives a model in virtual time, as the program would.
type screen struct {
	t    testing.TB
	m    *model
	desk *fakeDesk
	msgs chan tea.Msg
	quit bool
	rung int // bells
}

// onScreen runs f with a screen of that size on which nothing waits.
func onScreen(t *testing.T, width, height int, f func(*screen)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, width, height)
		defer s.end()
		f(s)
	})
}

func newScreen(t testing.TB, width, height int) *screen {
	s := &screen{t: t, m: newModel(), desk: &fakeDesk{verdict: accept}, msgs: make(chan tea.Msg, 4096)}
	s.send(tea.WindowSizeMsg{Width: width, Height: height})
	s.tell(online{s.desk})
	s.tell(&api.Snapshot{})
	return s
}

// end lets the clocks that still run, run out.
func (s *screen) end() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// send is one message and what it leads to at once.
func (s *screen) send(msg tea.Msg) {
	switch msg := msg.(type) {
	case tea.BatchMsg:
		for _, c := range msg {
			s.run(c)
		}
		return
	case tea.QuitMsg:
		s.quit = true
		return
	case tea.RawMsg:
		s.rung++
		return
	}
	_, cmd := s.m.Update(msg)
	s.run(cmd)
}

func (s *screen) run(c tea.Cmd) {
	if c != nil {
		go func() { s.msgs <- c() }()
	}
}

// pass lets d of virtual time pass.
func (s *screen) pass(d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		synctest.Wait()
		select {
		case m := <-s.msgs:
			s.send(m)
			continue
		default:
		}
		select {
		case m := <-s.msgs:
			s.send(m)
		case <-end.C:
			return
		}
	}
}

// drain takes what is there without letting time pass.
func (s *screen) drain() {
	for {
		synctest.Wait()
		select {
		case m := <-s.msgs:
			s.send(m)
		default:
			return
		}
	}
}

func (s *screen) tell(x any) { s.send(told{x}) }

// show is an ask that arrives.
func (s *screen) show(x api.Shown) { s.tell(&x) }

// press is keys in quick succession, by name: "a", "enter", "shift+tab".
func (s *screen) press(names ...string) {
	for _, n := range names {
		s.send(keyOf(n))
	}
}

func keyOf(name string) tea.KeyPressMsg {
	switch name {
	case "enter":
		return tea.KeyPressMsg{Code: tea.KeyEnter}
	case "esc":
		return tea.KeyPressMsg{Code: tea.KeyEscape}
	case "space":
		return tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
	case "tab":
		return tea.KeyPressMsg{Code: tea.KeyTab}
	case "shift+tab":
		return tea.KeyPressMsg{Code: tea.KeyTab, Mod: tea.ModShift}
	case "backspace":
		return tea.KeyPressMsg{Code: tea.KeyBackspace}
	case "down":
		return tea.KeyPressMsg{Code: tea.KeyDown}
	case "up":
		return tea.KeyPressMsg{Code: tea.KeyUp}
	case "pgup":
		return tea.KeyPressMsg{Code: tea.KeyPgUp}
	case "home":
		return tea.KeyPressMsg{Code: tea.KeyHome}
	case "ctrl+c":
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	case "ctrl+u":
		return tea.KeyPressMsg{Code: 'u', Mod: tea.ModCtrl}
	case "ctrl+j":
		return tea.KeyPressMsg{Code: 'j', Mod: tea.ModCtrl}
	}
	r := []rune(name)
	return tea.KeyPressMsg{Code: r[0], Text: name}
}

// write is a person who types, not too fast.
func (s *screen) write(text string) {
	for _, r := range text {
		s.press(map[bool]string{true: "space", false: string(r)}[r == ' '])
		s.pass(90 * time.Millisecond)
	}
}

// text is the screen without styles.
func (s *screen) text() string { return ansi.Strip(strings.Join(s.m.screen(), "\n")) }

func (s *screen) sees(want ...string) {
	s.t.Helper()
	for _, w := range want {
		if !strings.Contains(s.text(), w) {
			s.t.Errorf("the screen does not say %q:\n%s", w, s.text())
		}
	}
}

func (s *screen) seesNot(not ...string) {
	s.t.Helper()
	for _, w := range not {
		if strings.Contains(s.text(), w) {
			s.t.Errorf("the screen says %q:\n%s", w, s.text())
		}
	}
}

// undecided fails when anything was answered.
func (s *screen) undecided() {
	s.t.Helper()
	if got := s.desk.given(); len(got) > 0 {
		s.t.Fatalf("answered: %+v", got)
	}
}

// decided wants exactly one answer so far and returns it.
func (s *screen) decided() ask.Answer {
	s.t.Helper()
	got := s.desk.given()
	if len(got) != 1 {
		s.t.Fatalf("%d answers, want 1\n%s", len(got), s.text())
	}
	return got[0]
}

// fakeDesk takes answers.
type fakeDesk struct {
	mu      sync.Mutex
	answers []ask.Answer
	shown   []string
	verdict func(ask.Answer) (api.AnswerVerdict, error)
	check   func(ask.Answer)
}

func (d *fakeDesk) Answer(_ context.Context, a ask.Answer) (api.AnswerVerdict, error) {
	d.mu.Lock()
	d.answers = append(d.answers, a)
	verdict, check := d.verdict, d.check
	d.mu.Unlock()
	if check != nil {
		check(a)
	}
	return verdict(a)
}

func (d *fakeDesk) OnScreen(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shown = append(d.shown, id)
	return nil
}

func (d *fakeDesk) given() []ask.Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]ask.Answer(nil), d.answers...)
}

func accept(a ask.Answer) (api.AnswerVerdict, error) {
	return api.AnswerVerdict{Ask: a.Ask, Verdict: api.VerdictAccepted}, nil
}

func say(v api.AnswerVerdict) func(ask.Answer) (api.AnswerVerdict, error) {
	return func(a ask.Answer) (api.AnswerVerdict, error) { v.Ask = a.Ask; return v, nil }
}

func fail(text string) func(ask.Answer) (api.AnswerVerdict, error) {
	return func(ask.Answer) (api.AnswerVerdict, error) { return api.AnswerVerdict{}, errors.New(text) }
}

// command is an ask for a shell command with a grant of each scope.
func command(t testing.TB, id, text string) api.Shown {
	t.Helper()
	s := sealed(t, desktest.Gate(id, "claude-1", text))
	s.Offers = []ask.Offer{
		{ID: "o-session", Scope: ask.ScopeSession, Label: "Allow it again", Rule: ask.Rule{Action: ask.Allow, Tool: "bash", Command: "make a"}},
		{ID: "o-wider", Scope: ask.ScopeSession, Label: "Allow all of make", Rule: ask.Rule{Action: ask.Allow, Tool: "bash", Command: "make *"}},
		{ID: "o-tree", Scope: ask.ScopeTree, Label: "Allow it everywhere below", Rule: ask.Rule{Action: ask.Allow, Tool: "bash", Command: "make a"}},
	}
	return s
}

func sealed(t testing.TB, b ask.Body) api.Shown {
	t.Helper()
	a, err := ask.Seal(b)
	if err != nil {
		t.Fatal(err)
	}
	return api.Shown{Ask: a, Node: "n-1"}
}

// allows reports whether an answer allows the ask.
func allows(s api.Shown, a ask.Answer) bool {
	yes, ok := s.Ask.Permission(&a)
	return ok && yes
}
