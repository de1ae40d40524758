package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"permd/api"
	"permd/ask"
	"permd/internal/host"
)

// link is the desk's connection to one node, made anew as long as the node's
// lock is held.
type link struct {
	d    *desk
	node string

	// Guarded by d.mu.
	up       *line // nil while there is no connection
	sessions []api.SessionState
}

// line is one held connection to a node.
type line struct {
	a     *api.Answerer
	calls chan func(*api.Answerer) error
	ended chan struct{} // closed when nothing more is sent
	work  sync.WaitGroup

	turns map[string]chan struct{} // the last answer to each ask; guarded by desk.mu
}

// maxCalls is how much may wait to be said to a node before it is given up.
const maxCalls = 1024

// youngFor is how long a node whose directory has just been made may take to
// lock it and listen.
const youngFor = 5 * time.Second

// Waits between attempts to connect.
const (
	retryFirst   = 5 * time.Millisecond
	retryLast    = 200 * time.Millisecond
	retryRefused = 2 * time.Second
)

// linksLocked are the links in the order of their nodes' ids.
func (d *desk) linksLocked() []*link {
	return slices.SortedFunc(maps.Values(d.links), func(a, b *link) int { return cmp.Compare(a.node, b.node) })
}

// connect makes sure that a node has a link. young is true for a node that may
// not have its lock yet.
func (d *desk) connect(ctx context.Context, node string, young bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.links[node] != nil || ctx.Err() != nil {
		return
	}
	l := &link{d: d, node: node}
	d.links[node] = l
	d.work.Go(func() {
		l.run(ctx, young)
		d.mu.Lock()
		delete(d.links, node)
		d.mu.Unlock()
		d.treeChanged()
	})
}

// run attaches to the node until it is dead.
func (l *link) run(ctx context.Context, young bool) {
	born := time.Now()
	wait, complained := retryFirst, false
	for ctx.Err() == nil {
		err := l.attach(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			wait = retryFirst
		}
		if !l.alive() && (!young || time.Since(born) > youngFor) {
			return
		}
		var no *api.Refused
		if errors.As(err, &no) {
			if !complained {
				complained = true
				l.d.notice(nil, api.Notice{Kind: "error", Text: "node " + l.node + " does not let the desk in: " + no.Text})
			}
			wait = retryRefused
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, retryLast)
	}
}

// alive reports whether the node holds its lock. One that cannot be looked at
// is not.
func (l *link) alive() bool {
	held, err := host.Held(l.d.opt.Dirs.Node(l.node).Lock())
	return err == nil && held
}

// attach holds one connection to its end. The error is nil when there was one.
func (l *link) attach(ctx context.Context) error {
	d := l.d
	d.mu.Lock()
	faces := d.facesLocked()
	d.mu.Unlock()
	a, err := api.DialAnswerer(ctx, d.opt.Dirs.Node(l.node).Sock(), d.opt.Build,
		api.Attach{Surface: Name, Faces: faces, Cap: ask.ScopeUser})
	if err != nil {
		return err
	}
	s := &line{a: a, calls: make(chan func(*api.Answerer) error, maxCalls), ended: make(chan struct{}), turns: map[string]chan struct{}{}}
	s.work.Go(s.write)
	d.mu.Lock()
	l.up = s
	if n := d.facesLocked(); n != faces {
		l.send(func(a *api.Answerer) error { return a.Faces(n) })
	}
	d.mu.Unlock()

	err = a.Run(ctx, func(e api.Event) { l.event(e) })
	a.Close()

	d.mu.Lock()
	l.up = nil
	close(s.ended)
	d.mu.Unlock()
	s.work.Wait()
	l.lost(ctx, err)
	return nil
}

// diesWithin is how long after its socket a dying process may still hold its
// lock.
const diesWithin = 100 * time.Millisecond

// lost takes what the node held off every face.
func (l *link) lost(ctx context.Context, err error) {
	d := l.d
	why, outcome := "its agent ended", ask.Withdrawn
	for until := time.Now().Add(diesWithin); l.alive() && ctx.Err() == nil; {
		if time.Now().After(until) {
			why, outcome = "the connection to its node was lost; it comes back if it still waits", ask.Unavailable
			if err != nil {
				d.notice(nil, api.Notice{Kind: "error", Text: fmt.Sprintf("node %s: %s", l.node, ask.ExcerptLine(err.Error(), 200))})
			}
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
	if ctx.Err() != nil {
		return // the desk ends, the asks do not
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l.sessions = nil
	d.tellLocked(d.board.gone(l.node, why, outcome, time.Now())...)
	d.treeChanged()
}

// event takes what the node says.
func (l *link) event(e api.Event) {
	d, now := l.d, time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch e := e.(type) {
	case *api.Snapshot:
		for _, s := range e.Asks {
			d.tellLocked(d.board.arrive(l.node, s, now)...)
		}
		l.sessions = e.Sessions.Sessions
		d.treeChanged()
	case *api.Shown:
		d.tellLocked(d.board.arrive(l.node, *e, now)...)
	case *api.Settled:
		d.tellLocked(d.board.settled(l.node, *e, now)...)
	case *api.Delivered:
		d.tellLocked(d.board.delivered(l.node, *e)...)
	case *api.Sessions:
		l.sessions = e.Sessions
		d.treeChanged()
	case *api.Notice:
		n := *e
		if n.Kind == NoticeEnded {
			n.Kind = "node" // only the desk speaks for the desk
		}
		d.tellLocked(said{t: api.TNotice, body: n})
	}
}

// send queues something to be said to the node, if there is a connection. One
// that does not read is given up. d.mu is held.
func (l *link) send(f func(*api.Answerer) error) {
	if l.up == nil {
		return
	}
	select {
	case l.up.calls <- f:
	default:
		l.up.a.Close()
	}
}

// write says to the node what is queued, in order.
func (s *line) write() {
	for {
		select {
		case <-s.ended:
			return
		case f := <-s.calls:
			if f(s.a) != nil {
				s.a.Close()
			}
		}
	}
}

// turn makes answers to one ask wait for each other, so that who was first is
// known when the next one is told. d.mu is held.
func (s *line) turn(id string) (wait <-chan struct{}, done func(d *desk)) {
	before, own := s.turns[id], make(chan struct{})
	s.turns[id] = own
	return before, func(d *desk) {
		close(own)
		d.mu.Lock()
		defer d.mu.Unlock()
		if s.turns[id] == own {
			delete(s.turns, id)
		}
	}
}
