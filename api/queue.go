package api

import (
	"errors"
	"fmt"
	"sync"
)

// Bounds of what waits for a peer, or for our own consumer, that is slow.
const (
	MaxPending      = 4096
	MaxPendingBytes = 64 << 20
)

// ErrSlow ends a connection on which too much is left unread. Nothing is ever
// dropped from the middle of a stream.
var ErrSlow = errors.New("too much is left unread")

// queue is what is written by a goroutine of its own.
type queue struct {
	mu    sync.Mutex
	list  [][]byte
	bytes int
	err   error         // why nothing more is taken
	more  chan struct{} // cap 1: list or err changed
}

// Queue makes writes from now on return at once, in order and without waiting
// for the peer, so that one stuck surface holds up no other. A peer that lets
// [MaxPending] frames or [MaxPendingBytes] wait is given up with [ErrSlow].
//
// A goroutine writes. The caller ends it with end, which writes what is still
// queued, as long as the peer takes it, closes the connection and waits.
func (c *Conn) Queue() (end func()) {
	q := &queue{more: make(chan struct{}, 1)}
	if !c.queue.CompareAndSwap(nil, q) {
		return func() { c.Close() } // it is queued already, by its owner
	}
	var work sync.WaitGroup
	work.Go(func() { q.run(c) })
	return func() {
		q.stop(errQueueEnded)
		work.Wait()
		c.Close()
	}
}

var errQueueEnded = errors.New("the connection is being closed")

func (q *queue) put(b []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	if len(q.list) >= MaxPending || q.bytes+len(b) > MaxPendingBytes {
		q.err = fmt.Errorf("%w: %d frames of %d bytes", ErrSlow, len(q.list), q.bytes)
		q.list = nil
		q.wakeLocked()
		return q.err
	}
	q.list = append(q.list, b)
	q.bytes += len(b)
	q.wakeLocked()
	return nil
}

// stop takes nothing more.
func (q *queue) stop(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.wakeLocked()
}

func (q *queue) wakeLocked() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// take returns the next frame, nil with an error when there will be none.
func (q *queue) take() ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return nil, q.err
	}
	b := q.list[0]
	q.list[0] = nil
	q.list = q.list[1:]
	q.bytes -= len(b)
	return b, nil
}

func (q *queue) run(c *Conn) {
	for {
		b, err := q.take()
		switch {
		case err != nil:
			return
		case b == nil:
			<-q.more
		default:
			if err := c.writeBytes(b); err != nil {
				q.stop(err)
			}
		}
	}
}
