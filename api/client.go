package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"permd/ask"
)

// Dial connects to the socket at path and says hello.
func Dial(ctx context.Context, path string, h Hello) (*Conn, Welcome, error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, Welcome{}, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	c := NewConn(raw)
	w, err := c.Hello(h)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, w, err
	}
	return c, w, nil
}

// Probe asks the node at path which of its sessions serve. Its serving loop
// answers, so an answer proves that the loop runs.
func Probe(ctx context.Context, path, build string) (Welcome, error) {
	c, w, err := Dial(ctx, path, Hello{Role: RoleProbe, Build: build})
	if err != nil {
		return w, err
	}
	return w, c.Close()
}

// Control is a connection for operations, one at a time.
type Control struct {
	c *Conn
	n uint64
}

// DialControl opens one.
func DialControl(ctx context.Context, path, build string) (*Control, error) {
	c, _, err := Dial(ctx, path, Hello{Role: RoleControl, Build: build})
	if err != nil {
		return nil, err
	}
	return &Control{c: c}, nil
}

// Close ends it.
func (c *Control) Close() error { return c.c.Close() }

// Call runs op and decodes its result, unless result is nil. The error is a
// *Refused when the server said no.
func (c *Control) Call(ctx context.Context, op string, args, result any) error {
	call := Call{Op: op}
	if args != nil {
		raw, err := ask.Encode(args)
		if err != nil {
			return err
		}
		call.Args = raw
	}
	c.n++
	stop := context.AfterFunc(ctx, func() { c.c.Close() })
	defer stop()
	if err := c.c.Write(TCall, c.n, call); err != nil {
		return err
	}
	for {
		f, err := c.c.Read()
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return fmt.Errorf("%s: %w", op, err)
		}
		switch {
		case f.N != c.n:
			continue
		case f.T == TError || f.T == TRefused:
			var r Refused
			if err := f.Body(&r); err != nil {
				return err
			}
			return &r
		case f.T == TResult && result == nil:
			return nil
		case f.T == TResult:
			return f.Body(result)
		}
	}
}

// Event is one thing a server told an answerer: the decoded body of a frame of
// type snapshot, ask, settled, delivered, sessions or notice.
type Event any

// Answerer is a connection that gets asks and gives answers.
type Answerer struct {
	c       *Conn
	welcome Welcome
	mu      sync.Mutex
	n       uint64
	wait    map[uint64]chan AnswerVerdict
	closed  bool
}

// DialAnswerer attaches to the node or desk at path.
func DialAnswerer(ctx context.Context, path, build string, a Attach) (*Answerer, error) {
	c, w, err := Dial(ctx, path, Hello{Role: RoleAnswerer, Build: build})
	if err != nil {
		return nil, err
	}
	if err := c.Write(TAttach, 0, a); err != nil {
		c.Close()
		return nil, err
	}
	return &Answerer{c: c, welcome: w, wait: map[uint64]chan AnswerVerdict{}}, nil
}

// Welcome is what the server said of itself.
func (a *Answerer) Welcome() Welcome { return a.welcome }

// Close ends the connection; Run and waiting Answers return.
func (a *Answerer) Close() error { return a.c.Close() }

// Run reads until the connection or ctx ends and gives each event to f, in
// order. It must run for [Answerer.Answer] to return. The first event is a
// *Snapshot.
func (a *Answerer) Run(ctx context.Context, f func(Event)) error {
	stop := context.AfterFunc(ctx, func() { a.c.Close() })
	defer stop()
	defer a.end()
	for {
		fr, err := a.c.Read()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := a.event(fr, f); err != nil {
			a.c.Close()
			return err
		}
	}
}

func (a *Answerer) event(fr Frame, f func(Event)) error {
	var v any
	switch fr.T {
	case TVerdict:
		var x AnswerVerdict
		if err := fr.Body(&x); err != nil {
			return err
		}
		a.mu.Lock()
		ch := a.wait[fr.N]
		delete(a.wait, fr.N)
		a.mu.Unlock()
		if ch != nil { // an unsolicited verdict is dropped
			ch <- x
		}
		return nil
	case TRefused:
		var r Refused
		if err := fr.Body(&r); err != nil {
			return err
		}
		return &r
	case TSnapshot:
		v = new(Snapshot)
	case TAsk:
		v = new(Shown)
	case TSettled:
		v = new(Settled)
	case TDeliver:
		v = new(Delivered)
	case TSessions:
		v = new(Sessions)
	case TNotice:
		v = new(Notice)
	default:
		return nil // a newer server says more than we understand
	}
	if err := fr.Body(v); err != nil {
		return err
	}
	f(v)
	return nil
}

func (a *Answerer) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for n, ch := range a.wait {
		close(ch)
		delete(a.wait, n)
	}
}

// ErrGone means the connection ended before the verdict came: whether the
// answer counted is not known.
var ErrGone = errors.New("the connection ended before the verdict came")

// Answer sends an answer and waits for its verdict.
func (a *Answerer) Answer(ctx context.Context, ans ask.Answer) (AnswerVerdict, error) {
	ch := make(chan AnswerVerdict, 1)
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return AnswerVerdict{}, ErrGone
	}
	a.n++
	n := a.n
	a.wait[n] = ch
	a.mu.Unlock()
	if err := a.c.Write(TAnswer, n, ans); err != nil {
		return AnswerVerdict{}, fmt.Errorf("%w: %w", ErrGone, err)
	}
	select {
	case v, ok := <-ch:
		if !ok {
			return v, ErrGone
		}
		return v, nil
	case <-ctx.Done():
		return AnswerVerdict{}, ctx.Err()
	}
}

// Faces reports how many faces are attached now.
func (a *Answerer) Faces(n int) error { return a.c.Write(TFaces, 0, Faces{n}) }

// OnScreen reports that a person can see the ask; Hide that this surface lost
// or hid it.
func (a *Answerer) OnScreen(id string) error { return a.c.Write(TOnScreen, 0, OnScreen{id}) }

// Hide takes this surface out of the ask.
func (a *Answerer) Hide(id string) error { return a.c.Write(THide, 0, OnScreen{id}) }
