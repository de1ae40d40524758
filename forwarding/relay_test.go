package forwarding_test

import (
	"context"
	"errors"
	"fmt"
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

// virtual runs f in a world of its own, in virtual time.
func virtual(t *testing.T, f func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
}

func TestAskIsAnsweredAtTheParent(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		lead := w.node("lead", allowBy(ask.KindRule))
		lead.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		a := newAsk(t, "child", "ask-1")
		p := child.parent("lead")
		d, err := p.Authorize(t.Context(), a)
		if err != nil || !d.Allows("ask-1", a.Digest) {
			t.Fatalf("%+v, %v", d, err)
		}
		if got := deciders(&d.By); got != "forwarded(lead) rule" {
			t.Fatal(got)
		}
		if len(a.Header.Path) != 0 {
			t.Fatal("the caller's ask was changed")
		}
		if err := p.Delivered(t.Context(), a, "released", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(lead.receipts) != 1 || lead.receipts[0].How != "released" || lead.receipts[0].Ask != "ask-1" {
			t.Fatalf("%+v", lead.receipts)
		}
		if c := lead.server.Children(); len(c) != 1 || c[0].Session != "child" || c[0].Proof != forwarding.ByDescent || c[0].PID != child.pid {
			t.Fatalf("%+v", c)
		}
		st, ok := child.links.State("lead")
		if !ok || fmt.Sprint(st.Serving) != "[lead]" || len(st.Verified) != 1 || st.Instance != "lead-1" {
			t.Fatalf("%+v, %v", st, ok)
		}
	})
}

// What the parent's callback does wrong denies, at the parent already.
func TestServeThatMisbehavesDenies(t *testing.T) {
	for name, serve := range map[string]func(context.Context, forwarding.Incoming) ask.Decision{
		"nothing": func(context.Context, forwarding.Incoming) ask.Decision { return ask.Decision{} },
		"another id": func(c context.Context, in forwarding.Incoming) ask.Decision {
			d := allowBy(ask.KindRule)(c, in)
			d.Ask = "x"
			return d
		},
		"no digest": func(c context.Context, in forwarding.Incoming) ask.Decision {
			d := allowBy(ask.KindRule)(c, in)
			d.Digest = ask.Digest{}
			return d
		},
		"other digest": func(c context.Context, in forwarding.Incoming) ask.Decision {
			d := allowBy(ask.KindRule)(c, in)
			d.Digest[0]++
			return d
		},
		"contradiction": func(c context.Context, in forwarding.Incoming) ask.Decision {
			d := allowBy(ask.KindRule)(c, in)
			d.Outcome = ask.TimedOut
			return d
		},
		"no outcome": func(c context.Context, in forwarding.Incoming) ask.Decision {
			d := allowBy(ask.KindRule)(c, in)
			d.Outcome = ""
			return d
		},
		"unknown kind": func(c context.Context, in forwarding.Incoming) ask.Decision { d := allowBy("friend")(c, in); return d },
		"not UTF-8": func(c context.Context, in forwarding.Incoming) ask.Decision {
			d := allowBy(ask.KindRule)(c, in)
			d.Reason = "\xff"
			return d
		},
		"a panic": func(context.Context, forwarding.Incoming) ask.Decision { panic("no") },
		"too many deciders": func(c context.Context, in forwarding.Incoming) ask.Decision {
			d := allowBy(ask.KindRule)(c, in)
			for range ask.MaxFrames - 1 {
				d.By = ask.Forwarded("x", d.By)
			}
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				w.node("lead", serve).server.SetServing([]string{"lead"})
				a := newAsk(t, "child", "ask-1")
				d, err := w.node("child", nil).childOf("lead").parent("lead").Authorize(t.Context(), a)
				if err != nil || d.Verdict != ask.Deny || d.Outcome != ask.Failed || d.By.Decider().Kind != ask.KindGateError || d.Reason == "" {
					t.Fatalf("%+v, %v", d, err)
				}
			})
		})
	}
}

// A claimed parent carries the ask to a person, and its own rules allow
// nothing; what the child says of its own proof does not count.
func TestClaimedParent(t *testing.T) {
	for kind, want := range map[ask.Kind]ask.Verdict{
		ask.KindRule: ask.Deny, ask.KindGrant: ask.Deny, ask.KindBaseline: ask.Deny, ask.KindMode: ask.Deny, ask.KindLink: ask.Deny,
		ask.KindDefault: ask.Deny, ask.KindTimeout: ask.Deny, ask.KindUser: ask.Allow, ask.KindDevice: ask.Allow, ask.KindClientDialog: ask.Allow,
	} {
		t.Run(string(kind), func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				var in forwarding.Incoming
				lead := w.node("lead", func(c context.Context, i forwarding.Incoming) ask.Decision { in = i; return allowBy(kind)(c, i) })
				lead.server.SetServing([]string{"lead"})
				d, err := w.node("claimed", nil).childOf("lead").parent("lead").Authorize(t.Context(), newAsk(t, "claimed", "ask-1"))
				if err != nil || d.Verdict != want {
					t.Fatalf("%+v, %v", d, err)
				}
				if in.Verified || in.Child.Proof != "" || !in.Ask.Header.Claimed() {
					t.Fatalf("%+v", in)
				}
			})
		})
	}
}

func TestClaimBecomesProved(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		confirmed := false
		lead := w.node("lead", allowBy(ask.KindRule), func(c *forwarding.Config) {
			c.Proofs.Confirmed = func(s, p string) bool { return confirmed && s == "claimed" && p == "lead" }
		})
		lead.server.SetServing([]string{"lead"})
		p := w.node("claimed", nil).childOf("lead").parent("lead")
		d, err := p.Authorize(t.Context(), newAsk(t, "claimed", "ask-1"))
		if err != nil || d.Verdict != ask.Deny {
			t.Fatalf("%+v, %v", d, err)
		}
		confirmed = true
		lead.server.Reprove()
		synctest.Wait()
		d, err = p.Authorize(t.Context(), newAsk(t, "claimed", "ask-2"))
		if err != nil || d.Verdict != ask.Allow {
			t.Fatalf("%+v, %v", d, err)
		}
	})
}

func TestProofs(t *testing.T) {
	for name, c := range map[string]struct {
		proofs forwarding.Proofs
		want   string
	}{
		"none":        {forwarding.Proofs{}, ""},
		"descends":    {forwarding.Proofs{Descends: func(api.Register, forwarding.Caller) bool { return true }}, forwarding.ByDescent},
		"not":         {forwarding.Proofs{Descends: func(api.Register, forwarding.Caller) bool { return false }}, ""},
		"announced":   {forwarding.Proofs{Announced: func(_ api.Register, s api.ChildSession) bool { return s.Parent == "lead" }}, forwarding.ByAnnouncement},
		"confirmed":   {forwarding.Proofs{Confirmed: func(_, p string) bool { return p == "lead" }}, forwarding.ByPerson},
		"ticket":      {forwarding.Proofs{Ticket: func(string, api.Register) (string, bool) { return "lead", true }}, forwarding.ByTicket},
		"bad ticket":  {forwarding.Proofs{Ticket: func(string, api.Register) (string, bool) { return "lead", false }}, ""},
		"for another": {forwarding.Proofs{Ticket: func(string, api.Register) (string, bool) { return "lead.x", true }}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				lead := w.node("lead", allowBy(ask.KindRule), func(cfg *forwarding.Config) { cfg.Proofs = c.proofs })
				conn, there := newPipe()
				n := &node{w: w, pid: 7, alive: true}
				done := make(chan error, 1)
				go func() { done <- lead.server.Child(context.Background(), there, n.caller()) }()
				reg := api.Register{Node: "c", Instance: "c-1", PID: 7, Start: 1, Ticket: "00ff", Sessions: []api.ChildSession{{Session: "c", Parent: "lead", FoundBy: "env"}}}
				if err := conn.Write(api.TRegister, 1, reg); err != nil {
					t.Fatal(err)
				}
				f, err := conn.Read()
				if err != nil || f.T != api.TRegistered || f.N != 1 {
					t.Fatal(f, err)
				}
				var r api.Registered
				if err := ask.Decode(f.B, 1<<20, &r); err != nil {
					t.Fatal(err)
				}
				got := ""
				if len(r.Verified) == 1 {
					got = r.Verified[0].How
				}
				if got != c.want || len(r.Key) != 64 {
					t.Fatalf("%+v", r)
				}
				conn.Close()
				<-done
			})
		})
	}
}

func TestRegistrationIsRefused(t *testing.T) {
	good := api.Register{Node: "c", Instance: "c-1", PID: 7, Start: 1, Sessions: []api.ChildSession{{Session: "c", Parent: "lead", FoundBy: "env"}}}
	for name, c := range map[string]struct {
		t      string
		body   any
		caller func(*forwarding.Caller)
		code   string
	}{
		"not a register":  {api.TWake, nil, nil, api.CodeBad},
		"no body":         {api.TRegister, nil, nil, api.CodeBad},
		"other body":      {api.TRegister, map[string]any{"node": "c", "extra": 1}, nil, api.CodeBad},
		"the node itself": {api.TRegister, func() api.Register { r := good; r.Node = "lead"; return r }(), nil, api.CodeBad},
		"another user":    {api.TRegister, good, func(c *forwarding.Caller) { c.UID++ }, api.CodePeer},
		"a dead process":  {api.TRegister, good, func(c *forwarding.Caller) { c.Alive = func() bool { return false } }, api.CodePeer},
		"second holder of the node": {api.TRegister, func() api.Register { r := good; r.Node = "held"; return r }(),
			nil, api.CodeBusy},
		"second holder of a session": {api.TRegister, func() api.Register {
			r := good
			r.Sessions = []api.ChildSession{{Session: "held", Parent: "lead", FoundBy: "env"}}
			return r
		}(), nil, api.CodeBusy},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				lead := w.node("lead", allowBy(ask.KindRule))
				held := w.node("held", nil).childOf("lead")
				if err := held.links.Connect(t.Context(), "lead"); err != nil {
					t.Fatal(err)
				}
				conn, there := newPipe()
				caller := (&node{w: w, pid: 7, alive: true}).caller()
				if c.caller != nil {
					c.caller(&caller)
				}
				done := make(chan error, 1)
				go func() { done <- lead.server.Child(context.Background(), there, caller) }()
				if err := conn.Write(c.t, 9, c.body); err != nil {
					t.Fatal(err)
				}
				f, err := conn.Read()
				if err != nil || f.T != api.TRefused || f.N != 9 {
					t.Fatal(f, err)
				}
				var r api.Refused
				if err := ask.Decode(f.B, 1<<16, &r); err != nil || r.Code != c.code || r.Text == "" {
					t.Fatalf("%+v, %v", r, err)
				}
				var refused *api.Refused
				if err := <-done; !errors.As(err, &refused) {
					t.Fatal(err)
				}
				if len(lead.server.Children()) != 1 {
					t.Fatalf("%+v", lead.server.Children())
				}
				synctest.Wait()
				w.mustLog(forwarding.EventRefusedChild, "")
			})
		})
	}
}

// The same process may register again; a dead holder does not block its id.
func TestRegisterAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		cause := make(chan error, 1)
		lead := w.node("lead", waits(cause))
		lead.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		r := start(t.Context(), child.parent("lead"), newAsk(t, "child", "ask-1"))
		synctest.Wait()
		register := func(n *node) (*pipe, string) {
			conn, there := newPipe()
			go lead.server.Child(context.Background(), there, n.caller())
			reg := api.Register{Node: "child", Instance: "child-2", PID: 7, Start: 1, Sessions: []api.ChildSession{{Session: "child", Parent: "lead", FoundBy: "x"}}}
			if err := conn.Write(api.TRegister, 1, reg); err != nil {
				t.Fatal(err)
			}
			f, err := conn.Read()
			if err != nil {
				t.Fatal(err)
			}
			return conn, f.T
		}
		// Another process while the first is alive: no.
		other := &node{w: w, pid: 77, alive: true}
		conn, got := register(other)
		if got != api.TRefused {
			t.Fatal(got)
		}
		conn.Close()
		// The same process: yes, and what it asked before is withdrawn.
		conn, got = register(child)
		if got != api.TRegistered {
			t.Fatal(got)
		}
		if err := <-cause; err == nil || !strings.Contains(err.Error(), "again") {
			t.Fatal(err)
		}
		var lost *forwarding.ParentLostError
		if res := <-r; !errors.As(res.err, &lost) || res.d.Verdict != ask.Deny {
			t.Fatalf("%+v", res)
		}
		// Another process once the first is dead: yes.
		child.mu.Lock()
		child.alive = false
		child.mu.Unlock()
		conn2, got := register(other)
		if got != api.TRegistered {
			t.Fatal(got)
		}
		conn.Close()
		conn2.Close()
	})
}

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
		for range 3 {
			if err := <-cause; !errors.Is(err, forwarding.ErrChildGone) && err.Error() != "EOF" {
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

// One ask that waits for a person holds up no other, nor a cancel.
func TestNoHeadOfLineBlocking(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		cause := make(chan error, 100)
		lead := w.node("lead", nil)
		lead.serve = func(ctx context.Context, in forwarding.Incoming) ask.Decision {
			if strings.HasPrefix(in.Ask.Body.ID, "slow") {
				return waits(cause)(ctx, in)
			}
			return allowBy(ask.KindRule)(ctx, in)
		}
		lead.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 100 {
			start(ctx, child.parent("lead"), newAsk(t, "child", fmt.Sprintf("slow-%d", i)))
		}
		synctest.Wait()
		begin := time.Now()
		d, err := child.parent("lead").Authorize(t.Context(), newAsk(t, "child", "quick"))
		if err != nil || d.Verdict != ask.Allow || time.Since(begin) != 0 {
			t.Fatalf("%+v, %v after %s", d, err, time.Since(begin))
		}
		cancel()
		for range 100 {
			<-cause
		}
		synctest.Wait()
	})
}

func TestTooManyAsksOfOneChild(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		lead := w.node("lead", waits(make(chan error, 1000)))
		lead.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 512 {
			start(ctx, child.parent("lead"), newAsk(t, "child", fmt.Sprintf("ask-%d", i)))
		}
		synctest.Wait()
		d, err := child.parent("lead").Authorize(t.Context(), newAsk(t, "child", "one-more"))
		if err != nil || d.Verdict != ask.Deny || d.Outcome != ask.Unavailable || !strings.Contains(d.Reason, "512") {
			t.Fatalf("%+v, %v", d, err)
		}
		// Another child is not held up by it.
		other := w.node("other", nil).childOf("lead")
		lead.mu.Lock()
		lead.serve = allowBy(ask.KindRule)
		lead.mu.Unlock()
		if d, err := other.parent("lead").Authorize(t.Context(), newAsk(t, "other", "ask-1")); err != nil || d.Verdict != ask.Allow {
			t.Fatalf("%+v, %v", d, err)
		}
	})
}

// leaf → mid → lead: the origin stays visible, every hop appends itself, the
// answer is nested one frame a hop, and an unproved hop stays unproved above.
func TestChain(t *testing.T) {
	for _, mid := range []string{"mid", "claimed-mid"} {
		for _, leaf := range []string{"leaf", "claimed-leaf"} {
			t.Run(mid+" "+leaf, func(t *testing.T) {
				virtual(t, func(t *testing.T, w *world) {
					var in forwarding.Incoming
					lead := w.node("lead", func(c context.Context, i forwarding.Incoming) ask.Decision {
						in = i
						return allowBy(ask.KindUser)(c, i)
					})
					lead.server.SetServing([]string{"lead"})
					m := w.node(mid, nil).childOf("lead")
					up := m.parent("lead")
					m.serve = func(ctx context.Context, i forwarding.Incoming) ask.Decision {
						d, err := up.Ask(ctx, i.Ask, i.Shown)
						if err != nil {
							t.Error(err)
						}
						return d
					}
					m.server.SetServing([]string{mid})
					a := newAsk(t, leaf, "ask-1")
					d, err := w.node(leaf, nil).childOf(mid).parent(mid).Authorize(t.Context(), a)
					if err != nil || !d.Allows("ask-1", a.Digest) {
						t.Fatalf("%+v, %v", d, err)
					}
					if got, want := deciders(&d.By), "forwarded("+mid+") forwarded(lead) user"; got != want {
						t.Fatalf("%s, want %s", got, want)
					}
					if in.Ask.Body.From.Session != leaf || string(in.Ask.Raw) != string(a.Raw) || len(in.Ask.Header.Path) != 2 {
						t.Fatalf("%+v", in.Ask.Header)
					}
					p := in.Ask.Header.Path
					if p[0].Session != leaf || p[1].Session != mid || p[0].Claimed != strings.HasPrefix(leaf, "claimed") || p[1].Claimed != strings.HasPrefix(mid, "claimed") {
						t.Fatalf("%+v", p)
					}
					if want := mid == "mid" && leaf == "leaf"; in.Verified != want {
						t.Fatalf("verified %v, want %v", in.Verified, want)
					}
				})
			})
		}
	}
}

func TestCyclesAndDistance(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		calls := 0
		lead := w.node("lead", func(context.Context, forwarding.Incoming) ask.Decision { calls++; return ask.Decision{} })
		lead.server.SetServing([]string{"lead"})
		p := w.node("child", nil).childOf("lead").parent("lead")
		a := newAsk(t, "child", "ask-1")
		if _, err := p.Authorize(t.Context(), a.WithHop(ask.Hop{Session: "x", Node: "lead"})); !errors.Is(err, forwarding.ErrCycle) {
			t.Fatal(err)
		}
		if _, err := p.Authorize(t.Context(), a.WithHop(ask.Hop{Session: "x", Node: "child"})); !errors.Is(err, forwarding.ErrCycle) {
			t.Fatal(err)
		}
		far := a
		for i := range ask.MaxHops {
			far = far.WithHop(ask.Hop{Session: "x", Node: fmt.Sprintf("n%d", i)})
		}
		if _, err := p.Authorize(t.Context(), far); !errors.Is(err, forwarding.ErrTooFar) {
			t.Fatal(err)
		}
		if calls != 0 {
			t.Fatalf("served %d times", calls)
		}
	})
}

// d-sibling-key-collision: two sessions of one node number their asks alike.
func TestSiblingsWithEqualIDs(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		lead := w.node("lead", nil)
		hold := make(chan struct{})
		lead.serve = func(ctx context.Context, in forwarding.Incoming) ask.Decision {
			if in.Ask.Body.From.Session == "c2" {
				<-hold
			}
			return allowBy(ask.KindUser)(ctx, in)
		}
		lead.server.SetServing([]string{"lead"})
		n := w.node("c1", nil).childOf("lead")
		n.sess = append(n.sess, api.ChildSession{Session: "c2", Parent: "lead", FoundBy: "x"})
		p1, p2 := n.parent("lead"), n.parent("lead")
		p2.Session = "c2"
		r2 := start(t.Context(), p2, newAsk(t, "c2", "1"))
		synctest.Wait()
		if res := <-start(t.Context(), p1, newAsk(t, "c1", "1")); res.err != nil || res.d.Verdict != ask.Allow {
			t.Fatalf("%+v", res)
		}
		synctest.Wait()
		select {
		case res := <-r2:
			t.Fatalf("the sibling got %+v", res)
		default:
		}
		// The same ask twice at a time is one too many.
		if _, err := p2.Authorize(t.Context(), newAsk(t, "c2", "1")); !errors.Is(err, forwarding.ErrWaiting) {
			t.Fatal(err)
		}
		close(hold)
		if res := <-r2; res.err != nil || res.d.Verdict != ask.Allow {
			t.Fatalf("%+v", res)
		}
	})
}

// A child that asks again after it could not know that its ask arrived gets
// the same decision, and the parent serves once.
func TestAskAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		calls := 0
		lead := w.node("lead", func(c context.Context, in forwarding.Incoming) ask.Decision {
			calls++
			return allowBy(ask.KindUser)(c, in)
		})
		lead.server.SetServing([]string{"lead"})
		p := w.node("child", nil).childOf("lead").parent("lead")
		a := newAsk(t, "child", "ask-1")
		for range 3 {
			d, err := p.Authorize(t.Context(), a)
			if err != nil || !d.Allows("ask-1", a.Digest) {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		if calls != 1 {
			t.Fatalf("served %d times", calls)
		}
		w.mustLog(forwarding.EventDuplicate, "once")
		// Under the same id another body is nobody's ask.
		b, err := ask.Seal(func() ask.Body { b := a.Body; b.Title = "Something else"; return b }())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if d, err := p.Authorize(ctx, b); err == nil || d.Verdict != ask.Deny {
			t.Fatalf("%+v, %v", d, err)
		}
		if calls != 1 {
			t.Fatalf("served %d times", calls)
		}
		w.mustLog(forwarding.EventRefusedMail, "another body")
	})
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

// The list of a child's sessions changes while it is registered.
func TestSessionsChange(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		lead := w.node("lead", allowBy(ask.KindRule))
		lead.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		if err := child.links.Connect(t.Context(), "lead"); err != nil {
			t.Fatal(err)
		}
		p := child.parent("lead")
		p.Session = "late"
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if d, err := p.Authorize(ctx, newAsk(t, "late", "ask-1")); err == nil {
			t.Fatalf("%+v", d)
		}
		w.mustLog(forwarding.EventRefusedMail, "not registered")
		child.mu.Lock()
		child.sess = append(child.sess, api.ChildSession{Session: "late", Parent: "lead", FoundBy: "x"}, api.ChildSession{Session: "stray", Parent: "stranger", FoundBy: "x"})
		child.mu.Unlock()
		child.links.Changed()
		synctest.Wait()
		if d, err := p.Authorize(t.Context(), newAsk(t, "late", "ask-2")); err != nil || d.Verdict != ask.Allow {
			t.Fatalf("%+v, %v", d, err)
		}
		var names []string
		for _, c := range lead.server.Children() {
			names = append(names, c.Session)
		}
		if !slices.Equal(names, []string{"child", "late"}) {
			t.Fatal(names)
		}
	})
}

// Beats are written while a child is registered, and say who serves.
func TestBeatsFollowTheChildren(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		lead := w.node("lead", allowBy(ask.KindRule))
		lead.server.SetServing([]string{"lead"})
		time.Sleep(time.Hour)
		state := func() (n uint64, resting bool) {
			lead.mu.Lock()
			defer lead.mu.Unlock()
			return lead.beats, lead.beat.Resting
		}
		before, resting := state()
		if !resting || before > 3 {
			t.Fatalf("%d beats without a child, resting %v", before, resting)
		}
		child := w.node("child", nil).childOf("lead")
		if err := child.links.Connect(t.Context(), "lead"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		n, resting := state()
		if got := n - before; resting || got < 30 || got > 33 {
			t.Fatalf("%d beats in a minute, resting %v", got, resting)
		}
		if v := w.judge.Judge(t.Context(), liveness.Target{Session: "lead", Node: "lead"}); v.Answer != liveness.Yes || v.Channel != liveness.ChannelHeartbeat {
			t.Fatalf("%+v", v)
		}
		if list, err := lead.server.Hello(t.Context()); err != nil || fmt.Sprint(list) != "[lead]" {
			t.Fatal(list, err)
		}
		child.links.Close()
		synctest.Wait()
		n, resting = state()
		time.Sleep(time.Hour)
		if again, _ := state(); !resting || again != n {
			t.Fatalf("%d beats after the last child, resting %v", again-n, resting)
		}
	})
}

// Children that have only the directory in common.
func TestUnauthenticated(t *testing.T) {
	for _, on := range []bool{true, false} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				cause := make(chan error, 1)
				lead := w.node("lead", nil, func(c *forwarding.Config) { c.Unauthenticated = on; c.AlwaysBeat = true })
				lead.serve = func(ctx context.Context, in forwarding.Incoming) ask.Decision {
					if in.Verified {
						t.Error("verified")
					}
					switch in.Ask.Body.ID {
					case "by-rule":
						return allowBy(ask.KindRule)(ctx, in)
					case "waits":
						return waits(cause)(ctx, in)
					}
					return allowBy(ask.KindUser)(ctx, in)
				}
				lead.server.SetServing([]string{"lead"})
				child := w.node("child", nil).childOf("lead")
				links := forwarding.NewUplinks(forwarding.UplinksConfig{Server: child.server, Unauthenticated: true,
					Describe:   func(string) api.Register { return api.Register{} },
					InstanceOf: func(node string) (string, error) { return node + "-1", nil }})
				defer links.Close()
				p := child.parent("lead")
				p.Links = links
				if !on {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					if d, err := p.Authorize(ctx, newAsk(t, "child", "ask-1")); err == nil {
						t.Fatalf("%+v", d)
					}
					w.mustLog(forwarding.EventRefusedMail, "not registered")
					return
				}
				synctest.Wait()
				w.mustLog(forwarding.EventUnguarded, "not authenticated")
				if d, err := p.Authorize(t.Context(), newAsk(t, "child", "ask-1")); err != nil || d.Verdict != ask.Allow {
					t.Fatalf("%+v, %v", d, err)
				}
				if d, err := p.Authorize(t.Context(), newAsk(t, "child", "by-rule")); err != nil || d.Verdict != ask.Deny {
					t.Fatalf("%+v, %v", d, err)
				}
				r := start(t.Context(), p, newAsk(t, "child", "waits"))
				synctest.Wait()
				w.net.Kill("child")
				if err := <-cause; !errors.Is(err, forwarding.ErrLost) {
					t.Fatal(err)
				}
				w.net.Kill("lead")
				var lost *forwarding.ParentLostError
				if res := <-r; !errors.As(res.err, &lost) {
					t.Fatalf("%+v", res)
				}
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
