package node

import (
	"context"
	"errors"
	"time"

	"permd/api"
	"permd/ask"
	"permd/broker"
	"permd/clients"
	"permd/review"
	"permd/selection"
)

// approval answers while the client's own dialog is open, or would be.
func (n *Node) approval(ctx context.Context, s *sess, ev clients.Event) clients.Reply {
	choice := n.activate(ctx, s)
	d := ev.Action.ActionDigest()
	n.mu.Lock()
	handed := s.calls.handed(d)
	how, known := s.calls.known(d)
	n.mu.Unlock()
	a, err := n.build(s, ev, "")
	if err != nil {
		return n.broken(s, ev, err)
	}
	j := n.law.judge(s, a, roleOrigin)
	if j.Verdict == ask.Deny {
		return n.ruledOut(s, ev, a, j)
	}
	if known && how == letPaused {
		return n.cfg.Codec.Silent(ev)
	}
	cause := j.Cause
	switch {
	case j.Verdict == ask.Allow && n.isTripped(s):
		cause = causeTripped
	case j.Verdict == ask.Allow && handed == nil:
		// permd had allowed it: the client's own rules want a person.
		cause = "the client's own rules ask for this"
	}
	id := a.Body.ID
	if handed != nil {
		id = handed.ask // one ask has one id from end to end
	}
	if a, err = n.build(s, ev, cause, withID(id), withRisk(j.Risk)); err != nil {
		return n.broken(s, ev, err)
	}
	if j.Verdict == ask.Allow && handed != nil && !n.isTripped(s) {
		// A grant came while the dialog was on its way.
		return n.letDialog(ctx, s, ev, a, j, handed)
	}
	if !ev.Host.Dialog {
		if handed == nil {
			return n.put(ctx, s, ev, a, choice)
		}
		return n.cfg.Codec.Silent(ev)
	}
	surfaces, devices := n.broker.Reach()
	if choice.Authority != selection.Local || surfaces+devices == 0 {
		return n.cfg.Codec.Silent(ev) // the dialog decides alone
	}
	return n.race(ctx, s, ev, a, handed)
}

// race puts the ask to our surfaces while the client's dialog is open.
func (n *Node) race(ctx context.Context, s *sess, ev clients.Event, a *ask.Ask, handed *call) clients.Reply {
	dialog := newOpenDialog(n.cfg.Codec.Client())
	if handed == nil {
		handed = n.letHandedNow(s, ev, a)
	}
	n.mu.Lock()
	n.dialogs(s)[handed] = dialog
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		delete(n.dialogs(s), handed)
		n.mu.Unlock()
	}()
	d, err := n.wait(ctx, s, ev, a, dialog)
	switch {
	case context.Cause(ctx) == errHookGone:
		n.record(n.askEvent(review.WithdrawnByClient, s, a))
		n.tellDelivered(a, broker.HowTooLate, "the client closed its dialog")
		return n.cfg.Codec.Silent(ev)
	case err != nil:
		return n.cfg.Codec.Silent(ev) // the dialog is open: the person there decides
	case d.By.Decider().Kind == ask.KindClientDialog:
		n.tellDelivered(a, broker.HowReleased, "answered in the client's own dialog")
		return n.cfg.Codec.Silent(ev)
	case !d.Allows(a.Body.ID, a.Digest):
		if d.Outcome != ask.Answered {
			return n.cfg.Codec.Silent(ev)
		}
		n.sent(handed, "deny")
		return n.tellNo(s, ev, a, d)
	}
	if why := n.releaseCheck(s, a); why != "" {
		n.record(n.askEvent(review.ReleaseRefused, s, a, review.Field{Key: review.KeyMessage, Value: why}))
		n.tellDelivered(a, broker.HowRefused, why)
		return n.cfg.Codec.Deny(ev, "it was allowed, but "+why)
	}
	if d.Grant != nil {
		n.keepGrant(s, a, d)
	}
	n.sent(handed, "allow")
	// The client drops an answer its person has overtaken, so this is sent
	// and not delivered until the tool event confirms it.
	n.record(n.askEvent(review.AnswerDelivered, s, a, review.Field{Key: review.KeyDelivered, Value: "sent"}))
	return n.cfg.Codec.Allow(ev)
}

// letDialog answers an open dialog by what recorded authority says now.
func (n *Node) letDialog(ctx context.Context, s *sess, ev clients.Event, a *ask.Ask, j judgement, handed *call) clients.Reply {
	e := n.askEvent(review.AskAutoApproved, s, a)
	v := ask.Allow
	e.Verdict, e.By, e.Reason = &v, &j.By, j.Reason
	if n.log.Commit(ctx, e) != nil {
		return n.cfg.Codec.Silent(ev) // the person at the dialog decides
	}
	n.sent(handed, "allow")
	return n.cfg.Codec.Allow(ev)
}

// letHandedNow remembers a call whose dialog the client opened by itself.
func (n *Node) letHandedNow(s *sess, ev clients.Event, a *ask.Ask) *call {
	n.record(n.askEvent(review.HandedToClientDialog, s, a))
	n.mu.Lock()
	defer n.mu.Unlock()
	return s.calls.let(call{ask: a.Body.ID, id: a.Body.Action.Call, digest: a.Body.Action.ActionDigest(), cwd: a.Body.Action.Cwd, how: letHanded,
		tool: a.Body.Action.ClientTool, at: time.Now()})
}

func (n *Node) sent(k *call, what string) {
	n.mu.Lock()
	k.sent = what
	n.mu.Unlock()
}

// dialogs are the open dialogs of s that race with our surfaces. n.mu is held.
func (n *Node) dialogs(s *sess) map[*call]*openDialog {
	if s.open == nil {
		s.open = map[*call]*openDialog{}
	}
	return s.open
}

// openDialog is a client's dialog that we can neither open nor close: it is
// believed only over what the client reports as run. It implements
// broker.Dialog.
type openDialog struct {
	client string
	ran    chan struct{}
}

var _ broker.Dialog = (*openDialog)(nil)

func newOpenDialog(client string) *openDialog {
	return &openDialog{client: client, ran: make(chan struct{}, 1)}
}

// Ask waits until the client reports the call as run: its person allowed it.
func (d *openDialog) Ask(ctx context.Context, s api.Shown) (ask.Answer, error) {
	select {
	case <-d.ran:
		return ask.AllowAnswer(s.Ask), nil
	case <-ctx.Done():
		return ask.Answer{}, errors.New("the dialog was overtaken")
	}
}

func (d *openDialog) report() {
	select {
	case d.ran <- struct{}{}:
	default:
	}
}
