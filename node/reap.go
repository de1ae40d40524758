package node

import (
	"context"
	"errors"
	"strconv"
	"time"

	"permd/review"
	"permd/session"
)

// A node tries so often, so far apart, to reap what others left.
const (
	reapTries = 4
	reapEvery = time.Second
)

// reap removes what dead nodes left behind, in the first seconds of a node's life. It is no
// part of starting, which nobody shall wait longer for.
func (n *Node) reap(ctx context.Context) error {
	var gone []string
	var err error
	// Nothing is reaped while any node starts, our own start included.
	for range reapTries {
		var ids []string
		if ids, err = session.Reap(n.cfg.Dirs); err != nil {
			break
		}
		gone = append(gone, ids...)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reapEvery):
		}
	}
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
