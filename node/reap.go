package node

import (
	"context"
	"errors"
	"strconv"
	"time"

	"permd/review"
	"permd/session"
)

// reap removes what dead nodes left behind, once in a node's life. It is no
// part of starting, which nobody shall wait longer for.
func (n *Node) reap(ctx context.Context) error {
	gone, err := session.Reap(n.cfg.Dirs)
	for _, id := range gone {
		n.up.judge.Forget(id)
	}
	if err != nil {
		n.warn("", "removing what dead nodes left: "+err.Error())
	}
	if len(gone) > 0 {
		n.record(review.Event{Name: review.Reaped, Fields: []review.Field{
			{Key: review.KeyNode, Value: gone[0]}, {Key: review.KeyCount, Value: strconv.Itoa(len(gone))}}})
	}
	return nil
}

// openLog opens this node's log. A node that reaps may be closing it just now,
// for a predecessor of ours that was killed.
func openLog(ctx context.Context, o review.Options) (*review.Log, error) {
	for until := time.Now().Add(2 * time.Second); ; {
		l, err := review.Open(o)
		if !errors.Is(err, review.ErrInUse) || time.Now().After(until) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
