package selection

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"permd/ask"
	"permd/authority"
	"permd/liveness"
	"permd/session"
)

// Here is who can answer at a session now.
type Here struct {
	// Dialog: the client has its own dialog for this session's calls.
	Dialog bool
	// Surfaces and Devices can show any ask: terminals, pages and popups that
	// are attached; paired devices that are reachable or can be woken.
	Surfaces, Devices int
}

// Somebody reports whether anybody can answer this session's asks.
func (h Here) Somebody() bool { return h.Dialog || h.ShowsAny() }

// ShowsAny reports whether somebody here can be shown any ask, also a child's.
func (h Here) ShowsAny() bool { return h.Surfaces > 0 || h.Devices > 0 }

// Surroundings is what a session's node knows of it. Both methods are called
// at every activation and must not wait.
type Surroundings interface {
	// Here says who can answer now.
	Here() Here
	// Parents returns the sessions named as parent, first choice first.
	Parents() []session.Candidate
}

// Liveness judges whether a named parent serves, and names the sessions that
// it relays to, nearest first, as far as known. It may take a moment.
type Liveness interface {
	Serving(ctx context.Context, c session.Candidate) (a liveness.Answer, above []string)
}

// Event is the name of a transition in the log.
type Event string

// The transitions.
const (
	RelayStarted   Event = "forwarded_permission.relay_started"
	RelayStopped   Event = "forwarded_permission.relay_stopped"
	ServingStarted Event = "forwarded_permission.serving_started"
	ServingStopped Event = "forwarded_permission.serving_stopped"
)

// Transition is one line for the log. The target fields are of relay events;
// Channel and FoundBy of a start only.
type Transition struct {
	Event   Event
	Session string
	Target  string
	Channel session.Channel
	FoundBy string
}

// Recorder writes transitions. One that failed is written at the next
// activation.
type Recorder interface {
	Transition(ctx context.Context, t Transition) error
}

// Config is what a selection is made of. Terminal may be nil when asks are
// not put through the selection; the rest may not.
type Config struct {
	Self         string
	Surroundings Surroundings
	Liveness     Liveness
	Recorder     Recorder
	// Terminal makes the authorizer of a choice.
	Terminal func(Choice) authority.Authorizer
}

// ErrInactive refuses asks of a session that no activation has begun or that
// has ended.
var ErrInactive = errors.New("the session is not active")

// Selection is the live choice of one session.
type Selection struct {
	c    Config
	turn chan struct{} // held while a choice is remade, one at a time

	mu      sync.Mutex
	active  bool
	choice  Choice
	serving bool

	// What the log says, written under turn.
	relays string // target, "" for none
	serves bool
}

// New returns the selection of one session, inactive.
func New(c Config) *Selection {
	return &Selection{c: c, turn: make(chan struct{}, 1)}
}

// Activate remakes the choice at a sign of life from the client and records
// what changed. If ctx ends while it waits for its turn, the choice stays.
func (s *Selection) Activate(ctx context.Context) Choice {
	if !s.begin(ctx) {
		return s.now()
	}
	defer s.end()
	here := s.c.Surroundings.Here()
	choice := Select(s.input(ctx, here))
	s.mu.Lock()
	s.active, s.choice, s.serving = true, choice, serves(here, choice)
	s.mu.Unlock()
	s.record(ctx)
	return choice
}

// Refresh looks again whether the session serves, after a surface or device
// came or went. It changes no authority: that waits for an activation.
func (s *Selection) Refresh(ctx context.Context) (serving bool) {
	if !s.begin(ctx) {
		return s.Serving()
	}
	defer s.end()
	here := s.c.Surroundings.Here()
	s.mu.Lock()
	s.serving = s.active && serves(here, s.choice)
	s.mu.Unlock()
	s.record(ctx)
	return s.Serving()
}

// Deactivate ends the session: it stops relaying and serving, and asks are
// refused until it is activated again. An ask on its way keeps the authority
// it began with.
func (s *Selection) Deactivate(ctx context.Context) {
	if !s.begin(context.WithoutCancel(ctx)) {
		return
	}
	defer s.end()
	s.mu.Lock()
	s.active, s.choice, s.serving = false, Choice{}, false
	s.mu.Unlock()
	s.record(ctx)
}

// Current returns the choice in force, or ErrInactive.
func (s *Selection) Current() (Choice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.active {
		return Choice{}, fmt.Errorf("session %s: %w", s.c.Self, ErrInactive)
	}
	return s.choice, nil
}

// Adjudicates reports whether chains and dialogs run at this session. They do
// as long as nothing else was chosen.
func (s *Selection) Adjudicates() bool { return s.now().Adjudicates() }

// Serving reports whether the session takes asks of children.
func (s *Selection) Serving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serving
}

var _ authority.Authorizer = (*Selection)(nil)

// Authorize puts an ask to the authority that is current now. The ask keeps it
// to its end, whatever later activations choose.
func (s *Selection) Authorize(ctx context.Context, a *ask.Ask) (ask.Decision, error) {
	c, err := s.Current()
	if err != nil {
		return ask.Decision{}, err
	}
	if s.c.Terminal == nil {
		return ask.Decision{}, fmt.Errorf("session %s has no terminal for %s", s.c.Self, c.Authority)
	}
	return s.c.Terminal(c).Authorize(ctx, a)
}

func (s *Selection) now() Choice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.choice
}

func (s *Selection) begin(ctx context.Context) bool {
	select {
	case s.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Selection) end() { <-s.turn }

// input judges the named parents, up to the first that serves.
func (s *Selection) input(ctx context.Context, here Here) Input {
	in := Input{Self: s.c.Self, Here: here.Somebody()}
	for _, p := range s.c.Surroundings.Parents() {
		c := Candidate{Candidate: p}
		if p.Session != s.c.Self && !session.Blank(p.Session) {
			c.Serving, c.Above = s.c.Liveness.Serving(ctx, p)
		}
		in.Candidates = append(in.Candidates, c)
		if Select(Input{Self: in.Self, Here: true, Candidates: []Candidate{c}}).Authority == Relay {
			break
		}
	}
	return in
}

// serves is the rule: a surface that can show any ask, a device, or a relay
// that is not known to lead nowhere. One that has only its client's dialog, or
// can only deny, would swallow what its children can show themselves.
func serves(here Here, c Choice) bool {
	return here.ShowsAny() || c.Authority == Relay && c.Serving != liveness.No
}

// record writes what changed since the log was last right. The turn is held.
func (s *Selection) record(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	s.mu.Lock()
	choice, serving := s.choice, s.serving
	s.mu.Unlock()
	target := session.Candidate{}
	if choice.Authority == Relay && choice.Here {
		target = choice.Target // the headless relay is named by its asks
	}
	write := func(t Transition) bool {
		t.Session = s.c.Self
		return s.c.Recorder.Transition(ctx, t) == nil
	}
	if s.relays != target.Session {
		if s.relays == "" || write(Transition{Event: RelayStopped, Target: s.relays}) {
			s.relays = ""
			if target.Session != "" && write(Transition{Event: RelayStarted, Target: target.Session,
				Channel: target.Channel, FoundBy: target.FoundBy}) {
				s.relays = target.Session
			}
		}
	}
	if s.serves != serving {
		e := ServingStopped
		if serving {
			e = ServingStarted
		}
		if write(Transition{Event: e}) {
			s.serves = serving
		}
	}
}
