package desk

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/broker"
	"permd/internal/host"
	"permd/session"
)

func TestNodesAreFoundAsTheyCome(t *testing.T) {
	d := newDirs(t)
	before := startNode(t, d, "n-1")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	v.sees(before.put("make a").ask.Body.ID)
	after := startNode(t, d, "n-2")
	v.sees(after.put("make b").ask.Body.ID)
	eventually(t, "both in the tree", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.tree) == 2
	})
	// A directory made before the node that uses it, and much later used.
	dir := d.Node("n-3")
	if err := host.MakeDir(string(dir)); err != nil {
		t.Fatal(err)
	}
	v.sees(startNode(t, d, "n-3").put("make c").ask.Body.ID)
	// The whole directory of nodes made anew.
	if err := os.RemoveAll(d.Nodes()); err != nil {
		t.Fatal(err)
	}
	if err := host.MakeDir(d.Nodes()); err != nil {
		t.Fatal(err)
	}
	v.sees(startNode(t, d, "n-4").put("make d").ask.Body.ID)
}

func TestDeadNodeTakesItsAsksAlong(t *testing.T) {
	d := newDirs(t)
	dies, lives := startNode(t, d, "n-1"), startNode(t, d, "n-2")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	gone, stays := dies.put("make a"), lives.put("make b")
	v.sees(gone.ask.Body.ID)
	v.sees(stays.ask.Body.ID)
	dies.kill()
	if s := v.told(gone.ask.Body.ID); s.How != api.SettledCancel || s.Allowed || s.Why != "its agent ended" {
		t.Errorf("told %+v", s)
	}
	if got := v.answer(ask.AllowAnswer(gone.ask)); got.Verdict != api.VerdictTooLate || got.Text != "its agent ended" {
		t.Errorf("verdict %+v", got)
	}
	v.sees(stays.ask.Body.ID)
	eventually(t, "only the living one in the tree", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.tree) == 1 && v.tree[0].Node == "n-2"
	})
	// The same agent's next node.
	again := startNode(t, d, "n-1")
	v.sees(again.put("make c").ask.Body.ID)
}

func TestLostConnectionComesBack(t *testing.T) {
	d := newDirs(t)
	n := startNode(t, d, "n-1")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	w := n.put("make")
	v.sees(w.ask.Body.ID)
	n.mu.Lock()
	for x := range n.watchers {
		x.c.Close()
	}
	n.mu.Unlock()
	if s := v.told(w.ask.Body.ID); s.Outcome != ask.Unavailable || !strings.Contains(s.Why, "connection to its node was lost") {
		t.Errorf("told %+v", s)
	}
	v.sees(w.ask.Body.ID)
	if got := v.answer(ask.AllowAnswer(w.ask)); got.Verdict != api.VerdictAccepted {
		t.Errorf("verdict %+v", got)
	}
}

// TestStuckNodeHoldsUpNoOther: a node that takes the connection and then says
// nothing, and one that attaches and never reads again.
func TestStuckNodeHoldsUpNoOther(t *testing.T) {
	d := newDirs(t)
	dir := d.Node("n-0")
	if err := host.MakeDir(string(dir)); err != nil {
		t.Fatal(err)
	}
	lock, err := host.TryLock(dir.Lock())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	silent, err := net.Listen("unix", dir.Sock())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	n := startNode(t, d, "n-1")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	began := time.Now()
	w := n.put("make")
	v.sees(w.ask.Body.ID)
	if got := v.answer(ask.AllowAnswer(w.ask)); got.Verdict != api.VerdictAccepted {
		t.Errorf("verdict %+v", got)
	}
	if took := time.Since(began); took > api.HandshakeTimeout {
		t.Errorf("it took %s", took)
	}
}

// TestStuckNodeKeepsOneAnswer: an answer to a node that is stopped waits, and
// answers to other nodes do not.
func TestStuckNodeKeepsOneAnswer(t *testing.T) {
	d := newDirs(t)
	stuck, n := startNode(t, d, "n-1"), startNode(t, d, "n-2")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	a, b := stuck.put("make a"), n.put("make b")
	v.sees(a.ask.Body.ID)
	v.sees(b.ask.Body.ID)
	stuck.mu.Lock() // its recorder cannot write, so no verdict comes
	verdict := make(chan api.AnswerVerdict, 1)
	go func() {
		got, _ := v.a.Answer(context.Background(), ask.AllowAnswer(a.ask))
		verdict <- got
	}()
	if got := v.answer(ask.AllowAnswer(b.ask)); got.Verdict != api.VerdictAccepted {
		t.Errorf("verdict %+v", got)
	}
	select {
	case got := <-verdict:
		t.Errorf("the stuck node's verdict is %+v", got)
	default:
	}
	stuck.mu.Unlock()
	if got := <-verdict; got.Verdict != api.VerdictAccepted {
		t.Errorf("verdict %+v", got)
	}
}

func TestAnswerWithoutRecordEndsEverywhere(t *testing.T) {
	d := newDirs(t)
	n := startNode(t, d, "n-1")
	startDesk(t, d)
	a, b := attach(t, d, "pts/1"), attach(t, d, "pts/2")
	n.mu.Lock()
	n.full = true
	n.mu.Unlock()
	w := n.put("make")
	a.sees(w.ask.Body.ID)
	b.sees(w.ask.Body.ID)
	if got := a.answer(ask.AllowAnswer(w.ask)); got.Verdict != api.VerdictNotRecorded {
		t.Errorf("verdict %+v", got)
	}
	if s := b.told(w.ask.Body.ID); s.Allowed || s.How != api.SettledCancel {
		t.Errorf("the other face was told %+v", s)
	}
	if dec := w.wait(t); dec.Verdict != ask.Deny {
		t.Errorf("decision %+v", dec)
	}
}

func TestWithdrawnAsk(t *testing.T) {
	d := newDirs(t)
	n := startNode(t, d, "n-1")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	w := n.put("make")
	v.sees(w.ask.Body.ID)
	w.cancel()
	if s := v.told(w.ask.Body.ID); s.Outcome != ask.Withdrawn || s.Allowed {
		t.Errorf("told %+v", s)
	}
	if got := v.answer(ask.AllowAnswer(w.ask)); got.Verdict != api.VerdictTooLate {
		t.Errorf("verdict %+v", got)
	}
}

func TestDeliveredAndNoticesReachEveryFace(t *testing.T) {
	d := newDirs(t)
	n := startNode(t, d, "n-1")
	startDesk(t, d)
	a, b := attach(t, d, "pts/1"), attach(t, d, "pts/2")
	w := n.put("make")
	a.sees(w.ask.Body.ID)
	b.sees(w.ask.Body.ID)
	if got := a.answer(ask.AllowAnswer(w.ask)); got.Verdict != api.VerdictAccepted {
		t.Fatalf("verdict %+v", got)
	}
	w.wait(t)
	if err := n.broker.Delivered(w.ask.Body.ID, broker.HowReleased, ""); err != nil {
		t.Fatal(err)
	}
	n.tell(api.TNotice, api.Notice{Kind: "tripwire", Session: "claude-n-1", Text: "it ran something"})
	n.tell(api.TNotice, api.Notice{Kind: NoticeEnded, Text: "a node does not end the desk"})
	for i, v := range []*view{a, b} {
		eventually(t, "delivered at face "+itoa(i), func() bool {
			return v.count("", func(e api.Event) bool {
				x, ok := e.(*api.Delivered)
				return ok && x.Ask == w.ask.Body.ID && x.How == "released"
			}) == 1
		})
		eventually(t, "the notice at face "+itoa(i), func() bool { return len(v.notices("tripwire")) == 1 })
		eventually(t, "the other notice at face "+itoa(i), func() bool { return len(v.notices("node")) == 1 })
		if got := v.notices(NoticeEnded); len(got) > 0 {
			t.Errorf("a node ended the desk: %q", got)
		}
	}
}

func TestDirectoryTakenAwayEndsTheDesk(t *testing.T) {
	d := newDirs(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Run(ctx, Options{Dirs: d, Started: func() { close(started) }}) }()
	<-started
	if err := os.RemoveAll(d.Run); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "taken away") {
			t.Errorf("it ended with: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on though nobody can find it")
	}
}

func TestSecondDeskLeavesTheFirst(t *testing.T) {
	d := newDirs(t)
	startDesk(t, d)
	if err := Run(context.Background(), Options{Dirs: d}); !errors.Is(err, ErrRunning) {
		t.Errorf("the second one ended with: %v", err)
	}
	attach(t, d, "pts/1")
}

func TestDirectoriesAreVerified(t *testing.T) {
	for name, spoil := range map[string]func(session.Dirs) error{
		"a link": func(d session.Dirs) error { return os.Symlink(d.State, d.Desk()) },
		"open to all": func(d session.Dirs) error {
			if err := os.Mkdir(d.Desk(), 0o700); err != nil {
				return err
			}
			return os.Chmod(d.Desk(), 0o755)
		},
		"a file": func(d session.Dirs) error { return os.WriteFile(d.Desk(), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirs(t)
			if err := spoil(d); err != nil {
				t.Fatal(err)
			}
			err := Run(context.Background(), Options{Dirs: d, Started: func() { t.Error("it started") }})
			var dir *host.DirError
			if !errors.As(err, &dir) || dir.Remedy == "" {
				t.Errorf("it ended with: %v", err)
			}
		})
	}
}
