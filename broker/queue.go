package broker

import (
	"context"
	"sync"
)

// queue runs calls to one answerer in order, on one goroutine. It has no
// bound of its own: an open ask puts at most three calls into it, and whoever
// owns a connection ends a registration that does not keep up.
type queue struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	wake   chan struct{}

	mu     sync.Mutex
	calls  []func(context.Context)
	closed bool
}

func newQueue() queue {
	ctx, cancel := context.WithCancel(context.Background())
	return queue{ctx: ctx, cancel: cancel, done: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// put adds a call; after close it is dropped.
func (q *queue) put(f func(context.Context)) {
	q.mu.Lock()
	if !q.closed {
		q.calls = append(q.calls, f)
	}
	q.mu.Unlock()
	q.poke()
}

// close drops what was not called yet and ends the context of what runs.
func (q *queue) close() {
	q.mu.Lock()
	q.closed, q.calls = true, nil
	q.mu.Unlock()
	q.cancel()
	q.poke()
}

func (q *queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run calls until close.
func (q *queue) run() {
	defer close(q.done)
	for {
		q.mu.Lock()
		calls, closed := q.calls, q.closed
		q.calls = nil
		q.mu.Unlock()
		if closed {
			return
		}
		for _, f := range calls {
			contained(func() { f(q.ctx) })
			if q.ctx.Err() != nil {
				return
			}
		}
		if len(calls) == 0 {
			<-q.wake
		}
	}
}

// contained calls f and keeps a panic of it from spreading: an answerer's
// fault is not the ask's.
func contained(f func()) (ok bool) {
	defer func() {
		if !ok {
			recover() //nolint:errcheck // the value is the answerer's own
		}
	}()
	f()
	return true
}
