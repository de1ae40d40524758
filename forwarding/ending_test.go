package forwarding_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"permd/api"
	"permd/ask"
	"permd/forwarding"
	"permd/heartbeat"
	"permd/liveness"
)

func TestWithdraw(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		cause := make(chan error, 1)
		lead := w.node("lead", waits(cause))
		lead.server.SetServing([]string{"lead"})
		ctx, cancel := context.WithCancel(t.Context())
		r := start(ctx, w.node("child", nil).childOf("lead").parent("lead"), newAsk(t, "child", "ask-1"))
		synctest.Wait()
		cancel()
		if res := <-r; !errors.Is(res.err, context.Canceled) || res.d.Outcome != ask.Withdrawn || res.d.Verdict != ask.Deny {
			t.Fatalf("%+v", res)
		}
		if err := <-cause; !errors.Is(err, forwarding.ErrWithdrawn) {
			t.Fatal(err)
		}
	})
}

func TestChildGone(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		cause := make(chan error, 3)
		lead := w.node("lead", waits(cause))
		lead.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		for i := range 3 {
			start(t.Context(), child.parent("lead"), newAsk(t, "child", fmt.Sprintf("ask-%d", i)))
		}
		synctest.Wait()
		begin := time.Now()
		child.links.Close()
		// An ask that its child gave up with its links may be heard of first.
		ended := []error{forwarding.ErrChildGone, forwarding.ErrWithdrawn, io.EOF}
		for range 3 {
			err := <-cause
			if !slices.ContainsFunc(ended, func(e error) bool { return errors.Is(err, e) }) {
				t.Fatal(err)
			}
		}
		if d := time.Since(begin); d != 0 {
			t.Fatalf("took %s", d)
		}
		synctest.Wait()
		if c := lead.server.Children(); len(c) != 0 {
			t.Fatalf("%+v", c)
		}
	})
}

func TestParentDies(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		lead := w.node("lead", waits(make(chan error, 9)))
		lead.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		r := start(t.Context(), child.parent("lead"), newAsk(t, "child", "ask-1"))
		synctest.Wait()
		begin := time.Now()
		lead.kill()
		res := <-r
		var lost *forwarding.ParentLostError
		if !errors.As(res.err, &lost) || !lost.Asked || lost.Session != "lead" || res.d.Verdict != ask.Deny || res.d.Outcome != ask.Unavailable {
			t.Fatalf("%+v", res)
		}
		if d := time.Since(begin); d != 0 {
			t.Fatalf("seen after %s", d)
		}
		// The next ask finds nobody, and says so.
		_, err := child.parent("lead").Authorize(t.Context(), newAsk(t, "child", "ask-2"))
		if !errors.As(err, &lost) || lost.Asked {
			t.Fatal(err)
		}
		if _, ok := child.links.State("lead"); ok {
			t.Fatal("the link outlived its end")
		}
	})
}

// A decision that the parent put before it died counts; it is on its record.
func TestDecisionBeforeDeathCounts(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		lead := w.node("lead", allowBy(ask.KindRule))
		lead.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		hold := make(chan struct{})
		lead.serve = func(c context.Context, in forwarding.Incoming) ask.Decision {
			<-hold
			return allowBy(ask.KindRule)(c, in)
		}
		r := start(t.Context(), child.parent("lead"), newAsk(t, "child", "ask-1"))
		synctest.Wait()
		// Stop the child's loop from looking while the decision is put and the
		// parent dies.
		block := make(chan struct{})
		go child.server.Do(func() { <-block })
		synctest.Wait()
		close(hold)
		synctest.Wait()
		lead.kill()
		synctest.Wait()
		close(block)
		if res := <-r; res.err != nil || res.d.Verdict != ask.Allow {
			t.Fatalf("%+v", res)
		}
	})
}

func TestParentStopsServing(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		lead := w.node("lead", waits(make(chan error, 9)))
		lead.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		r := start(t.Context(), child.parent("lead"), newAsk(t, "child", "ask-1"))
		time.Sleep(time.Hour)
		// A desk that is restarted is no reason to give up.
		lead.server.SetServing(nil)
		time.Sleep(forwarding.Grace - time.Millisecond)
		lead.server.SetServing([]string{"lead"})
		time.Sleep(time.Hour)
		lead.server.SetServing([]string{"other"})
		begin := time.Now()
		res := <-r
		var no *forwarding.NotServingError
		if !errors.As(res.err, &no) || no.Verdict.State != liveness.NotServing || no.Verdict.Answer != liveness.No || res.d.Verdict != ask.Deny {
			t.Fatalf("%+v", res)
		}
		if d := time.Since(begin); d != forwarding.Grace {
			t.Fatalf("gave up after %s", d)
		}
		if text := res.err.Error(); !strings.Contains(text, "lead") || strings.Contains(text, "denied") {
			t.Fatal(text)
		}
		synctest.Wait()
	})
}

func TestParentIsStuck(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		lead := w.node("lead", waits(make(chan error, 9)))
		lead.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		r := start(t.Context(), child.parent("lead"), newAsk(t, "child", "ask-1"))
		time.Sleep(time.Hour)
		lead.mu.Lock()
		lead.stopped = true
		lead.mu.Unlock()
		begin := time.Now()
		res := <-r
		var no *forwarding.NotServingError
		if !errors.As(res.err, &no) || no.Verdict.State != liveness.Stuck {
			t.Fatalf("%+v", res)
		}
		if d := time.Since(begin); d < liveness.Fresh || d > liveness.Fresh+forwarding.Grace+2*time.Second {
			t.Fatalf("gave up after %s", d)
		}
	})
}

// A parent that is alive is waited for without a limit; the timeout is for one
// that cannot be judged, and stops once a surface has the ask.
func TestUnknownParentWaitsOutTheTimeout(t *testing.T) {
	for _, shown := range []bool{false, true} {
		t.Run(fmt.Sprintf("shown %v", shown), func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				release := make(chan struct{})
				lead := w.node("lead", nil)
				lead.serve = func(ctx context.Context, in forwarding.Incoming) ask.Decision {
					if shown {
						in.Shown()
					}
					select {
					case <-release:
					case <-ctx.Done():
					}
					return allowBy(ask.KindUser)(ctx, in)
				}
				lead.server.SetServing([]string{"lead"})
				child := w.node("child", nil).childOf("lead")
				// Another host: no locks, and the counter never moves for a judge
				// whose clock stands still.
				w.judge = liveness.NewWithClock(w.judge.Dirs, func() (time.Duration, time.Duration, string) { return 0, 0, "boot" })
				w.judge.Look = func(string, []byte) (liveness.Observation, error) {
					return liveness.Observation{Lock: liveness.LockUnknown, Beat: &heartbeat.Beat{Node: "lead", Instance: "lead-1", Counter: 7, Boot: "other"}}, nil
				}
				p := child.parent("lead")
				p.Timeout = time.Minute
				seen := 0
				r := make(chan result, 1)
				begin := time.Now()
				go func() {
					d, err := p.Ask(t.Context(), newAsk(t, "child", "ask-1"), func() { seen++ })
					r <- result{d, err}
				}()
				if shown {
					time.Sleep(time.Hour)
					close(release)
					if res := <-r; res.err != nil || res.d.Verdict != ask.Allow || seen != 1 {
						t.Fatalf("%+v, shown %d times", res, seen)
					}
					return
				}
				res := <-r
				if res.err != nil || res.d.Outcome != ask.TimedOut || res.d.Verdict != ask.Deny || res.d.WaitMS == nil || *res.d.WaitMS != 60000 {
					t.Fatalf("%+v", res)
				}
				if !strings.Contains(res.d.Reason, "lead") || strings.Contains(res.d.Reason, "denied") {
					t.Fatal(res.d.Reason)
				}
				if d := time.Since(begin); d < time.Minute || d > time.Minute+2*time.Second {
					t.Fatalf("after %s", d)
				}
				close(release)
			})
		})
	}
}

// An ask whose letter is refused at first is asked all the same; one that
// cannot be sent at all is an error and no allow.
func TestPutFails(t *testing.T) {
	for _, times := range []int{1, 2, 3, 100} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				lead := w.node("lead", allowBy(ask.KindRule))
				lead.server.SetServing([]string{"lead"})
				p := w.node("child", nil).childOf("lead").parent("lead")
				if err := p.Links.Connect(t.Context(), "lead"); err != nil {
					t.Fatal(err)
				}
				n := 0
				lead.box.SetFail(func(forwarding.Name) error {
					if n++; n <= times {
						return errors.New("input/output error")
					}
					return nil
				})
				d, err := p.Authorize(t.Context(), newAsk(t, "child", "ask-1"))
				var lost *forwarding.ParentLostError
				if times < 3 && (err != nil || d.Verdict != ask.Allow) || times >= 3 && (!errors.As(err, &lost) || lost.Asked || d.Verdict != ask.Deny) {
					t.Fatalf("%+v, %v", d, err)
				}
			})
		})
	}
}

// A decision that cannot be delivered is tried for a while; then the child is
// told by the only way left, the end of its registration.
func TestDecisionCannotBeDelivered(t *testing.T) {
	for _, times := range []int{1, 4, 100} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				lead := w.node("lead", allowBy(ask.KindRule))
				lead.server.SetServing([]string{"lead"})
				child := w.node("child", nil).childOf("lead")
				n := 0
				child.box.SetFail(func(forwarding.Name) error {
					if n++; n <= times {
						return errors.New("no space left on device")
					}
					return nil
				})
				begin := time.Now()
				d, err := child.parent("lead").Authorize(t.Context(), newAsk(t, "child", "ask-1"))
				if times < 100 {
					if err != nil || d.Verdict != ask.Allow {
						t.Fatalf("%+v, %v", d, err)
					}
					return
				}
				var lost *forwarding.ParentLostError
				if !errors.As(err, &lost) || d.Verdict != ask.Deny || time.Since(begin) > 5*time.Second {
					t.Fatalf("%+v, %v after %s", d, err, time.Since(begin))
				}
				synctest.Wait()
				w.mustLog(forwarding.EventUndelivered, "no space")
			})
		})
	}
}

// A server that has ended, or never ran, keeps nobody waiting.
func TestEnds(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		lead := w.node("lead", waits(make(chan error, 1)))
		lead.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		r := start(t.Context(), child.parent("lead"), newAsk(t, "child", "ask-1"))
		synctest.Wait()
		child.end()
		var lost *forwarding.ParentLostError
		if res := <-r; !errors.As(res.err, &lost) {
			t.Fatalf("%+v", res)
		}
		if _, err := child.parent("lead").Authorize(t.Context(), newAsk(t, "child", "ask-2")); !errors.Is(err, forwarding.ErrEnded) {
			t.Fatal(err)
		}
		lead.end()
		if _, err := lead.server.Hello(t.Context()); !errors.Is(err, forwarding.ErrEnded) {
			t.Fatal(err)
		}
		if err := lead.server.Run(t.Context()); !errors.Is(err, forwarding.ErrEnded) {
			t.Fatal(err)
		}
		conn, there := newPipe()
		if err := conn.Write(api.TRegister, 1, api.Register{Node: "c", Instance: "i", PID: 1, Start: 1, Sessions: []api.ChildSession{}}); err != nil {
			t.Fatal(err)
		}
		if err := lead.server.Child(t.Context(), there, child.caller()); !errors.Is(err, forwarding.ErrEnded) {
			t.Fatal(err)
		}
	})
}

// A parent that comes back is another life: the child registers again, the
// same ask is asked again, and letters under the old key are void (T16).
func TestParentComesBack(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		first := w.node("lead", waits(make(chan error, 9)))
		first.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		a := newAsk(t, "child", "ask-1")
		r := start(t.Context(), child.parent("lead"), a)
		synctest.Wait()
		var old []byte
		var name string
		first.box.Taken(func(n forwarding.Name, raw []byte) { name, old = n.String(), raw })
		start(t.Context(), child.parent("lead"), newAsk(t, "child", "ask-2"))
		synctest.Wait()
		first.kill()
		var lost *forwarding.ParentLostError
		if res := <-r; !errors.As(res.err, &lost) {
			t.Fatalf("%+v", res)
		}
		calls := 0
		second := w.node("lead", func(c context.Context, in forwarding.Incoming) ask.Decision {
			calls++
			return allowBy(ask.KindUser)(c, in)
		})
		second.server.SetServing([]string{"lead"})
		d, err := child.parent("lead").Authorize(t.Context(), a)
		if err != nil || !d.Allows("ask-1", a.Digest) || calls != 1 {
			t.Fatalf("%+v, %v, served %d times", d, err, calls)
		}
		if st, ok := child.links.State("lead"); !ok || st.Instance != "lead-2" {
			t.Fatalf("%+v", st)
		}
		if len(old) == 0 {
			t.Fatal("no letter was seen")
		}
		second.box.Plant(name, old)
		synctest.Wait()
		if calls != 1 {
			t.Fatal("a letter of the parent's earlier life was served")
		}
		if len(second.box.Aside()) == 0 && !w.logged(forwarding.EventRefusedMail, "") {
			t.Fatal("it was not reported")
		}
	})
}
