package forwarding_test

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
	"permd/forwarding"
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
