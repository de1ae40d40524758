package forwarding

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"permd/ask"
	"permd/heartbeat"
	"permd/internal/host"
)

// Beater writes the node's beat; [heartbeat.Writer] does.
type Beater interface {
	Beat(uptime time.Duration, serving []string) error
	Rest(uptime time.Duration, serving []string) error
}

var _ Beater = (*heartbeat.Writer)(nil)

// Config is what a node's server is made of.
type Config struct {
	// Node and Instance are this node's; Session is its root session.
	Node     string
	Instance string
	// Transport carries the letters.
	Transport Transport
	// Serve decides one ask of a child, or has it decided. It is called on a
	// goroutine of its own and must return when its context ends: the child
	// withdrew the ask or is gone. It must have made the decision durable
	// before it returns. Whatever it does wrong denies.
	Serve func(context.Context, Incoming) ask.Decision
	// Delivered is told what a child did with a decision. It must not block.
	// May be nil.
	Delivered func(Child, Receipt)
	// Proofs tell which children have a proven parent here.
	Proofs Proofs
	// Beat is written while children are registered, or always with
	// AlwaysBeat; BeatKey is the key it was made with, handed to children.
	Beat       Beater
	BeatKey    []byte
	AlwaysBeat bool
	// Log is told what belongs on the record. It must not block. May be nil.
	Log func(Event)
	// Unauthenticated lets children put letters that have only the directory
	// in common with this node, as across containers: no connection, no key,
	// no proof. Their asks are claimed, always.
	Unauthenticated bool

	// uptime replaces the boot-time clock in tests.
	uptime func() (time.Duration, error)
}

// Server is a node's serving loop and what it holds. Draining the mailbox,
// writing the beat, answering hellos and admitting children take turns, one at
// a time, so that each proves that the others would happen too: what hangs in
// its turn stops them all.
type Server struct {
	cfg   Config
	rep   *reporter
	beat  chan struct{}
	next  chan struct{} // more letters wait
	begun chan struct{}
	ended chan struct{}
	start sync.Once

	turn    chan struct{}  // holds one element while somebody has the turn
	closed  bool           // of the turn: there is no other
	pulse   pulse          // of the turn
	serving sync.WaitGroup // Serve calls and what belongs to a peer

	mu    sync.Mutex
	ctx   context.Context // of Run; nil before
	list  []string        // sessions that serve
	peers map[string]*peer
	ups   map[string]*link
	quiet bool // arrivals are noticed without wake-ups
	// deaf is true when the mailbox could not be read for [Grace], since since:
	// a node that cannot take asks in does not serve, whatever its sessions do.
	deaf  bool
	since time.Time
}

// ErrEnded means that the server's loop has ended, or never began.
var ErrEnded = errors.New("this node does not serve any more")

// NewServer returns a server. Nothing happens before Run.
func NewServer(cfg Config) (*Server, error) {
	switch {
	case !ask.ValidID(cfg.Node) || !ask.ValidID(cfg.Instance):
		return nil, fmt.Errorf("forwarding: node %s, instance %s: not valid", ask.Quote(cfg.Node), ask.Quote(cfg.Instance))
	case cfg.Transport == nil || cfg.Serve == nil:
		return nil, errors.New("forwarding: a server needs a transport and a Serve")
	}
	if cfg.uptime == nil {
		cfg.uptime = host.Uptime
	}
	s := &Server{cfg: cfg, rep: newReporter(cfg.Log), beat: make(chan struct{}, 1), next: make(chan struct{}, 1),
		begun: make(chan struct{}), ended: make(chan struct{}), turn: make(chan struct{}, 1),
		peers: map[string]*peer{}, ups: map[string]*link{}}
	if m, ok := cfg.Transport.(mailer); ok {
		m.OnMail(func() { _ = s.call(context.Background(), s.take) })
	}
	if q, ok := cfg.Transport.(quieter); ok {
		q.OnQuiet(s.setQuiet)
	}
	return s, nil
}

// setQuiet tells everybody who writes to us whether to wake us.
func (s *Server) setQuiet(quiet bool) {
	s.mu.Lock()
	s.quiet = quiet
	for _, p := range s.peers {
		s.pushServing(p)
	}
	links := make([]*link, 0, len(s.ups))
	for _, l := range s.ups {
		links = append(links, l)
	}
	s.mu.Unlock()
	for _, l := range links {
		l.pushSessions()
	}
}

func (s *Server) isQuiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quiet
}

// Run serves until ctx is done: then every ask being served is withdrawn, and
// Run returns when all of its goroutines have. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	first := false
	s.start.Do(func() { first = true })
	if !first {
		return ErrEnded
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	s.pulse.timer = time.NewTimer(heartbeat.Period)
	defer s.pulse.timer.Stop()
	close(s.begun)
	var background sync.WaitGroup
	failed := make(chan error, 1)
	if r, ok := s.cfg.Transport.(runner); ok {
		background.Go(func() {
			if err := r.Run(ctx); err != nil && ctx.Err() == nil {
				failed <- err
			}
		})
	}
	if s.cfg.Unauthenticated {
		s.rep.event(Event{Kind: EventUnguarded, Node: s.cfg.Node,
			Why: "children without a connection are served: their asks are not authenticated"})
		if h, ok := s.cfg.Transport.(holder); ok {
			defer h.Hold()()
		}
	}
	err := s.loop(ctx, failed)
	cancel(ErrEnded)
	_ = s.call(context.Background(), func() { s.closed = true })
	close(s.ended)
	for _, p := range s.allPeers() {
		p.end(ErrEnded)
	}
	s.serving.Wait()
	background.Wait()
	return err
}

func (s *Server) loop(ctx context.Context, failed <-chan error) error {
	do := s.pulseNow
	for {
		if s.call(ctx, do) != nil {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return fmt.Errorf("forwarding: %w", err)
		case <-s.cfg.Transport.Arrived():
			do = s.take
		case <-s.next:
			do = s.take
		case <-s.beat:
			do = s.pulseNow
		case <-s.pulse.timer.C:
			do = s.pulseNow
		}
	}
}

// take takes one batch; between two batches beats and hellos have their turn.
func (s *Server) take() {
	more, err := s.cfg.Transport.Take(s.handle)
	if err != nil {
		s.rep.event(Event{Kind: EventMailbox, Node: s.cfg.Node, Why: ask.Quote(err.Error())})
	}
	s.heard(err)
	if more {
		select {
		case s.next <- struct{}{}:
		default:
		}
	}
}

// heard notes whether the mailbox could be read, and tells when that decides
// who serves.
func (s *Server) heard(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	deaf := false
	switch {
	case err == nil:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = time.Now()
	default:
		deaf = time.Since(s.since) >= Grace
	}
	if deaf == s.deaf {
		return
	}
	s.deaf = deaf
	for _, p := range s.peers {
		s.pushServing(p)
	}
	s.beatNow()
}

// isDeaf reports whether the mailbox has been unreadable for a while.
func (s *Server) isDeaf() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deaf
}

// serves is who serves for all the world to know. The mutex is held.
func (s *Server) serves() []string {
	if s.deaf {
		return []string{}
	}
	return s.list
}

// call runs f in a turn of its own. It waits for the turn as long as ctx
// lasts, and for f.
func (s *Server) call(ctx context.Context, f func()) error {
	select {
	case <-s.begun:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ended:
		return ErrEnded
	}
	defer func() { <-s.turn }()
	if s.closed {
		return ErrEnded
	}
	f()
	return nil
}

// Hello returns the sessions that serve, as said by the serving loop: who
// waits in vain for it meets a stuck node.
func (s *Server) Hello(ctx context.Context) ([]string, error) {
	var list []string
	err := s.call(ctx, func() { list = s.Serving() })
	return list, err
}

// Serving returns the sessions that serve: as last set, or none while the
// mailbox cannot be read.
func (s *Server) Serving() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.serves())
}

// SetServing sets which sessions serve, and tells every child and the beat if
// that is a change.
func (s *Server) SetServing(sessions []string) {
	list := slices.Clone(sessions)
	slices.Sort(list)
	list = slices.Compact(list)
	s.mu.Lock()
	if slices.Equal(list, s.list) {
		s.mu.Unlock()
		return
	}
	s.list = list
	for _, p := range s.peers {
		s.pushServing(p)
	}
	s.mu.Unlock()
	s.beatNow()
}

func (s *Server) beatNow() {
	select {
	case s.beat <- struct{}{}:
	default:
	}
}

// pulse is when the loop beats next, and whether the last beat could not be
// written.
type pulse struct {
	timer  *time.Timer
	failed bool
}

// pulseNow writes the beat, in a turn: at every change at once, and each
// period while somebody wants it.
func (s *Server) pulseNow() {
	if s.cfg.Beat == nil {
		return
	}
	s.mu.Lock()
	want := len(s.peers) > 0 || s.cfg.AlwaysBeat
	list := s.serves()
	s.mu.Unlock()
	up, err := s.cfg.uptime()
	if err == nil {
		if want {
			err = s.cfg.Beat.Beat(up, list)
		} else {
			err = s.cfg.Beat.Rest(up, list)
		}
	}
	if err != nil && !s.pulse.failed {
		s.rep.event(Event{Kind: EventBeat, Node: s.cfg.Node, Why: ask.Quote(err.Error())})
	}
	s.pulse.failed = err != nil
	if want {
		s.pulse.timer.Reset(heartbeat.Period)
	} else {
		s.pulse.timer.Stop()
	}
}

// newKey makes a key for one registration or one node's beats.
func newKey() []byte {
	k := make([]byte, 32)
	rand.Read(k) // never fails, see crypto/rand
	return k
}

// NewBeatKey makes the key of a node's beats, for [heartbeat.Create] and
// [Config].
func NewBeatKey() []byte { return newKey() }
