package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"permd/api"
	"permd/ask"
)

// TestNoRecordNoAllow: an answer whose record fails counts for nothing, and
// everybody is told so.
func TestNoRecordNoAllow(t *testing.T) {
	for name, fail := range map[string]func(int) error{
		"error": func(int) error { return errDisk },
		"panic": func(int) error { panic("log") },
		"slow error": func(int) error {
			time.Sleep(time.Minute)
			return errDisk
		},
	} {
		for _, answer := range []string{"allow", "deny"} {
			t.Run(name+" "+answer, func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.log.fail = fail
					f, r := w.desk()
					g, q := w.phone()
					a := newAsk(t, "a", "make")
					p := w.put(w.ctx, Request{Ask: a, Decider: "lead"})
					n := ask.AllowAnswer(a)
					if answer == "deny" {
						n = ask.DenyAnswer(a, "no")
					}
					v := r.Answer(n)
					verdictIs(t, v, api.VerdictNotRecorded)
					if !strings.Contains(v.Text, "cannot be written") {
						t.Errorf("the winner is told %q", v.Text)
					}
					d := p.wait(t)
					if d.Verdict != ask.Deny || d.Outcome != ask.Failed || d.By.Kind != ask.KindGateError || d.By.Person() ||
						!strings.Contains(d.Reason, "the review log cannot be written") || d.Grant != nil || d.Answer != nil {
						t.Errorf("decision %+v", d)
					}
					synctest.Wait()
					same(t, "winner told", f.ends())
					same(t, "other told", g.ends(), "a cancelled")
					if s := g.settled[0]; s.Allowed || s.Outcome != ask.Failed || s.Surface != "" {
						t.Errorf("other told %+v", s)
					}
					late := q.Answer(ask.AllowAnswer(a))
					verdictIs(t, late, api.VerdictTooLate)
					if late.Winner != "" || !strings.Contains(late.Text, "cannot be written") {
						t.Errorf("late: %+v", late)
					}
					if len(w.log.of("a")) != 0 {
						t.Error("a record that failed is there")
					}
				})
			})
		}
	}
	t.Run("what denies anyway keeps its reason", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.log.fail = func(int) error { return errDisk }
			w.phone()
			d := w.put(w.ctx, Request{Ask: newAsk(t, "a", "make"), Timeout: time.Second}).wait(t)
			if d.Outcome != ask.TimedOut || !strings.Contains(d.Reason, "nobody answered") || !strings.Contains(d.Reason, "no space left") {
				t.Errorf("decision %+v", d)
			}
		})
	})
	t.Run("a dialog is told as well", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.log.fail = func(int) error { return errDisk }
			var vs []string
			d := &dialog{verdict: func(v api.AnswerVerdict) { vs = append(vs, v.Verdict) },
				ask: func(_ context.Context, s api.Shown) (ask.Answer, error) { return ask.AllowAnswer(s.Ask), nil }}
			a := newAsk(t, "a", "make")
			if dec := w.put(w.ctx, Request{Ask: a, Dialog: d}).wait(t); dec.Allows("a", a.Digest) {
				t.Error("allowed without a record")
			}
			w.log.fail = nil
			b := newAsk(t, "b", "make")
			if dec := w.put(w.ctx, Request{Ask: b, Dialog: d}).wait(t); !dec.Allows("b", b.Digest) {
				t.Error("not allowed with one")
			}
			synctest.Wait()
			same(t, "verdicts", vs, api.VerdictNotRecorded, api.VerdictAccepted)
		})
	})
}

// TestNothingBeforeTheRecord: while the record is being written nobody is
// told anything and nothing is released; what comes meanwhile is late.
func TestNothingBeforeTheRecord(t *testing.T) {
	inWorld(t, func(w *world) {
		w.log.fail = func(int) error { time.Sleep(time.Minute); return nil }
		f, r := w.desk()
		g, q := w.phone()
		a := newAsk(t, "a", "make")
		ctx, cancel := context.WithCancel(w.ctx)
		p := w.put(ctx, Request{Ask: a})
		v := answering(r, ask.AllowAnswer(a))
		synctest.Wait()
		u := answering(q, ask.DenyAnswer(a, ""))
		cancel() // too late to take it back
		r.Close()
		h, _ := w.register(Identity{Name: "web", Kind: KindSurface, Faces: 1})
		if w.Recheck(func(*ask.Ask) (ask.Decision, bool) { t.Error("asked about a settled ask"); return ask.Decision{}, true }) != 0 {
			t.Error("settled twice")
		}
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		if !p.waits() || len(v)+len(u)+len(g.ends()) != 0 {
			t.Errorf("before the record: waits %t, %d and %d verdicts, %v", p.waits(), len(v), len(u), g.ends())
		}
		if d := p.wait(t); !d.Allows("a", a.Digest) {
			t.Errorf("decision %+v", d)
		}
		synctest.Wait()
		verdictIs(t, <-v, api.VerdictAccepted)
		verdictIs(t, <-u, api.VerdictTooLate)
		same(t, "phone told", g.ends(), "a answered-locally")
		same(t, "desk told", f.ends())
		same(t, "who came after the end was shown", h.ids())
		if n := len(w.log.of("a")); n != 1 {
			t.Errorf("%d records", n)
		}
	})
}

// TestWithdraw: a cancelled asker takes its ask back everywhere at once.
func TestWithdraw(t *testing.T) {
	inWorld(t, func(w *world) {
		f, r := w.desk()
		ctx, cancel := context.WithCancelCause(w.ctx)
		a := newAsk(t, "a", "make")
		p := w.put(ctx, Request{Ask: a})
		time.Sleep(time.Minute)
		cancel(errors.New("the client was interrupted"))
		d := p.wait(t)
		if d.Outcome != ask.Withdrawn || d.By.Kind != ask.KindWithdrawn || d.By.Person() || p.took != time.Minute ||
			!strings.Contains(d.Reason, "the client was interrupted") || !strings.Contains(d.Reason, "1m0s") {
			t.Errorf("after %s: %+v", p.took, d)
		}
		synctest.Wait()
		same(t, "desk told", f.ends(), "a cancelled")
		verdictIs(t, r.Answer(ask.AllowAnswer(a)), api.VerdictTooLate)
		if n := len(w.log.of("a")); n != 1 {
			t.Errorf("%d records", n)
		}
	})
}

// TestRecheck: a new grant settles what it covers and nothing else.
func TestRecheck(t *testing.T) {
	inWorld(t, func(w *world) {
		f, r := w.desk()
		var ps []*result
		for i, c := range []string{"curl docs/1", "curl docs/2", "rm -rf src", "curl docs/2"} {
			ps = append(ps, w.put(w.ctx, Request{Ask: newAsk(t, fmt.Sprint("a", i), c)}))
		}
		allow := ask.Decision{Verdict: ask.Allow, Outcome: ask.Answered, By: ask.By{Kind: ask.KindGrant, Grant: "g1"}}
		n := w.Recheck(func(a *ask.Ask) (ask.Decision, bool) {
			switch a.Body.ID {
			case "a2":
				panic("policy")
			case "a0":
				return ask.Decision{Verdict: ask.Allow, By: ask.By{Kind: ask.KindTimeout}}, true // no valid decision
			}
			return allow, strings.HasPrefix(a.Body.Action.Command, "curl")
		})
		if n != 1 {
			t.Errorf("settled %d cards, want 1", n)
		}
		for _, i := range []int{1, 3} {
			d := ps[i].wait(t)
			if id := fmt.Sprint("a", i); d.Verdict != ask.Allow || d.Ask != id || d.By.Grant != "g1" || len(w.log.of(id)) != 1 {
				t.Errorf("decision %+v", d)
			}
		}
		synctest.Wait()
		same(t, "desk told", f.ends(), "a1 answered-locally")
		deny := ask.Decision{Outcome: ask.Answered, By: ask.By{Kind: ask.KindRule, Rule: &ask.RuleRef{Layer: "user", File: "p.toml", Line: 3}}}
		w.Recheck(func(*ask.Ask) (ask.Decision, bool) { return deny, true })
		if d := ps[2].wait(t); d.Verdict != ask.Deny || d.By.Rule.Line != 3 {
			t.Errorf("decision %+v", d)
		}
		ps[0].wait(t)
		verdictIs(t, r.Answer(ask.AllowAnswer(f.shown[2].Ask)), api.VerdictTooLate)
	})
}

// TestDelivered: what the origin did reaches the cards once, and only after
// the decision left.
func TestDelivered(t *testing.T) {
	inWorld(t, func(w *world) {
		f, r := w.desk()
		g, _ := w.phone()
		// An answerer without the ability is left in peace.
		w.registerAs(struct{ Answerer }{&face{}}, Identity{Name: "plain", Kind: KindSurface, Faces: 1})
		a := newAsk(t, "a", "make")
		p := w.put(w.ctx, Request{Ask: a})
		if err := w.Delivered("a", HowReleased, ""); err == nil {
			t.Error("delivered before it was answered")
		}
		verdictIs(t, r.Answer(ask.AllowAnswer(a)), api.VerdictAccepted)
		p.wait(t)
		late, _ := w.register(Identity{Name: "web", Kind: KindSurface, Faces: 1})
		if err := w.Delivered("a", HowRefused, "a rule came meanwhile"); err != nil {
			t.Error(err)
		}
		if err := w.Delivered("a", HowReleased, ""); err == nil {
			t.Error("delivered twice")
		}
		if err := w.Delivered("b", HowReleased, ""); !errors.Is(err, ErrUnknown) {
			t.Errorf("unknown ask: %v", err)
		}
		synctest.Wait()
		for i, x := range []*face{f, g} {
			if len(x.delivered) != 1 || x.delivered[0] != (api.Delivered{Ask: "a", How: HowRefused, Why: "a rule came meanwhile"}) {
				t.Errorf("%d was told %+v", i, x.delivered)
			}
		}
		if len(late.delivered) != 0 {
			t.Error("told to a surface that never had the ask")
		}
	})
}

// TestPutRefuses: what is refused denies, with an error.
func TestPutRefuses(t *testing.T) {
	inWorld(t, func(w *world) {
		w.desk()
		a := newAsk(t, "a", "make")
		p := w.put(w.ctx, Request{Ask: a})
		for name, c := range map[string]struct {
			r    Request
			want error
		}{
			"no ask":         {Request{}, nil},
			"not sealed":     {Request{Ask: &ask.Ask{Body: a.Body}}, nil},
			"decider no id":  {Request{Ask: newAsk(t, "c", "ls"), Decider: "../x"}, nil},
			"an id in use":   {Request{Ask: newAsk(t, "a", "rm -rf src")}, ErrDuplicate},
			"the same again": {Request{Ask: a}, ErrDuplicate},
		} {
			d, err := w.Put(w.ctx, c.r)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || d.Allows(d.Ask, d.Digest) || d.Verdict != ask.Deny {
				t.Errorf("%s: %+v, %v", name, d, err)
			}
		}
		if !p.waits() {
			t.Error("a refused put disturbed the one that waits")
		}
		w.Withdraw("a", "enough")
		p.wait(t)
		// A settled id may be put again: a session that lost its parent asks here.
		p = w.put(w.ctx, Request{Ask: a})
		if !p.waits() {
			t.Error("an ask cannot come back")
		}
	})
	b := New(&journal{}, Options{})
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	d, err := b.Put(t.Context(), Request{Ask: newAsk(t, "a", "make")})
	if !errors.Is(err, ErrClosed) || d.Verdict != ask.Deny || d.Check() != nil {
		t.Errorf("after close: %+v, %v", d, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a broker without a recorder can be made")
		}
	}()
	New(nil, Options{})
}

// TestCardStaysWhileItsIDIsOpen: an ask whose card still answers an equal one
// cannot open a second card of the same id.
func TestCardStaysWhileItsIDIsOpen(t *testing.T) {
	inWorld(t, func(w *world) {
		f, _ := w.desk()
		w.put(w.ctx, Request{Ask: newAsk(t, "a", "make")})
		w.put(w.ctx, Request{Ask: newAsk(t, "b", "make")})
		w.Withdraw("a", "gone")
		if _, err := w.Put(w.ctx, Request{Ask: newAsk(t, "a", "rm -rf src")}); !errors.Is(err, ErrDuplicate) {
			t.Errorf("%v", err)
		}
		same(t, "cards", f.ids(), "a")
	})
}

// TestWords: what people read names who and how long, and never the command.
func TestWords(t *testing.T) {
	inWorld(t, func(w *world) {
		w.phone()
		w.phone()
		_, r := w.desk()
		const secret = "curl -H token:hunter2"
		p := w.put(w.ctx, Request{Ask: newAsk(t, "a", secret), Decider: "lead", Timeout: 90 * time.Second})
		r.Close()
		d := p.wait(t)
		if want := "nobody answered within 1m30s; session lead waited for 2 paired devices"; d.Reason != want {
			t.Errorf("%q, want %q", d.Reason, want)
		}
		ctx, cancel := context.WithCancelCause(w.ctx)
		cancel(fmt.Errorf("bad \x1b[31m %s", strings.Repeat("x", 500)))
		d = w.put(ctx, Request{Ask: newAsk(t, "b", secret), Timeout: time.Hour}).wait(t)
		if strings.ContainsAny(d.Reason, "\x1b\n") || len(d.Reason) > 300 {
			t.Errorf("%q", d.Reason)
		}
		for _, rec := range w.log.records {
			if strings.Contains(rec.Decision.Reason, "hunter2") {
				t.Errorf("the reason echoes the command: %q", rec.Decision.Reason)
			}
		}
	})
}
