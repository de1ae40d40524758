package node

import (
	"context"
	"path/filepath"
	"time"

	"permd/internal/host"
	"permd/selection"
)

// deskGrace is how long a first ask waits for a running desk to find this
// node.
const deskGrace = 2 * time.Second

// awaitDesk waits a moment where nobody can answer although a desk runs: it
// finds a new node by a file event, which may come after that node's first
// ask. It reports whether somebody attached.
func (n *Node) awaitDesk(ctx context.Context, s *sess, c selection.Choice) bool {
	n.mu.Lock()
	dialog := s.host.Dialog
	n.mu.Unlock()
	if c.Authority == selection.Relay || dialog {
		return false
	}
	if surfaces, devices := n.broker.Reach(); surfaces+devices > 0 {
		return c.Authority == selection.Deny // it came since the choice was made
	}
	select {
	case <-n.attached:
		return false // a desk was here: it has no terminal, or it left
	default:
	}
	if held, err := host.Held(filepath.Join(n.cfg.Dirs.Desk(), "lock")); err != nil || !held {
		return false
	}
	t := time.NewTimer(deskGrace)
	defer t.Stop()
	select {
	case <-n.attached:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}
