package desk

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
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

// fakeNode has a node's directory, lock and socket and a real broker behind
// it, and no agent: what it asks comes from the test.
type fakeNode struct {
	t      testing.TB
	id     string
	dir    session.Node
	lock   *host.Lock
	broker *broker.Broker
	stop   context.CancelFunc
	serves sync.WaitGroup
	puts   sync.WaitGroup

	mu       sync.Mutex
	watchers map[*fakeWatcher]bool
	sessions []api.SessionState
	records  []broker.Record
	refusals []broker.Refusal
	full     bool // the record cannot be written
}

var lastAsk atomic.Int64

func newDirs(t testing.TB) session.Dirs {
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

// startNode starts a node with that id. It ends with the test.
func startNode(t testing.TB, d session.Dirs, id string) *fakeNode {
	t.Helper()
	n := &fakeNode{t: t, id: id, dir: d.Node(id), watchers: map[*fakeWatcher]bool{},
		sessions: []api.SessionState{{ID: "claude-" + id, Node: id, Client: "claude", PID: 1, Authority: "local"}}}
	if err := host.MakeDir(string(n.dir)); err != nil {
		t.Fatal(err)
	}
	var err error
	if n.lock, err = host.TryLock(n.dir.Lock()); err != nil {
		t.Fatal(err)
	}
	n.broker = broker.New(n, broker.Options{Grace: time.Minute})
	l, err := api.Listen(n.dir.Sock())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.serves.Go(func() { l.Serve(ctx, n.accept) })
	t.Cleanup(n.kill)
	return n
}

// kill ends the node as SIGKILL would: connections first, nothing settled, the
// directory stays.
func (n *fakeNode) kill() {
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
	n.broker.Close(context.Background())
	n.puts.Wait()
}

func (n *fakeNode) Commit(_ context.Context, r []broker.Record) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.full {
		return fmt.Errorf("no space left")
	}
	n.records = append(n.records, r...)
	return nil
}

func (n *fakeNode) Refused(r broker.Refusal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusals = append(n.refusals, r)
}

// waiting is one ask that was put.
type waiting struct {
	ask      *ask.Ask
	decision chan ask.Decision
	cancel   context.CancelFunc
}

// put asks for a command and does not wait.
func (n *fakeNode) put(command string) *waiting {
	n.t.Helper()
	return n.putAsk(gateBody(fmt.Sprintf("a-%d", lastAsk.Add(1)), "claude-"+n.id, command))
}

func (n *fakeNode) putAsk(b ask.Body) *waiting {
	n.t.Helper()
	a, err := ask.Seal(b)
	if err != nil {
		n.t.Fatal(err)
	}
	a = a.WithHop(ask.Hop{Session: b.From.Session, Node: n.id})
	ctx, cancel := context.WithCancel(context.Background())
	w := &waiting{ask: a, decision: make(chan ask.Decision, 1), cancel: cancel}
	n.puts.Go(func() {
		defer cancel()
		req := broker.Request{Ask: a, ClientDialog: true}
		if c := b.Action.Command; len(c) < ask.MaxText {
			req.Offers = []ask.Offer{offer("o-session", ask.ScopeSession, c), offer("o-tree", ask.ScopeTree, c)}
		}
		d, _ := n.broker.Put(ctx, req)
		w.decision <- d
	})
	for range 2000 {
		for _, s := range n.broker.Snapshot() {
			if s.Ask.Body.ID == b.ID {
				return w
			}
		}
		time.Sleep(time.Millisecond)
	}
	n.t.Fatalf("ask %s does not wait", b.ID)
	return nil
}

func (w *waiting) wait(t testing.TB) ask.Decision {
	t.Helper()
	select {
	case d := <-w.decision:
		return d
	case <-time.After(10 * time.Second):
		t.Fatalf("ask %s was not decided", w.ask.Body.ID)
		return ask.Decision{}
	}
}

func gateBody(id, from, command string) ask.Body {
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

// fakeWatcher is one attached answerer, as a node has it.
type fakeWatcher struct {
	n   *fakeNode
	c   *api.Conn
	reg *broker.Registration
}

func (w *fakeWatcher) Ask(_ context.Context, s api.Shown) error { return w.c.Write(api.TAsk, 0, s) }
func (w *fakeWatcher) Settled(s api.Settled)                    { _ = w.c.Write(api.TSettled, 0, s) }
func (w *fakeWatcher) Delivered(d api.Delivered)                { _ = w.c.Write(api.TDeliver, 0, d) }

func (n *fakeNode) accept(ctx context.Context, in *api.Incoming) {
	h, err := in.Conn.Accept(func(api.Hello) (api.Welcome, *api.Refused) { return api.Welcome{Node: n.id, Instance: "i"}, nil })
	if err != nil || h.Role != api.RoleAnswerer {
		return
	}
	f, err := in.Conn.Receive()
	var a api.Attach
	if err != nil || f.T != api.TAttach || f.Body(&a) != nil {
		return
	}
	w := &fakeWatcher{n: n, c: in.Conn}
	n.mu.Lock()
	tree := api.Sessions{Sessions: n.sessions}
	n.mu.Unlock()
	if in.Conn.Write(api.TSnapshot, 0, api.Snapshot{Asks: []api.Shown{}, Sessions: tree}) != nil {
		return
	}
	w.reg, err = n.broker.Register(w, broker.Identity{Name: a.Surface, Kind: broker.KindSurface, Cap: a.Cap, Faces: a.Faces})
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

func (w *fakeWatcher) listen() {
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

// tell sends a frame to every answerer of the node.
func (n *fakeNode) tell(t string, body any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		_ = w.c.Write(t, 0, body)
	}
}

// faces is how many faces the node knows of, -1 with no desk attached.
func (n *fakeNode) faces() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		return w.reg.Identity().Faces
	}
	return -1
}

func (n *fakeNode) recorded() []broker.Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]broker.Record(nil), n.records...)
}

// eventually waits until what is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); !so(); {
		if time.Now().After(until) {
			t.Fatalf("%s: not within 10 s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
