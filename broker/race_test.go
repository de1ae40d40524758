package broker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"permd/api"
	"permd/ask"
)

// TestPlainCall: with nobody registered the client's dialog is called once,
// with the asker's own context, and the record is written all the same.
func TestPlainCall(t *testing.T) {
	inWorld(t, func(w *world) {
		a := newAsk(t, "a", "make")
		calls := 0
		told := 0
		var got context.Context
		d := &dialog{ask: func(ctx context.Context, s api.Shown) (ask.Answer, error) {
			calls++
			got = ctx
			if s.Ask.Digest != a.Digest {
				t.Error("another ask was shown")
			}
			return ask.AllowAnswer(s.Ask), nil
		}, settled: func(api.Settled) { told++ }}
		dec := w.put(w.ctx, Request{Ask: a, Dialog: d, Timeout: time.Second}).wait(t)
		if calls != 1 || got != w.ctx {
			t.Errorf("%d calls, asker's own context: %t", calls, got == w.ctx)
		}
		if told != 0 {
			t.Error("the winner was told that somebody settled it")
		}
		if !dec.Allows("a", a.Digest) || dec.By.Kind != ask.KindClientDialog || dec.By.Surface != "claude" || dec.WaitMS != nil {
			t.Errorf("decision %+v", dec)
		}
		if n := len(w.log.of("a")); n != 1 {
			t.Errorf("%d records", n)
		}
	})
}

// TestDialogBesideOthers: with somebody registered the dialog gets a context
// that ends when somebody else settles the ask, and is told so once.
func TestDialogBesideOthers(t *testing.T) {
	t.Run("dialog first", func(t *testing.T) {
		inWorld(t, func(w *world) {
			f, r := w.phone()
			g, _ := w.desk()
			a := newAsk(t, "a", "make")
			d := &dialog{ask: func(ctx context.Context, s api.Shown) (ask.Answer, error) {
				if ctx == w.ctx || ctx.Done() == nil {
					t.Error("no signal, though others can answer")
				}
				time.Sleep(time.Second)
				return ask.DenyAnswer(s.Ask, ""), nil
			}}
			dec := w.put(w.ctx, Request{Ask: a, Dialog: d}).wait(t)
			if dec.Verdict != ask.Deny || dec.Outcome != ask.Answered || dec.By.Person() {
				t.Errorf("decision %+v", dec)
			}
			synctest.Wait()
			same(t, "phone told", f.ends(), "a answered-locally")
			same(t, "desk told", g.ends(), "a answered-locally")
			v := r.Answer(ask.AllowAnswer(a))
			verdictIs(t, v, api.VerdictTooLate)
			if v.Winner != "claude dialog" {
				t.Errorf("winner %q", v.Winner)
			}
		})
	})
	for _, late := range []bool{false, true} {
		name := "phone first"
		if late {
			name = "phone first, which came after the plain call began"
		}
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var r *Registration
				if !late {
					_, r = w.phone()
				}
				g := &face{}
				a := newAsk(t, "a", "make")
				closed := make(chan struct{})
				var end api.Settled
				told := 0
				d := &dialog{settled: func(s api.Settled) {
					told++
					end = s
					close(closed)
				}, ask: func(ctx context.Context, s api.Shown) (ask.Answer, error) {
					select {
					case <-ctx.Done():
					case <-closed:
					}
					// A cancelled dialog says no: it must not be read.
					return ask.DenyAnswer(s.Ask, ""), nil
				}}
				p := w.put(w.ctx, Request{Ask: a, Dialog: d})
				if late {
					_, r = w.phone()
				}
				w.registerAs(g, Identity{Name: "web", Kind: KindSurface, Faces: 1})
				synctest.Wait()
				verdictIs(t, r.Answer(ask.AllowAnswer(a)), api.VerdictAccepted)
				dec := p.wait(t)
				synctest.Wait()
				if !dec.Allows("a", a.Digest) || dec.By.Kind != ask.KindDevice || dec.By.Surface != "SHA256:f00d" {
					t.Errorf("decision %+v", dec)
				}
				if told != 1 || end.How != api.SettledRemotely || !end.Allowed {
					t.Errorf("dialog told %d times: %+v", told, end)
				}
				same(t, "web told", g.ends(), "a answered-remotely")
			})
		})
	}
}

// TestDialogFails: an error, a panic, a foreign and an invalid answer take
// the dialog out of the ask; with nobody else that denies.
func TestDialogFails(t *testing.T) {
	fails := map[string]func(*ask.Ask) (ask.Answer, error){
		"error":   func(*ask.Ask) (ask.Answer, error) { return ask.Answer{}, errors.New("tty is gone") },
		"panic":   func(*ask.Ask) (ask.Answer, error) { panic("boom") },
		"nothing": func(*ask.Ask) (ask.Answer, error) { return ask.Answer{}, nil },
		"allow with an error": func(a *ask.Ask) (ask.Answer, error) {
			return ask.AllowAnswer(a), errors.New("but something broke")
		},
		"other ask": func(*ask.Ask) (ask.Answer, error) { return ask.AllowAnswer(newAsk(t, "b", "ls")), nil },
		"other digest": func(a *ask.Ask) (ask.Answer, error) {
			n := ask.AllowAnswer(a)
			n.Digest[0] ^= 1
			return n, nil
		},
		"unknown option": func(a *ask.Ask) (ask.Answer, error) {
			n := ask.AllowAnswer(a)
			n.Items[0].Picks = []string{"always"}
			return n, nil
		},
		"a grant": func(a *ask.Ask) (ask.Answer, error) {
			n := ask.AllowAnswer(a)
			d, _ := ask.OffersDigest(offers())
			n.Offer, n.OfferDigest = "s", &d
			return n, nil
		},
		"dismissed, which this ask has no verb for": func(a *ask.Ask) (ask.Answer, error) {
			return ask.Answer{Ask: a.Body.ID, Digest: a.Digest, Outcome: ask.Dismissed}, nil
		},
	}
	for name, say := range fails {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				d := &dialog{ask: func(_ context.Context, s api.Shown) (ask.Answer, error) { return say(s.Ask) }}
				p := w.put(w.ctx, Request{Ask: newAsk(t, "a", "make"), Offers: offers(), Dialog: d, Timeout: time.Hour})
				if dec := p.wait(t); dec.Outcome != ask.Failed || dec.Verdict != ask.Deny || dec.By.Kind != ask.KindGateError || p.took != 0 {
					t.Errorf("decision %+v after %s", dec, p.took)
				}
			})
			inWorld(t, func(w *world) {
				_, r := w.desk()
				d := &dialog{ask: func(_ context.Context, s api.Shown) (ask.Answer, error) { return say(s.Ask) }}
				a := newAsk(t, "a", "make")
				p := w.put(w.ctx, Request{Ask: a, Offers: offers(), Dialog: d})
				time.Sleep(time.Hour)
				if !p.waits() {
					t.Fatal("a broken dialog ended an ask that a desk can answer")
				}
				verdictIs(t, r.Answer(ask.AllowAnswer(a)), api.VerdictAccepted)
				if dec := p.wait(t); !dec.Allows("a", a.Digest) {
					t.Errorf("decision %+v", dec)
				}
			})
		})
	}
}

// TestDialogAndAskerGo: a dialog that ends because its asker went away is a
// withdrawal, not a failure.
func TestDialogAndAskerGo(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, cancel := context.WithCancelCause(w.ctx)
		d := &dialog{ask: func(ctx context.Context, _ api.Shown) (ask.Answer, error) {
			<-ctx.Done()
			return ask.Answer{}, ctx.Err()
		}}
		p := w.put(ctx, Request{Ask: newAsk(t, "a", "make"), Dialog: d})
		cancel(errors.New("the client ended"))
		dec := p.wait(t)
		if dec.Outcome != ask.Withdrawn || dec.By.Kind != ask.KindWithdrawn || dec.By.Session != "child" {
			t.Errorf("decision %+v", dec)
		}
	})
}

// TestSameTick: two answers in the same instant, exactly one is taken.
func TestSameTick(t *testing.T) {
	for range 50 {
		inWorld(t, func(w *world) {
			f, r := w.phone()
			g, q := w.desk()
			a := newAsk(t, "a", "make")
			p := w.put(w.ctx, Request{Ask: a})
			vc, uc := answering(r, ask.AllowAnswer(a)), answering(q, ask.DenyAnswer(a, "no"))
			dec := p.wait(t)
			v, u := <-vc, <-uc
			synctest.Wait()
			if v.Verdict == u.Verdict {
				t.Fatalf("both were told %s", v.Verdict)
			}
			phone := v.Verdict == api.VerdictAccepted
			if dec.Allows("a", a.Digest) != phone {
				t.Errorf("phone won: %t, decision %s", phone, dec.Verdict)
			}
			if phone {
				verdictIs(t, u, api.VerdictTooLate)
				same(t, "desk told", g.ends(), "a answered-remotely")
				same(t, "phone told", f.ends())
			} else {
				verdictIs(t, v, api.VerdictTooLate)
				same(t, "desk told", g.ends())
				same(t, "phone told", f.ends(), "a answered-locally")
			}
		})
	}
}

// TestLaterDenyDoesNotOverturn: the first valid answer stands.
func TestLaterDenyDoesNotOverturn(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.phone()
		_, q := w.desk()
		a := newAsk(t, "a", "make")
		p := w.put(w.ctx, Request{Ask: a})
		verdictIs(t, r.Answer(ask.AllowAnswer(a)), api.VerdictAccepted)
		v := q.Answer(ask.DenyAnswer(a, "stop"))
		verdictIs(t, v, api.VerdictTooLate)
		if v.Winner != "SHA256:f00d" {
			t.Errorf("winner %q", v.Winner)
		}
		if d := p.wait(t); !d.Allows("a", a.Digest) {
			t.Errorf("decision %+v", d)
		}
		if n := len(w.log.refusals); n != 1 || w.log.refusals[0].Surface != "terminal" {
			t.Errorf("%d late answers in the log: %+v", n, w.log.refusals)
		}
	})
}

// TestFaultyAnswerers: whatever an answerer does wrong harms nobody else.
func TestFaultyAnswerers(t *testing.T) {
	inWorld(t, func(w *world) {
		thrower := w.registerAs(&face{onAsk: func(context.Context, api.Shown) error { panic("boom") }},
			Identity{Name: "one", Kind: KindSurface, Faces: 1})
		failer := w.registerAs(&face{onAsk: func(context.Context, api.Shown) error { return errors.New("pipe") }},
			Identity{Name: "two", Kind: KindSurface, Faces: 1})
		sad := &face{onSettled: func(api.Settled) { panic("boom") }}
		w.registerAs(sad, Identity{Name: "three", Kind: KindSurface, Faces: 1})
		stuck := &face{onAsk: func(ctx context.Context, _ api.Shown) error { <-ctx.Done(); return ctx.Err() }}
		stuckReg := w.registerAs(stuck, Identity{Name: "four", Kind: KindSurface, Faces: 1})
		_, r := w.desk()
		a := newAsk(t, "a", "make")
		p := w.put(w.ctx, Request{Ask: a})
		for _, q := range []*Registration{thrower, failer} {
			verdictIs(t, q.Answer(ask.AllowAnswer(a)), api.VerdictNotOffered)
		}
		verdictIs(t, r.Answer(ask.DenyAnswer(a, "no")), api.VerdictAccepted)
		if d := p.wait(t); p.took != 0 || d.Reason != "no" {
			t.Errorf("after %s: %+v", p.took, d)
		}
		synctest.Wait()
		same(t, "the one that panics on it was told", sad.ends(), "a answered-locally")
		stuckReg.Close()
		<-stuckReg.Done()
		// An answerer that broke in one ask still serves the next.
		b := newAsk(t, "b", "ls")
		p = w.put(w.ctx, Request{Ask: b})
		verdictIs(t, r.Answer(ask.AllowAnswer(b)), api.VerdictAccepted)
		p.wait(t)
		synctest.Wait()
		same(t, "told next", sad.ends(), "a answered-locally", "b answered-locally")
	})
}

// TestCloseDoesNotHang: an answerer that never returns keeps Close no longer
// than its context.
func TestCloseDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(&journal{}, Options{})
		stuck := &face{onAsk: func(ctx context.Context, _ api.Shown) error { <-ctx.Done(); return nil }}
		r, err := b.Register(stuck, Identity{Name: "stuck", Kind: KindSurface, Faces: 1})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan ask.Decision)
		go func() {
			d, _ := b.Put(context.Background(), Request{Ask: newAsk(t, "a", "make")})
			done <- d
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Close(ctx); err == nil {
			t.Error("closed although an answerer hangs")
		}
		if d := <-done; d.Outcome != ask.Unavailable {
			t.Errorf("the open ask ended as %s", d.Outcome)
		}
		<-r.Done() // Close let go of it
	})
}
