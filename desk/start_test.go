package desk

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/desk/desktest"
	"permd/internal/host"
	"permd/session"
)

// endDesk ends the desk process with a signal and reaps it: it is a child of
// this one.
func endDesk(t testing.TB, d session.Dirs, sig syscall.Signal) {
	t.Helper()
	pid := deskPID(t, d)
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
	reap(t, pid)
}

func reap(t testing.TB, pid int) {
	t.Helper()
	for {
		_, err := syscall.Wait4(pid, nil, 0, nil)
		if err == nil {
			return
		}
		if err != syscall.EINTR {
			t.Fatalf("the desk process %d is no child of this one: %v", pid, err)
		}
	}
}

func deskPID(t testing.TB, d session.Dirs) int {
	t.Helper()
	c, err := api.DialControl(context.Background(), Sock(d), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var st api.Status
	if err := c.Call(context.Background(), api.OpStatus, nil, &st); err != nil {
		t.Fatal(err)
	}
	if st.PID == os.Getpid() {
		t.Fatal("the desk is no process of its own")
	}
	return st.PID
}

func ensure(t testing.TB, d session.Dirs) {
	t.Helper()
	if err := Ensure(context.Background(), d, "test"); err != nil {
		t.Fatal(err)
	}
}

func TestManyStartsMakeOneDesk(t *testing.T) {
	d := desktest.Dirs(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := Ensure(context.Background(), d, "test"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	pid := deskPID(t, d)
	ensure(t, d)
	if again := deskPID(t, d); again != pid {
		t.Errorf("processes %d and %d", pid, again)
	}
	if sid, err := sessionOf(pid); err != nil || sid != pid {
		t.Errorf("it is in session %d of %d, %v: a closed terminal would end it", sid, pid, err)
	}
	endDesk(t, d, syscall.SIGTERM)
	held, err := host.Held(LockFile(d))
	if err != nil || held {
		t.Errorf("the lock after its end: %v, %v", held, err)
	}
	if _, err := os.Lstat(Sock(d)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket after its end: %v", err)
	}
	// None of the 20 left a process behind that holds the start lock.
	lock, err := host.TryLock(filepath.Join(d.Desk(), "start.lock"))
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
}

func sessionOf(pid int) (int, error) {
	out, err := exec.Command("ps", "-o", "sess=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

func TestStartThatIsRefusedSaysWhy(t *testing.T) {
	d := desktest.Dirs(t)
	if err := os.WriteFile(filepath.Join(d.Root, "refuse"), []byte("the log is \x1b[31mred"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Ensure(context.Background(), d, "test")
	if err == nil || !strings.Contains(err.Error(), "the log is ⟨U+001B⟩[31mred") || !strings.Contains(err.Error(), "log") {
		t.Errorf("it says: %v", err)
	}
	reapAny()
}

func reapAny() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}

func TestStartWaitsForTheOtherStart(t *testing.T) {
	d := desktest.Dirs(t)
	if err := host.MakeDir(d.Desk()); err != nil {
		t.Fatal(err)
	}
	lock, err := host.TryLock(filepath.Join(d.Desk(), "start.lock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := Ensure(ctx, d, "test"); err == nil || !strings.Contains(err.Error(), "start.lock") {
		t.Errorf("it says: %v", err)
	}
	lock.Close() // as when that other process is killed
	ensure(t, d)
	endDesk(t, d, syscall.SIGTERM)
}

func TestSpoiledLogIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(string) error{
		"a link": func(p string) error { return os.Symlink("/dev/null", p) },
		"open":   func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o666)) },
		"a pipe": func(p string) error { return syscall.Mkfifo(p, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			d := desktest.Dirs(t)
			if err := host.MakeDir(d.Desk()); err != nil {
				t.Fatal(err)
			}
			if err := spoil(logFile(d)); err != nil {
				t.Fatal(err)
			}
			err := Ensure(context.Background(), d, "test")
			if err == nil || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("it says: %v", err)
			}
			reapAny()
		})
	}
}

func TestLongLogIsEmptied(t *testing.T) {
	d := desktest.Dirs(t)
	if err := host.MakeDir(d.Desk()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(logFile(d), bytes.Repeat([]byte("x\n"), logLimit), 0o600); err != nil {
		t.Fatal(err)
	}
	ensure(t, d)
	endDesk(t, d, syscall.SIGTERM)
	if fi, err := os.Stat(logFile(d)); err != nil || fi.Size() > logLimit {
		t.Errorf("the log has %d bytes, %v", fi.Size(), err)
	}
}

// TestStoppedDeskIsSaid: a desk that is stopped is not replaced and not waited
// for without a word.
func TestStoppedDeskIsSaid(t *testing.T) {
	d := desktest.Dirs(t)
	ensure(t, d)
	pid := deskPID(t, d)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	err := Ensure(context.Background(), d, "test")
	if err == nil || !strings.Contains(err.Error(), "does not answer") || !strings.Contains(err.Error(), LockFile(d)) {
		t.Errorf("it says: %v", err)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	ensure(t, d)
	endDesk(t, d, syscall.SIGKILL)
}

// TestT16DeskKilled: the desk is killed at every stage of an ask and started
// again. What was open is open again, and nothing is settled by it.
func TestT16DeskKilled(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	at := api.Attach{Surface: "terminal", Label: "pts/1", Faces: 1, Cap: ask.ScopeUser}
	open := func(t *testing.T) *view {
		t.Helper()
		ensure(t, d)
		return attachAs(t, d, at)
	}
	kill := func(t *testing.T) { t.Helper(); endDesk(t, d, syscall.SIGKILL) }
	undecided := func(t *testing.T, w *desktest.Asked) {
		t.Helper()
		select {
		case dec := <-w.Decision:
			t.Fatalf("decided: %+v", dec)
		default:
		}
	}
	answered := func(t *testing.T, v *view, w *desktest.Asked) {
		t.Helper()
		v.sees(w.Ask.Body.ID)
		if got := v.answer(ask.AllowAnswer(w.Ask)); got.Verdict != api.VerdictAccepted {
			t.Fatalf("verdict %+v", got)
		}
		if dec := w.Wait(t); dec.Verdict != ask.Allow {
			t.Fatalf("decision %+v", dec)
		}
	}

	t.Run("before any node is known", func(t *testing.T) {
		ensure(t, d)
		kill(t)
		w := n.Put("make 1")
		undecided(t, w)
		answered(t, open(t), w)
		kill(t)
	})
	t.Run("while an ask is on the screen", func(t *testing.T) {
		v := open(t)
		w := n.Put("make 2")
		v.sees(w.Ask.Body.ID)
		kill(t)
		<-v.done
		if got := v.notices(NoticeEnded); len(got) > 0 {
			t.Errorf("a killed desk took leave: %q", got)
		}
		if got := v.count("", func(e api.Event) bool { _, ok := e.(*api.Settled); return ok }); got != 0 {
			t.Error("its end settled an ask")
		}
		undecided(t, w)
		answered(t, open(t), w)
		kill(t)
	})
	t.Run("between an answer and its verdict", func(t *testing.T) {
		v := open(t)
		w := n.Put("make 3")
		v.sees(w.Ask.Body.ID)
		release := n.Hold()
		unknown := make(chan error, 1)
		go func() {
			_, err := v.a.Answer(context.Background(), ask.AllowAnswer(w.Ask))
			unknown <- err
		}()
		// The node has the answer when it no longer shows the ask.
		desktest.Eventually(t, "the answer at the node", func() bool {
			for _, s := range n.Broker.Snapshot() {
				if s.Ask.Body.ID == w.Ask.Body.ID {
					return false
				}
			}
			return true
		})
		kill(t)
		if err := <-unknown; !errors.Is(err, api.ErrGone) {
			t.Errorf("the face was told: %v, want that nobody knows", err)
		}
		release()
		if dec := w.Wait(t); dec.Verdict != ask.Allow {
			t.Errorf("decision %+v: the answer had counted", dec)
		}
		next := open(t)
		other := n.Put("make 4")
		answered(t, next, other)
		next.mu.Lock()
		_, again := next.asks[w.Ask.Body.ID]
		next.mu.Unlock()
		if again {
			t.Error("an ask that is decided came again")
		}
		kill(t)
	})
	t.Run("while one starts", func(t *testing.T) {
		w := n.Put("make 5")
		for range 5 {
			done := make(chan error, 1)
			go func() { done <- Ensure(context.Background(), d, "test") }()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			kill(t)
			undecided(t, w)
		}
		answered(t, open(t), w)
		kill(t)
	})
	t.Run("again and again under asks", func(t *testing.T) {
		for i := range 10 {
			w := n.Put("make 6 " + itoa(i))
			v := open(t)
			if i%2 == 0 {
				v.sees(w.Ask.Body.ID)
			}
			kill(t)
			undecided(t, w)
			answered(t, open(t), w)
			kill(t)
		}
	})
	if got := len(n.Recorded()); got != 15 {
		t.Errorf("%d decisions recorded, want 15: one an ask", got)
	}
}
