package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"permd/api"
	"permd/ask"
	"permd/authority"
	"permd/forwarding"
	"permd/internal/host"
	"permd/liveness"
	"permd/review"
	"permd/selection"
	"permd/session"
)

// upward is this node's side towards parents: who is named, whether they
// serve, and the registrations with their nodes.
type upward struct {
	n     *Node
	judge *liveness.Judge
	links *forwarding.Uplinks

	mu sync.Mutex
	// named is the parent each session may relay to, for registrations.
	named map[string]namedParent
	// asked is the parent that decided an ask, for telling it what came of it.
	asked map[string]*forwarding.Parent
}

type namedParent struct {
	session, node, foundBy string
}

func newUpward(n *Node) *upward {
	u := &upward{n: n, named: map[string]namedParent{}, asked: map[string]*forwarding.Parent{}}
	u.judge = liveness.New(n.cfg.Dirs)
	u.judge.Hello = u.hello
	u.links = forwarding.NewUplinks(forwarding.UplinksConfig{
		Server: n.down.srv, Dial: u.dial, Describe: u.describe, Changed: func(string) { n.parentsChanged() }})
	return u
}

func (u *upward) close() { u.links.Close() }

// hello asks another node's serving loop.
func (u *upward) hello(ctx context.Context, node session.Node) liveness.Hello {
	w, err := api.Probe(ctx, node.Sock(), u.n.cfg.Build)
	switch {
	case err == nil:
		return liveness.Hello{Result: liveness.HelloAnswered, Instance: w.Instance, Serving: w.Serving}
	case ctx.Err() != nil:
		return liveness.Hello{Result: liveness.HelloSilent}
	}
	return liveness.Hello{}
}

// dial opens the connection of a registration. Whoever listens at a node's
// socket must be the process that the node's facts name.
func (u *upward) dial(ctx context.Context, node string) (forwarding.Conn, error) {
	dir := u.n.cfg.Dirs.Node(node)
	f, err := session.ReadFacts(dir)
	if err != nil {
		return nil, err
	}
	nc, err := new(net.Dialer).DialContext(ctx, "unix", dir.Sock())
	if err != nil {
		return nil, err
	}
	c := api.NewConn(nc)
	err = listens(nc, f.NodePID)
	if err == nil {
		stop := context.AfterFunc(ctx, func() { c.Close() })
		_, err = c.Hello(api.Hello{Role: api.RoleChild, Build: u.n.cfg.Build})
		stop()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// listens checks who is at the other end of a connection.
func listens(nc net.Conn, pid int) error {
	uc, ok := nc.(syscall.Conn)
	if !ok {
		return errors.New("the connection is none of a process")
	}
	p, err := host.PeerOf(uc)
	if err != nil {
		return err
	}
	defer p.Close()
	if int(p.UID) != os.Getuid() || p.PID != pid {
		return fmt.Errorf("process %d listens at the node's socket, and the node is process %d", p.PID, pid)
	}
	return nil
}

// describe is our registration with the node of a parent.
func (u *upward) describe(parent string) api.Register {
	n := u.n
	r := api.Register{PID: n.cfg.PID, Start: n.cfg.Start, Boot: n.boot, Sessions: []api.ChildSession{}}
	n.mu.Lock()
	if n.launch != nil {
		r.Ticket = n.launch.Ticket
	}
	n.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	for s, p := range u.named {
		if p.node == parent {
			r.Sessions = append(r.Sessions, api.ChildSession{Session: s, Parent: p.session, FoundBy: p.foundBy})
		}
	}
	slices.SortFunc(r.Sessions, func(a, b api.ChildSession) int {
		if a.Session < b.Session {
			return -1
		}
		return 1
	})
	return r
}

// resolve turns a name, as children inherit it, into a session and its node. A
// node's name is that of its root session. Bindings are files that any process
// of this user can write, and two processes may run the same session; so a node
// whose agent is above ours goes before what a binding says.
func (u *upward) resolve(name string) (sessionID, node string) {
	node, err := session.Home(u.n.cfg.Dirs, name)
	if err != nil || !u.n.below(node) {
		for _, id := range u.n.above() {
			if id == name || u.hosting(id, name) {
				node, err = id, nil
				break
			}
		}
	}
	if err != nil {
		return name, ""
	}
	if node != name {
		return name, node
	}
	f, err := session.ReadFacts(u.n.cfg.Dirs.Node(node))
	if err != nil || len(f.Sessions) == 0 {
		return name, node
	}
	return f.Sessions[0].ID, node
}

// below reports whether the node is that of an agent above ours.
func (n *Node) below(node string) bool {
	return slices.ContainsFunc(n.ancestors.of(n.cfg.PID), func(a host.ProcessID) bool { return session.NodeID(a.PID, a.Start) == node })
}

// hosting reports whether a node says that it hosts a session.
func (u *upward) hosting(node, id string) bool {
	f, err := session.ReadFacts(u.n.cfg.Dirs.Node(node))
	return err == nil && slices.ContainsFunc(f.Sessions, func(h session.Hosted) bool { return h.ID == id })
}

// outlived reports whether the agent of node has ended: such a node is about to
// end too, and keeps no session from the one that goes on with it.
func (u *upward) outlived(node string) bool {
	f, err := session.ReadFacts(u.n.cfg.Dirs.Node(node))
	if err != nil {
		return false
	}
	p, err := host.OpenProcess(f.PID)
	if err != nil {
		return errors.Is(err, host.ErrNoProcess)
	}
	defer p.Close()
	return p.StartTime() != f.Start
}

// look judges one candidate for s. A parent in another process that serves is
// registered with on the way, so that its end is seen at once; one that
// refuses us does not serve us.
func (u *upward) look(ctx context.Context, s *sess, c session.Candidate) liveness.Verdict {
	n := u.n
	if c.Channel == session.ChannelRegistry {
		n.mu.Lock()
		serving := n.servingLocked()
		n.mu.Unlock()
		v := liveness.Verdict{Answer: liveness.No, Channel: liveness.ChannelRegistry, State: liveness.NotServing, Session: c.Session, Node: n.id, Serving: serving}
		if slices.Contains(serving, c.Session) {
			v.Answer, v.State = liveness.Yes, liveness.Alive
		}
		return v
	}
	target, node := u.resolve(c.Session)
	if node == n.id {
		return liveness.Verdict{Answer: liveness.No, Channel: liveness.ChannelNone, State: liveness.Absent, Session: target, Why: "it is this node itself"}
	}
	t := liveness.Target{Session: target, Node: node}
	if st, ok := u.links.State(node); ok {
		t.Key = st.BeatKey
	}
	v := u.judge.Judge(ctx, t)
	if v.Answer != liveness.Yes {
		return v
	}
	fresh := u.name(s.id, namedParent{target, v.Node, c.FoundBy})
	if err := u.links.Connect(ctx, v.Node); err != nil && ctx.Err() == nil {
		v.Answer, v.State, v.Why = liveness.No, liveness.NotServing, err.Error()
		n.warn(s.id, "registering with "+target+": "+err.Error())
		return v
	}
	if fresh {
		u.links.Changed()
	}
	return v
}

// name notes the parent of a session for the registration with its node, and
// reports whether that is news.
func (u *upward) name(s string, p namedParent) (fresh bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	fresh = u.named[s] != p
	u.named[s] = p
	return fresh
}

// verified reports whether target's node proved that s belongs below it.
func (u *upward) verified(s, target string) bool {
	u.mu.Lock()
	p, ok := u.named[s]
	u.mu.Unlock()
	if !ok || p.session != target {
		return false
	}
	st, ok := u.links.State(p.node)
	return ok && slices.ContainsFunc(st.Verified, func(x api.Proof) bool { return x.Session == s && x.Parent == target })
}

var errNotRunning = errors.New("no node of that name is running")

// lostParent says that the parent went away, or does not serve, while it was
// asked.
type lostParent struct {
	target string
	err    error
}

func (e *lostParent) Error() string { return e.err.Error() }
func (e *lostParent) Unwrap() error { return e.err }

// decision is the refusal when nobody else can be asked.
func (e *lostParent) decision(a *ask.Ask, s string) ask.Decision {
	return authority.Unavailable(a, s, e.err.Error())
}

// authorize has an ask of s decided by the chosen parent. shown is called when
// a surface above has it on screen.
func (u *upward) authorize(ctx context.Context, s *sess, a *ask.Ask, c selection.Choice, shown func()) (ask.Decision, error) {
	n := u.n
	target := c.Target.Session
	if c.Target.Channel == session.ChannelRegistry {
		return n.relayInside(ctx, s, a, target, shown)
	}
	_, node := u.resolve(target)
	if u.name(s.id, namedParent{target, node, c.Target.FoundBy}) {
		u.links.Changed() // a parent that does not serve yet was not registered with
	}
	p := &forwarding.Parent{Links: u.links, Session: s.id, Target: target, Node: node, Judge: u.judge, Timeout: n.cfg.Settings.AskTimeout}
	n.record(n.askEvent(review.RequestCreated, s, a, review.Field{Key: review.KeyTargetSession, Value: target},
		review.Field{Key: review.KeyChannel, Value: string(c.Target.Channel)}))
	var d ask.Decision
	var err error
	if node == "" {
		err = &forwarding.ParentLostError{Session: target, Cause: errNotRunning}
	} else {
		d, err = p.Ask(ctx, a, shown)
	}
	var gone *forwarding.ParentLostError
	var idle *forwarding.NotServingError
	switch {
	case err == nil:
		u.remember(a.Body.ID, p)
		n.recordResponse(s, a, target, d)
		return d, nil
	case errors.As(err, &idle):
		n.record(n.askEvent(review.NoServingSession, s, a, review.Field{Key: review.KeyTargetSession, Value: target},
			review.Field{Key: review.KeyServingChannel, Value: string(idle.Verdict.Channel)},
			review.Field{Key: review.KeyServingState, Value: string(idle.Verdict.State)}))
		return d, &lostParent{target, err}
	case errors.As(err, &gone):
		n.record(n.askEvent(review.ParentLost, s, a, review.Field{Key: review.KeyTargetSession, Value: target},
			review.Field{Key: review.KeyMessage, Value: err.Error()}))
		return d, &lostParent{target, err}
	}
	return d, err
}

func (n *Node) recordResponse(s *sess, a *ask.Ask, target string, d ask.Decision) {
	name := review.ResponseReceived
	if d.Outcome == ask.TimedOut {
		name = review.ResponseTimedOut
	}
	e := n.askEvent(name, s, a, review.Field{Key: review.KeyTargetSession, Value: target})
	fillDecision(&e, &d.By, d, d.Reason)
	n.record(e)
}

// maxAsked bounds how many asks are remembered for their delivery.
const maxAsked = 512

func (u *upward) remember(id string, p *forwarding.Parent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.asked) >= maxAsked {
		clear(u.asked)
	}
	u.asked[id] = p
}

// delivered tells the parent that decided what became of the ask.
func (u *upward) delivered(ctx context.Context, a *ask.Ask, how, why string) bool {
	u.mu.Lock()
	p := u.asked[a.Body.ID]
	delete(u.asked, a.Body.ID)
	u.mu.Unlock()
	if p == nil {
		return false
	}
	p.Delivered(ctx, a, how, why) // best effort, by its own word
	return true
}

// forget drops a session that has ended.
func (u *upward) forget(id string) {
	u.mu.Lock()
	delete(u.named, id)
	u.mu.Unlock()
	u.links.Changed()
}
