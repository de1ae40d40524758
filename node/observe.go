package node

import (
	"slices"
	"time"

	"permd/api/hookwire"
	"permd/ask"
	"permd/clients"
	"permd/review"
)

// observes reports whether a call comes from a hook that decides nothing.
func observes(req *hookwire.Request) bool {
	return !req.Gate && slices.Contains(req.Args, "--observe")
}

// observed reports whether nothing decides in the session. n.mu is held.
func (s *sess) observed() bool { return s.watched && !s.gated }

// observe records what recorded authority would have said, and what ran. It
// says nothing to the client, asks nobody, and lets nothing go: a call that an
// agent observes by itself is none that was let go, and where a gate decides
// beside it, it is not listened to at all.
func (n *Node) observe(s *sess, ev clients.Event) clients.Reply {
	n.mu.Lock()
	gated, news := s.gated, !s.watched
	s.watched = true
	n.mu.Unlock()
	if gated {
		return n.cfg.Codec.Silent(ev)
	}
	if news {
		n.changed()
	}
	switch ev.Kind {
	case clients.Gate:
		n.observeCall(s, ev)
	case clients.Ran, clients.RanFailed:
		n.observeEffect(s, ev)
	}
	return n.cfg.Codec.Silent(ev)
}

func (n *Node) observeCall(s *sess, ev clients.Event) {
	a, err := n.build(s, ev, "")
	if err != nil {
		n.record(review.Event{Name: review.AskBlocked, Session: s.id, By: &ask.By{Kind: ask.KindGateError}, Reason: err.Error()})
		return
	}
	j := n.law.judge(s, a, roleOrigin)
	e := n.askEvent(review.AskObserved, s, a)
	v := j.Verdict
	e.Verdict, e.By, e.Reason = &v, &j.By, j.Reason
	n.record(e)
	n.mu.Lock()
	s.seen.let(call{ask: a.Body.ID, id: a.Body.Action.Call, digest: a.Body.Action.ActionDigest(), cwd: a.Body.Action.Cwd, how: letReleased,
		tool: a.Body.Action.ClientTool, at: time.Now()})
	n.mu.Unlock()
}

// observeEffect closes what was observed with what the client reports.
func (n *Node) observeEffect(s *sess, ev clients.Event) {
	n.mu.Lock()
	k, effect := s.seen.ran(ev.Action, ev.Kind == clients.RanFailed)
	n.mu.Unlock()
	d := ev.Action.ActionDigest()
	e := review.Event{Name: review.Effect, Session: s.id, ActionDigest: &d, Fields: []review.Field{
		{Key: review.KeyEffect, Value: effect}, {Key: review.KeyCall, Value: ev.Action.Call}, {Key: review.KeyMode, Value: "observed"}}}
	if k != nil {
		e.Ask = k.ask
	}
	n.record(e)
}
