package forwarding

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
)

// An ask that arrives is noticed within a second by whatever way is left.
func TestArrivalIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		watch func(dir string, told func(watchEvent)) (closer, error)
		says  string
		quiet bool
	}{
		"events":                 {openWatch, "arrive", true},
		"no instance left":       {func(string, func(watchEvent)) (closer, error) { return nil, syscall.EMFILE }, "too many open files", false},
		"no watch left":          {func(string, func(watchEvent)) (closer, error) { return nil, syscall.ENOSPC }, "polled", false},
		"events that never come": {func(string, func(watchEvent)) (closer, error) { return noWatch{}, nil }, "gave none", false},
		"a watch that breaks": {func(_ string, told func(watchEvent)) (closer, error) {
			told(watchEvent{err: errors.New("broken")})
			return noWatch{}, nil
		}, "broken", false},
		"events that are lost": {func(_ string, told func(watchEvent)) (closer, error) {
			w := &lossy{told: told, end: make(chan struct{})}
			w.done.Go(w.run)
			return w, nil
		}, "gave none", false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newBoxes(t)
			x.b.newWatch = c.watch
			quiet := make(chan bool, 16)
			x.b.OnQuiet(func(q bool) { quiet <- q })
			ctx, cancel := context.WithCancel(t.Context())
			var done sync.WaitGroup
			done.Go(func() { _ = x.b.Run(ctx) })
			release := x.b.Hold()
			defer func() { release(); cancel(); done.Wait() }()
			for i := range uint64(4) {
				begin := time.Now()
				if err := x.a.Put(ctx, "b", nameOf(i+1), []byte("x")); err != nil {
					t.Fatal(err)
				}
				for got := 0; got == 0; {
					select {
					case <-x.b.Arrived():
						if _, err := x.b.Take(func(Name, []byte) error { got++; return nil }); err != nil {
							t.Fatal(err)
						}
					case <-time.After(5 * time.Second):
						t.Fatalf("letter %d was not noticed", i+1)
					}
				}
				if d := time.Since(begin); d > 2*time.Second {
					t.Fatalf("letter %d was noticed after %s", i+1, d)
				}
			}
			deadline := time.Now().Add(5 * time.Second)
			for !x.logged(EventWatch, c.says) {
				if time.Now().After(deadline) {
					t.Fatalf("%+v", x.events)
				}
				time.Sleep(10 * time.Millisecond)
			}
			got := false
			for len(quiet) > 0 {
				got = <-quiet
			}
			if got != c.quiet {
				t.Fatalf("quiet %v", got)
			}
		})
	}
}

type noWatch struct{}

func (noWatch) Close() error { return nil }

// lossy only says that events were lost.
type lossy struct {
	told func(watchEvent)
	end  chan struct{}
	done sync.WaitGroup
}

func (w *lossy) run() {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-w.end:
			return
		case <-tick.C:
			w.told(watchEvent{lost: true})
		}
	}
}

func (w *lossy) Close() error {
	close(w.end)
	w.done.Wait()
	return nil
}

// A node that expects nothing holds no watch and does nothing; the watch
// follows a mailbox that is replaced.
func TestWatchFollows(t *testing.T) {
	x := newBoxes(t)
	var mu sync.Mutex
	opened, closed := 0, 0
	x.b.newWatch = func(dir string, told func(watchEvent)) (closer, error) {
		mu.Lock()
		defer mu.Unlock()
		w, err := openWatch(dir, told)
		if err == nil {
			opened++
		}
		return closeFunc(func() error {
			mu.Lock()
			closed++
			mu.Unlock()
			return w.Close()
		}), err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = x.b.Run(ctx) })
	defer func() { cancel(); done.Wait() }()
	counts := func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		return opened, closed
	}
	wait := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	time.Sleep(50 * time.Millisecond)
	if o, _ := counts(); o != 0 {
		t.Fatal("watched though nothing is expected")
	}
	release := x.b.Hold()
	wait("was not watched", func() bool { return x.logged(EventWatch, "arrive") })
	mail := x.dirs.Node("b").Mail()
	if err := os.Rename(mail, mail+".old"); err != nil {
		t.Fatal(err)
	}
	// The loop of a server would take at every signal.
	taken := make(chan string, 8)
	done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-x.b.Arrived():
				_, _ = x.b.Take(func(n Name, _ []byte) error { taken <- n.String(); return nil })
			}
		}
	})
	wait("was not watched anew", func() bool { o, _ := counts(); return o >= 2 })
	wait("the mailbox was not made anew", func() bool { return isDir(filepath.Join(mail, "new")) && isDir(filepath.Join(mail, "tmp")) })
	if err := x.a.Put(ctx, "b", nameOf(1), []byte("x")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-taken:
	case <-time.After(3 * time.Second):
		t.Fatal("a letter in the new mailbox was not noticed")
	}
	release()
	wait("the watch was not closed", func() bool { o, c := counts(); return o == c })
}

func isDir(p string) bool {
	fi, err := os.Lstat(p)
	return err == nil && fi.IsDir()
}

type closeFunc func() error

func (f closeFunc) Close() error { return f() }

// Who sees mail by file events is not woken for it; who does not, is.
func TestWakeUpsOnlyWhereNeeded(t *testing.T) {
	for _, events := range []bool{true, false} {
		t.Run(fmt.Sprintf("file events %v", events), func(t *testing.T) {
			root := rootDir(t)
			lead, err := openReal(root, "lead", nil, !events, func(c *Config) {
				c.Serve = func(_ context.Context, in Incoming) ask.Decision {
					return ask.Decision{Ask: in.Ask.Body.ID, Digest: in.Ask.Digest, Outcome: ask.Answered, Verdict: ask.Allow, By: ask.By{Kind: ask.KindUser, Surface: "x"}}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer lead.close()
			child, err := openReal(root, "child", []api.ChildSession{{Session: "child", Parent: "lead", FoundBy: "x"}}, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer child.close()
			var wakes atomic.Int64
			dial := child.links.cfg.Dial
			child.links.cfg.Dial = func(ctx context.Context, node string) (Conn, error) {
				c, err := dial(ctx, node)
				return countWakes{c, &wakes}, err
			}
			p := &Parent{Links: child.links, Session: "child", Target: "lead", Node: "lead", Timeout: DefaultTimeout}
			n := 0
			one := func() {
				t.Helper()
				n++
				a, err := testAsk("child", fmt.Sprintf("ask-%d", n))
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				if d, err := p.Authorize(t.Context(), a); err != nil || d.Verdict != ask.Allow {
					t.Fatalf("%+v, %v", d, err)
				}
				if took := time.Since(begin); took > 900*time.Millisecond {
					t.Fatalf("took %s", took)
				}
			}
			for deadline := time.Now().Add(5 * time.Second); ; {
				before := wakes.Load()
				one()
				if quiet := wakes.Load() == before; quiet || !events && n > 20 {
					if quiet != events {
						t.Fatalf("woken %v", !quiet)
					}
					return
				}
				if time.Now().After(deadline) {
					t.Fatal("still woken for each letter")
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
}

type countWakes struct {
	Conn
	n *atomic.Int64
}

func (c countWakes) Write(t string, n uint64, body any) error {
	if t == api.TWake {
		c.n.Add(1)
	}
	return c.Conn.Write(t, n, body)
}
