package node

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"permd/api"
	"permd/api/hookwire"
	"permd/clients"
	"permd/internal/host"
	"permd/internal/host/peer"
	"permd/review"
)

// waitingEvery is how often a waiting hook hears that it still waits. A hook
// that hears nothing for 5 s takes the node for stuck.
const waitingEvery = 2 * time.Second

// accept is one connection, of whatever kind.
func (n *Node) accept(ctx context.Context, c *api.Incoming) {
	p := c.Peer
	if int(p.UID) != os.Getuid() {
		c.Close()
		return
	}
	n.work.Add(1)
	defer n.work.Done()
	if c.Hook {
		n.hookCall(ctx, c.Raw, p)
		return
	}
	n.apiCall(ctx, c, p)
}

// ours reports whether the process belongs to the agent of this node: it is
// the agent's process or descends from it. Nobody else may speak as its hook.
func (n *Node) ours(p *peer.Peer) bool {
	if p.PID == n.cfg.PID {
		return n.client.Alive()
	}
	ok, err := host.Descends(p.PID, n.cfg.PID, n.cfg.Start)
	return err == nil && ok
}

// hookCall answers one call of a hook.
func (n *Node) hookCall(ctx context.Context, c *net.UnixConn, p *peer.Peer) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	req, err := hookwire.ReadRequest(c)
	if err != nil {
		var v *hookwire.VersionError
		if errors.As(err, &v) {
			hookwire.WriteRefused(c, v.Error())
			return
		}
		n.record(review.Event{Name: review.HookRefused, Reason: "its request cannot be read: " + err.Error()})
		hookwire.WriteRefused(c, "permd cannot read this call: "+err.Error())
		return
	}
	c.SetDeadline(time.Time{})
	if !n.ours(p) {
		n.record(review.Event{Name: review.HookRefused, Reason: "the caller does not descend from the agent of this node"})
		n.finish(c, req, clients.Reply{Code: 2, Stderr: []byte("permd: this call does not come from the agent it names\n")})
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gone := n.watchHook(ctx, c, cancel)
	done := make(chan clients.Reply, 1)
	go func() { done <- n.contained(ctx, req) }()
	tick := time.NewTicker(waitingEvery)
	defer tick.Stop()
	for {
		select {
		case r := <-done:
			n.finish(c, req, r)
			cancel(nil)
			c.SetReadDeadline(time.Now())
			<-gone
			return
		case <-tick.C:
			// A hook that takes nothing for a second has filled its buffer, which
			// is hours of silence: it is as good as gone.
			c.SetWriteDeadline(time.Now().Add(time.Second))
			if err := hookwire.WriteWaiting(c); err != nil {
				cancel(errHookGone)
			}
		}
	}
}

// errHookGone is the cause under which a wait ends when its hook went away:
// the client ended it, or it was killed.
var errHookGone = errors.New("withdrawn by the client")

// watchHook ends ctx when the hook closes its end, which is how a killed or
// interrupted hook says so. The channel is closed when the watch has ended.
func (n *Node) watchHook(ctx context.Context, c *net.UnixConn, cancel context.CancelCauseFunc) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var b [1]byte
		if _, err := c.Read(b[:]); err != nil && ctx.Err() == nil {
			cancel(errHookGone)
		}
	}()
	return gone
}

// finish writes the reply. A hook that does not take it within a second went
// away.
func (n *Node) finish(c *net.UnixConn, req *hookwire.Request, r clients.Reply) {
	c.SetWriteDeadline(time.Now().Add(time.Second))
	if !req.Gate && r.Code != 0 {
		r.Code = 0 // only a gate may stop anything
	}
	hookwire.WriteResult(c, hookwire.Result{Code: r.Code, Stdout: r.Stdout, Stderr: r.Stderr})
}

// contained runs one event; a panic is a gate error and not the end of the
// node.
func (n *Node) contained(ctx context.Context, req *hookwire.Request) (r clients.Reply) {
	defer func() {
		if p := recover(); p != nil {
			n.panicked(p)
			r = clients.Reply{Code: 2, Stderr: []byte("permd: internal error; the call is refused, see permd review tail\n")}
		}
	}()
	return n.event(ctx, req)
}
