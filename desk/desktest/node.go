// Package desktest has what tests of the desk and its faces need: directories
// of their own, and nodes that are all a node is to a desk, with a real broker
// and no agent.
package desktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/broker"
	"permd/internal/host"
	"permd/session"
)

// Node has a node's directory, lock and socket and a real broker behind
// it, and no agent: what it asks comes from the test.
type Node struct {
	t      testing.TB
	ID     string
	Broker *broker.Broker
	dir    session.Node
	lock   *host.Lock
	stop   context.CancelFunc
	serves sync.WaitGroup
	puts   sync.WaitGroup

	mu       sync.Mutex
	watchers map[*watcher]bool
	sessions []api.SessionState
	records  []broker.Record
	refusals []broker.Refusal
	full     bool // the record cannot be written
	hold     sync.Mutex
}

var lastAsk atomic.Int64

// Dirs are directories for one test, made.
func Dirs(t testing.TB) session.Dirs {
	t.Helper()
	root, err := os.MkdirTemp("", "desk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	d, err := session.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Make(); err != nil {
		t.Fatal(err)
	}
	return d
}

// Start starts a node with that id. It ends with the test.
func Start(t testing.TB, d session.Dirs, id string) *Node {
	t.Helper()
	n := &Node{t: t, ID: id, dir: d.Node(id), watchers: map[*watcher]bool{},
		sessions: []api.SessionState{{ID: "claude-" + id, Node: id, Client: "claude", PID: 1, Authority: "local"}}}
	if err := host.MakeDir(string(n.dir)); err != nil {
		t.Fatal(err)
	}
	var err error
	if n.lock, err = host.TryLock(n.dir.Lock()); err != nil {
		t.Fatal(err)
	}
	n.Broker = broker.New(n, broker.Options{Grace: time.Minute})
	l, err := api.Listen(n.dir.Sock())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.serves.Go(func() { l.Serve(ctx, n.accept) })
	t.Cleanup(n.Kill)
	return n
}

// Kill ends the node as SIGKILL would: connections first, nothing settled, the
// directory stays.
func (n *Node) Kill() {
	n.mu.Lock()
	if n.lock == nil {
		n.mu.Unlock()
		return
	}
	n.lock.Close()
	n.lock = nil
	n.mu.Unlock()
	n.stop()
	n.serves.Wait()
	n.Broker.Close(context.Background())
	n.puts.Wait()
}

// Commit records decisions in memory.
func (n *Node) Commit(_ context.Context, r []broker.Record) error {
	n.hold.Lock()
	defer n.hold.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.full {
		return fmt.Errorf("no space left")
	}
	n.records = append(n.records, r...)
	return nil
}

// Refused counts.
func (n *Node) Refused(r broker.Refusal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusals = append(n.refusals, r)
}

// Asked is one ask that was put.
type Asked struct {
	Ask      *ask.Ask
	Decision chan ask.Decision
	Cancel   context.CancelFunc
}

// Put asks for a command and does not wait.
func (n *Node) Put(command string) *Asked {
	n.t.Helper()
	return n.PutAsk(Gate(fmt.Sprintf("a-%d", lastAsk.Add(1)), "claude-"+n.ID, command))
}

// PutAsk asks and does not wait for the answer.
func (n *Node) PutAsk(b ask.Body) *Asked {
	n.t.Helper()
	a, err := ask.Seal(b)
	if err != nil {
		n.t.Fatal(err)
	}
	a = a.WithHop(ask.Hop{Session: b.From.Session, Node: n.ID})
	ctx, cancel := context.WithCancel(context.Background())
	w := &Asked{Ask: a, Decision: make(chan ask.Decision, 1), Cancel: cancel}
	n.puts.Go(func() {
		defer cancel()
		req := broker.Request{Ask: a, ClientDialog: true, Narrower: func(offered, edited ask.Rule) error {
			if !strings.HasPrefix(edited.Command, offered.Command) {
				return errors.New("the edited rule is wider than the one that was offered")
			}
			return nil
		}}
		if c := b.Action.Command; len(c) < ask.MaxText {
			req.Offers = []ask.Offer{offer("o-session", ask.ScopeSession, c), offer("o-tree", ask.ScopeTree, c)}
			if strings.HasPrefix(c, "git ") { // a project's command, with a second rule for the session
				sub := offer("o-session-sub", ask.ScopeSession, c)
				sub.Rule.Command = "git push *"
				req.Offers = append(req.Offers, sub, offer("o-project", ask.ScopeProject, c), offer("o-user", ask.ScopeUser, c))
			}
		}
		d, _ := n.Broker.Put(ctx, req)
		w.Decision <- d
	})
	for range 2000 {
		for _, s := range n.Broker.Snapshot() {
			if s.Ask.Body.ID == b.ID {
				return w
			}
		}
		time.Sleep(time.Millisecond)
	}
	n.t.Fatalf("ask %s does not wait", b.ID)
	return nil
}

// Wait is the decision.
func (w *Asked) Wait(t testing.TB) ask.Decision {
	t.Helper()
	select {
	case d := <-w.Decision:
		return d
	case <-time.After(10 * time.Second):
		t.Fatalf("ask %s was not decided", w.Ask.Body.ID)
		return ask.Decision{}
	}
}

// Gate is an ask for a shell command.
func Gate(id, from, command string) ask.Body {
	input, _ := json.Marshal(map[string]string{"command": command})
	return ask.Body{ID: id, Origin: ask.OriginGate, From: ask.Who{Session: from, Client: "claude"},
		Title: "Run a command", Cause: "no rule allows it",
		Action: &ask.Action{Client: "claude", Tool: ask.ToolBash, ClientTool: "Bash", Input: input,
			Cwd: "/home/dev/proj", Project: "/home/dev/proj", Home: "/home/dev", Command: command},
		Items: ask.PermissionItems("Allow this command?"), Verbs: ask.Verbs{Reason: true}}
}

func offer(id string, s ask.Scope, command string) ask.Offer {
	return ask.Offer{ID: id, Scope: s, Label: "Allow " + command, Rule: ask.Rule{Action: ask.Allow, Tool: "bash", Command: command}}
}

// watcher is one attached answerer, as a node has it.
type watcher struct {
	n   *Node
	c   *api.Conn
	reg *broker.Registration
}

func (w *watcher) Ask(_ context.Context, s api.Shown) error { return w.c.Write(api.TAsk, 0, s) }
func (w *watcher) Settled(s api.Settled)                    { _ = w.c.Write(api.TSettled, 0, s) }
func (w *watcher) Delivered(d api.Delivered)                { _ = w.c.Write(api.TDeliver, 0, d) }

func (n *Node) accept(ctx context.Context, in *api.Incoming) {
	h, err := in.Conn.Accept(func(api.Hello) (api.Welcome, *api.Refused) { return api.Welcome{Node: n.ID, Instance: "i"}, nil })
	if err != nil || h.Role != api.RoleAnswerer {
		return
	}
	f, err := in.Conn.Receive()
	var a api.Attach
	if err != nil || f.T != api.TAttach || f.Body(&a) != nil {
		return
	}
	w := &watcher{n: n, c: in.Conn}
	n.mu.Lock()
	tree := api.Sessions{Sessions: n.sessions}
	n.mu.Unlock()
	if in.Conn.Write(api.TSnapshot, 0, api.Snapshot{Asks: []api.Shown{}, Sessions: tree}) != nil {
		return
	}
	w.reg, err = n.Broker.Register(w, broker.Identity{Name: a.Surface, Kind: broker.KindSurface, Cap: a.Cap, Faces: a.Faces})
	if err != nil {
		return
	}
	n.mu.Lock()
	n.watchers[w] = true
	n.mu.Unlock()
	w.listen()
	w.reg.Close()
	<-w.reg.Done()
	n.mu.Lock()
	delete(n.watchers, w)
	n.mu.Unlock()
}

func (w *watcher) listen() {
	for {
		f, err := w.c.Receive()
		if err != nil {
			return
		}
		switch f.T {
		case api.TAnswer:
			var a ask.Answer
			v := api.AnswerVerdict{Verdict: api.VerdictInvalid}
			if err := f.Body(&a); err != nil {
				v.Text = err.Error()
			} else {
				v = w.reg.Answer(a)
			}
			_ = w.c.Write(api.TVerdict, f.N, v)
		case api.TFaces:
			var x api.Faces
			if f.Body(&x) == nil {
				w.reg.SetFaces(x.Faces)
			}
		case api.TOnScreen:
			var x api.OnScreen
			if f.Body(&x) == nil {
				w.reg.OnScreen(x.Ask)
			}
		}
	}
}

// Tell sends a frame to every answerer of the node.
func (n *Node) Tell(t string, body any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		_ = w.c.Write(t, 0, body)
	}
}

// Faces is how many faces the node knows of, -1 with no desk attached.
func (n *Node) Faces() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		return w.reg.Identity().Faces
	}
	return -1
}

// Recorded are the decisions so far.
func (n *Node) Recorded() []broker.Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]broker.Record(nil), n.records...)
}

// Eventually waits until what is so.
func Eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); !so(); {
		if time.Now().After(until) {
			t.Fatalf("%s: not within 10 s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// Hold makes the record, and with it every verdict, wait until release.
func (n *Node) Hold() (release func()) {
	n.hold.Lock()
	return n.hold.Unlock
}

// Fill makes every further record fail.
func (n *Node) Fill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.full = true
}

// Drop closes the connections of every answerer.
func (n *Node) Drop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		w.c.Close()
	}
}

// Refusals is how many answers changed nothing.
func (n *Node) Refusals() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.refusals)
}
