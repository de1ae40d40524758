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

// TestRegister: who registers late gets everything that waits, in the order
// it came; who leaves is out of everything and settles nothing.
func TestRegister(t *testing.T) {
	inWorld(t, func(w *world) {
		f, r := w.desk()
		var ps []*result
		for i := range 5 {
			ps = append(ps, w.put(w.ctx, Request{Ask: newAsk(t, fmt.Sprint("a", i), fmt.Sprint("make ", i)), Timeout: time.Hour}))
			time.Sleep(time.Second)
		}
		verdictIs(t, r.Answer(ask.AllowAnswer(f.shown[1].Ask)), api.VerdictAccepted) // by id, not the oldest
		ps[1].wait(t)
		g, q := w.phone()
		synctest.Wait()
		same(t, "shown first", f.ids(), "a0", "a1", "a2", "a3", "a4")
		same(t, "shown late", g.ids(), "a0", "a2", "a3", "a4")
		var snap []string
		for _, s := range w.Snapshot() {
			snap = append(snap, s.Ask.Body.ID)
		}
		same(t, "snapshot", snap, "a0", "a2", "a3", "a4")
		if s, d := w.Reach(); s != 1 || d != 1 {
			t.Errorf("reach %d, %d", s, d)
		}
		r.Close()
		r.Close()
		<-r.Done()
		if s, d := w.Reach(); s != 0 || d != 1 {
			t.Errorf("reach %d, %d after the desk left", s, d)
		}
		for i, p := range ps {
			if p.waits() != (i != 1) {
				t.Errorf("ask %d ended when a surface left", i)
			}
		}
		verdictIs(t, q.Answer(ask.AllowAnswer(g.shown[0].Ask)), api.VerdictAccepted)
		ps[0].wait(t)
		same(t, "desk told after it left", f.ends())
	})
}

func TestRegisterRefuses(t *testing.T) {
	b := New(&journal{}, Options{})
	for _, id := range []Identity{
		{}, {Name: "x"}, {Name: "x", Kind: "god"}, {Kind: KindSurface}, {Name: strings.Repeat("x", 129), Kind: KindSurface},
		{Name: "a\u202eb", Kind: KindSurface}, {Name: "a\nb", Kind: KindSurface}, {Name: "\xff", Kind: KindSurface},
		{Name: "x", Kind: KindSurface, Faces: -1},
	} {
		if r, err := b.Register(&face{}, id); !errors.Is(err, ErrIdentity) || r != nil {
			t.Errorf("%+v: %v", id, err)
		}
	}
	if err := b.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := b.Register(&face{}, Identity{Name: "x", Kind: KindSurface}); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

// TestHide: an answerer that lost an ask is out of that one only, is not told
// how it ends, and sees it again when a new face attaches.
func TestHide(t *testing.T) {
	inWorld(t, func(w *world) {
		f, r := w.desk()
		w.phone()
		a, b := newAsk(t, "a", "make a"), newAsk(t, "b", "make b")
		pa := w.put(w.ctx, Request{Ask: a, Timeout: time.Minute})
		pb := w.put(w.ctx, Request{Ask: b, Timeout: time.Minute})
		r.Hide("a")
		r.Hide("a")
		r.Hide("nothing")
		verdictIs(t, r.Answer(ask.AllowAnswer(a)), api.VerdictNotOffered)
		time.Sleep(time.Minute)
		if d := pa.wait(t); d.Outcome != ask.TimedOut {
			t.Errorf("a hidden ask ended as %s", d.Outcome)
		}
		if !pb.waits() {
			t.Fatal("hiding one ask changed another")
		}
		same(t, "told", f.ends())
		r.Hide("b")
		r.SetFaces(0)
		r.SetFaces(2)
		synctest.Wait()
		same(t, "shown", f.ids(), "a", "b", "b")
		verdictIs(t, r.Answer(ask.AllowAnswer(b)), api.VerdictAccepted)
		pb.wait(t)
		if id := r.Identity(); id.Faces != 2 || id.Name != "terminal" {
			t.Errorf("identity %+v", id)
		}
	})
}

// TestForget: trust ends at once, also for what is on the device's screen.
func TestForget(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.phone()
		a := newAsk(t, "a", "make")
		p := w.put(w.ctx, Request{Ask: a, Timeout: time.Hour})
		r.Distrust()
		verdictIs(t, r.Answer(ask.AllowAnswer(a)), api.VerdictNotTrusted)
		if d := p.wait(t); d.Outcome != ask.Unavailable || p.took != DefaultGrace {
			t.Errorf("%s after %s", d.Outcome, p.took)
		}
	})
}

// TestEqualAsksJoin: one card, every waiter with its own id, digest, record.
func TestEqualAsksJoin(t *testing.T) {
	inWorld(t, func(w *world) {
		f, r := w.desk()
		a, b, c := newAsk(t, "a", "make"), newAsk(t, "b", "make"), newAsk(t, "c", "make")
		pa := w.put(w.ctx, Request{Ask: a, Offers: offers()})
		r.OnScreen("a")
		shown := 0
		pb := w.put(w.ctx, Request{Ask: b, OnShown: func() { shown++ }})
		ctx, cancel := context.WithCancel(w.ctx)
		pc := w.put(ctx, Request{Ask: c})
		same(t, "cards", f.ids(), "a")
		if len(w.Snapshot()) != 1 || shown != 1 {
			t.Errorf("%d cards; the joined asker was told %d times that it is on screen", len(w.Snapshot()), shown)
		}
		cancel()
		if d := pc.wait(t); d.Outcome != ask.Withdrawn || d.Ask != "c" {
			t.Errorf("decision %+v", d)
		}
		synctest.Wait()
		same(t, "told of one that left", f.ends())
		verdictIs(t, r.Answer(ask.AllowAnswer(b)), api.VerdictNotOffered)
		verdictIs(t, r.Answer(taking(t, f.shown[0], "t")), api.VerdictAccepted)
		da, db := pa.wait(t), pb.wait(t)
		if !da.Allows("a", a.Digest) || !db.Allows("b", b.Digest) || da.Grant == nil || da.Grant.ID != db.Grant.ID {
			t.Errorf("decisions %+v and %+v", da, db)
		}
		for _, id := range []string{"a", "b", "c"} {
			if n := len(w.log.of(id)); n != 1 {
				t.Errorf("%d records of %s", n, id)
			}
		}
		if w.log.commits != 2 {
			t.Errorf("%d commits; one answer is one commit", w.log.commits)
		}
	})
}

// TestCardOutlivesItsAsker: when the first of two equal askers goes, its card
// answers the other.
func TestCardOutlivesItsAsker(t *testing.T) {
	inWorld(t, func(w *world) {
		f, r := w.desk()
		a, b := newAsk(t, "a", "make"), newAsk(t, "b", "make")
		pa, pb := w.put(w.ctx, Request{Ask: a}), w.put(w.ctx, Request{Ask: b})
		if !w.Withdraw("a", "the client ended") || w.Withdraw("a", "again") || w.Withdraw("zzz", "who") {
			t.Error("withdraw says the wrong thing")
		}
		if d := pa.wait(t); d.Outcome != ask.Withdrawn || !strings.Contains(d.Reason, "the client ended") {
			t.Errorf("decision %+v", d)
		}
		// The same ask again joins the card that carries its id.
		pa = w.put(w.ctx, Request{Ask: a})
		verdictIs(t, r.Answer(ask.AllowAnswer(a)), api.VerdictAccepted)
		if d := pa.wait(t); !d.Allows("a", a.Digest) {
			t.Errorf("decision %+v", d)
		}
		if d := pb.wait(t); !d.Allows("b", b.Digest) {
			t.Errorf("decision %+v", d)
		}
		same(t, "cards", f.ids(), "a")
		if err := w.Delivered("b", HowReleased, ""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(f.delivered) != 1 || f.delivered[0].Ask != "a" {
			t.Errorf("the card was told %+v", f.delivered)
		}
	})
}

// TestUnequalAsksDoNotJoin: whatever a person would have to see anew.
func TestUnequalAsksDoNotJoin(t *testing.T) {
	base := func(id string) Request { return Request{Ask: newAsk(t, id, "make")} }
	reseal := func(r Request, f func(*ask.Body)) Request {
		b := r.Ask.Body
		act := *b.Action
		b.Action = &act
		f(&b)
		a, err := ask.Seal(b)
		if err != nil {
			t.Fatal(err)
		}
		a.Header = r.Ask.Header
		r.Ask = a
		return r
	}
	for name, change := range map[string]func(Request) Request{
		"another command": func(r Request) Request { r.Ask = newAsk(t, "b", "make install"); return r },
		"another session": func(r Request) Request {
			return reseal(r, func(b *ask.Body) { b.From.Session = "sibling" })
		},
		"another directory": func(r Request) Request {
			return reseal(r, func(b *ask.Body) { b.Action.Cwd = "/" })
		},
		"another place of the same path": func(r Request) Request {
			return reseal(r, func(b *ask.Body) {
				b.Action.Paths = []ask.Path{{Given: "x", Real: "/etc/x", Access: ask.AccessWrite}}
			})
		},
		"another title": func(r Request) Request { return reseal(r, func(b *ask.Body) { b.Title = "harmless" }) },
		"another path up": func(r Request) Request {
			r.Ask = r.Ask.WithHop(ask.Hop{Session: "mid", Node: "n2"})
			return r
		},
		"a claimed parent": func(r Request) Request {
			r.Ask.Header.Path = []ask.Hop{{Session: "child", Node: "n1", Claimed: true}}
			return r
		},
		"another decider":     func(r Request) Request { r.Decider = "lead"; return r },
		"a dialog of its own": func(r Request) Request { r.Dialog = silent(); return r },
		"a dialog beside it":  func(r Request) Request { r.ClientDialog = true; return r },
		"a question":          func(r Request) Request { r.Ask = newQuestion(t, "b"); return r },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				f, _ := w.desk()
				w.put(w.ctx, base("a"))
				w.put(w.ctx, change(base("b")))
				same(t, "cards", f.ids(), "a", "b")
			})
		})
	}
	// Two questions with the same words are two questions.
	inWorld(t, func(w *world) {
		f, _ := w.desk()
		w.put(w.ctx, Request{Ask: newQuestion(t, "a")})
		w.put(w.ctx, Request{Ask: newQuestion(t, "b")})
		same(t, "cards", f.ids(), "a", "b")
	})
}

// silent is a dialog that never answers.
func silent() *dialog {
	over := make(chan struct{})
	return &dialog{settled: func(api.Settled) { close(over) }, ask: func(ctx context.Context, _ api.Shown) (ask.Answer, error) {
		select {
		case <-ctx.Done():
		case <-over:
		}
		return ask.Answer{}, context.Canceled
	}}
}
