package forwarding

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
)

// siege is a parent b and its children a and m on disk, under attack by a
// process of the same user: it reads and writes every file, sees every letter
// that travels, and has a registration of its own (m). It has no other's key.
// a's ask "victim" waits for a person all the while.
type siege struct {
	*boxes
	parent *Server
	child  *Parent
	victim chan relayed
	person chan ask.Verdict // what the person says to the victim
	m      *attacker
	stop   context.CancelFunc
	done   sync.WaitGroup

	smu      sync.Mutex
	letters  []posted
	served   []string
	receipts []Receipt
	ended    []string // asks whose context ended before they were decided
}

type posted struct {
	to   string
	name Name
	raw  []byte
}

type relayed struct {
	d   ask.Decision
	err error
}

// attacker is a registered child of b that knows the protocol and its own key.
type attacker struct {
	conn Conn
	key  []byte
	n    uint64
}

// tap is a mailbox whose letters are seen on the way.
type tap struct {
	*Disk
	s *siege
}

func (x tap) Put(ctx context.Context, to string, name Name, sealed []byte) error {
	x.s.smu.Lock()
	x.s.letters = append(x.s.letters, posted{to, name, bytes.Clone(sealed)})
	x.s.smu.Unlock()
	return x.Disk.Put(ctx, to, name, sealed)
}

func newSiege(t *testing.T) *siege {
	t.Helper()
	s := &siege{boxes: newBoxes(t), victim: make(chan relayed, 1), person: make(chan ask.Verdict, 1)}
	log := func(e Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, e)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	var err error
	s.parent, err = NewServer(Config{Node: "b", Instance: "b-1", Transport: tap{s.b, s}, Log: log, Serve: s.serve,
		Delivered: func(_ Child, r Receipt) {
			s.smu.Lock()
			defer s.smu.Unlock()
			s.receipts = append(s.receipts, r)
		},
		Proofs: Proofs{Hosts: func(x string) bool { return x == "b" || x == "b.sub" },
			Descends: func(r api.Register, _ Caller) bool { return r.Node == "a" },
			Ticket:   func(string, api.Register) (string, bool) { return "", false }}})
	if err != nil {
		t.Fatal(err)
	}
	s.parent.SetServing([]string{"b"})
	srv, err := NewServer(Config{Node: "a", Instance: "a-1", Transport: tap{s.a, s}, Log: log,
		Serve: func(context.Context, Incoming) ask.Decision { return ask.Decision{} }})
	if err != nil {
		t.Fatal(err)
	}
	links := NewUplinks(UplinksConfig{Server: srv,
		Dial: func(context.Context, string) (Conn, error) { return s.dial(ctx, 11), nil },
		Describe: func(string) api.Register {
			return api.Register{PID: 11, Start: 1, Sessions: []api.ChildSession{{Session: "a", Parent: "b", FoundBy: "x"}}}
		}})
	s.child = &Parent{Links: links, Session: "a", Target: "b", Node: "b", Timeout: time.Minute}
	s.done.Go(func() { _ = s.parent.Run(ctx) })
	s.done.Go(func() { _ = srv.Run(ctx) })
	t.Cleanup(func() {
		links.Close()
		stop()
		s.done.Wait()
	})
	// The attacker's own registration.
	s.m = &attacker{conn: s.dial(ctx, 22)}
	got, err := handshake(s.m.conn, api.Register{Node: "m", Instance: "m-1", PID: 22, Start: 1,
		Sessions: []api.ChildSession{{Session: "m", Parent: "b", FoundBy: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.m.key, _ = hex.DecodeString(got.Key)
	// Letters of every kind have travelled: an allow, a withdrawal, a receipt.
	if d, err := s.child.Authorize(ctx, s.ask("old")); err != nil || d.Verdict != ask.Allow {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := s.child.Delivered(ctx, s.ask("old"), "released", ""); err != nil {
		t.Fatal(err)
	}
	wctx, cancel := context.WithCancel(ctx)
	withdrawn := make(chan error, 1)
	go func() {
		_, err := s.child.Authorize(wctx, s.ask("waits-withdrawn"))
		withdrawn <- err
	}()
	s.until("an ask waits", func() bool { return s.didServe("waits-withdrawn") })
	cancel()
	if err := <-withdrawn; err == nil {
		t.Fatal("not withdrawn")
	}
	go func() {
		d, err := s.child.Authorize(ctx, s.ask("victim"))
		s.victim <- relayed{d, err}
	}()
	s.until("the victim is served", func() bool { return s.didServe("victim") && s.didEnd("waits-withdrawn") && len(s.got()) == 1 })
	s.until("all letters are taken", func() bool {
		for _, n := range []string{"a", "b"} {
			if l, err := os.ReadDir(s.file(n, "")); err != nil || slices.ContainsFunc(l, func(e os.DirEntry) bool { return !strings.HasPrefix(e.Name(), echoPrefix) }) {
				return false
			}
		}
		return true
	})
	return s
}

func (s *siege) dial(ctx context.Context, pid int) Conn {
	here, there := socketPair(s.t)
	s.done.Go(func() {
		_ = s.parent.Child(ctx, there, Caller{UID: uint32(os.Geteuid()), PID: pid, Start: 1, Alive: func() bool { return true }})
	})
	return here
}

func (s *siege) serve(ctx context.Context, in Incoming) ask.Decision {
	id := in.Ask.Body.ID
	s.smu.Lock()
	s.served = append(s.served, in.Child.Node+"/"+id)
	s.smu.Unlock()
	d := ask.Decision{Ask: id, Digest: in.Ask.Digest, Outcome: ask.Answered, Verdict: ask.Allow, By: ask.By{Kind: ask.KindUser, Surface: "x"}}
	switch {
	case id == "victim":
		select {
		case d.Verdict = <-s.person:
			return d
		case <-ctx.Done():
		}
	case strings.HasPrefix(id, "waits-"):
		<-ctx.Done()
	default:
		return d
	}
	s.smu.Lock()
	s.ended = append(s.ended, id)
	s.smu.Unlock()
	return ask.Decision{}
}

func (s *siege) ask(id string) *ask.Ask {
	a, err := testAsk("a", id)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *siege) didServe(id string) bool {
	s.smu.Lock()
	defer s.smu.Unlock()
	return slices.Contains(s.served, "a/"+id)
}

func (s *siege) didEnd(id string) bool {
	s.smu.Lock()
	defer s.smu.Unlock()
	return slices.Contains(s.ended, id)
}

func (s *siege) got() []Receipt {
	s.smu.Lock()
	defer s.smu.Unlock()
	return slices.Clone(s.receipts)
}

func (s *siege) until(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not so in 10 s: %s; %+v", what, s.events)
		}
	}
}

// seen is a letter that travelled.
func (s *siege) seen(kind Kind, id string) posted {
	s.t.Helper()
	s.smu.Lock()
	defer s.smu.Unlock()
	for _, l := range s.letters {
		if l.name.Kind == kind && l.name.ID == id {
			return l
		}
	}
	s.t.Fatalf("no %s of %s travelled", kind, id)
	return posted{}
}

// file is a path in a node's mailbox.
func (s *siege) file(node, name string) string {
	return filepath.Join(s.dirs.Node(node).Mail(), newDir, name)
}

// plant puts bytes into a node's mailbox as they are, whole at once.
func (s *siege) plant(node, name string, raw []byte) {
	s.t.Helper()
	tmp := filepath.Join(s.dirs.Node(node).Mail(), tmpDir, "attack")
	if err := errors.Join(os.WriteFile(tmp, raw, 0o600), os.Rename(tmp, s.file(node, name))); err != nil {
		s.t.Fatal(err)
	}
}

// victimAllow is the letter that the attacker would like a to believe.
func (s *siege) victimAllow(counter uint64) Letter {
	a := s.ask("victim")
	d := ask.Decision{Ask: "victim", Digest: a.Digest, Verdict: ask.Allow, Outcome: ask.Answered, By: ask.By{Kind: ask.KindUser, Surface: "desk"}}
	body, err := ask.Encode(&d)
	if err != nil {
		s.t.Fatal(err)
	}
	return Letter{Envelope: Envelope{Kind: KindDecision, ID: "victim", Origin: "a", Digest: a.Digest, Counter: counter,
		From: Address{"b", "b-1", "b"}, To: Address{"a", "a-1", "a"}}, Body: body}
}

// evilAsk is the letter that the attacker would like b to serve as a's.
func (s *siege) evilAsk(id string, counter uint64) Letter {
	a, err := testAsk("a", id)
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := encodeAsk(a.WithHop(ask.Hop{Session: "a", Node: "a"}))
	if err != nil {
		s.t.Fatal(err)
	}
	return Letter{Envelope: Envelope{Kind: KindAsk, ID: id, Origin: "a", Digest: a.Digest, Counter: counter,
		From: Address{"a", "a-1", "a"}, To: Address{"b", "b-1", "b"}}, Body: body}
}

func (s *siege) upward(kind Kind, counter uint64, body []byte) Letter {
	l := s.evilAsk("victim", counter)
	l.Kind, l.Body = kind, body
	return l
}

// sealAndPlant seals under a key the attacker has or guesses.
func (s *siege) sealAndPlant(node string, l Letter, key []byte) {
	s.t.Helper()
	raw, err := l.Seal(key)
	if err != nil {
		s.t.Fatal(err)
	}
	s.plant(node, l.Name().String(), raw)
}

// changed is a letter that travelled, changed by the attacker, planted again
// under a fresh counter in its name.
func (s *siege) changed(node string, p posted, old, new string) {
	s.t.Helper()
	raw := bytes.Replace(p.raw, []byte(old), []byte(new), 1)
	if bytes.Equal(raw, p.raw) {
		s.t.Fatalf("nothing to change: %q", old)
	}
	l, err := read(raw)
	if err != nil {
		s.plant(node, p.name.String(), raw)
		return
	}
	s.plant(node, l.Name().String(), raw)
}

// mine is a letter of the attacker's own registration.
func (s *siege) mine(kind Kind, id string, change func(*Letter)) {
	s.t.Helper()
	s.m.n++
	a, err := testAsk("m", id)
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := encodeAsk(a.WithHop(ask.Hop{Session: "m", Node: "m"}))
	if err != nil {
		s.t.Fatal(err)
	}
	l := Letter{Envelope: Envelope{Kind: kind, ID: id, Origin: "m", Digest: a.Digest, Counter: s.m.n,
		From: Address{"m", "m-1", "m"}, To: Address{"b", "b-1", "b"}}, Body: body}
	change(&l)
	s.sealAndPlant("b", l, s.m.key)
}

func (s *siege) body(a *ask.Ask, hops ...ask.Hop) []byte {
	s.t.Helper()
	for _, h := range hops {
		a = a.WithHop(h)
	}
	return append(appendHeader(nil, &a.Header), a.Raw...) // an attacker checks nothing
}

func (s *siege) must(errs ...error) {
	s.t.Helper()
	if err := errors.Join(errs...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *siege) victimAllowName(counter uint64) string {
	l := s.victimAllow(counter)
	return l.Name().String()
}

func (s *siege) evilName(kind Kind, counter uint64) string {
	l := s.evilAsk("evil", counter)
	l.Kind = kind
	return l.Name().String()
}

// registers tries to register from another process.
func (s *siege) registers(node, session, code string) {
	s.t.Helper()
	c := s.dial(context.Background(), 33)
	defer c.Close()
	_, err := handshake(c, api.Register{Node: node, Instance: "evil-1", PID: 33, Start: 1, Sessions: []api.ChildSession{{Session: session, Parent: "b", FoundBy: "x"}}})
	var r *api.Refused
	if !errors.As(err, &r) || r.Code != code {
		s.t.Fatalf("registered %s with session %s: %v", node, session, err)
	}
}
