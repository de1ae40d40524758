package broker

import (
	"context"
	"errors"
	"time"

	"permd/api"
	"permd/ask"
)

// dialogCall is a client's dialog while it is called for one ask.
type dialogCall struct {
	to     Dialog
	who    Identity
	open   bool               // guarded by b.mu: it can still answer
	cancel context.CancelFunc // nil when it is called plainly
}

// call calls e's dialog: with the asker's context as it is when nobody else
// can answer, else with one that ends when somebody else settles. b.mu is held.
func (b *Broker) call(ctx context.Context, e *entry, alone bool, now time.Time) {
	d := e.dialog
	d.to = e.req.Dialog
	d.who = Identity{Name: e.ask.Body.From.Client + " dialog", Kind: KindDialog, Faces: 1}
	if !alone {
		ctx, d.cancel = context.WithCancel(ctx)
	}
	s, a, req := e.view(d.who.widest(), now), e.ask, e.req
	b.calls.Go(func() {
		var ans ask.Answer
		var err error
		if !contained(func() { ans, err = d.to.Ask(ctx, s) }) {
			err = errors.New("it panicked")
		}
		b.dialogSaid(ctx, e, a, &req, &ans, err)
	})
}

// dialogSaid takes what a dialog returned. It has one chance: an error or an
// answer that is not valid takes it out of the ask.
func (b *Broker) dialogSaid(ctx context.Context, e *entry, a *ask.Ask, req *Request, ans *ask.Answer, err error) {
	d := e.dialog
	var s *settlement
	if err == nil {
		var no *api.AnswerVerdict
		if s, no = examine(a, ans, req, d.who); no != nil {
			err = errors.New(no.Text)
		}
	}
	b.mu.Lock()
	// An asker that went away withdraws by itself.
	if e.won || err != nil && ctx.Err() != nil {
		b.mu.Unlock()
		return
	}
	if err != nil {
		d.open = false
		if e.mode() != waitNobody {
			b.arrange(e)
			b.mu.Unlock()
			return
		}
		s = e.failed("the client's dialog failed: " + shorten(err.Error()))
	}
	s.dialog = d
	end := b.settle(e, s)
	b.mu.Unlock()
	end()
	if v, ok := d.to.(interface{ Verdict(api.AnswerVerdict) }); ok && err == nil {
		contained(func() { v.Verdict(e.verdict()) })
	}
}

// close tells the dialog that somebody else settled its ask.
func (d *dialogCall) close(b *Broker, s *settlement, end api.Settled) {
	if d == nil {
		return
	}
	if d.cancel != nil {
		d.cancel()
	}
	b.mu.Lock()
	open := d.open
	d.open = false
	b.mu.Unlock()
	if t, ok := d.to.(interface{ Settled(api.Settled) }); ok && open && s.dialog != d {
		b.calls.Go(func() { contained(func() { t.Settled(end) }) })
	}
}
