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
	"permd/desk/desktest"
	"permd/internal/host"
	"permd/session"
)

func TestNodesAreFoundAsTheyCome(t *testing.T) {
	d := desktest.Dirs(t)
	before := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	v.sees(before.Put("make a").Ask.Body.ID)
	after := desktest.Start(t, d, "n-2")
	v.sees(after.Put("make b").Ask.Body.ID)
	desktest.Eventually(t, "both in the tree", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.tree) == 2
	})
	// A directory made before the node that uses it, and much later used.
	dir := d.Node("n-3")
	if err := host.MakeDir(string(dir)); err != nil {
		t.Fatal(err)
	}
	v.sees(desktest.Start(t, d, "n-3").Put("make c").Ask.Body.ID)
	// The whole directory of nodes made anew.
	if err := os.RemoveAll(d.Nodes()); err != nil {
		t.Fatal(err)
	}
	if err := host.MakeDir(d.Nodes()); err != nil {
		t.Fatal(err)
	}
	v.sees(desktest.Start(t, d, "n-4").Put("make d").Ask.Body.ID)
}

func TestDeadNodeTakesItsAsksAlong(t *testing.T) {
	d := desktest.Dirs(t)
	dies, lives := desktest.Start(t, d, "n-1"), desktest.Start(t, d, "n-2")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	gone, stays := dies.Put("make a"), lives.Put("make b")
	v.sees(gone.Ask.Body.ID)
	v.sees(stays.Ask.Body.ID)
	dies.Kill()
	if s := v.told(gone.Ask.Body.ID); s.How != api.SettledCancel || s.Allowed || s.Why != "its agent ended" {
		t.Errorf("told %+v", s)
	}
	if got := v.answer(ask.AllowAnswer(gone.Ask)); got.Verdict != api.VerdictTooLate || got.Text != "its agent ended" {
		t.Errorf("verdict %+v", got)
	}
	v.sees(stays.Ask.Body.ID)
	desktest.Eventually(t, "only the living one in the tree", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.tree) == 1 && v.tree[0].Node == "n-2"
	})
	// The same agent's next node.
	again := desktest.Start(t, d, "n-1")
	v.sees(again.Put("make c").Ask.Body.ID)
}

func TestLostConnectionComesBack(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	w := n.Put("make")
	v.sees(w.Ask.Body.ID)
	n.Drop()
	if s := v.told(w.Ask.Body.ID); s.Outcome != ask.Unavailable || !strings.Contains(s.Why, "connection to its node was lost") {
		t.Errorf("told %+v", s)
	}
	v.sees(w.Ask.Body.ID)
	if got := v.answer(ask.AllowAnswer(w.Ask)); got.Verdict != api.VerdictAccepted {
		t.Errorf("verdict %+v", got)
	}
}

// TestStuckNodeHoldsUpNoOther: a node that takes the connection and then says
// nothing, and one that attaches and never reads again.
func TestStuckNodeHoldsUpNoOther(t *testing.T) {
	d := desktest.Dirs(t)
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
	n := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	began := time.Now()
	w := n.Put("make")
	v.sees(w.Ask.Body.ID)
	if got := v.answer(ask.AllowAnswer(w.Ask)); got.Verdict != api.VerdictAccepted {
		t.Errorf("verdict %+v", got)
	}
	if took := time.Since(began); took > api.HandshakeTimeout {
		t.Errorf("it took %s", took)
	}
}

// TestStuckNodeKeepsOneAnswer: an answer to a node that is stopped waits, and
// answers to other nodes do not.
func TestStuckNodeKeepsOneAnswer(t *testing.T) {
	d := desktest.Dirs(t)
	stuck, n := desktest.Start(t, d, "n-1"), desktest.Start(t, d, "n-2")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	a, b := stuck.Put("make a"), n.Put("make b")
	v.sees(a.Ask.Body.ID)
	v.sees(b.Ask.Body.ID)
	release := stuck.Hold() // so no verdict comes
	verdict := make(chan api.AnswerVerdict, 1)
	go func() {
		got, _ := v.a.Answer(context.Background(), ask.AllowAnswer(a.Ask))
		verdict <- got
	}()
	if got := v.answer(ask.AllowAnswer(b.Ask)); got.Verdict != api.VerdictAccepted {
		t.Errorf("verdict %+v", got)
	}
	select {
	case got := <-verdict:
		t.Errorf("the stuck node's verdict is %+v", got)
	default:
	}
	release()
	if got := <-verdict; got.Verdict != api.VerdictAccepted {
		t.Errorf("verdict %+v", got)
	}
}

func TestAnswerWithoutRecordEndsEverywhere(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	a, b := attach(t, d, "pts/1"), attach(t, d, "pts/2")
	n.Fill()
	w := n.Put("make")
	a.sees(w.Ask.Body.ID)
	b.sees(w.Ask.Body.ID)
	if got := a.answer(ask.AllowAnswer(w.Ask)); got.Verdict != api.VerdictNotRecorded {
		t.Errorf("verdict %+v", got)
	}
	if s := b.told(w.Ask.Body.ID); s.Allowed || s.How != api.SettledCancel {
		t.Errorf("the other face was told %+v", s)
	}
	if dec := w.Wait(t); dec.Verdict != ask.Deny {
		t.Errorf("decision %+v", dec)
	}
}

func TestWithdrawnAsk(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	w := n.Put("make")
	v.sees(w.Ask.Body.ID)
	w.Cancel()
	if s := v.told(w.Ask.Body.ID); s.Outcome != ask.Withdrawn || s.Allowed {
		t.Errorf("told %+v", s)
	}
	if got := v.answer(ask.AllowAnswer(w.Ask)); got.Verdict != api.VerdictTooLate {
		t.Errorf("verdict %+v", got)
	}
}

func TestDeliveredAndNoticesReachEveryFace(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	a, b := attach(t, d, "pts/1"), attach(t, d, "pts/2")
	w := n.Put("make")
	a.sees(w.Ask.Body.ID)
	b.sees(w.Ask.Body.ID)
	if got := a.answer(ask.AllowAnswer(w.Ask)); got.Verdict != api.VerdictAccepted {
		t.Fatalf("verdict %+v", got)
	}
	w.Wait(t)
	if err := n.Broker.Delivered(w.Ask.Body.ID, broker.HowReleased, ""); err != nil {
		t.Fatal(err)
	}
	n.Tell(api.TNotice, api.Notice{Kind: "tripwire", Session: "claude-n-1", Text: "it ran something"})
	n.Tell(api.TNotice, api.Notice{Kind: NoticeEnded, Text: "a node does not end the desk"})
	for i, v := range []*view{a, b} {
		desktest.Eventually(t, "delivered at face "+itoa(i), func() bool {
			return v.count("", func(e api.Event) bool {
				x, ok := e.(*api.Delivered)
				return ok && x.Ask == w.Ask.Body.ID && x.How == "released"
			}) == 1
		})
		desktest.Eventually(t, "the notice at face "+itoa(i), func() bool { return len(v.notices("tripwire")) == 1 })
		desktest.Eventually(t, "the other notice at face "+itoa(i), func() bool { return len(v.notices("node")) == 1 })
		if got := v.notices(NoticeEnded); len(got) > 0 {
			t.Errorf("a node ended the desk: %q", got)
		}
	}
}

func TestDirectoryTakenAwayEndsTheDesk(t *testing.T) {
	d := desktest.Dirs(t)
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
	d := desktest.Dirs(t)
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
			d := desktest.Dirs(t)
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
