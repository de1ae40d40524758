package node

import (
	"context"
	"path/filepath"
	"time"

	"permd/internal/host"
	"permd/selection"
)

// deskGrace is how long a first ask waits for a running desk to find this
// node, and any ask for a desk that has just left to come back.
const deskGrace = 2 * time.Second

// awaitDesk waits a moment where nobody can answer although a desk is on its
// way: a running one finds a new node by a file event, which may come after
// that node's first ask; one that was killed is started again by the terminal
// that was attached to it. It reports whether somebody can answer now.
func (n *Node) awaitDesk(ctx context.Context, s *sess, c selection.Choice) bool {
	n.mu.Lock()
	dialog := s.host.Dialog
	n.mu.Unlock()
	if c.Authority == selection.Relay || dialog {
		return false
	}
	var timer *time.Timer
	for {
		n.mu.Lock()
		came, met, left := n.facesCame, n.faced, n.facesLeft
		n.mu.Unlock()
		if surfaces, devices := n.broker.Reach(); surfaces+devices > 0 {
			return timer != nil || c.Authority == selection.Deny // since the choice was made
		}
		if timer == nil {
			wait := deskGrace
			if met {
				wait -= time.Since(left)
			} else if held, err := host.Held(filepath.Join(n.cfg.Dirs.Desk(), "lock")); err != nil || !held {
				return false
			}
			if wait <= 0 {
				return false
			}
			timer = time.NewTimer(wait)
			defer timer.Stop()
		}
		select {
		case <-came:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
