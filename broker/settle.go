package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"permd/api"
	"permd/ask"
)

// settle is the compare-and-set of an open entry: from here on s is how it
// ends, for everybody who waits. The returned function records it, tells
// everybody and wakes the waiters; the caller runs it without b.mu.
func (b *Broker) settle(e *entry, s *settlement) func() {
	ws := e.waiters
	e.won, e.waiters = true, nil
	if i := slices.Index(b.list, e); i >= 0 {
		b.list = slices.Delete(b.list, i, i+1)
	}
	if b.byKey[e.key] == e {
		delete(b.byKey, e.key)
	}
	waitMS := e.limit(ws)
	if e.clock.timer != nil {
		e.clock.timer.Stop()
		e.clock.timer = nil
	}
	records := b.claim(ws, s, waitMS)
	return func() {
		defer b.busy.Done()
		ev, err := b.commit(records)
		b.mu.Lock()
		fx := b.conclude(ws, records, ev, err)
		b.announce(e, s, fx, err)
		b.mu.Unlock()
		e.dialog.close(b, s, e.end)
		b.hand(ws, fx)
		close(e.settled)
	}
}

// leave ends one waiter of an entry for which others still wait. Nothing is
// told: the card stays.
func (b *Broker) leave(w *waiter, s *settlement) func() {
	e := w.e
	e.waiters = slices.DeleteFunc(e.waiters, func(x *waiter) bool { return x == w })
	ws := []*waiter{w}
	records := b.claim(ws, s, e.limit(ws))
	return func() {
		defer b.busy.Done()
		ev, err := b.commit(records)
		b.mu.Lock()
		fx := b.conclude(ws, records, ev, err)
		b.mu.Unlock()
		b.hand(ws, fx)
	}
}

// claim moves waiters to won and makes their records. b.mu is held.
func (b *Broker) claim(ws []*waiter, s *settlement, waitMS *int64) []Record {
	b.busy.Add(1)
	now := time.Now()
	records := make([]Record, len(ws))
	for i, w := range ws {
		w.phase, _, _ = step(w.phase, win) // open: the caller holds the entry
		records[i] = Record{Ask: w.ask, Waited: now.Sub(w.since), Decision: s.decision(w, waitMS)}
	}
	return records
}

// commit writes records on a context nobody can cancel.
func (b *Broker) commit(records []Record) (ev event, err error) {
	if !contained(func() { err = b.rec.Commit(context.Background(), records) }) {
		err = fmt.Errorf("the recorder failed")
	}
	if err != nil {
		return notStored, err
	}
	return stored, nil
}

// conclude gives every waiter its decision. b.mu is held.
func (b *Broker) conclude(ws []*waiter, records []Record, ev event, err error) []effect {
	var fx []effect
	for i, w := range ws {
		w.phase, fx, _ = step(w.phase, ev)
		w.decision = records[i].Decision
		if ev == notStored {
			w.decision = unrecorded(w.decision, err)
		}
	}
	return fx
}

// announce tells the answerers of a settled entry. b.mu is held.
func (b *Broker) announce(e *entry, s *settlement, fx []effect, err error) {
	e.end = api.Settled{Ask: e.id, How: s.how, Surface: s.surface, Outcome: s.outcome,
		Allowed: s.verdict == ask.Allow && s.outcome == ask.Answered, Why: s.why}
	e.failure = err
	if slices.Contains(fx, fxVoid) && s.counts() {
		e.end = api.Settled{Ask: e.id, How: api.SettledCancel, Outcome: ask.Failed, Why: cannotWrite(err)}
	}
	if slices.Contains(fx, fxTell) {
		for r := range e.held {
			e.told = append(e.told, r)
			if r != s.winner {
				end := e.end
				r.out.put(func(context.Context) { r.to.Settled(end) })
			}
		}
	}
	e.held, e.ask, e.req = nil, nil, Request{}
}

func (b *Broker) hand(ws []*waiter, fx []effect) {
	if slices.Contains(fx, fxHandOver) {
		for _, w := range ws {
			close(w.done)
		}
	}
}

// remember keeps an ask whose decision has left, for late answers and the
// origin's report, without what it no longer needs (a body may have
// megabytes), and forgets the oldest. b.mu is held.
func (b *Broker) remember(w *waiter) {
	w.ask, w.req, w.decision = nil, Request{}, ask.Decision{}
	b.ring = append(b.ring, w)
	if len(b.ring) <= keep {
		return
	}
	old := b.ring[0]
	b.ring = slices.Delete(b.ring, 0, 1)
	if b.asks[old.id] == old {
		delete(b.asks, old.id)
	}
}

// limit is the limit that runs for the waiters now, nil when there is none.
// b.mu is held.
func (e *entry) limit(ws []*waiter) *int64 {
	if e.clock.mode != waitLimit || len(ws) == 0 {
		return nil
	}
	ms := max(ws[0].req.Timeout, 0).Milliseconds()
	return &ms
}

// counts reports whether s is an answer, which a failed record undoes.
func (s *settlement) counts() bool { return s.answer != nil || s.outcome == ask.Answered }

// decision is s for one waiter.
func (s *settlement) decision(w *waiter, waitMS *int64) ask.Decision {
	d := ask.Decision{Ask: w.ask.Body.ID, Digest: w.digest, Verdict: s.verdict, Outcome: s.outcome,
		By: s.by, Reason: s.reason, Grant: s.grant, WaitMS: waitMS}
	if s.answer != nil {
		a := *s.answer
		a.Ask, a.Digest = d.Ask, d.Digest
		d.Answer = &a
	}
	return d
}
