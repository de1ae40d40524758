package forwarding

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"permd/api"
	"permd/ask"
	"permd/liveness"
)

// connectTimeout bounds a registration. A hook waits longer for a word.
const connectTimeout = 2 * time.Second

// UplinksConfig is what a node's links to its parents' nodes are made of.
type UplinksConfig struct {
	// Server is this node's server, whose loop takes the decisions in.
	Server *Server
	// Dial opens a connection of role child to a node: [api.Dial] with its
	// socket. It should make sure that the peer is the process that the node's
	// facts name. Nil, or an error that is [ErrShared], means that the node has
	// only the directory in common with us.
	Dial func(ctx context.Context, node string) (Conn, error)
	// Describe fills in a registration with a parent's node: the client's pid
	// and start time, the ticket, and those of our sessions whose parent that
	// node may host. Node and Instance are the server's.
	Describe func(parent string) api.Register
	// Changed is called after a parent told who serves, or was lost. It must
	// not block. May be nil.
	Changed func(node string)
	// Unauthenticated allows links without a connection.
	Unauthenticated bool
	// InstanceOf says which life of a node runs, for links without a
	// connection; a node's facts know.
	InstanceOf func(node string) (string, error)
}

// ErrShared is for Dial to say that there is no socket to reach the node by.
var ErrShared = errors.New("the node can only be reached through its directory")

// Uplinks are a node's registrations with the nodes of its parents, one a
// node, made when first needed.
type Uplinks struct {
	cfg UplinksConfig
	ctx context.Context
	end context.CancelCauseFunc
	run sync.WaitGroup

	mu    sync.Mutex
	links map[string]*link
}

// link is one registration, on the child's side.
type link struct {
	u       *Uplinks
	node    string
	ctx     context.Context // ends with the link
	cancel  context.CancelCauseFunc
	tried   chan struct{} // closed when registering has ended, with err
	err     error
	lost    chan struct{} // closed when nothing can come any more
	conn    Conn          // nil without authentication
	out     *outbox
	key     []byte
	beatKey []byte
	// instance is the parent's life that we are registered with.
	instance string
	sent     atomic.Uint64
	in       window // of the server's turn

	mu       sync.Mutex
	serving  []string
	verified map[string]api.Proof
	waits    map[askKey]*wait

	judged  time.Time // the last judgement, shared by all waits
	verdict liveness.Verdict
	asked   string // session it was about
}

// NewUplinks returns the links of a node, none of which exists yet.
func NewUplinks(cfg UplinksConfig) *Uplinks {
	u := &Uplinks{cfg: cfg, links: map[string]*link{}}
	u.ctx, u.end = context.WithCancelCause(context.Background())
	return u
}

// Close ends all links and waits for what serves them.
func (u *Uplinks) Close() {
	u.end(ErrEnded)
	u.run.Wait()
}

// Connect makes sure of a registration with a node, for as long as that node
// lives. Its error says why there is none; [*api.Refused] is the node's own.
func (u *Uplinks) Connect(ctx context.Context, node string) error {
	_, err := u.link(ctx, node)
	return err
}

// link returns the living registration with node, or makes one. Callers at the
// same time share it.
func (u *Uplinks) link(ctx context.Context, node string) (*link, error) {
	u.mu.Lock()
	if u.ctx.Err() != nil {
		u.mu.Unlock()
		return nil, ErrEnded
	}
	l := u.links[node]
	if l == nil {
		l = &link{u: u, node: node, tried: make(chan struct{}), lost: make(chan struct{}),
			waits: map[askKey]*wait{}, verified: map[string]api.Proof{}}
		l.ctx, l.cancel = context.WithCancelCause(u.ctx)
		u.links[node] = l
		// It belongs to all who wait for it, so no caller's end ends it.
		u.run.Go(func() { l.live() })
	}
	u.mu.Unlock()
	select {
	case <-l.tried:
		return l, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// live is a link's life.
func (l *link) live() {
	srv := l.u.cfg.Server
	defer l.cancel(nil)
	ctx, cancel := context.WithTimeout(l.ctx, connectTimeout)
	err := l.register(ctx)
	cancel()
	if err != nil {
		l.err = fmt.Errorf("register with node %s: %w", l.node, err)
		l.forget()
		close(l.tried)
		close(l.lost)
		return
	}
	if h, ok := srv.cfg.Transport.(holder); ok {
		defer h.Hold()()
	}
	srv.attach(l)
	if srv.isQuiet() {
		l.pushSessions()
	}
	close(l.tried)
	if l.conn == nil {
		err = srv.cfg.Transport.Alive(l.ctx, l.node)
	} else {
		var sender sync.WaitGroup
		sender.Go(func() { l.out.run(l.ctx) })
		err = l.hear()
		l.cancel(err)
		sender.Wait()
	}
	l.cancel(err)
	l.forget()
	// What the parent decided before it went is there already, and counts.
	srv.drain(l.u.ctx)
	srv.detach(l.u.ctx, l)
	close(l.lost)
	if l.u.cfg.Changed != nil {
		l.u.cfg.Changed(l.node)
	}
}

// forget makes room for the next registration with the node.
func (l *link) forget() {
	l.u.mu.Lock()
	defer l.u.mu.Unlock()
	if l.u.links[l.node] == l {
		delete(l.u.links, l.node)
	}
}

// register opens the connection and registers.
func (l *link) register(ctx context.Context) error {
	u := l.u
	srv := u.cfg.Server
	conn, err := Conn(nil), ErrShared
	if u.cfg.Dial != nil {
		conn, err = u.cfg.Dial(ctx, l.node)
	}
	if errors.Is(err, ErrShared) && u.cfg.Unauthenticated {
		l.key = sharedKey
		l.instance, err = u.cfg.InstanceOf(l.node)
		return err
	}
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	reg := u.cfg.Describe(l.node)
	reg.Node, reg.Instance = srv.cfg.Node, srv.cfg.Instance
	if reg.Sessions == nil {
		reg.Sessions = []api.ChildSession{}
	}
	got, err := handshake(conn, reg)
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer in %s: %w", connectTimeout, err)
		}
		return err
	}
	key, err := hex.DecodeString(got.Key)
	beat, err2 := hex.DecodeString(got.BeatKey)
	if err = errors.Join(err, err2); err != nil || len(key) != 32 || got.Node != l.node {
		conn.Close()
		return fmt.Errorf("node %s answered in the place of %s, or without a key", ask.Quote(got.Node), l.node)
	}
	l.conn, l.out, l.key, l.instance = conn, newOutbox(conn), key, got.Instance
	if len(beat) > 0 {
		l.beatKey = beat
	}
	l.told(got.Serving, got.Verified)
	return nil
}

func handshake(conn Conn, reg api.Register) (api.Registered, error) {
	var got api.Registered
	if err := conn.Write(api.TRegister, 1, reg); err != nil {
		return got, err
	}
	f, err := conn.Read()
	if err != nil {
		return got, err
	}
	switch f.T {
	case api.TRegistered:
		return got, ask.Decode(f.B, maxRegister, &got)
	case api.TRefused:
		r := new(api.Refused)
		if err := ask.Decode(f.B, ask.MaxMessage, r); err != nil {
			return got, err
		}
		return got, r
	}
	return got, fmt.Errorf("answered register with %s", ask.Quote(f.T))
}

// hear reads the connection to its end.
func (l *link) hear() error {
	for {
		f, err := l.conn.Read()
		if err != nil {
			return err
		}
		switch f.T {
		case api.TWake:
			if w, ok := l.u.cfg.Server.cfg.Transport.(waker); ok {
				w.Wake()
			}
		case api.TServing:
			var s api.Serving
			if err := ask.Decode(f.B, maxRegister, &s); err != nil {
				return fmt.Errorf("serving: %w", err)
			}
			l.out.setQuiet(s.Quiet)
			l.told(s.Sessions, s.Verified)
			if c := l.u.cfg.Changed; c != nil {
				c(l.node)
			}
		case api.TOnScreen:
			var o api.OnScreen
			if err := ask.Decode(f.B, ask.MaxMessage, &o); err != nil {
				return fmt.Errorf("shown: %w", err)
			}
			l.mu.Lock()
			for k, w := range l.waits {
				if k.id == o.Ask {
					w.onScreen()
				}
			}
			l.mu.Unlock()
		case api.TUnknown:
		default:
			l.out.push(api.TUnknown, f.N, nil)
		}
	}
}

// told takes in who serves and who is proved, and stirs the waits.
func (l *link) told(serving []string, proofs []api.Proof) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving = serving
	clear(l.verified)
	for _, p := range proofs {
		l.verified[p.Session] = p
	}
	for _, w := range l.waits {
		w.stir()
	}
}

// proof is how the parent of one of our sessions was proved there, "" if it
// was not.
func (l *link) proof(session, parent string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.verified[session]; p.Parent == parent {
		return p.How
	}
	return ""
}

// Changed tells every parent's node that our sessions, or whom they name as
// parents, have changed.
func (u *Uplinks) Changed() {
	u.mu.Lock()
	links := make([]*link, 0, len(u.links))
	for _, l := range u.links {
		links = append(links, l)
	}
	u.mu.Unlock()
	for _, l := range links {
		select {
		case <-l.tried:
			if l.err == nil && l.conn != nil {
				l.pushSessions()
			}
		default: // it will register with what is true then
		}
	}
}

// pushSessions tells the parent's node our sessions, and whether to wake us.
// It calls the node back: hold no lock.
func (l *link) pushSessions() {
	if l.conn == nil {
		return
	}
	list := l.u.cfg.Describe(l.node).Sessions
	if list == nil {
		list = []api.ChildSession{}
	}
	l.out.push(api.TChildren, 0, api.Children{Sessions: list, Quiet: l.u.cfg.Server.isQuiet()})
}

// State is what is known of a living link.
type State struct {
	Instance string
	// BeatKey authenticates the node's beats, for [liveness.Target].
	BeatKey  []byte
	Serving  []string
	Verified []api.Proof
}

// State returns the state of the link to a node; ok is false when there is
// none.
func (u *Uplinks) State(node string) (st State, ok bool) {
	u.mu.Lock()
	l := u.links[node]
	u.mu.Unlock()
	if l == nil {
		return State{}, false
	}
	select {
	case <-l.tried:
	default:
		return State{}, false
	}
	if l.err != nil {
		return State{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	st = State{Instance: l.instance, BeatKey: l.beatKey, Serving: slices.Clone(l.serving)}
	for _, p := range l.verified {
		st.Verified = append(st.Verified, p)
	}
	return st, true
}

// drain takes what has arrived so far.
func (s *Server) drain(ctx context.Context) {
	_ = s.call(ctx, func() {
		if w, ok := s.cfg.Transport.(waker); ok {
			w.Wake()
		}
		for range maxDrain {
			more, err := s.cfg.Transport.Take(s.handle)
			if err != nil || !more {
				return
			}
		}
	})
}

const maxDrain = 16

// attach lets the server's loop find a link; detach ends that.
func (s *Server) attach(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ups[l.node] = l
}

func (s *Server) detach(ctx context.Context, l *link) {
	s.mu.Lock()
	last := s.ups[l.node] == l
	if last {
		delete(s.ups, l.node)
	}
	s.mu.Unlock()
	if !last {
		return // registered again: what lies there is for the new link
	}
	// What the dead parent left here is nobody's now.
	_ = s.call(ctx, func() {
		s.mu.Lock()
		gone := s.ups[l.node] == nil && s.peers[l.node] == nil
		s.mu.Unlock()
		if w, ok := s.cfg.Transport.(sweeper); ok && gone {
			w.Sweep(l.node)
		}
	})
}
