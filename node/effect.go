package node

import (
	"permd/api"
	"permd/ask"
	"permd/clients"
	"permd/review"
)

// ran matches what the client reports as run with what was let go. Anything
// else trips the wire: the record says so, every surface shows it, and that
// session asks for everything from then on.
func (n *Node) ran(s *sess, ev clients.Event) {
	d := ev.Action.ActionDigest()
	n.mu.Lock()
	k, effect := s.calls.ran(ev.Action, ev.Kind == clients.RanFailed)
	var dialog *openDialog
	overtaken := false
	if k != nil {
		dialog = s.open[k]
		overtaken = k.sent == "deny"
		if k.sent == "allow" {
			k.sent = "confirmed"
		}
	}
	tripped := effect == effectRanUngated || effect == effectRanOther
	if tripped {
		s.tripped = true
		if r := n.sessions[s.root]; r != nil {
			r.tripped = true
		}
	}
	n.mu.Unlock()
	fields := []review.Field{{Key: review.KeyEffect, Value: effect}, {Key: review.KeyCall, Value: ev.Action.Call}}
	e := review.Event{Name: review.Effect, Session: s.id, ActionDigest: &d, Fields: fields}
	if k != nil {
		e.Ask = k.ask
		if k.how == letHanded && k.sent == "" || overtaken {
			e.By = &ask.By{Kind: ask.KindClientDialog, Session: s.id, Surface: n.cfg.Codec.Client(), Inferred: true}
		}
	}
	if overtaken {
		e.Reason = "the person at the client's own dialog had allowed it before our answer arrived"
	}
	if tripped {
		e.Name = review.RanUngated
		if effect == effectRanOther {
			e.Name = review.RanOther
		}
		e.Action = n.law.recorded(ev.Action)
		e.Reason = "the client ran what permd had not let go; this session asks for everything from now on"
	}
	n.record(e)
	if dialog != nil {
		dialog.report() // what is concluded from the effect comes after it
	}
	if tripped {
		n.record(review.Event{Name: review.SessionStrict, Session: s.id, Reason: e.Reason})
		n.notice(api.Notice{Kind: string(e.Name), Session: s.id,
			Text: "session " + s.id + " ran " + ask.Quote(ev.Action.ClientTool) + " without permd's release; it asks for everything from now on"})
		n.changed()
	}
}
