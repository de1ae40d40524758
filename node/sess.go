package node

import (
	"path/filepath"
	"time"

	"permd/ask"
	"permd/clients"
	"permd/internal/host"
	"permd/review"
	"permd/selection"
	"permd/session"
)

// sess is one session of this node. Its fields are guarded by Node.mu but for
// sel, which guards itself.
type sess struct {
	id     string
	native string // the client's own id
	agent  string // in-process subagent, "" for a root
	label  string // the client's label of it; untrusted
	root   string // id of the root session in this process
	sel    *selection.Selection

	project string // the anchor, fixed at the first event
	cwd     string
	mode    string
	host    clients.Host
	names   session.NamedBy // how its parent is named
	parents []session.Candidate
	choice  selection.Choice

	calls   calls
	open    map[*call]*openDialog
	repeats repeats
	last    lastCall
	// gated is true once a hook that decides called, watched once one that
	// only observes did; seen are the calls of the latter.
	gated, watched bool
	seen           calls
	tripped        bool
	ended          bool
	unbound        bool // another node is the home of a session of this name
	dispose        func()
}

// named is the parent it relays to, or names first, for the facts file.
func (s *sess) named() session.Candidate {
	if s.choice.Target.Session != "" || len(s.parents) == 0 {
		return s.choice.Target
	}
	return s.parents[0]
}

// ordered returns the sessions in the order they came. n.mu is held.
func (n *Node) ordered() []*sess {
	var out []*sess
	for _, e := range n.registry.List() {
		if s := n.sessions[e.ID]; s != nil {
			out = append(out, s)
		}
	}
	return out
}

// session returns the session an event belongs to, and makes it known when it
// is new. isNew is true for a session seen for the first time.
func (n *Node) session(ev clients.Event, native clients.Native) (s *sess, isNew bool) {
	root := session.ID(n.cfg.Codec.Client(), ev.Session)
	if root == "" {
		return nil, false
	}
	s, isNew = n.ensure(root, "", ev, native)
	if ev.Agent != "" {
		s, isNew = n.ensure(root, ev.Agent, ev, native)
	}
	if isNew {
		n.announce(s)
	}
	return s, isNew
}

func (n *Node) ensure(root, agent string, ev clients.Event, native clients.Native) (*sess, bool) {
	id, parent := root, ""
	if agent != "" {
		id, parent = session.Sub(root, agent), root
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.sessions[id]
	isNew := s == nil
	if isNew {
		s = &sess{id: id, native: ev.Session, agent: agent, root: root}
		s.project = n.anchor(ev)
		s.sel = n.newSelection(s)
		s.dispose, _ = n.registry.Add(session.Entry{ID: id, Parent: parent, Agent: ev.AgentType})
		n.sessions[id] = s
		if n.root == "" {
			n.root = root
		}
		s.tripped = n.wasTripped[id]
		for _, k := range n.before[id] {
			s.calls.let(k)
		}
		delete(n.before, id)
	}
	s.ended = false
	if agent != "" && ev.AgentType != "" {
		s.label = ev.AgentType
	}
	if ev.Cwd != "" {
		s.cwd = ev.Cwd
	}
	if agent == "" || ev.Agent != "" {
		s.host, s.mode = ev.Host, ev.Mode
	}
	s.names = n.namedBy(s, native)
	return s, isNew
}

// anchor is the project of a new session: the client's project directory,
// never the home directory, a parent of it, or "/".
func (n *Node) anchor(ev clients.Event) string {
	p := ev.Project
	if p == "" {
		p = ev.Cwd
	}
	if !filepath.IsAbs(p) {
		return ""
	}
	return n.law.anchor(filepath.Clean(p))
}

// namedBy is how the parent of s is named, as the event's process inherited
// it. n.mu is held.
func (n *Node) namedBy(s *sess, native clients.Native) session.NamedBy {
	by := session.NamedBy{Self: []string{s.id, s.root}, Client: n.cfg.Codec.Client()}
	if s.agent != "" {
		by.InProcess = s.root
		by.Self = []string{s.id}
		return by
	}
	for id := range n.sessions {
		by.Self = append(by.Self, id)
	}
	by.Self = append(by.Self, n.id)
	by.ClientArgs = n.args
	by.Env = native.Env
	by.Tree = n.above
	if l := n.launch; l != nil {
		by.Flag = l.Parent
		if l.FoundBy == session.EnvParent {
			// permd run consumed the variable: what it found stands in its place.
			by.Flag = ""
			by.Env = func(name string) string {
				if name == session.EnvParent {
					return l.Parent
				}
				return native.Env(name)
			}
		}
	}
	return by
}

// announce records and publishes a new session.
func (n *Node) announce(s *sess) {
	fields := []review.Field{{Key: review.KeyClient, Value: n.cfg.Codec.Client()}}
	if s.agent != "" {
		fields = append(fields, review.Field{Key: review.KeyParent, Value: s.root}, review.Field{Key: review.KeyAgentName, Value: s.label})
	}
	if s.project != "" {
		fields = append(fields, review.Field{Key: review.KeyProject, Value: s.project})
	}
	n.record(review.Event{Name: review.SessionStarted, Session: s.id, Fields: fields})
	n.bind(s)
	n.changed()
}

// bind makes this node the home of a session, where children find it. A second
// process that runs the same session does not take it from the first.
func (n *Node) bind(s *sess) {
	holder, err := session.Home(n.cfg.Dirs, s.id)
	if err == nil && holder != n.id && n.up.hosting(holder, s.id) && !n.up.outlived(holder) {
		if held, err := host.Held(n.cfg.Dirs.Node(holder).Lock()); err == nil && held {
			if n.unbound(s, true) {
				n.warn(s.id, "node "+holder+" runs the same session; what names it finds that one")
			}
			return
		}
	}
	n.unbound(s, false)
	if err := session.Bind(n.cfg.Dirs, s.id, n.id); err != nil {
		n.warn(s.id, "binding the session: "+err.Error())
	}
}

// unbound notes that a session is not found by its name, and reports whether
// that is news.
func (n *Node) unbound(s *sess, is bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := s.unbound
	s.unbound = is
	return is && !was
}

// endSub ends an in-process subagent.
func (n *Node) endSub(s *sess) {
	s.sel.Deactivate(n.ctx)
	n.mu.Lock()
	s.ended = true
	open := s.calls.unfinished()
	n.mu.Unlock()
	n.notSeen(s, open)
	n.record(review.Event{Name: review.SessionEnded, Session: s.id})
	s.dispose()
	n.mu.Lock()
	delete(n.sessions, s.id)
	n.mu.Unlock()
	n.up.forget(s.id)
	session.Unbind(n.cfg.Dirs, s.id, n.id)
	n.changed()
}

// endSessions closes the books of all sessions as the node ends.
func (n *Node) endSessions() {
	n.mu.Lock()
	all := n.ordered()
	n.mu.Unlock()
	for _, s := range all {
		n.mu.Lock()
		ended, open := s.ended, s.calls.unfinished()
		s.ended = true
		n.mu.Unlock()
		if ended {
			continue
		}
		s.sel.Deactivate(n.ctx)
		n.notSeen(s, open)
		n.record(review.Event{Name: review.SessionEnded, Session: s.id})
		if err := n.law.grants.End(s.id); err != nil {
			n.warn(s.id, "ending its tree grants: "+err.Error())
		}
		session.Unbind(n.cfg.Dirs, s.id, n.id)
	}
}

// notSeen records calls whose effect nobody reported.
func (n *Node) notSeen(s *sess, open []*call) {
	for _, k := range open {
		n.mu.Lock()
		k.done = true
		n.mu.Unlock()
		d := k.digest
		n.record(review.Event{Name: review.Effect, Session: s.id, Ask: k.ask, ActionDigest: &d,
			Fields: []review.Field{{Key: review.KeyEffect, Value: effectNotSeen}, {Key: review.KeyCall, Value: k.id}}})
	}
}

// who is a session as an ask names it.
func (n *Node) who(s *sess) ask.Who {
	return ask.Who{Session: s.id, Client: n.cfg.Codec.Client(), Agent: s.label}
}

// pausedFor is what is left of a pause.
func (n *Node) pausedFor() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused.IsZero() {
		return 0
	}
	return max(0, time.Until(n.paused))
}
