package node

import (
	"context"
	"errors"
	"io/fs"
	"permd/api"
	"permd/internal/host"
	"permd/internal/host/peer"
	"permd/policy"
	"permd/review"
	"permd/session"
	"sync"
	"time"
)

// apiCall is one framed connection.
func (n *Node) apiCall(ctx context.Context, c *api.Incoming, p *peer.Peer) {
	hello, err := c.Conn.Accept(func(h api.Hello) (api.Welcome, *api.Refused) { return n.welcome(ctx, h, p) })
	if err != nil {
		return
	}
	switch hello.Role {
	case api.RoleAnswerer:
		n.watch(ctx, c.Conn)
	case api.RoleChild:
		n.down.child(ctx, c.Conn, p)
	case api.RoleControl:
		n.control(ctx, c.Conn, p)
	}
}

// welcome says who this is and who may come in. Which sessions serve is asked
// of the loop that serves.
func (n *Node) welcome(ctx context.Context, h api.Hello, p *peer.Peer) (api.Welcome, *api.Refused) {
	w := api.Welcome{Node: n.id, Instance: n.instance, Build: n.cfg.Build}
	switch h.Role {
	case api.RoleAnswerer:
		if name := n.governed(p); name != "" {
			n.record(review.Event{Name: review.SurfaceRefused, Reason: "it descends from the agent of node " + name,
				Fields: []review.Field{{Key: review.KeyPID, Value: itoa(p.PID)}}})
			return w, &api.Refused{Code: api.CodePeer, Text: "this process descends from an agent that permd governs; answer in a terminal of your own"}
		}
	case api.RoleChild, api.RoleControl, api.RoleProbe:
	default:
		return w, &api.Refused{Code: api.CodeBad, Text: "role not known to this permd; update the older side"}
	}
	var err error
	if w.Serving, err = n.down.serving(ctx); err != nil {
		return w, &api.Refused{Code: api.CodeUnavailable, Text: "this node does not answer: " + err.Error()}
	}
	return w, nil
}

// governed names the node whose agent p descends from, "" if there is none.
// A lookup that fails counts as governed: nobody answers by a race.
func (n *Node) governed(p *peer.Peer) string {
	if n.ours(p) {
		return n.id
	}
	up, err := host.Ancestors(p.PID)
	if err != nil {
		return "unknown"
	}
	for _, a := range append([]host.ProcessID{{PID: p.PID, Start: p.Process().StartTime()}}, up...) {
		dir := n.cfg.Dirs.Node(session.NodeID(a.PID, a.Start))
		held, err := host.Held(dir.Lock())
		if held || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return dir.ID() // what cannot be looked at is taken for governed
		}
	}
	return ""
}

// above are the nodes of agents above ours, nearest first, as names of
// sessions: a node's id stands for its root session.
func (n *Node) above() []string {
	var out []string
	for _, a := range n.ancestors.of(n.cfg.PID) {
		dir := n.cfg.Dirs.Node(session.NodeID(a.PID, a.Start))
		if held, err := host.Held(dir.Lock()); err == nil && held {
			out = append(out, dir.ID())
		}
	}
	return out
}

// lineage remembers the processes above the agent. They change only when one
// of them ends, and looking costs several reads at every call; which of them
// has a node is looked at each time.
type lineage struct {
	mu sync.Mutex
	at time.Time
	up []host.ProcessID
}

// lineageFor is how long a look at the process tree is good for.
const lineageFor = 10 * time.Second

func (l *lineage) of(pid int) []host.ProcessID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) < lineageFor && !l.at.IsZero() {
		return l.up
	}
	up, err := host.Ancestors(pid)
	if err != nil {
		return nil
	}
	l.up, l.at = up, time.Now()
	return up
}

// tree is the state of all sessions of this node.
func (n *Node) tree() api.Sessions {
	paused := n.pausedFor().Milliseconds()
	waiting := map[string]int{}
	for _, s := range n.broker.Snapshot() {
		waiting[s.Ask.Body.From.Session]++
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	out := api.Sessions{Sessions: []api.SessionState{}}
	for _, s := range n.ordered() {
		if s.ended {
			continue
		}
		st := api.SessionState{ID: s.id, Node: n.id, Client: n.cfg.Codec.Client(), PID: n.cfg.PID, Agent: s.label, Cwd: s.cwd,
			Project: s.project, Mode: s.mode, Tripped: s.tripped, PausedMS: paused, Waiting: waiting[s.id],
			Authority: s.choice.Authority.String(), Parent: s.named().Session, FoundBy: s.named().FoundBy, Serving: s.sel.Serving()}
		if m, left := n.modeOfLocked(s); m != policy.ModeNormal {
			st.Lifted, st.LiftedMS = string(m), left.Milliseconds()
		}
		st.Observed = s.observed()
		if t := s.choice.Target; t.Session != "" {
			st.RelaysTo = t.Session
			st.Verified = t.Channel == session.ChannelRegistry || n.up.verified(s.id, t.Session)
		}
		out.Sessions = append(out.Sessions, st)
	}
	return out
}

// servingLocked are the sessions that take asks of children. n.mu is held.
func (n *Node) servingLocked() []string {
	var out []string
	for _, s := range n.ordered() {
		if !s.ended && s.sel.Serving() {
			out = append(out, s.id)
		}
	}
	return out
}
