package broker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"permd/api"
	"permd/ask"
)

func TestWaitFor(t *testing.T) {
	for _, c := range []struct {
		attended, reachable, shown bool
		want                       wait
	}{
		{true, false, false, waitOpen},
		{true, false, true, waitOpen},
		{true, true, false, waitOpen},
		{true, true, true, waitOpen},
		{false, true, false, waitLimit},
		{false, true, true, waitOpen},
		{false, false, false, waitNobody},
		{false, false, true, waitNobody},
	} {
		if got := waitFor(c.attended, c.reachable, c.shown); got != c.want {
			t.Errorf("attended %t, reachable %t, shown %t: %d, want %d", c.attended, c.reachable, c.shown, got, c.want)
		}
	}
}

const day = 24 * time.Hour

// TestT15Timers: every timeout exactly at its limit, nothing before it, an
// answer just before it counts and one just after is late.
func TestT15Timers(t *testing.T) {
	for _, limit := range []time.Duration{time.Millisecond, DefaultTimeout, 30 * day} {
		t.Run(limit.String()+" silent", func(t *testing.T) {
			inWorld(t, func(w *world) {
				f, _ := w.phone()
				p := w.put(w.ctx, Request{Ask: newAsk(t, "a", "make"), Decider: "lead", Timeout: limit})
				time.Sleep(limit - 1)
				synctest.Wait()
				if !p.waits() {
					t.Fatal("ended before the limit")
				}
				d := p.wait(t)
				if p.took != limit {
					t.Errorf("ended after %s, want exactly %s", p.took, limit)
				}
				if d.Outcome != ask.TimedOut || d.By.Kind != ask.KindTimeout || d.Verdict != ask.Deny {
					t.Errorf("ended as %s by %s: %s", d.Outcome, d.By.Kind, d.Verdict)
				}
				if d.WaitMS == nil || *d.WaitMS != limit.Milliseconds() {
					t.Errorf("wait_ms %v", d.WaitMS)
				}
				for _, part := range []string{"lead", round(limit).String(), "a paired device"} {
					if !strings.Contains(d.Reason, part) {
						t.Errorf("the reason %q does not name %q", d.Reason, part)
					}
				}
				synctest.Wait()
				same(t, "phone told", f.ends(), "a timeout")
			})
		})
		for _, c := range []struct {
			name string
			at   time.Duration
			want string
		}{{"just before", limit - 1, api.VerdictAccepted}, {"just after", limit + 1, api.VerdictTooLate}} {
			t.Run(limit.String()+" "+c.name, func(t *testing.T) {
				inWorld(t, func(w *world) {
					_, r := w.phone()
					a := newAsk(t, "a", "make")
					p := w.put(w.ctx, Request{Ask: a, Timeout: limit})
					time.Sleep(c.at)
					v := r.Answer(ask.AllowAnswer(a))
					verdictIs(t, v, c.want)
					d := p.wait(t)
					if got := d.Allows("a", a.Digest); got != (c.want == api.VerdictAccepted) {
						t.Errorf("allows: %t", got)
					}
					if c.want == api.VerdictTooLate && !strings.Contains(v.Text, "nobody answered within") {
						t.Errorf("the late one is told %q", v.Text)
					}
				})
			})
		}
		t.Run(limit.String()+" in the same instant", func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, r := w.phone()
				a := newAsk(t, "a", "make")
				p := w.put(w.ctx, Request{Ask: a, Timeout: limit})
				time.Sleep(limit)
				v := r.Answer(ask.AllowAnswer(a))
				d := p.wait(t)
				if (v.Verdict == api.VerdictAccepted) != d.Allows("a", a.Digest) {
					t.Errorf("told %s, yet the decision is %s, %s", v.Verdict, d.Verdict, d.Outcome)
				}
				if n := len(w.log.of("a")); n != 1 {
					t.Errorf("%d records", n)
				}
			})
		})
	}
}

// TestNoLimitWhereSomebodySits: an attended ask waits 30 days and more.
func TestNoLimitWhereSomebodySits(t *testing.T) {
	for name, r := range map[string]Request{"desk": {}, "client's dialog": {ClientDialog: true}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var reg *Registration
				if r.ClientDialog {
					_, reg = w.phone()
				} else {
					_, reg = w.desk()
				}
				r.Ask, r.Timeout = newAsk(t, "a", "make"), time.Second
				p := w.put(w.ctx, r)
				time.Sleep(30 * day)
				synctest.Wait()
				if !p.waits() {
					t.Fatal("it ended though somebody sits there")
				}
				verdictIs(t, reg.Answer(ask.AllowAnswer(r.Ask)), api.VerdictAccepted)
				if d := p.wait(t); d.WaitMS != nil || p.took != 30*day {
					t.Errorf("waited %s with limit %v", p.took, d.WaitMS)
				}
			})
		})
	}
}

// TestClockStandsStill: the limit counts only the time in which nobody sits
// there and nobody has the ask on screen.
func TestClockStandsStill(t *testing.T) {
	const limit = 10 * time.Second
	t.Run("while a terminal is attached", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.phone()
			p := w.put(w.ctx, Request{Ask: newAsk(t, "a", "make"), Timeout: limit})
			time.Sleep(4 * time.Second)
			_, desk := w.desk()
			time.Sleep(day)
			desk.SetFaces(0)
			d := p.wait(t)
			if p.took != day+limit || d.Outcome != ask.TimedOut {
				t.Errorf("%s after %s", d.Outcome, p.took)
			}
		})
	})
	t.Run("once a device shows it", func(t *testing.T) {
		inWorld(t, func(w *world) {
			_, r := w.phone()
			a := newAsk(t, "a", "make")
			told := 0
			p := w.put(w.ctx, Request{Ask: a, Timeout: limit, OnShown: func() { told++ }})
			time.Sleep(limit - 1)
			r.OnScreen("a")
			r.OnScreen("a")
			r.OnScreen("no such ask")
			time.Sleep(day)
			verdictIs(t, r.Answer(ask.AllowAnswer(a)), api.VerdictAccepted)
			if d := p.wait(t); d.WaitMS != nil || told != 1 {
				t.Errorf("limit %v, shown told %d times", d.WaitMS, told)
			}
		})
	})
	t.Run("not for one that cannot answer", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.phone()
			_, watcher := w.register(Identity{Name: "terminal", Kind: KindSurface})
			p := w.put(w.ctx, Request{Ask: newAsk(t, "a", "make"), Timeout: limit})
			watcher.OnScreen("a")
			if p.wait(t); p.took != limit {
				t.Errorf("ended after %s", p.took)
			}
		})
	})
}

// TestNobody: at once when nobody is there, after the grace when the last
// one leaves, and not at all when somebody comes back within it.
func TestNobody(t *testing.T) {
	t.Run("when it is put", func(t *testing.T) {
		inWorld(t, func(w *world) {
			watcher, _ := w.register(Identity{Name: "terminal", Kind: KindSurface})
			p := w.put(w.ctx, Request{Ask: newAsk(t, "a", "make"), Decider: "lead", Timeout: time.Hour})
			d := p.wait(t)
			if p.took != 0 || d.Outcome != ask.Unavailable || d.By.Kind != ask.KindUnavailable || d.WaitMS != nil {
				t.Errorf("after %s: %s by %s, limit %v", p.took, d.Outcome, d.By.Kind, d.WaitMS)
			}
			if !strings.Contains(d.Reason, "lead") || !strings.Contains(d.Reason, "permd desk") {
				t.Errorf("the reason names no way out: %q", d.Reason)
			}
			same(t, "watcher shown", watcher.ids())
			same(t, "watcher told", watcher.ends())
			if n := len(w.log.of("a")); n != 1 {
				t.Errorf("%d records of a denial at once", n)
			}
		})
	})
	t.Run("any more", func(t *testing.T) {
		inWorld(t, func(w *world) {
			_, r := w.desk()
			p := w.put(w.ctx, Request{Ask: newAsk(t, "a", "make"), Timeout: time.Hour})
			time.Sleep(time.Minute)
			r.Close()
			d := p.wait(t)
			if p.took != time.Minute+DefaultGrace || d.Outcome != ask.Unavailable {
				t.Errorf("%s after %s", d.Outcome, p.took)
			}
		})
	})
	t.Run("for a moment", func(t *testing.T) {
		inWorld(t, func(w *world) {
			_, r := w.desk()
			a := newAsk(t, "a", "make")
			p := w.put(w.ctx, Request{Ask: a, Timeout: time.Hour})
			for range 5 { // the grace begins anew each time
				r.Close()
				time.Sleep(DefaultGrace - 1)
				_, r = w.desk()
				time.Sleep(time.Second)
			}
			if !p.waits() {
				t.Fatal("a desk that is restarted lost the ask")
			}
			verdictIs(t, r.Answer(ask.AllowAnswer(a)), api.VerdictAccepted)
			p.wait(t)
		})
	})
	t.Run("timeout zero", func(t *testing.T) {
		for _, limit := range []time.Duration{0, -1} {
			inWorld(t, func(w *world) {
				f, _ := w.phone()
				p := w.put(w.ctx, Request{Ask: newAsk(t, "a", "make"), Timeout: limit})
				d := p.wait(t)
				if p.took != 0 || d.Outcome != ask.TimedOut || d.WaitMS == nil || *d.WaitMS != 0 {
					t.Errorf("after %s: %s, limit %v", p.took, d.Outcome, d.WaitMS)
				}
				same(t, "phone shown", f.ids())
			})
		}
	})
	t.Run("timeout zero, attended", func(t *testing.T) {
		inWorld(t, func(w *world) {
			_, r := w.desk()
			w.phone()
			p := w.put(w.ctx, Request{Ask: newAsk(t, "a", "make")})
			time.Sleep(time.Hour)
			if !p.waits() {
				t.Fatal("the timeout ran though somebody sits there")
			}
			r.Close()
			if d := p.wait(t); d.Outcome != ask.TimedOut || p.took != time.Hour {
				t.Errorf("%s after %s", d.Outcome, p.took)
			}
		})
	})
}

// TestRemaining: surfaces get the time that is left, never a point in time.
func TestRemaining(t *testing.T) {
	inWorld(t, func(w *world) {
		f, _ := w.phone()
		own := int64(20_000)
		a := newAsk(t, "a", "make")
		a.Header.RemainingMS = &own
		p := w.put(w.ctx, Request{Ask: a, Timeout: time.Minute})
		time.Sleep(5 * time.Second)
		late, _ := w.phone()
		synctest.Wait()
		for i, c := range []struct {
			s    api.Shown
			left int64
			age  int64
		}{{f.shown[0], 20_000, 0}, {late.shown[0], 15_000, 5_000}, {w.Snapshot()[0], 15_000, 5_000}} {
			if c.s.Ask.Header.RemainingMS == nil || *c.s.Ask.Header.RemainingMS != c.left || c.s.AgeMS != c.age {
				t.Errorf("%d: %v left at age %d, want %d at %d", i, c.s.Ask.Header.RemainingMS, c.s.AgeMS, c.left, c.age)
			}
		}
		if own != 20_000 || a.Header.RemainingMS != &own {
			t.Error("the caller's ask was changed")
		}
		if d := p.wait(t); d.Outcome != ask.TimedOut {
			t.Errorf("%s", d.Outcome)
		}
		f2, _ := w.desk()
		w.put(w.ctx, Request{Ask: newAsk(t, "b", "make"), Timeout: time.Minute})
		if s := f2.shown[0]; s.Ask.Header.RemainingMS != nil {
			t.Errorf("%d ms left though somebody sits there", *s.Ask.Header.RemainingMS)
		}
		w.Withdraw("b", "enough")
	})
}

// TestWithdrawnBeforePut: an asker that has gone already is shown nowhere.
func TestWithdrawnBeforePut(t *testing.T) {
	inWorld(t, func(w *world) {
		f, _ := w.desk()
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		if d := w.put(ctx, Request{Ask: newAsk(t, "a", "make")}).wait(t); d.Outcome != ask.Withdrawn {
			t.Errorf("%s", d.Outcome)
		}
		same(t, "shown", f.ids())
	})
}

// TestJoinedAskersHaveTheirOwnTime: who joins later waits as long, and the
// card stays until the last one is due.
func TestJoinedAskersHaveTheirOwnTime(t *testing.T) {
	inWorld(t, func(w *world) {
		f, r := w.phone()
		a, b := newAsk(t, "a", "make"), newAsk(t, "b", "make")
		pa := w.put(w.ctx, Request{Ask: a, Timeout: 10 * time.Second})
		time.Sleep(6 * time.Second)
		pb := w.put(w.ctx, Request{Ask: b, Timeout: 10 * time.Second})
		if d := pa.wait(t); d.Outcome != ask.TimedOut || pa.took != 10*time.Second {
			t.Errorf("first: %s after %s", d.Outcome, pa.took)
		}
		time.Sleep(6*time.Second - 1)
		if !pb.waits() || len(f.ends()) != 0 {
			t.Fatal("the card ended with its first asker")
		}
		if d := pb.wait(t); d.Outcome != ask.TimedOut || pb.took != 10*time.Second {
			t.Errorf("second: %s after %s", d.Outcome, pb.took)
		}
		verdictIs(t, r.Answer(ask.AllowAnswer(a)), api.VerdictTooLate)
		synctest.Wait()
		same(t, "told", f.ends(), "a timeout")
	})
}
