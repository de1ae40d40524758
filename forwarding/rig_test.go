package forwarding_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/forwarding"
	"permd/forwarding/transporttest"
	"permd/heartbeat"
	"permd/liveness"
	"permd/session"
)

// pipe is a connection in memory: frames through channels, which virtual time
// understands.
//
// It greases (T18): between frames it sends some of types that nobody knows,
// which may be answered, and must never matter.
type pipe struct {
	in, out chan api.Frame
	ends    *pipeEnds
	sent    int
}

type pipeEnds struct {
	once sync.Once
	gone chan struct{}
}

func newPipe() (a, b *pipe) {
	x, y, ends := make(chan api.Frame, 256), make(chan api.Frame, 256), &pipeEnds{gone: make(chan struct{})}
	return &pipe{in: x, out: y, ends: ends}, &pipe{in: y, out: x, ends: ends}
}

func (p *pipe) Read() (api.Frame, error) {
	select {
	case f := <-p.in:
		return f, nil
	default:
	}
	select {
	case f := <-p.in:
		return f, nil
	case <-p.ends.gone:
		return api.Frame{}, io.EOF
	}
}

func (p *pipe) Write(t string, n uint64, body any) error {
	f := api.Frame{T: t, N: n}
	if body != nil {
		b, err := ask.Encode(body)
		if err != nil {
			return err
		}
		f.B = json.RawMessage(b)
	}
	if p.sent++; p.sent > 1 && rand.IntN(3) == 0 {
		grease := api.Frame{T: fmt.Sprintf("grease-%d", rand.IntN(1000)), N: rand.Uint64N(9), B: json.RawMessage(`{"allow":true}`)}
		if err := p.send(grease); err != nil {
			return err
		}
	}
	return p.send(f)
}

func (p *pipe) send(f api.Frame) error {
	select {
	case <-p.ends.gone:
		return io.ErrClosedPipe
	default:
	}
	select {
	case p.out <- f:
		return nil
	case <-p.ends.gone:
		return io.ErrClosedPipe
	}
}

func (p *pipe) Close() error {
	p.ends.once.Do(func() { close(p.ends.gone) })
	return nil
}

// world is nodes in virtual time: mailboxes, beats and connections in memory.
type world struct {
	t     *testing.T
	net   transporttest.Memory
	begin time.Time
	judge *liveness.Judge

	mu     sync.Mutex
	nodes  map[string]*node
	events []forwarding.Event
	pids   int
	lives  map[string]int
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, begin: time.Now(), nodes: map[string]*node{}, pids: 1000, lives: map[string]int{}}
	w.judge = liveness.NewWithClock(session.Dirs{}, func() (time.Duration, time.Duration, string) {
		up := w.uptime()
		return up, up, "boot"
	})
	w.judge.Look = w.look
	return w
}

func (w *world) uptime() time.Duration { return time.Hour + time.Since(w.begin) }

func (w *world) look(name string, key []byte) (liveness.Observation, error) {
	w.mu.Lock()
	n := w.nodes[name]
	w.mu.Unlock()
	if n == nil {
		return liveness.Observation{Lock: liveness.LockNone}, os.ErrNotExist
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	o := liveness.Observation{Lock: liveness.LockHeld}
	if n.dead {
		o.Lock = liveness.LockFree
	}
	o.Beat = n.beat
	return o, nil
}

func (w *world) log(e forwarding.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// logged reports whether an event of a kind says text.
func (w *world) logged(kind forwarding.EventKind, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == kind && strings.Contains(e.Why, text) {
			return true
		}
	}
	return false
}

func (w *world) mustLog(kind forwarding.EventKind, text string) {
	w.t.Helper()
	if !w.logged(kind, text) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.t.Fatalf("no %s event says %q: %+v", kind, text, w.events)
	}
}

// node is one node of a world.
type node struct {
	w        *world
	name     string
	instance string
	pid      int
	box      *transporttest.MemoryBox
	server   *forwarding.Server
	links    *forwarding.Uplinks
	cancel   context.CancelFunc
	done     sync.WaitGroup
	sess     []api.ChildSession

	mu       sync.Mutex
	serve    func(context.Context, forwarding.Incoming) ask.Decision
	beat     *heartbeat.Beat
	beats    uint64
	stopped  bool // writes no beat
	dead     bool
	receipts []forwarding.Receipt
	conns    []*pipe // of its children
	alive    bool
}

// Beat and Rest make a node its own beater.
func (n *node) Beat(up time.Duration, serving []string) error { return n.write(up, serving, false) }
func (n *node) Rest(up time.Duration, serving []string) error { return n.write(up, serving, true) }

func (n *node) write(up time.Duration, serving []string, resting bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return nil
	}
	n.beats++
	n.beat = &heartbeat.Beat{V: 1, Node: n.name, Instance: n.instance, Counter: n.beats, Boot: "boot",
		UptimeNS: int64(up), Resting: resting, Serving: append([]string{}, serving...)}
	return nil
}

type option func(*forwarding.Config)

// node starts a node that hosts the sessions named as it.
func (w *world) node(name string, serve func(context.Context, forwarding.Incoming) ask.Decision, opts ...option) *node {
	w.t.Helper()
	w.pids++
	w.lives[name]++
	n := &node{w: w, name: name, instance: fmt.Sprintf("%s-%d", name, w.lives[name]), pid: w.pids, box: w.net.Open(name), serve: serve, alive: true}
	cfg := forwarding.Config{Node: name, Instance: n.instance, Transport: n.box, Beat: n, Log: w.log,
		Serve: func(ctx context.Context, in forwarding.Incoming) ask.Decision {
			n.mu.Lock()
			f := n.serve
			n.mu.Unlock()
			return f(ctx, in)
		},
		Delivered: func(_ forwarding.Child, r forwarding.Receipt) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.receipts = append(n.receipts, r)
		},
		Proofs: forwarding.Proofs{
			Hosts:    func(s string) bool { return s == name || strings.HasPrefix(s, name+".") },
			Descends: func(r api.Register, _ forwarding.Caller) bool { return !strings.HasPrefix(r.Node, "claimed") },
		}}
	forwarding.SetUptime(&cfg, func() (time.Duration, error) { return w.uptime(), nil })
	for _, o := range opts {
		o(&cfg)
	}
	var err error
	if n.server, err = forwarding.NewServer(cfg); err != nil {
		w.t.Fatal(err)
	}
	n.links = forwarding.NewUplinks(forwarding.UplinksConfig{Server: n.server, Dial: n.dial,
		Describe: func(string) api.Register {
			n.mu.Lock()
			defer n.mu.Unlock()
			return api.Register{PID: n.pid, Start: 1, Sessions: append([]api.ChildSession{}, n.sess...)}
		}})
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	n.done.Go(func() { _ = n.server.Run(ctx) })
	w.mu.Lock()
	w.nodes[name] = n
	w.mu.Unlock()
	w.t.Cleanup(n.end)
	return n
}

// end ends a node in order.
func (n *node) end() {
	n.links.Close()
	n.cancel()
	n.done.Wait()
}

// kill ends a node as SIGKILL does: connections and lock go at once, mail
// stays.
func (n *node) kill() {
	n.mu.Lock()
	n.dead, n.alive = true, false
	conns := n.conns
	n.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	n.cancel()
}

// dial connects a child to the server of a parent.
func (n *node) dial(ctx context.Context, to string) (forwarding.Conn, error) {
	n.w.mu.Lock()
	p := n.w.nodes[to]
	n.w.mu.Unlock()
	if p == nil || p.dead {
		return nil, os.ErrNotExist
	}
	here, there := newPipe()
	p.mu.Lock()
	p.conns = append(p.conns, there)
	p.mu.Unlock()
	p.done.Go(func() { _ = p.server.Child(context.Background(), there, n.caller()) })
	return here, nil
}

func (n *node) caller() forwarding.Caller {
	return forwarding.Caller{UID: uint32(os.Geteuid()), PID: n.pid, Start: 1, Alive: func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.alive
	}}
}

// childOf names a parent for the session named as the node.
func (n *node) childOf(parent string) *node {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sess = append(n.sess, api.ChildSession{Session: n.name, Parent: parent, FoundBy: "test"})
	return n
}

// parent relays the session named as n to the one named as to.
func (n *node) parent(to string) *forwarding.Parent {
	return &forwarding.Parent{Links: n.links, Session: n.name, Target: to, Node: to, Judge: n.w.judge, Timeout: forwarding.DefaultTimeout}
}

func newAsk(t testing.TB, from, id string) *ask.Ask {
	t.Helper()
	a, err := ask.Seal(ask.Body{ID: id, Origin: ask.OriginGate, From: ask.Who{Session: from, Client: "claude"}, Title: "Run a command",
		Action: &ask.Action{Client: "claude", Tool: ask.ToolBash, ClientTool: "Bash", Input: json.RawMessage(`{"command":"make"}`), Cwd: "/p", Command: "make"},
		Items:  ask.PermissionItems("make")})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func allowBy(k ask.Kind) func(context.Context, forwarding.Incoming) ask.Decision {
	return func(_ context.Context, in forwarding.Incoming) ask.Decision {
		by := ask.By{Kind: k}
		switch k {
		case ask.KindRule:
			by.Rule = &ask.RuleRef{Layer: "user", File: "policy.toml", Line: 3}
		case ask.KindUser, ask.KindDevice, ask.KindClientDialog:
			by.Surface = "terminal"
		}
		return ask.Decision{Ask: in.Ask.Body.ID, Digest: in.Ask.Digest, Verdict: ask.Allow, Outcome: ask.Answered, By: by}
	}
}

// waits serves until its context ends, and says under which cause.
func waits(cause chan<- error) func(context.Context, forwarding.Incoming) ask.Decision {
	return func(ctx context.Context, in forwarding.Incoming) ask.Decision {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ask.Decision{Ask: in.Ask.Body.ID, Digest: in.Ask.Digest, Outcome: ask.Withdrawn, By: ask.By{Kind: ask.KindWithdrawn}}
	}
}

type result struct {
	d   ask.Decision
	err error
}

// start asks in the background.
func start(ctx context.Context, p *forwarding.Parent, a *ask.Ask) <-chan result {
	c := make(chan result, 1)
	go func() {
		d, err := p.Authorize(ctx, a)
		c <- result{d, err}
	}()
	return c
}

func deciders(b *ask.By) string {
	s := string(b.Kind)
	for ; b.Inner != nil; b = b.Inner {
		s = fmt.Sprintf("%s(%s)", s, b.Session)
		s += " " + string(b.Inner.Kind)
	}
	return s
}
