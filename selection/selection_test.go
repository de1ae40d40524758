package selection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"permd/ask"
	"permd/authority"
	"permd/liveness"
	"permd/session"
)

// around is a session's surroundings that a test can change.
type around struct {
	mu      sync.Mutex
	here    Here
	parents []session.Candidate
	answers map[string]liveness.Answer
	above   map[string][]string
	asked   []string
	slow    time.Duration
}

func (a *around) Here() Here {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.here
}

func (a *around) Parents() []session.Candidate {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.parents)
}

func (a *around) Serving(ctx context.Context, c session.Candidate) (liveness.Answer, []string) {
	if a.slow > 0 {
		time.Sleep(a.slow)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, c.Session)
	return a.answers[c.Session], a.above[c.Session]
}

func (a *around) set(f func(*around)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(a)
}

// lines is the log.
type lines struct {
	mu   sync.Mutex
	got  []string
	fail bool
}

func (l *lines) Transition(ctx context.Context, t Transition) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail || ctx.Err() != nil {
		return errors.New("no space left on device")
	}
	s := strings.TrimPrefix(string(t.Event), "forwarded_permission.")
	if t.Target != "" {
		s += " " + t.Target
	}
	if t.FoundBy != "" {
		s += fmt.Sprintf(" %s %s", t.Channel, t.FoundBy)
	}
	if t.Session != "me" {
		s += " of " + t.Session
	}
	l.got = append(l.got, s)
	return nil
}

func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.got
	l.got = nil
	return g
}

func wants(t *testing.T, l *lines, want ...string) {
	t.Helper()
	if got := l.take(); !slices.Equal(got, want) {
		t.Errorf("log %q, want %q", got, want)
	}
}

func parent(names ...string) []session.Candidate {
	var out []session.Candidate
	for _, n := range names {
		out = append(out, session.Candidate{Session: n, Channel: session.ChannelEnv, FoundBy: "flag"})
	}
	return out
}

func setUp(h Here, parents ...string) (*Selection, *around, *lines) {
	a := &around{here: h, parents: parent(parents...), answers: map[string]liveness.Answer{}, above: map[string][]string{}}
	l := &lines{}
	return New(Config{Self: "me", Surroundings: a, Liveness: a, Recorder: l}), a, l
}

var dialogOnly = Here{Dialog: true}

// TestTransitions: start, no repeat, fall back, return, redirect, another
// channel, deactivation.
func TestTransitions(t *testing.T) {
	ctx := t.Context()
	s, a, l := setUp(dialogOnly, "lead", "top")
	if c := s.Activate(ctx); c.Authority != Local {
		t.Errorf("%+v", c)
	}
	wants(t, l) // it never relayed
	a.set(func(a *around) { a.answers["lead"] = liveness.Yes })
	if c := s.Activate(ctx); c.Authority != Relay || c.Target.Session != "lead" || s.Adjudicates() {
		t.Errorf("%+v", c)
	}
	wants(t, l, "relay_started lead env flag", "serving_started")
	s.Activate(ctx)
	s.Activate(ctx)
	wants(t, l)
	a.set(func(a *around) { a.parents[0].Channel = session.ChannelRegistry })
	s.Activate(ctx)
	wants(t, l) // another channel to the same target is no change
	a.set(func(a *around) { a.answers["lead"], a.answers["top"] = liveness.No, liveness.Yes })
	s.Activate(ctx)
	wants(t, l, "relay_stopped lead", "relay_started top env flag")
	a.set(func(a *around) { a.answers["top"] = liveness.Unknown })
	s.Activate(ctx)
	wants(t, l, "relay_stopped top", "serving_stopped")
	if !s.Adjudicates() || s.Serving() {
		t.Error("a session that decides for itself again does not know it")
	}
	a.set(func(a *around) { a.answers["top"] = liveness.Yes })
	s.Activate(ctx)
	wants(t, l, "relay_started top env flag", "serving_started")
	s.Deactivate(ctx)
	wants(t, l, "relay_stopped top", "serving_stopped")
	s.Deactivate(ctx)
	wants(t, l)
	s.Activate(ctx) // a session can be resumed
	wants(t, l, "relay_started top env flag", "serving_started")
}

// TestHeadlessWritesNoRelay: its asks name the target themselves.
func TestHeadlessWritesNoRelay(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		answer liveness.Answer
		serves bool
	}{{liveness.Yes, true}, {liveness.Unknown, true}, {liveness.No, false}} {
		s, a, l := setUp(Here{}, "lead")
		a.answers["lead"] = c.answer
		if ch := s.Activate(ctx); ch.Authority != Relay || ch.Serving != c.answer {
			t.Errorf("%+v", ch)
		}
		if c.serves {
			wants(t, l, "serving_started")
		} else {
			wants(t, l)
		}
		s.Deactivate(ctx)
		if c.serves {
			wants(t, l, "serving_stopped")
		} else {
			wants(t, l)
		}
	}
	// A terminal that is closed in the middle ends the relay that was written.
	s, a, l := setUp(dialogOnly, "lead")
	a.answers["lead"] = liveness.Yes
	s.Activate(ctx)
	a.set(func(a *around) { a.here = Here{} })
	s.Activate(ctx)
	wants(t, l, "relay_started lead env flag", "serving_started", "relay_stopped lead")
}

// TestNeverRelays: such a session writes nothing at all about relaying.
func TestNeverRelays(t *testing.T) {
	ctx := t.Context()
	for name, h := range map[string]Here{"dialog": dialogOnly, "nobody": {}} {
		t.Run(name, func(t *testing.T) {
			s, _, l := setUp(h)
			for range 5 {
				s.Activate(ctx)
			}
			s.Deactivate(ctx)
			wants(t, l)
		})
	}
}

// TestServing: who takes asks of children.
func TestServing(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name   string
		here   Here
		parent liveness.Answer
		want   bool
	}{
		{"a surface", Here{Surfaces: 1}, liveness.No, true},
		{"a device", Here{Devices: 1}, liveness.No, true},
		{"only its client's dialog", dialogOnly, liveness.No, false},
		{"only its client's dialog, parent unknown", dialogOnly, liveness.Unknown, false},
		{"a relay", dialogOnly, liveness.Yes, true},
		{"a relay without a person", Here{}, liveness.Yes, true},
		{"a relay to somebody unknown", Here{}, liveness.Unknown, true},
		{"a relay that gives up", Here{}, liveness.No, false},
	} {
		s, a, _ := setUp(c.here, "lead")
		a.answers["lead"] = c.parent
		if s.Activate(ctx); s.Serving() != c.want {
			t.Errorf("%s: serves %t", c.name, s.Serving())
		}
	}
	s, _, _ := setUp(Here{})
	if s.Activate(ctx); s.Serving() {
		t.Error("a session that can only deny serves")
	}

	// A surface that attaches is told at once, not at the next activation, and
	// moves no authority.
	s, a, l := setUp(dialogOnly)
	if s.Refresh(ctx) {
		t.Error("an inactive session serves")
	}
	before := s.Activate(ctx)
	a.set(func(a *around) { a.here.Surfaces = 1 })
	if !s.Refresh(ctx) || !s.Serving() {
		t.Error("not serving with a terminal attached")
	}
	s.Refresh(ctx)
	wants(t, l, "serving_started")
	if c, err := s.Current(); err != nil || c != before {
		t.Errorf("%+v, %v", c, err)
	}
	a.set(func(a *around) { a.here.Surfaces = 0 })
	if s.Refresh(ctx) {
		t.Error("still serving")
	}
	wants(t, l, "serving_stopped")
}

// TestLogFails: a line that could not be written is written later, once.
func TestLogFails(t *testing.T) {
	ctx := t.Context()
	s, a, l := setUp(dialogOnly, "lead", "top")
	a.answers["lead"] = liveness.Yes
	l.fail = true
	if c := s.Activate(ctx); c.Authority != Relay {
		t.Errorf("%+v", c)
	}
	l.fail = false
	s.Activate(ctx)
	s.Activate(ctx)
	wants(t, l, "relay_started lead env flag", "serving_started")
	l.fail = true
	a.set(func(a *around) { a.answers["lead"], a.answers["top"] = liveness.No, liveness.Yes })
	s.Activate(ctx)
	l.fail = false
	s.Activate(ctx)
	wants(t, l, "relay_stopped lead", "relay_started top env flag")
	gone, cancel := context.WithCancel(ctx)
	cancel()
	s.Deactivate(gone) // the end of the caller does not keep it from the log
	wants(t, l, "relay_stopped top", "serving_stopped")
}

// TestJudgesNoMoreThanNeeded: nobody is asked behind the first yes, and never
// the session itself; a circle is not taken for a yes.
func TestJudgesNoMoreThanNeeded(t *testing.T) {
	s, a, _ := setUp(dialogOnly, "me", "unknown", "ring", "dead", "lead", "top")
	a.answers = map[string]liveness.Answer{"ring": liveness.Yes, "dead": liveness.No, "lead": liveness.Yes, "top": liveness.Yes}
	a.above["ring"] = []string{"x", "me"}
	if c := s.Activate(t.Context()); c.Target.Session != "lead" {
		t.Errorf("%+v", c)
	}
	if got := strings.Join(a.asked, " "); got != "ring dead lead" {
		t.Errorf("asked %q", got)
	}
}

// terminal is an authorizer that answers when it is let.
type terminal struct {
	name string
	let  chan struct{}
}

func (z *terminal) Authorize(ctx context.Context, a *ask.Ask) (ask.Decision, error) {
	<-z.let
	return ask.Decision{Ask: a.Body.ID, Reason: z.name}, nil
}

// TestAskKeepsItsAuthority: asks are refused before the first activation and
// after the end; one on its way stays where it began.
func TestAskKeepsItsAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s, a, _ := setUp(dialogOnly, "lead")
		let := make(chan struct{})
		s.c.Terminal = func(c Choice) authority.Authorizer { return &terminal{c.Authority.String(), let} }
		x := &ask.Ask{Body: ask.Body{ID: "a"}}
		if _, err := s.Authorize(ctx, x); !errors.Is(err, ErrInactive) {
			t.Errorf("before activation: %v", err)
		}
		if !s.Adjudicates() {
			t.Error("a session that was not activated relays")
		}
		a.answers["lead"] = liveness.Yes
		s.Activate(ctx)
		got := make(chan string, 2)
		begin := func() {
			go func() {
				d, err := s.Authorize(ctx, x)
				if err != nil {
					t.Error(err)
				}
				got <- d.Reason
			}()
			synctest.Wait()
		}
		begin()
		a.set(func(a *around) { a.answers["lead"] = liveness.No })
		s.Activate(ctx)
		begin()
		s.Deactivate(ctx)
		if _, err := s.Authorize(ctx, x); !errors.Is(err, ErrInactive) {
			t.Errorf("after the end: %v", err)
		}
		let <- struct{}{}
		let <- struct{}{}
		both := []string{<-got, <-got}
		slices.Sort(both)
		if !slices.Equal(both, []string{"local", "relay"}) {
			t.Errorf("asks went to %v", both)
		}
	})
	s, _, _ := setUp(dialogOnly)
	s.Activate(t.Context())
	if _, err := s.Authorize(t.Context(), &ask.Ask{}); err == nil {
		t.Error("authorized without a terminal")
	}
}

// TestActivateWaitsNoLongerThanAsked: a judge that is slow keeps nobody who
// gives up; the choice stays.
func TestActivateWaitsNoLongerThanAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, _ := setUp(dialogOnly, "lead")
		a.answers["lead"] = liveness.Yes
		a.slow = time.Minute
		done := make(chan Choice)
		go func() { done <- s.Activate(context.Background()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if c := s.Activate(ctx); c != (Choice{}) || time.Since(start) != time.Second {
			t.Errorf("%+v after %s", c, time.Since(start))
		}
		if s.Refresh(ctx) {
			t.Error("serves")
		}
		if c := <-done; c.Authority != Relay {
			t.Errorf("%+v", c)
		}
	})
}

// TestManyActivations: whatever races, the log is a sequence of pairs that
// ends as the session does.
func TestManyActivations(t *testing.T) {
	s, a, l := setUp(Here{}, "lead", "top")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 200 {
				a.set(func(a *around) {
					a.here = Here{Dialog: (n+i)%3 != 0, Surfaces: (n * i) % 2}
					a.answers["lead"] = liveness.Answer((n + i) % 3)
					a.answers["top"] = liveness.Answer((n * 7) % 3)
				})
				switch n % 20 {
				case 7:
					s.Deactivate(context.Background())
				case 3, 13:
					s.Refresh(context.Background())
				default:
					s.Activate(context.Background())
				}
				s.Adjudicates()
				_, _ = s.Current()
			}
		})
	}
	wg.Wait()
	s.Deactivate(context.Background())
	target, serving := "", false
	for n, line := range l.take() {
		f := strings.Fields(line)
		switch f[0] {
		case "relay_started":
			if target != "" {
				t.Fatalf("line %d: started twice", n)
			}
			target = f[1]
		case "relay_stopped":
			if target != f[1] {
				t.Fatalf("line %d: stopped %q while relaying to %q", n, f[1], target)
			}
			target = ""
		case "serving_started", "serving_stopped":
			if serving == (f[0] == "serving_started") {
				t.Fatalf("line %d: %s twice", n, f[0])
			}
			serving = !serving
		}
	}
	if target != "" || serving {
		t.Errorf("at the end: relaying to %q, serving %t", target, serving)
	}
}
