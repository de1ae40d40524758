package desk

import (
	"context"
	"time"

	"permd/api"
	"permd/ask"
)

// answer carries a face's answer to the node that asked. What can be refused
// here is refused at once; everything else is the node's to judge, also an
// answer that comes too late, so that it stands in the node's record.
func (d *desk) answer(me *face, n uint64, a ask.Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	refuse := func(word, text string) {
		_ = me.conn.Write(api.TVerdict, n, api.AnswerVerdict{Ask: a.Ask, Verdict: word, Text: text})
	}
	node, c := d.board.target(a.Ask)
	switch {
	case me.faces == 0:
		refuse(api.VerdictNotOffered, "no terminal, page or popup is attached here")
		return
	case node == "":
		refuse(api.VerdictUnknownAsk, "no ask with this id waits here; it may have ended long ago")
		return
	case me.pending >= maxAnswers:
		_ = me.conn.Fail(n, api.CodeUnavailable, "too many answers are on their way; wait for their verdicts")
		return
	}
	if c != nil && a.Offer != "" {
		if o := c.offer(a.Offer); o != nil && o.Scope.Width() > me.widest {
			refuse(api.VerdictScope, "a grant of scope "+string(o.Scope)+" cannot be given at this surface; use a terminal")
			return
		}
	}
	l := d.links[node]
	if l == nil || l.up == nil {
		if past, ok := d.board.past[a.Ask]; ok && c == nil {
			late(me, n, a.Ask, past.settled)
			return
		}
		_ = me.conn.Fail(n, api.CodeUnavailable, "the node that asked is not connected")
		return
	}
	s := l.up
	me.pending++
	wait, done := s.turn(a.Ask)
	origin := ask.OriginGate
	allowed := false
	if c != nil {
		shown := c.holders[0].shown.Ask
		origin = shown.Body.Origin
		allowed, _ = shown.Permission(&a)
	}
	allowed = allowed || a.Outcome == ask.Answered && origin != ask.OriginGate
	s.work.Go(func() {
		defer done(d)
		v, err := s.give(wait, a)
		d.verdict(me, n, node, a, allowed, v, err)
	})
}

// give sends an answer when those before it have their verdicts, after all
// that was said to the node before.
func (s *line) give(before <-chan struct{}, a ask.Answer) (api.AnswerVerdict, error) {
	for _, c := range []<-chan struct{}{before, s.said()} {
		if c == nil {
			continue
		}
		select {
		case <-c:
		case <-s.ended:
			return api.AnswerVerdict{}, api.ErrGone
		}
	}
	return s.a.Answer(context.Background(), a) // it returns when the connection ends
}

// said is closed when everything queued so far has been written.
func (s *line) said() <-chan struct{} {
	written := make(chan struct{})
	select {
	case s.calls <- func(*api.Answerer) error { close(written); return nil }:
	default:
		s.a.Close() // it does not read
	}
	return written
}

// verdict takes the node's word on an answer back to the face that gave it,
// and ends the ask on every other one if it counted.
func (d *desk) verdict(me *face, n uint64, node string, a ask.Answer, allowed bool, v api.AnswerVerdict, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	me.pending--
	if err != nil {
		_ = me.conn.Fail(n, api.CodeUnavailable, "it is not known whether the answer counted: "+ask.ExcerptLine(err.Error(), 200))
		return
	}
	now := time.Now()
	switch v.Verdict {
	case api.VerdictAccepted:
		d.tellLocked(d.board.accepted(node, api.Settled{Ask: a.Ask, How: api.SettledLocally, Surface: me.name,
			Outcome: a.Outcome, Allowed: allowed}, me, now)...)
	case api.VerdictNotRecorded:
		d.tellLocked(d.board.accepted(node, api.Settled{Ask: a.Ask, How: api.SettledCancel, Outcome: ask.Failed, Why: v.Text}, me, now)...)
	case api.VerdictTooLate:
		// The node knows the desk, the desk knows which of its faces.
		if past, ok := d.board.past[a.Ask]; ok && v.Winner == Name && past.settled.Surface != "" {
			v.Winner = past.settled.Surface
			v.Text = "answered first at " + v.Winner
		}
	}
	_ = me.conn.Write(api.TVerdict, n, v)
}

// late answers an answer to an ask that ended at a node which is gone.
func late(me *face, n uint64, id string, s api.Settled) {
	v := api.AnswerVerdict{Ask: id, Verdict: api.VerdictTooLate, Winner: s.Surface, Text: s.Why}
	if s.Surface != "" {
		v.Text = "answered first at " + s.Surface
	}
	_ = me.conn.Write(api.TVerdict, n, v)
}
