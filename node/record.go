package node

import (
	"context"
	"fmt"
	"strconv"

	"permd/ask"
	"permd/broker"
	"permd/review"
)

// record appends an event that lets nothing run. A log that cannot be written
// refuses the next allow by itself, so the error is only shown.
func (n *Node) record(e review.Event) {
	if err := n.log.Append(e); err != nil {
		n.complain("the review log cannot be written: " + err.Error())
	}
}

func (n *Node) warn(sessionID, text string) {
	n.record(review.Event{Name: review.ForwardingWarning, Session: sessionID, Fields: []review.Field{{Key: review.KeyMessage, Value: text}}})
}

// askEvent is an event about one ask.
func (n *Node) askEvent(name review.Name, s *sess, a *ask.Ask, fields ...review.Field) review.Event {
	e := review.Event{Name: name, Path: a.Header.Path, Ask: a.Body.ID, Digest: &a.Digest, Session: a.Body.From.Session, Fields: fields}
	if s != nil && s.id != a.Body.From.Session {
		e.Fields = append(e.Fields, review.Field{Key: review.KeyResponderSession, Value: s.id})
	}
	if a.Body.Action != nil {
		d := a.Body.Action.ActionDigest()
		e.ActionDigest, e.Action = &d, n.law.recorded(a.Body.Action)
	}
	return e
}

func (n *Node) recordAsk(name review.Name, s *sess, a *ask.Ask, by *ask.By, d ask.Decision, reason string) {
	e := n.askEvent(name, s, a)
	fillDecision(&e, by, d, reason)
	n.record(e)
}

func fillDecision(e *review.Event, by *ask.By, d ask.Decision, reason string) {
	if by == nil {
		return
	}
	v := d.Verdict
	e.By, e.Outcome, e.Reason, e.Verdict = by, d.Outcome, reason, &v
	if d.WaitMS != nil {
		e.Fields = append(e.Fields, review.Field{Key: review.KeyTimeoutMS, Value: strconv.FormatInt(*d.WaitMS, 10)})
	}
}

// ended is the event name for a decision that does not allow.
func ended(d ask.Decision) review.Name {
	switch d.Outcome {
	case ask.TimedOut:
		return review.AskExpired
	case ask.Withdrawn:
		return review.AskWithdrawn
	case ask.Unavailable:
		return review.AskUnavailable
	case ask.Declined, ask.Dismissed, ask.Stopped:
		return review.AskDismissed
	case ask.Failed:
		return review.AskBlocked
	}
	return review.AskDenied
}

// brokerRecorder makes the broker's decisions durable.
type brokerRecorder struct{ n *Node }

var _ broker.Recorder = brokerRecorder{}

// Commit makes all records durable, with one wait for the disk.
func (r brokerRecorder) Commit(ctx context.Context, records []broker.Record) error {
	events := make([]review.Event, len(records))
	for i, rec := range records {
		events[i] = r.n.decisionEvent(rec)
	}
	return r.n.log.CommitAll(ctx, events)
}

func (n *Node) decisionEvent(rec broker.Record) review.Event {
	d := rec.Decision
	name := ended(d)
	forwarded := !n.hosts(rec.Ask.Body.From.Session)
	allowed := d.Verdict == ask.Allow && d.Outcome == ask.Answered
	switch {
	case allowed && forwarded:
		name = review.ForwardedApproved
	case allowed && d.Grant != nil:
		name = review.AskSessionApproved
	case allowed:
		name = review.AskApproved
	case forwarded && d.Outcome == ask.Answered:
		name = review.ForwardedDenied
	case forwarded:
		name = review.ForwardedEnded
	}
	e := n.askEvent(name, nil, rec.Ask, review.Field{Key: review.KeyWaitedMS, Value: fmt.Sprint(rec.Waited.Milliseconds())})
	by := d.By
	if by.Session != "" && by.Session != rec.Ask.Body.From.Session {
		e.Fields = append(e.Fields, review.Field{Key: review.KeyResponderSession, Value: by.Session})
	}
	if by.Kind == ask.KindClientDialog {
		by.Inferred = true // the client does not tell what its dialog said
	}
	if d.Grant != nil {
		e.Fields = append(e.Fields, review.Field{Key: review.KeyGrant, Value: d.Grant.ID}, review.Field{Key: review.KeyScope, Value: string(d.Grant.Scope)})
	}
	fillDecision(&e, &by, d, d.Reason)
	return e
}

// Refused records an answer that changed nothing.
func (r brokerRecorder) Refused(x broker.Refusal) {
	name := review.AnswerInvalid
	switch x.Verdict.Verdict {
	case "too_late":
		name = review.AnswerLate
	case "not_offered", "not_trusted", "unknown_ask":
		name = review.AnswerForeign
	}
	f := []review.Field{{Key: review.KeySurface, Value: x.Surface}, {Key: review.KeySurfaceKind, Value: string(x.Kind)}}
	if x.Verdict.Winner != "" {
		f = append(f, review.Field{Key: review.KeyWinner, Value: x.Verdict.Winner})
	}
	e := review.Event{Name: name, Reason: x.Verdict.Text, Fields: f}
	if ask.ValidID(x.Verdict.Ask) {
		e.Ask = x.Verdict.Ask
	}
	r.n.record(e)
}

// hosts reports whether id is a session of this node.
func (n *Node) hosts(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sessions[id] != nil
}
