package broker

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"permd/api"
	"permd/ask"
)

// TestT9FirstAnswerWins: on every ask twenty answers race, local and remote,
// valid and not, with a timeout and a withdrawal in the same instant. Real
// goroutines, no virtual time.
func TestT9FirstAnswerWins(t *testing.T) {
	const asks, answers = 500, 20
	log := &journal{}
	b := New(log, Options{})
	var regs []*Registration
	var faces []*face
	for i := range answers {
		id := Identity{Name: fmt.Sprint("answerer ", i), Kind: KindSurface, Faces: 1}
		if i%2 == 1 {
			id.Kind = KindDevice
		}
		f := &face{}
		r, err := b.Register(f, id)
		if err != nil {
			t.Fatal(err)
		}
		regs, faces = append(regs, r), append(faces, f)
	}
	type tally struct {
		won   []int
		words map[string]int
	}
	tallies := make([]tally, asks)
	decisions := make([]ask.Decision, asks)
	for n := range asks {
		a := newAsk(t, fmt.Sprint("ask", n), fmt.Sprint("make ", n))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			decisions[n], _ = b.Put(ctx, Request{Ask: a, Timeout: time.Microsecond})
		}()
		for b.waiting(a.Body.ID) == nil {
			runtime.Gosched()
		}
		tl := &tallies[n]
		tl.words = map[string]int{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i, r := range regs {
			wg.Go(func() {
				<-start
				ans := ask.AllowAnswer(a)
				switch i % 5 {
				case 2:
					ans = ask.DenyAnswer(a, "")
				case 3:
					ans.Digest[0] ^= 1
				case 4:
					ans.Items[0].Picks[0] = "always"
				}
				v := r.Answer(ans)
				mu.Lock()
				defer mu.Unlock()
				tl.words[v.Verdict]++
				if v.Verdict == api.VerdictAccepted {
					tl.won = append(tl.won, i)
				}
			})
		}
		if n%10 == 9 {
			wg.Go(func() { <-start; cancel() })
		}
		close(start)
		wg.Wait()
		<-done
		cancel()
	}
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for n, tl := range tallies {
		d := decisions[n]
		id := fmt.Sprint("ask", n)
		if rs := log.of(id); len(rs) != 1 || rs[0].By.Surface != d.By.Surface || rs[0].Verdict != d.Verdict {
			t.Fatalf("%s: decision %+v, records %+v", id, d, rs)
		}
		switch {
		case len(tl.won) == 1 && d.Outcome == ask.Answered:
			if i := tl.won[0]; d.By.Surface != regs[i].id.Name || (d.Verdict == ask.Allow) != (i%5 != 2) || i%5 > 2 {
				t.Fatalf("%s: answerer %d was accepted, the decision is %s by %s", id, i, d.Verdict, d.By.Surface)
			}
		case len(tl.won) == 0 && d.Outcome == ask.Withdrawn:
		default:
			t.Fatalf("%s: accepted %v, outcome %s", id, tl.won, d.Outcome)
		}
		total := 0
		for _, k := range tl.words {
			total += k
		}
		if total != answers || tl.words[api.VerdictAccepted]+tl.words[api.VerdictTooLate]+
			tl.words[api.VerdictInvalid]+tl.words[api.VerdictWrongDigest] != answers {
			t.Fatalf("%s: verdicts %v", id, tl.words)
		}
	}
	for i, f := range faces {
		wins := 0
		for _, tl := range tallies {
			for _, w := range tl.won {
				if w == i {
					wins++
				}
			}
		}
		if len(f.ends()) != asks-wins {
			t.Errorf("answerer %d won %d of %d and was told of %d", i, wins, asks, len(f.ends()))
		}
	}
}

// waiting returns the open entry of an ask, for tests in real time.
func (b *Broker) waiting(id string) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.openEntry(id)
}

// TestT16Restart: the node ends at every state of an ask. What was not
// recorded is denied, what was recorded stands, nothing happens twice, and a
// new broker knows nothing of the old asks.
func TestT16Restart(t *testing.T) {
	for _, state := range []phase{phaseOpen, phaseWon, phaseRecorded, phaseReleased, phaseDelivered} {
		for _, disk := range []string{"works", "fails"} {
			for range 20 {
				t.Run(state.String()+", disk "+disk, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						log := &journal{fail: func(int) error {
							time.Sleep(time.Second)
							if disk == "fails" {
								return errDisk
							}
							return nil
						}}
						w := &world{t: t, Broker: New(log, Options{}), log: log, ctx: t.Context()}
						f, r := w.desk()
						g, _ := w.phone()
						a := newAsk(t, "a", "make")
						p := w.put(w.ctx, Request{Ask: a, Timeout: time.Hour})
						var verdict <-chan api.AnswerVerdict
						if state > phaseOpen {
							verdict = answering(r, ask.AllowAnswer(a))
							synctest.Wait()
						}
						if state > phaseWon {
							time.Sleep(time.Second)
						}
						if state > phaseRecorded {
							p.wait(t)
						}
						if state == phaseDelivered {
							if err := w.Delivered("a", HowReleased, ""); err != nil {
								t.Error(err)
							}
						}
						w.end()
						d := p.wait(t)
						allowed := state > phaseOpen && disk == "works"
						if d.Allows("a", a.Digest) != allowed {
							t.Errorf("decision %+v", d)
						}
						if state == phaseOpen && d.Outcome != ask.Unavailable {
							t.Errorf("an open ask ended as %s", d.Outcome)
						}
						if state > phaseOpen {
							if v := <-verdict; allowed != (v.Verdict == api.VerdictAccepted) {
								t.Errorf("the winner was told %q", v.Verdict)
							}
						}
						if n := len(log.of("a")); (n == 1) != (disk == "works") || n > 1 {
							t.Errorf("%d records", n)
						}
						if n := len(f.ends()) + len(g.ends()); (state == phaseOpen) != (n == 2) {
							t.Errorf("%d were told", n)
						}
						log.fail = nil
						next := &world{t: t, Broker: New(log, Options{}), log: log, ctx: t.Context()}
						_, r = next.desk()
						verdictIs(t, r.Answer(ask.AllowAnswer(a)), api.VerdictUnknownAsk)
						if err := next.Delivered("a", HowReleased, ""); err == nil {
							t.Error("a new broker delivers an old ask")
						}
						next.end()
					})
				})
			}
		}
	}
}

// TestT17NothingLeft: ten thousand asks, every kind of end, leave nothing but
// the short memory for late answers.
func TestT17NothingLeft(t *testing.T) {
	const asks = 10_000
	before := runtime.NumGoroutine()
	log := &journal{}
	b := New(log, Options{})
	f, g := &face{}, &face{}
	var desk *Registration
	cancels := make([]context.CancelFunc, asks)
	f.onAsk = func(_ context.Context, s api.Shown) error {
		id := s.Ask.Body.ID
		n, err := strconv.Atoi(id[len("ask"):])
		if err != nil {
			return err
		}
		switch n % 4 {
		case 0:
			desk.Answer(ask.AllowAnswer(s.Ask))
		case 1:
			cancels[n]()
		case 2:
			b.Withdraw(id, "enough")
		case 3:
			b.Recheck(func(x *ask.Ask) (ask.Decision, bool) {
				return ask.Decision{Verdict: ask.Deny, Outcome: ask.Answered, By: ask.By{Kind: ask.KindDefault}},
					x.Body.ID == id
			})
		}
		return nil
	}
	desk, err := b.Register(f, Identity{Name: "terminal", Kind: KindSurface, Faces: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Register(g, Identity{Name: "phone", Kind: KindDevice, Faces: 1}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	gate := make(chan struct{}, 64)
	for n := range asks {
		gate <- struct{}{}
		ctx, cancel := context.WithCancel(context.Background())
		cancels[n] = cancel
		wg.Go(func() {
			defer func() { cancel(); <-gate }()
			a := newAsk(t, fmt.Sprint("ask", n), fmt.Sprint("make ", n))
			d, err := b.Put(ctx, Request{Ask: a})
			if err != nil || d.Allows(a.Body.ID, a.Digest) != (n%4 == 0) {
				t.Errorf("ask %d: %+v, %v", n, d, err)
			}
			if n%4 == 0 {
				if err := b.Delivered(a.Body.ID, HowReleased, ""); err != nil {
					t.Errorf("ask %d: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	b.mu.Lock()
	if len(b.list)+len(b.byKey) != 0 || len(b.asks) > keep || len(b.ring) > keep {
		t.Errorf("left: %d open, %d keys, %d asks, %d remembered", len(b.list), len(b.byKey), len(b.asks), len(b.ring))
	}
	for _, w := range b.ring {
		if w.ask != nil || w.e.ask != nil || w.e.held != nil || w.e.clock.timer != nil {
			t.Fatal("a settled ask still holds its body, its answerers or its timer")
		}
	}
	b.mu.Unlock()
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(log.records) != asks {
		t.Errorf("%d records of %d asks", len(log.records), asks)
	}
	if a, b := len(f.ids()), len(g.ids()); a != asks || b != asks || len(g.ends()) != asks || len(f.ends()) != asks*3/4 {
		t.Errorf("shown %d and %d, ended %d and %d", a, b, len(f.ends()), len(g.ends()))
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines before, %d after", before, after)
	}
}
