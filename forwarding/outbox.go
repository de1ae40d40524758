package forwarding

import (
	"context"
	"sync"

	"permd/api"
)

// Conn is the held connection of a registration, after hello and welcome; an
// [*api.Conn] is one. One goroutine reads, any number write, and a peer that
// does not read ends the connection, not the writer's patience.
type Conn interface {
	Read() (api.Frame, error)
	Write(t string, n uint64, body any) error
	Close() error
}

var _ Conn = (*api.Conn)(nil)

// maxOutbox is how many frames may wait for a peer that does not read.
const maxOutbox = 256

// outbox sends frames to a peer in order. Wake-ups that have not been sent yet
// are one.
type outbox struct {
	conn Conn

	mu      sync.Mutex
	queue   []frame
	wake    bool
	quiet   bool // the peer needs no wake-ups
	sending bool // somebody is in send
	over    bool // nothing can be sent any more
	there   chan struct{}
}

type frame struct {
	t    string
	n    uint64
	body any
}

func newOutbox(c Conn) *outbox { return &outbox{conn: c, there: make(chan struct{}, 1)} }

// push queues a frame and makes nobody wait. A peer that lets too many wait is
// given up.
func (o *outbox) push(t string, n uint64, body any) {
	o.mu.Lock()
	if o.queue = append(o.queue, frame{t, n, body}); len(o.queue) > maxOutbox {
		o.over = true
	}
	o.mu.Unlock()
	select {
	case o.there <- struct{}{}:
	default:
	}
}

// wakeUp tells the peer that there is mail. It writes on the caller's
// goroutine, which spares a switch on the way of every ask, unless somebody is
// writing already, who then does it.
func (o *outbox) wakeUp() {
	o.mu.Lock()
	o.wake = !o.quiet
	o.mu.Unlock()
	o.send()
}

// setQuiet notes whether the peer needs wake-ups.
func (o *outbox) setQuiet(quiet bool) {
	o.mu.Lock()
	o.quiet = quiet
	o.mu.Unlock()
}

// send writes what waits, unless somebody else is at it and will.
func (o *outbox) send() {
	for {
		o.mu.Lock()
		if o.sending || o.over || !o.wake && len(o.queue) == 0 {
			o.mu.Unlock()
			return
		}
		queue, wake := o.queue, o.wake
		o.queue, o.wake, o.sending = nil, false, true
		o.mu.Unlock()
		ok := !wake || o.conn.Write(api.TWake, 0, nil) == nil
		for _, f := range queue {
			ok = ok && o.conn.Write(f.t, f.n, f.body) == nil
		}
		o.mu.Lock()
		o.sending, o.over = false, o.over || !ok
		o.mu.Unlock()
	}
}

// run sends what was pushed until ctx is done or the connection breaks, then
// closes it.
func (o *outbox) run(ctx context.Context) {
	// A write that blocks on a stopped peer ends with the connection.
	stop := context.AfterFunc(ctx, func() { _ = o.conn.Close() })
	defer stop()
	defer o.conn.Close()
	for {
		o.send()
		o.mu.Lock()
		over := o.over
		o.mu.Unlock()
		if over {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-o.there:
		}
	}
}
