package node

import (
	"context"
	"errors"
	"time"

	"permd/forwarding"
	"permd/liveness"
	"permd/selection"
)

// lookAgain is how often a lost parent is looked for within its grace.
const lookAgain = 100 * time.Millisecond

// reselect selects again for an ask of s whose parent was lost. The ask goes
// to whoever is named now; where that is nobody but the same parent, and nobody
// can answer here, the parent has [forwarding.Grace] to come back: a node that
// was killed is started again by its agent's next call. ok is false when nobody
// else and not even the parent is there to be asked.
func (n *Node) reselect(ctx context.Context, s *sess, lost *lostParent) (c selection.Choice, ok bool) {
	var idle *forwarding.NotServingError
	waited := errors.As(lost.err, &idle) // it had its grace
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for until := time.Now().Add(forwarding.Grace); ; {
		c = n.activate(ctx, s)
		if c.Authority != selection.Relay || c.Target.Session != lost.target {
			return c, true
		}
		if waited || time.Now().After(until) {
			return c, false
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return c, false
		}
		if n.up.look(ctx, s, c.Target).Answer == liveness.Yes {
			return c, true
		}
	}
}
