package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"permd/ask"
	"permd/authority"
	"permd/broker"
	"permd/clients"
	"permd/review"
	"permd/selection"
)

// gate decides a call before it runs.
func (n *Node) gate(ctx context.Context, s *sess, ev clients.Event) clients.Reply {
	choice := n.activate(ctx, s)
	a, err := n.build(s, ev, "")
	if err != nil {
		return n.broken(s, ev, err)
	}
	j := n.law.judge(s, a, roleOrigin)
	switch {
	case j.Verdict == ask.Deny:
		n.remember(s, a)
		return n.ruledOut(s, ev, a, j)
	case n.pausedFor() > 0:
		return n.passPaused(s, ev, a)
	case j.Verdict == ask.Allow && !n.isTripped(s):
		return n.letByRule(ctx, s, ev, a, j)
	}
	if j.Verdict == ask.Allow {
		j.Cause = causeTripped
	}
	if a, err = n.build(s, ev, j.Cause, withID(a.Body.ID), withRisk(j.Risk)); err != nil {
		return n.broken(s, ev, err)
	}
	n.remember(s, a)
	if r, no := n.askedAgain(s, ev, a); no {
		return r
	}
	if n.awaitDesk(ctx, s, choice) {
		choice = n.activate(ctx, s)
	}
	return n.put(ctx, s, ev, a, choice)
}

// causeTripped is why a session asks for what a rule allows.
const causeTripped = "this session ran something that permd never let go; everything is asked"

// put asks whoever the selection names, and asks again elsewhere when a
// parent goes away in the middle.
func (n *Node) put(ctx context.Context, s *sess, ev clients.Event, a *ask.Ask, choice selection.Choice) clients.Reply {
	var lost *lostParent
	asked := false // the external deciders, once
	for range maxMoves {
		if choice.Authority != selection.Relay && !asked {
			asked = true
			if d, decided := n.consult(ctx, s, a, roleOrigin); decided {
				return n.chained(ctx, s, ev, a, d)
			}
		}
		switch choice.Authority {
		case selection.Relay:
			n.delegated(s, a)
			d, err := n.up.authorize(ctx, s, a, choice, nil)
			if !errors.As(err, &lost) {
				return n.settle(ctx, s, ev, a, d, err)
			}
			if n.cfg.Settings.RefuseOnParentLoss {
				return n.settle(ctx, s, ev, a, lost.decision(a, s.id), nil)
			}
			next, ok := n.reselect(ctx, s, lost)
			if !ok {
				return n.settle(ctx, s, ev, a, lost.decision(a, s.id), nil)
			}
			choice = next
			continue
		case selection.Local:
			return n.putHere(ctx, s, ev, a)
		}
		d, err := authority.Denying{Session: s.id}.Authorize(ctx, a)
		return n.settle(ctx, s, ev, a, d, err)
	}
	return n.settle(ctx, s, ev, a, lost.decision(a, s.id), nil)
}

// chained answers what an external decider decided, which stands on the record.
func (n *Node) chained(ctx context.Context, s *sess, ev clients.Event, a *ask.Ask, d ask.Decision) clients.Reply {
	if !d.Allows(a.Body.ID, a.Digest) && context.Cause(ctx) != errHookGone {
		return n.tellNo(s, ev, a, d)
	}
	return n.settle(ctx, s, ev, a, d, nil)
}

// maxMoves bounds how often one ask may move between authorities.
const maxMoves = 8

// putHere asks at this node: the client's own dialog where it has one that
// was proved to race, else the surfaces, else nobody.
func (n *Node) putHere(ctx context.Context, s *sess, ev clients.Event, a *ask.Ask) clients.Reply {
	surfaces, devices := n.broker.Reach()
	ours := surfaces+devices > 0
	h := ev.Host
	handOver := h.Dialog && !n.cfg.Settings.NoClientDialog && (h.Races || !ours)
	if h.Pane {
		handOver = !ours
	}
	if handOver {
		return n.handOver(ctx, s, ev, a)
	}
	d, err := n.wait(ctx, s, ev, a, nil)
	if err == nil && !d.Allows(a.Body.ID, a.Digest) && context.Cause(ctx) != errHookGone {
		return n.tellNo(s, ev, a, d) // the broker has recorded it
	}
	return n.settle(ctx, s, ev, a, d, err)
}

// wait puts a to the answerers of this node.
func (n *Node) wait(ctx context.Context, s *sess, ev clients.Event, a *ask.Ask, dialog broker.Dialog) (ask.Decision, error) {
	n.recordAsk(review.AskWaiting, s, a, nil, ask.Decision{}, "")
	like := likenessOf(a.Body.Action)
	n.mu.Lock()
	denied := s.repeats.count(like, time.Now())
	n.mu.Unlock()
	req := broker.Request{Ask: a, Decider: s.id, Offers: n.law.offers(s, a), Narrower: n.law.narrower(a), Timeout: n.cfg.Settings.AskTimeout, Dialog: dialog, Denied: denied}
	if dialog != nil {
		req.Elsewhere = []string{"the client's own dialog"}
	}
	return n.broker.Put(ctx, req)
}

// handOver lets the client's own dialog open. What it allows runs without a
// release of ours, so that it opens is durable first.
func (n *Node) handOver(ctx context.Context, s *sess, ev clients.Event, a *ask.Ask) clients.Reply {
	d := a.Body.Action.ActionDigest()
	err := n.log.Commit(ctx, n.askEvent(review.HandedToClientDialog, s, a))
	if err != nil {
		return n.cfg.Codec.Deny(ev, unrecorded(err))
	}
	n.let(s, call{ask: a.Body.ID, id: a.Body.Action.Call, digest: d, cwd: a.Body.Action.Cwd, how: letHanded, tool: a.Body.Action.ClientTool})
	return n.cfg.Codec.HandOver(ev, a.Body.Cause)
}

// settle turns a decision into the client's answer. An allow is judged again
// before it is let go.
func (n *Node) settle(ctx context.Context, s *sess, ev clients.Event, a *ask.Ask, d ask.Decision, err error) clients.Reply {
	if context.Cause(ctx) == errHookGone {
		n.record(n.askEvent(review.WithdrawnByClient, s, a))
		n.tellDelivered(a, broker.HowTooLate, "the client withdrew the call")
		return n.cfg.Codec.Silent(ev)
	}
	if err != nil && d.Outcome == "" {
		d = ask.Decision{Ask: a.Body.ID, Digest: a.Digest, Outcome: ask.Failed,
			By: ask.By{Kind: ask.KindGateError, Session: s.id}, Reason: err.Error()}
	}
	if err != nil || !d.Allows(a.Body.ID, a.Digest) {
		return n.refused(s, ev, a, d)
	}
	if why := n.releaseCheck(s, a); why != "" {
		n.record(n.askEvent(review.ReleaseRefused, s, a, review.Field{Key: review.KeyMessage, Value: why}))
		n.tellDelivered(a, broker.HowRefused, why)
		return n.cfg.Codec.Deny(ev, "it was allowed, but "+why)
	}
	if d.Grant != nil {
		n.keepGrant(s, a, d)
	}
	if err := n.log.Append(n.askEvent(review.Released, s, a)); err != nil {
		n.tellDelivered(a, broker.HowRefused, unrecorded(err))
		return n.cfg.Codec.Deny(ev, unrecorded(err))
	}
	n.let(s, call{ask: a.Body.ID, id: a.Body.Action.Call, digest: a.Body.Action.ActionDigest(), cwd: a.Body.Action.Cwd, how: letReleased, tool: a.Body.Action.ClientTool})
	n.tellDelivered(a, broker.HowReleased, "")
	return n.cfg.Codec.Allow(ev)
}

// refused records and answers a decision that does not allow.
func (n *Node) refused(s *sess, ev clients.Event, a *ask.Ask, d ask.Decision) clients.Reply {
	n.recordAsk(ended(d), s, a, &d.By, d, d.Reason)
	return n.tellNo(s, ev, a, d)
}

// tellNo answers a decision that does not allow and stands on the record.
func (n *Node) tellNo(s *sess, ev clients.Event, a *ask.Ask, d ask.Decision) clients.Reply {
	// A decider that may change its mind is not asked until it does.
	if (d.By.Person() || d.By.Decider().Kind == ask.KindLink) && d.Outcome == ask.Answered {
		like := likenessOf(a.Body.Action)
		n.mu.Lock()
		s.repeats.deny(like, d.By, d.Reason, time.Now())
		n.mu.Unlock()
	}
	n.tellDelivered(a, broker.HowReleased, "")
	return n.cfg.Codec.Deny(ev, authority.Sentence(d))
}

// letByRule releases what recorded authority allows.
func (n *Node) letByRule(ctx context.Context, s *sess, ev clients.Event, a *ask.Ask, j judgement) clients.Reply {
	e := n.askEvent(review.AskAutoApproved, s, a)
	v := ask.Allow
	e.Verdict, e.By, e.Reason = &v, &j.By, j.Reason
	if err := n.log.Commit(ctx, e); err != nil {
		return n.cfg.Codec.Deny(ev, unrecorded(err))
	}
	n.let(s, call{ask: a.Body.ID, id: a.Body.Action.Call, digest: a.Body.Action.ActionDigest(), cwd: a.Body.Action.Cwd, how: letReleased, tool: a.Body.Action.ClientTool})
	return n.cfg.Codec.Allow(ev)
}

// ruledOut refuses what recorded authority denies.
func (n *Node) ruledOut(s *sess, ev clients.Event, a *ask.Ask, j judgement) clients.Reply {
	d := ask.Decision{Ask: a.Body.ID, Digest: a.Digest, Outcome: ask.Answered, By: j.By, Reason: j.Reason}
	name := review.AskDenied
	if j.By.Kind == ask.KindProtection || j.By.Kind == ask.KindGateError {
		name = review.AskBlocked
	}
	n.recordAsk(name, s, a, &d.By, d, j.Reason)
	return n.cfg.Codec.Deny(ev, authority.Sentence(d))
}

// passPaused leaves a call to the client's own prompts.
func (n *Node) passPaused(s *sess, ev clients.Event, a *ask.Ask) clients.Reply {
	if ev.Host.Unasked {
		return n.cfg.Codec.Deny(ev, "permd is paused, and in mode "+ev.Mode+" this client would run the call unasked; leave that mode, or end the pause with: permd pause 0")
	}
	n.record(n.askEvent(review.AskWaiting, s, a, review.Field{Key: review.KeyMode, Value: "paused"}))
	n.let(s, call{ask: a.Body.ID, id: a.Body.Action.Call, digest: a.Body.Action.ActionDigest(), cwd: a.Body.Action.Cwd, how: letPaused, tool: a.Body.Action.ClientTool})
	return n.cfg.Codec.Silent(ev)
}

// askedAgain refuses without a prompt what was just denied, and what comes
// too fast for a person.
func (n *Node) askedAgain(s *sess, ev clients.Event, a *ask.Ask) (clients.Reply, bool) {
	now := time.Now()
	like := likenessOf(a.Body.Action)
	n.mu.Lock()
	k, why := s.repeats.refused(like, now)
	tooMany := why == "" && s.repeats.ask(n.cfg.Settings.AsksAMinute, now)
	n.mu.Unlock()
	d := ask.Decision{Ask: a.Body.ID, Digest: a.Digest, Outcome: ask.Answered, By: ask.By{Kind: ask.KindRepeat, Session: s.id}}
	switch {
	case why != "":
		d.By.Inner, d.Reason = nil, why
		_ = k
	case tooMany:
		d.Reason = fmt.Sprintf("this session asked more than %d times within a minute; slow down", n.cfg.Settings.AsksAMinute)
	default:
		return clients.Reply{}, false
	}
	n.recordAsk(review.AskDenied, s, a, &d.By, d, d.Reason)
	return n.cfg.Codec.Deny(ev, d.Reason), true
}

// releaseCheck judges the action again, with the file system as it is now. It
// returns why the call must not run, "" if it may.
func (n *Node) releaseCheck(s *sess, a *ask.Ask) string {
	if p := n.law.moved(a.Body.Action); p != "" {
		return "the path " + ask.Quote(p) + " points elsewhere by now"
	}
	if j := n.law.judge(s, a, roleOrigin); j.Verdict == ask.Deny {
		return "by now it is denied: " + j.Reason
	}
	return ""
}

func (n *Node) let(s *sess, k call) {
	k.at = time.Now()
	n.mu.Lock()
	s.calls.let(k)
	n.mu.Unlock()
}

func (n *Node) isTripped(s *sess) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.sessions[s.root]; r != nil && r.tripped {
		return true
	}
	return s.tripped
}

// broken refuses a call permd could not even describe.
func (n *Node) broken(s *sess, ev clients.Event, err error) clients.Reply {
	n.record(review.Event{Name: review.AskBlocked, Session: s.id, By: &ask.By{Kind: ask.KindGateError}, Reason: err.Error()})
	return n.cfg.Codec.Deny(ev, "permd cannot judge this call: "+err.Error())
}

func unrecorded(err error) string { return "the review log cannot be written: " + err.Error() }

type bodyOption func(*ask.Body)

func withID(id string) bodyOption    { return func(b *ask.Body) { b.ID = id } }
func withRisk(r ask.Risk) bodyOption { return func(b *ask.Body) { b.Risk = r } }

// build seals the ask of an event.
func (n *Node) build(s *sess, ev clients.Event, cause string, opts ...bodyOption) (*ask.Ask, error) {
	title, prompt := n.cfg.Codec.Question(ev)
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	action := *ev.Action
	n.mu.Lock()
	action.Project, action.Home = s.project, n.cfg.Dirs.Home
	who := n.who(s)
	n.mu.Unlock()
	n.law.complete(&action)
	b := ask.Body{ID: id.String(), Origin: ask.OriginGate, From: who, Title: title, Cause: cause, Action: &action,
		Items: ask.PermissionItems(prompt), Verbs: ask.Verbs{Reason: true}}
	for _, o := range opts {
		o(&b)
	}
	return ask.Seal(b)
}
