package node

import (
	"context"
	"errors"

	"permd/internal/host"
	"permd/liveness"
	"permd/review"
	"permd/selection"
	"permd/session"
)

var errNotHere = errors.New("that session is not running here any more")

// newSelection makes the selection of a session. n.mu is held.
func (n *Node) newSelection(s *sess) *selection.Selection {
	return selection.New(selection.Config{Self: s.id, Surroundings: around{n, s}, Liveness: around{n, s}, Recorder: around{n, s}})
}

// around is what the selection of one session looks at and writes to.
type around struct {
	n *Node
	s *sess
}

var (
	_ selection.Surroundings = around{}
	_ selection.Liveness     = around{}
	_ selection.Recorder     = around{}
)

// Here says who can answer at this session now.
func (a around) Here() selection.Here {
	surfaces, devices := a.n.broker.Reach()
	a.n.mu.Lock()
	defer a.n.mu.Unlock()
	return selection.Here{Dialog: a.s.host.Dialog && !a.n.cfg.Settings.NoClientDialog, Surfaces: surfaces, Devices: devices}
}

// Parents names the candidates, by the ids they have now: a node's name
// stands for its root session.
func (a around) Parents() []session.Candidate {
	a.n.mu.Lock()
	by := a.s.names
	a.n.mu.Unlock()
	list := session.Candidates(by)
	for i := range list {
		if list[i].Channel == session.ChannelEnv {
			list[i].Session, _ = a.n.up.resolve(list[i].Session)
		}
	}
	a.n.mu.Lock()
	a.s.parents = list
	a.n.mu.Unlock()
	return list
}

// Serving judges one candidate.
func (a around) Serving(ctx context.Context, c session.Candidate) (liveness.Answer, []string) {
	if c.Channel == session.ChannelEnv && a.n.hosts(c.Session) {
		return liveness.No, []string{a.s.id} // a session of our own is above nobody here
	}
	above := a.n.up.aboveOf(c)
	for _, id := range above {
		if id == a.s.id {
			return liveness.No, above
		}
	}
	v := a.n.up.look(ctx, a.s, c)
	return v.Answer, above
}

// Transition records a start or stop of relaying or serving.
func (a around) Transition(_ context.Context, t selection.Transition) error {
	e := review.Event{Name: review.Name(t.Event), Session: t.Session}
	if t.Target != "" {
		e.Fields = append(e.Fields, review.Field{Key: review.KeyTargetSession, Value: t.Target})
	}
	if t.Channel != "" {
		e.Fields = append(e.Fields, review.Field{Key: review.KeyChannel, Value: string(t.Channel)})
	}
	if t.FoundBy != "" {
		e.Fields = append(e.Fields, review.Field{Key: review.KeyFoundBy, Value: t.FoundBy})
	}
	return a.n.log.Append(e)
}

// maxAbove bounds a walk up the tree of sessions.
const maxAbove = 32

// aboveOf lists the sessions c relays to, nearest first, as their nodes'
// facts say.
func (u *upward) aboveOf(c session.Candidate) []string {
	if c.Channel == session.ChannelRegistry {
		return nil
	}
	var out []string
	id := c.Session
	for range maxAbove {
		home, err := session.Home(u.n.cfg.Dirs, id)
		if err != nil {
			return out
		}
		if held, err := host.Held(u.n.cfg.Dirs.Node(home).Lock()); err != nil || !held {
			return out
		}
		f, err := session.ReadFacts(u.n.cfg.Dirs.Node(home))
		if err != nil {
			return out
		}
		next := ""
		for _, h := range f.Sessions {
			if h.ID == id {
				next = h.Parent
			}
		}
		if next == "" || next == id {
			return out
		}
		out = append(out, next)
		id = next
	}
	return out
}

// parentsChanged remakes the selections after a parent came, went, or changed
// whom it serves: whether our own sessions serve may hang on it. Asks on their
// way keep their authority.
func (n *Node) parentsChanged() {
	if n.ctx.Err() != nil {
		return
	}
	n.changed()
}
