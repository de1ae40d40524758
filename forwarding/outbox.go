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

// outbox sends frames to a peer without making anybody wait for it. Wake-ups
// that have not been sent yet are one.
type outbox struct {
	mu    sync.Mutex
	queue []frame
	wake  bool
	full  bool
	there chan struct{}
}

type frame struct {
	t    string
	n    uint64
	body any
}

func newOutbox() *outbox { return &outbox{there: make(chan struct{}, 1)} }

// push queues a frame; a peer that lets too many wait is given up.
func (o *outbox) push(t string, n uint64, body any) {
	o.mu.Lock()
	switch {
	case t == api.TWake:
		o.wake = true
	case len(o.queue) >= maxOutbox:
		o.full = true
	default:
		o.queue = append(o.queue, frame{t, n, body})
	}
	o.mu.Unlock()
	select {
	case o.there <- struct{}{}:
	default:
	}
}

// run sends until ctx is done or the connection breaks, then closes it.
func (o *outbox) run(ctx context.Context, c Conn) {
	// A write that blocks on a stopped peer ends with the connection.
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer c.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.there:
		}
		o.mu.Lock()
		queue, wake, full := o.queue, o.wake, o.full
		o.queue, o.wake = nil, false
		o.mu.Unlock()
		if full {
			return
		}
		if wake && c.Write(api.TWake, 0, nil) != nil {
			return
		}
		for _, f := range queue {
			if c.Write(f.t, f.n, f.body) != nil {
				return
			}
		}
	}
}
