package api

import (
	"context"
	"errors"
	"sync"
)

// Event is what a server says unasked: [*Snapshot], [*Shown], [*Settled],
// [*Delivered], [*Sessions] or [*Notice] to an answerer; [*Serving],
// [*OnScreen] or [*Wake] to a child; [*Notice] of kind [NoticeMalformed] to
// both, for a message that could not be read and was passed over.
type Event interface{ event() }

// Wake says: look into your mailbox.
type Wake struct{}

func (Snapshot) event()  {}
func (Shown) event()     {}
func (Settled) event()   {}
func (Delivered) event() {}
func (Sessions) event()  {}
func (Notice) event()    {}
func (Serving) event()   {}
func (OnScreen) event()  {}
func (Wake) event()      {}

// NoticeMalformed is the kind of notice for a message that was passed over.
const NoticeMalformed = "malformed"

// ErrGone means the connection ended before a reply came: whether the request
// counted is not known.
var ErrGone = errors.New("the connection ended before the reply came")

// stream is the client's side of a held connection.
type stream struct {
	conn    *Conn
	welcome Welcome
	first   []Event // handed out before anything is read

	mu      sync.Mutex
	n       uint64
	waiting map[uint64]chan Frame
	ended   bool
	events  []pending
	bytes   int
	more    chan struct{} // cap 1
}

type pending struct {
	event Event
	size  int
}

func newStream(c *Conn, w Welcome, first ...Event) *stream {
	return &stream{conn: c, welcome: w, first: first, waiting: map[uint64]chan Frame{}, more: make(chan struct{}, 1)}
}

// Welcome is what the server said of itself.
func (s *stream) Welcome() Welcome { return s.welcome }

// Close ends the connection; Run and waiting requests return.
func (s *stream) Close() error { return s.conn.Close() }

// run reads until the connection or ctx ends and gives each event to f, in
// order. Reading goes on while f is busy, so f may wait for a reply; when it
// leaves [MaxPending] events the connection ends with [ErrSlow].
func (s *stream) run(ctx context.Context, f func(Event), decode func(Frame) (Event, error)) error {
	stop := context.AfterFunc(ctx, func() { s.conn.Close() })
	defer stop()
	read := make(chan error, 1)
	go func() {
		err := s.readAll(decode)
		s.conn.Close()
		s.end()
		read <- err
	}()
	for _, e := range s.first {
		f(e)
	}
	s.first = nil
	for {
		for e := s.pop(); e != nil; e = s.pop() {
			f(e)
		}
		select {
		case <-s.more:
		case err := <-read:
			for e := s.pop(); e != nil; e = s.pop() {
				f(e)
			}
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// readAll reads frames until the connection ends. A body that cannot be read
// is told to both sides and passed over, so that one bad ask does not cost a
// surface all others.
func (s *stream) readAll(decode func(Frame) (Event, error)) error {
	for {
		f, err := s.conn.Receive()
		if err != nil {
			return err
		}
		var e Event
		switch f.T {
		case TRefused:
			return f.refused()
		case TError, TUnknown, TVerdict, TResult:
			s.reply(f)
			continue
		default:
			e, err = decode(f)
		}
		if err != nil {
			if err := s.conn.Fail(f.N, CodeBad, err.Error()); err != nil {
				return err
			}
			e = &Notice{Kind: NoticeMalformed, Text: err.Error()}
		}
		if e == nil {
			if err := s.conn.Unknown(f); err != nil {
				return err
			}
			continue
		}
		if err := s.push(e, len(f.B)); err != nil {
			return err
		}
	}
}

func (s *stream) push(e Event, size int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events) >= MaxPending || s.bytes+size > MaxPendingBytes {
		return ErrSlow
	}
	s.events = append(s.events, pending{e, size})
	s.bytes += size
	select {
	case s.more <- struct{}{}:
	default:
	}
	return nil
}

func (s *stream) pop() Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events) == 0 {
		return nil
	}
	p := s.events[0]
	s.events[0] = pending{}
	s.events = s.events[1:]
	s.bytes -= p.size
	return p.event
}

// reply hands a frame to the request it answers; one that nobody waits for is
// dropped.
func (s *stream) reply(f Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.waiting[f.N]; w != nil {
		delete(s.waiting, f.N)
		w <- f
	}
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for n, w := range s.waiting {
		close(w)
		delete(s.waiting, n)
	}
}

// request sends a frame and waits for the one that answers it.
func (s *stream) request(ctx context.Context, t string, body any) (Frame, error) {
	w := make(chan Frame, 1)
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return Frame{}, ErrGone
	}
	s.n++
	n := s.n
	s.waiting[n] = w
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, n)
	}()
	if err := s.conn.Write(t, n, body); err != nil {
		return Frame{}, err
	}
	select {
	case f, ok := <-w:
		if !ok {
			return Frame{}, ErrGone
		}
		return f, nil
	case <-ctx.Done():
		return Frame{}, context.Cause(ctx)
	}
}

func decodeEvent[T any, P interface {
	*T
	Event
}](f Frame) (Event, error) {
	v := P(new(T))
	if err := f.Body(v); err != nil {
		return nil, err
	}
	return v, nil
}
