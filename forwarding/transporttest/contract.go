// Package transporttest is what every transport of letters must keep, as a
// test suite, and a transport in memory for tests in virtual time. It is for
// tests alone.
package transporttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"permd/forwarding"
)

// Network is a transport under test.
type Network interface {
	// Open returns the mailbox of a node that is alive from now on. It is
	// ready to notice arrivals; the suite takes from it on one goroutine.
	Open(t *testing.T, node string) forwarding.Transport
	// Kill ends a node as SIGKILL would.
	Kill(t *testing.T, node string)
}

// Run holds a transport against the contract. open makes a fresh network.
func Run(t *testing.T, open func(t *testing.T) Network) {
	for name, test := range map[string]func(*testing.T, Network){
		"a letter is taken once, byte for byte":               once,
		"what cannot be read yet comes again":                 later,
		"what is refused is set aside and does not come back": refused,
		"bad names and sizes are not put":                     badPuts,
		"no mailbox, no put":                                  noMailbox,
		"a put under an ended context":                        endedContext,
		"the largest letter":                                  largest,
		"many writers at a time":                              manyWriters,
		"a full mailbox is taken in pieces":                   pieces,
		"the end of a node is seen":                           lost,
		"both ways at once":                                   bothWays,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func name(node string, counter uint64) forwarding.Name {
	return forwarding.Name{Node: node, Instance: "i1", Counter: counter, Kind: forwarding.KindAsk, ID: fmt.Sprintf("ask-%d", counter)}
}

func put(t *testing.T, tr forwarding.Transport, to string, n forwarding.Name, raw []byte) {
	t.Helper()
	if err := tr.Put(t.Context(), to, n, raw); err != nil {
		t.Fatalf("put %s: %v", n, err)
	}
}

type letter struct {
	name forwarding.Name
	raw  []byte
}

// patience is when a transport is broken and not slow.
const patience = 10 * time.Second

// gather takes until n letters came, or nothing comes any more.
func gather(t *testing.T, tr forwarding.Transport, n int) []letter {
	t.Helper()
	var got []letter
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for len(got) < n {
		more, err := tr.Take(func(n forwarding.Name, raw []byte) error {
			got = append(got, letter{n, bytes.Clone(raw)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if more || len(got) >= n {
			continue
		}
		select {
		case <-tr.Arrived():
		case <-deadline.C:
			t.Fatalf("%d letters of %d came", len(got), n)
		}
	}
	return got
}

// nothing makes sure that nothing more comes.
func nothing(t *testing.T, tr forwarding.Transport) {
	t.Helper()
	for range 3 {
		_, err := tr.Take(func(n forwarding.Name, _ []byte) error {
			t.Fatalf("%s came again", n)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func once(t *testing.T, net Network) {
	a, b := net.Open(t, "a"), net.Open(t, "b")
	raw := make([]byte, 256)
	for i := range raw {
		raw[i] = byte(i)
	}
	put(t, a, "b", name("a", 1), raw)
	got := gather(t, b, 1)
	if len(got) != 1 || got[0].name != name("a", 1) || !bytes.Equal(got[0].raw, raw) {
		t.Fatalf("%v", got)
	}
	nothing(t, b)
	nothing(t, a)
}

func later(t *testing.T, net Network) {
	a, b := net.Open(t, "a"), net.Open(t, "b")
	put(t, a, "b", name("a", 1), []byte("x"))
	deadline := time.Now().Add(patience)
	for tries := 0; tries < 2; {
		_, err := b.Take(func(forwarding.Name, []byte) error {
			tries++
			if tries < 2 {
				return forwarding.ErrLater
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("did not come again")
		}
		if tries < 2 {
			select {
			case <-b.Arrived():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	nothing(t, b)
}

func refused(t *testing.T, net Network) {
	a, b := net.Open(t, "a"), net.Open(t, "b")
	put(t, a, "b", name("a", 1), []byte("bad"))
	put(t, a, "b", name("a", 2), []byte("good"))
	seen := 0
	for deadline := time.Now().Add(patience); seen < 2; {
		_, err := b.Take(func(n forwarding.Name, _ []byte) error {
			seen++
			if n.Counter == 1 {
				return errors.New("no")
			}
			return nil
		})
		if err != nil || time.Now().After(deadline) {
			t.Fatal(err, seen)
		}
	}
	nothing(t, b)
}

func badPuts(t *testing.T, net Network) {
	a, b := net.Open(t, "a"), net.Open(t, "b")
	for what, c := range map[string]struct {
		to   string
		name forwarding.Name
		raw  []byte
	}{
		"to itself":          {"a", name("a", 1), nil},
		"to nobody":          {"", name("a", 1), nil},
		"to a path":          {"../b", name("a", 1), nil},
		"to dots":            {"..", name("a", 1), nil},
		"in another's name":  {"b", name("c", 1), nil},
		"without a counter":  {"b", name("a", 0), nil},
		"with a path as id":  {"b", forwarding.Name{Node: "a", Instance: "i", Counter: 1, Kind: "ask", ID: "../x"}, nil},
		"with a separator":   {"b", forwarding.Name{Node: "a", Instance: "i", Counter: 1, Kind: "ask", ID: "x~y"}, nil},
		"of no kind":         {"b", forwarding.Name{Node: "a", Instance: "i", Counter: 1, Kind: "allow", ID: "x"}, nil},
		"without instance":   {"b", forwarding.Name{Node: "a", Counter: 1, Kind: "ask", ID: "x"}, nil},
		"one byte too large": {"b", name("a", 1), make([]byte, forwarding.MaxLetter+1)},
	} {
		if err := a.Put(t.Context(), c.to, c.name, c.raw); err == nil {
			t.Errorf("%s: put", what)
		}
	}
	nothing(t, b)
	nothing(t, a)
}

func noMailbox(t *testing.T, net Network) {
	a := net.Open(t, "a")
	if err := a.Put(t.Context(), "nobody", name("a", 1), []byte("x")); !errors.Is(err, forwarding.ErrNoMailbox) {
		t.Fatal(err)
	}
}

func endedContext(t *testing.T, net Network) {
	a, b := net.Open(t, "a"), net.Open(t, "b")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Put(ctx, "b", name("a", 1), []byte("x")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	nothing(t, b)
}

func largest(t *testing.T, net Network) {
	a, b := net.Open(t, "a"), net.Open(t, "b")
	raw := bytes.Repeat([]byte{'x'}, forwarding.MaxLetter)
	put(t, a, "b", name("a", 1), raw)
	put(t, a, "b", name("a", 2), nil)
	got := gather(t, b, 2)
	if !bytes.Equal(got[0].raw, raw) || len(got[1].raw) != 0 {
		t.Fatalf("%d and %d bytes", len(got[0].raw), len(got[1].raw))
	}
}

func manyWriters(t *testing.T, net Network) {
	const writers, each = 8, 40
	b := net.Open(t, "b")
	var wg sync.WaitGroup
	for w := range writers {
		node := fmt.Sprintf("w%d", w)
		tr := net.Open(t, node)
		wg.Go(func() {
			for i := range each {
				n := name(node, uint64(i+1))
				if err := tr.Put(t.Context(), "b", n, []byte(n.String())); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	seen := map[string]bool{}
	for _, l := range gather(t, b, writers*each) {
		if seen[l.name.String()] || string(l.raw) != l.name.String() {
			t.Fatalf("%s came twice or holds %q", l.name, l.raw)
		}
		seen[l.name.String()] = true
	}
	wg.Wait()
	nothing(t, b)
}

func pieces(t *testing.T, net Network) {
	a, b := net.Open(t, "a"), net.Open(t, "b")
	const n = 1000
	for i := range n {
		put(t, a, "b", name("a", uint64(i+1)), []byte("x"))
	}
	most := 0
	got := 0
	for deadline := time.Now().Add(patience); got < n; {
		one := 0
		more, err := b.Take(func(forwarding.Name, []byte) error { one++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		got += one
		most = max(most, one)
		if got < n && !more {
			select {
			case <-b.Arrived():
			case <-time.After(time.Until(deadline)):
				t.Fatalf("%d of %d came", got, n)
			}
		}
	}
	if most == n {
		t.Fatalf("all %d came in one piece: nothing else had its turn", n)
	}
	nothing(t, b)
}

func lost(t *testing.T, net Network) {
	a := net.Open(t, "a")
	net.Open(t, "b")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Alive(ctx, "b"); !errors.Is(err, context.Canceled) {
		t.Fatalf("a living node: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Alive(t.Context(), "b") }()
	net.Kill(t, "b")
	select {
	case err := <-done:
		if !errors.Is(err, forwarding.ErrLost) {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("the end of the node was not seen")
	}
	if err := a.Alive(t.Context(), "never-was"); !errors.Is(err, forwarding.ErrLost) {
		t.Fatalf("a node that never was: %v", err)
	}
}

func bothWays(t *testing.T, net Network) {
	const n = 100
	nodes := map[string]forwarding.Transport{"a": net.Open(t, "a"), "b": net.Open(t, "b")}
	var wg sync.WaitGroup
	for from, to := range map[string]string{"a": "b", "b": "a"} {
		wg.Go(func() {
			for i := range n {
				if err := nodes[from].Put(t.Context(), to, name(from, uint64(i+1)), []byte("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, tr := range nodes {
		gather(t, tr, n)
	}
	wg.Wait()
}
