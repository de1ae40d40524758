package forwarding

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/internal/host"
	"permd/internal/host/hosttest"
)

// plan says which operation fails, how often and with what.
type plan struct {
	mu    sync.Mutex
	n     int // operations so far
	at    int
	times int
	err   error
}

func (p *plan) next() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	if p.at > 0 && p.n >= p.at && p.n < p.at+p.times {
		return p.err
	}
	return nil
}

func (p *plan) set(at, times int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.at, p.times, p.err = 0, at, times, err
}

func (p *plan) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// faultyIn is an inbox that fails by plan; an error stands in its own clothes.
type faultyIn struct {
	inbox
	p *plan
}

func (f faultyIn) Read(name string, limit int64) ([]byte, error) {
	if err := f.p.next(); err != nil {
		return nil, &host.FileError{Name: name, Problem: "cannot be read", Err: err}
	}
	return f.inbox.Read(name, limit)
}

func (f faultyIn) Lstat(name string) (fs.FileInfo, error) {
	if err := f.p.next(); err != nil {
		return nil, err
	}
	return f.inbox.Lstat(name)
}

func (f faultyIn) List(dir string) (lister, error) {
	if err := f.p.next(); err != nil {
		return nil, err
	}
	return f.inbox.List(dir)
}

func (f faultyIn) Remove(name string) error {
	if err := f.p.next(); err != nil {
		return err
	}
	return f.inbox.Remove(name)
}

func (f faultyIn) Rename(from, to string) error {
	if err := f.p.next(); err != nil {
		return err
	}
	return f.inbox.Rename(from, to)
}

// faultyTo is a target that fails by plan; a write that fails has written half.
type faultyTo struct {
	target
	p *plan
}

func (f faultyTo) Create(name string, perm os.FileMode) (host.File, error) {
	if err := f.p.next(); err != nil {
		return nil, err
	}
	file, err := f.target.Create(name, perm)
	return faultyFile{file, f.p}, err
}

func (f faultyTo) Rename(from, to string) error {
	if err := f.p.next(); err != nil {
		return err
	}
	return f.target.Rename(from, to)
}

func (f faultyTo) Remove(name string) error {
	if err := f.p.next(); err != nil {
		return err
	}
	return f.target.Remove(name)
}

type faultyFile struct {
	host.File
	p *plan
}

func (f faultyFile) Write(b []byte) (int, error) {
	if err := f.p.next(); err != nil {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, err
	}
	return f.File.Write(b)
}

func (f faultyFile) Close() error {
	err := f.p.next()
	return errors.Join(f.File.Close(), err)
}

// inject makes a mailbox fail by plan in all it does with files.
func inject(d *Disk, p *plan) {
	in, to := d.openIn, d.to.open
	d.openIn = func(dir string) (inbox, error) {
		if err := p.next(); err != nil {
			return nil, err
		}
		b, err := in(dir)
		if err != nil {
			return nil, err
		}
		return faultyIn{b, p}, nil
	}
	d.to.open = func(dir string) (target, error) {
		if err := p.next(); err != nil {
			return nil, err
		}
		b, err := to(dir)
		if err != nil {
			return nil, err
		}
		return faultyTo{b, p}, nil
	}
}

var faults = []error{syscall.EIO, syscall.ENOSPC, syscall.EACCES, syscall.EMFILE, syscall.EPERM}

// T3, put: an error at any operation leaves either the whole letter and no
// error, or an error and nothing to be seen.
func TestPutFaults(t *testing.T) {
	for _, err := range faults {
		for _, times := range []int{1, 2, 1 << 30} {
			t.Run(fmt.Sprintf("%v %d", err, times), func(t *testing.T) {
				x := newBoxes(t)
				p := &plan{}
				inject(x.a, p)
				for n := 1; ; n++ {
					p.set(n, times, err)
					name := nameOf(uint64(n))
					putErr := x.a.Put(t.Context(), "b", name, []byte("whole letter"))
					clean := p.count() < n
					p.set(0, 0, nil)
					got := x.takeAll()
					if putErr == nil && got[name.String()] != "whole letter" {
						t.Fatalf("operation %d: acknowledged and not there: %q", n, got)
					}
					for name, text := range got {
						if text != "whole letter" {
							t.Fatalf("operation %d: %s is torn: %q", n, name, text)
						}
					}
					if clean {
						if putErr != nil {
							t.Fatalf("no fault, yet %v", putErr)
						}
						break
					}
				}
				if left := x.ls("tmp"); times == 1 && len(left) != 0 {
					t.Fatalf("left in tmp: %q", left)
				}
			})
		}
	}
}

// d-forward-write-fails: what holds the name for a moment costs no letter.
func TestPutIsTriedAgain(t *testing.T) {
	for _, err := range []error{syscall.EPERM, syscall.EACCES, syscall.EBUSY} {
		x := newBoxes(t)
		open, left := x.a.to.open, 2
		x.a.to.open = func(dir string) (target, error) {
			b, oerr := open(dir)
			return renameFails{b, &left, err}, oerr
		}
		if perr := x.a.Put(t.Context(), "b", nameOf(1), []byte("x")); perr != nil || left != 0 {
			t.Fatalf("%v: %v", err, perr)
		}
		if got := x.takeAll(); len(got) != 1 {
			t.Fatalf("%v: %q", err, got)
		}
		left = 1 << 30 // for good: an error, and never a direct write
		if perr := x.a.Put(t.Context(), "b", nameOf(2), []byte("x")); !errors.Is(perr, err) {
			t.Fatalf("%v: %v", err, perr)
		}
		if n, m := len(x.ls("new")), len(x.ls("tmp")); n+m != 0 {
			t.Fatalf("%v: %d in new, %d in tmp", err, n, m)
		}
	}
}

type renameFails struct {
	target
	left *int
	err  error
}

func (r renameFails) Rename(from, to string) error {
	if *r.left > 0 {
		*r.left--
		return r.err
	}
	return r.target.Rename(from, to)
}

// The same through the faults that the rest of the project uses, which also
// lose replies: the letter may then be there although Put says no.
func TestPutLateFaults(t *testing.T) {
	x := newBoxes(t)
	for n := 1; ; n++ {
		var f *hosttest.Faults
		open := x.a.to.open
		x.a.to.open = func(dir string) (target, error) {
			b, err := open(dir)
			f = &hosttest.Faults{Files: b, At: n, Err: syscall.EIO, Late: true}
			return struct {
				host.Files
				target2
			}{f, b}, err
		}
		x.a.to.close()
		name := nameOf(uint64(n))
		err := x.a.Put(t.Context(), "b", name, []byte("whole letter"))
		x.a.to.close()
		x.a.to.open = open
		got := x.takeAll()
		if text, there := got[name.String()]; there && text != "whole letter" || err == nil && !there {
			t.Fatalf("operation %d: %q, %v", n, got, err)
		}
		if len(f.Ops()) < n {
			break
		}
	}
}

// target2 is a target without its files.
type target2 interface {
	Current() bool
	Close() error
}

// T3, take: an error at any operation loses no letter and shows none twice
// once the fault is over.
func TestTakeFaults(t *testing.T) {
	for _, err := range faults {
		for _, times := range []int{1, 3} {
			t.Run(fmt.Sprintf("%v %d", err, times), func(t *testing.T) {
				for n := 1; ; n++ {
					x := newBoxes(t)
					p := &plan{}
					inject(x.b, p)
					for i := range uint64(3) {
						if err := x.a.Put(t.Context(), "b", nameOf(i+1), []byte("x")); err != nil {
							t.Fatal(err)
						}
					}
					p.set(n, times, err)
					seen := map[string]int{}
					take := func() {
						x.b.mu.Lock()
						x.b.scanAt = time.Time{}
						x.b.mu.Unlock()
						x.b.Wake()
						_, _ = x.b.Take(func(n Name, raw []byte) error {
							if string(raw) != "x" {
								t.Errorf("torn: %q", raw)
							}
							seen[n.String()]++
							return nil
						})
					}
					for range 3 {
						take()
					}
					clean := p.count() < n
					p.set(0, 0, nil)
					for range 3 {
						take()
					}
					if len(seen) != 3 {
						t.Fatalf("operation %d: took %v", n, seen)
					}
					for name, times := range seen {
						if times != 1 {
							t.Fatalf("operation %d: %s came %d times", n, name, times)
						}
					}
					if got := x.ls("new"); len(got) != 0 {
						t.Fatalf("operation %d: left %q", n, got)
					}
					x.a.Close()
					x.b.Close()
					if clean {
						break
					}
				}
			})
		}
	}
}

// duo is a parent's and a child's node on one disk, in this process.
type duo struct {
	parent       *Server
	child        *Parent
	pp, pc       *plan
	close        func()
	done         sync.WaitGroup
	mu           sync.Mutex
	events       []Event
	calls, allow int
}

func newDuo(t *testing.T) *duo {
	t.Helper()
	x := newBoxes(t)
	d := &duo{pp: &plan{}, pc: &plan{}}
	inject(x.a, d.pc)
	inject(x.b, d.pp)
	log := func(e Event) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.events = append(d.events, e)
	}
	ctx, stop := context.WithCancel(context.Background())
	var err error
	d.parent, err = NewServer(Config{Node: "b", Instance: "b-1", Transport: x.b, Log: log,
		Proofs: Proofs{Descends: func(api.Register, Caller) bool { return true }},
		Serve: func(_ context.Context, in Incoming) ask.Decision {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.calls++
			d.allow++
			return ask.Decision{Ask: in.Ask.Body.ID, Digest: in.Ask.Digest, Outcome: ask.Answered, Verdict: ask.Allow, By: ask.By{Kind: ask.KindUser, Surface: "x"}}
		}})
	if err != nil {
		t.Fatal(err)
	}
	d.parent.SetServing([]string{"b"})
	srv, err := NewServer(Config{Node: "a", Instance: "a-1", Transport: x.a, Log: log,
		Serve: func(context.Context, Incoming) ask.Decision { return ask.Decision{} }})
	if err != nil {
		t.Fatal(err)
	}
	caller := Caller{UID: uint32(os.Geteuid()), PID: os.Getpid(), Start: 1, Alive: func() bool { return true }}
	links := NewUplinks(UplinksConfig{Server: srv,
		Dial: func(context.Context, string) (Conn, error) {
			here, there := socketPair(t)
			d.done.Go(func() { _ = d.parent.Child(ctx, there, caller) })
			return here, nil
		},
		Describe: func(string) api.Register {
			return api.Register{PID: os.Getpid(), Start: 1, Sessions: []api.ChildSession{{Session: "a", Parent: "b", FoundBy: "x"}}}
		}})
	d.child = &Parent{Links: links, Session: "a", Target: "b", Node: "b", Timeout: time.Minute}
	d.done.Go(func() { _ = d.parent.Run(ctx) })
	d.done.Go(func() { _ = srv.Run(ctx) })
	d.close = sync.OnceFunc(func() {
		links.Close()
		stop()
		d.done.Wait()
		x.a.Close()
		x.b.Close()
	})
	t.Cleanup(d.close)
	return d
}

// T3, the whole way: whatever fails at the parent or at the child, for a
// moment or for good, an ask ends in time, and it is allowed only if the
// parent's person allowed it.
func TestRelayFaults(t *testing.T) {
	const most = 24 // operations of one ask on one side, and more
	var all sync.WaitGroup
	for _, side := range []string{"parent", "child"} {
		for _, err := range []error{syscall.EIO, syscall.ENOSPC, syscall.EACCES, syscall.EMFILE} {
			for _, times := range []int{1, 1 << 30} {
				if times > 1 && (testing.Short() || err == syscall.EMFILE) {
					continue // sticky faults take their grace
				}
				what := fmt.Sprintf("%s, %v %d times", side, err, times)
				var mu sync.Mutex
				clean := false
				var one sync.WaitGroup
				for n := 1; n <= most; n++ {
					d := newDuo(t) // its cleanup belongs to this goroutine
					one.Go(func() {
						defer d.close() // the kernel takes its time to close a watch
						if relayFault(t, d, what, side, n, times, err) {
							mu.Lock()
							clean = true
							mu.Unlock()
						}
					})
				}
				all.Go(func() {
					one.Wait()
					if !clean {
						t.Errorf("%s: no run came to its end without a fault", what)
					}
				})
			}
		}
	}
	all.Wait()
}

// relayFault asks once while operation n fails, and reports whether there was
// no such operation.
func relayFault(t *testing.T, d *duo, what, side string, n, times int, fault error) (clean bool) {
	p := d.pp
	if side == "child" {
		p = d.pc
	}
	what = fmt.Sprintf("%s, operation %d", what, n)
	a, err := testAsk("a", fmt.Sprintf("ask-%d", n))
	if err != nil {
		t.Error(err)
		return false
	}
	// Registered before the fault: what is tested is an ask, not a start.
	if err := d.child.Links.Connect(t.Context(), "b"); err != nil {
		t.Error(err)
		return false
	}
	p.set(n, times, fault)
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	got, gotErr := d.child.Authorize(ctx, a)
	cancel()
	took := time.Since(begin)
	clean = p.count() < n
	p.set(0, 0, nil)
	d.mu.Lock()
	allowed, calls := d.allow, d.calls
	d.mu.Unlock()
	switch {
	case took > 10*time.Second:
		t.Errorf("%s: ended after %s: %v", what, took, gotErr)
	case got.Verdict == ask.Allow && (allowed == 0 || gotErr != nil):
		t.Errorf("%s: allowed by nobody: %+v, %v", what, got, gotErr)
	case calls > 1:
		t.Errorf("%s: served %d times", what, calls)
	case gotErr == nil && got.Outcome == "":
		t.Errorf("%s: no outcome", what)
	case clean && got.Verdict != ask.Allow:
		t.Errorf("%s: no fault, yet %+v, %v", what, got, gotErr)
	}
	return clean
}
