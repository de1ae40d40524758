package liveness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"permd/heartbeat"
	"permd/internal/host"
	"permd/session"
)

// helperEnv makes this test binary a node that locks, beats and waits.
const helperEnv = "LIVENESS_HELPER"

func TestHelperProcess(t *testing.T) {
	dir := os.Getenv(helperEnv)
	if dir == "" {
		return // it is a helper process only when asked to be
	}
	n := session.Node(dir)
	l, err := host.TryLock(n.Lock())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	boot, _ := host.BootID()
	w, err := heartbeat.Create(dir, heartbeat.Identity{Node: n.ID(), Instance: "i1", Boot: boot}, nil)
	if err != nil {
		t.Fatal(err)
	}
	up, err := host.Uptime()
	if err == nil {
		err = w.Beat(up, []string{"a"})
	}
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("beating")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
}

// startHelper runs a node process; the cleanup ends it.
func startHelper(t *testing.T, dir session.Node) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestHelperProcess$")
	cmd.Env = append(os.Environ(), helperEnv+"="+string(dir))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "beating" {
		t.Fatalf("helper said %q: %v", line, err)
	}
	return cmd
}

func testDirs(t *testing.T) session.Dirs {
	t.Helper()
	d, err := session.Find(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// The test directory may be below a path that is not ours alone; only the
	// layout is needed here.
	for _, dir := range []string{d.Nodes(), d.Sessions(), string(d.Node("n"))} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func lock(t *testing.T, dir session.Node) *host.Lock {
	t.Helper()
	l, err := host.TryLock(dir.Lock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

type node struct {
	*heartbeat.Writer
	t *testing.T
}

func newNode(t *testing.T, dir session.Node, key []byte) node {
	t.Helper()
	boot, _ := host.BootID()
	w, err := heartbeat.Create(string(dir), heartbeat.Identity{Node: dir.ID(), Instance: "i1", Boot: boot}, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return node{w, t}
}

func (n node) beat(serving ...string) {
	n.t.Helper()
	up, err := host.Uptime()
	if err == nil {
		err = n.Beat(up, serving)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

func check(t *testing.T, v Verdict, a Answer, st State) {
	t.Helper()
	if v.Answer != a || v.State != st {
		t.Fatalf("%s (%s), want %s (%s): %+v", v.Answer, v.State, a, st, v)
	}
}

func TestJudgeOnDisk(t *testing.T) {
	ctx := t.Context()
	d := testDirs(t)
	n := d.Node("n")
	j := New(d)
	target := Target{Session: "a", Node: "n"}

	check(t, j.Judge(ctx, target), No, Absent)
	l := lock(t, n)
	check(t, j.Judge(ctx, target), No, Absent)
	w := newNode(t, n, nil)
	check(t, j.Judge(ctx, target), No, Absent)
	w.beat("a", "b")
	v := j.Judge(ctx, target)
	check(t, v, Yes, Alive)
	if v.Channel != ChannelHeartbeat || v.Instance != "i1" || fmt.Sprint(v.Serving) != "[a b]" || v.Node != "n" || v.Age > time.Second {
		t.Fatalf("%+v", v)
	}
	check(t, j.Judge(ctx, Target{Session: "c", Node: "n"}), No, NotServing)
	w.beat("b")
	check(t, j.Judge(ctx, target), No, NotServing)

	// By the binding of the session.
	check(t, j.Judge(ctx, Target{Session: "b"}), No, Absent)
	if err := session.Bind(d, "b", "n"); err != nil {
		t.Fatal(err)
	}
	check(t, j.Judge(ctx, Target{Session: "b"}), Yes, Alive)

	// The facts name another holder of the lock.
	f := session.Facts{Node: "n", Instance: "i2", Client: "claude", PID: 1, Start: 1, NodePID: 1, Boot: "b", Build: "x", API: 1}
	if err := session.WriteFacts(n, f); err != nil {
		t.Fatal(err)
	}
	check(t, j.Judge(ctx, target), No, Absent)
	f.Instance = "i1"
	if err := session.WriteFacts(n, f); err != nil {
		t.Fatal(err)
	}
	check(t, j.Judge(ctx, Target{Session: "b"}), Yes, Alive)

	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	check(t, j.Judge(ctx, Target{Session: "b"}), No, Dead)
	if err := os.RemoveAll(string(n)); err != nil {
		t.Fatal(err)
	}
	check(t, j.Judge(ctx, Target{Session: "b"}), No, Absent)
	j.Forget("n")
	check(t, j.Judge(ctx, Target{Session: "../n", Node: "n"}), No, Absent)
	check(t, j.Judge(ctx, Target{Session: "b", Node: ".."}), No, Absent)
}

// T11: clock steps, files with strange times, a beat that is deleted,
// replaced or forged, a directory that is replaced.
func TestHarm(t *testing.T) {
	key := []byte("the node's own beat key")
	forged := func(dir session.Node, k []byte) error {
		up, _ := host.Uptime()
		boot, _ := host.BootID()
		b, err := heartbeat.Encode(heartbeat.Beat{V: 1, Node: "n", Instance: "i1", Counter: 999, Boot: boot,
			UptimeNS: int64(up), Serving: []string{"a", "evil"}}, k)
		if err != nil {
			return err
		}
		return os.WriteFile(dir.Beat(), b, 0o600)
	}
	hour := func(h time.Duration) func(session.Node) error {
		return func(n session.Node) error {
			at := time.Now().Add(h * time.Hour)
			return errors.Join(os.Chtimes(n.Beat(), at, at), os.Chtimes(n.Lock(), at, at), os.Chtimes(string(n), at, at))
		}
	}
	for name, c := range map[string]struct {
		harm   func(session.Node) error
		target string
		answer Answer
		state  State
	}{
		"clock an hour ahead":  {hour(1), "a", Yes, Alive},
		"clock an hour behind": {hour(-1), "a", Yes, Alive},
		"clock a day ahead":    {hour(24), "a", Yes, Alive},
		"clock a day behind":   {hour(-24), "a", Yes, Alive},
		"clock in 2000":        {hour(-24 * 365 * 26), "a", Yes, Alive},
		"beat deleted":         {func(n session.Node) error { return os.Remove(n.Beat()) }, "a", No, Absent},
		"beat emptied":         {func(n session.Node) error { return os.Truncate(n.Beat(), 0) }, "a", No, Absent},
		"beat cut":             {func(n session.Node) error { return os.Truncate(n.Beat(), 60) }, "a", No, Absent},
		"beat grown":           {func(n session.Node) error { return os.Truncate(n.Beat(), 10<<30) }, "a", No, Absent},
		"forged without a key": {func(n session.Node) error { return forged(n, nil) }, "evil", No, Absent},
		"forged with another":  {func(n session.Node) error { return forged(n, []byte("guess")) }, "evil", No, Absent},
		"beat is a pipe":       {func(n session.Node) error { return errors.Join(os.Remove(n.Beat()), syscall.Mkfifo(n.Beat(), 0o600)) }, "a", No, Absent},
		"beat is a link": {func(n session.Node) error {
			return errors.Join(os.Rename(n.Beat(), n.Beat()+"2"), os.Symlink("beat2", n.Beat()))
		}, "a", No, Absent},
		"lock is a link": {func(n session.Node) error {
			return errors.Join(os.Rename(n.Lock(), n.Lock()+"2"), os.Symlink("lock2", n.Lock()))
		}, "a", No, Absent},
		"lock is a pipe": {func(n session.Node) error { return errors.Join(os.Remove(n.Lock()), syscall.Mkfifo(n.Lock(), 0o600)) }, "a", No, Absent},
		"lock deleted":   {func(n session.Node) error { return os.Remove(n.Lock()) }, "a", No, Absent},
		"directory replaced": {func(n session.Node) error {
			return errors.Join(os.Rename(string(n), string(n)+".x"), os.Mkdir(string(n), 0o700))
		}, "a", No, Absent},
		"directory is a file": {func(n session.Node) error {
			return errors.Join(os.Rename(string(n), string(n)+".x"), os.WriteFile(string(n), nil, 0o600))
		}, "a", No, Absent},
		"facts are garbage":      {func(n session.Node) error { return os.WriteFile(n.Facts(), []byte("x"), 0o600) }, "a", Yes, Alive},
		"beat of another node":   {func(n session.Node) error { return os.WriteFile(n.Beat(), otherNode(t), 0o600) }, "a", No, Absent},
		"beat without owner bit": {func(n session.Node) error { return os.Chmod(n.Beat(), 0o666) }, "a", No, Absent},
	} {
		t.Run(name, func(t *testing.T) {
			d := testDirs(t)
			n := d.Node("n")
			lock(t, n)
			w := newNode(t, n, key)
			w.beat("a")
			j := New(d)
			if err := c.harm(n); err != nil {
				t.Fatal(err)
			}
			v := j.Judge(t.Context(), Target{Session: c.target, Node: "n", Key: key})
			check(t, v, c.answer, c.state)
			if v.Answer != Yes && v.Why == "" && v.State == Absent {
				t.Fatalf("does not say why: %+v", v)
			}
			// A hello by the serving loop mends what was done to the files, but
			// only while the lock is held: without it there is no node.
			j.Hello = func(context.Context, session.Node) Hello {
				return Hello{Result: HelloAnswered, Instance: "i1", Serving: []string{"a"}}
			}
			v = j.Judge(t.Context(), Target{Session: "a", Node: "n", Key: key})
			if held, err := host.Held(n.Lock()); held && err == nil {
				check(t, v, Yes, Alive)
			} else {
				check(t, v, No, Absent)
			}
		})
	}
}

func otherNode(t *testing.T) []byte {
	b, err := heartbeat.Encode(heartbeat.Beat{V: 1, Node: "n2", Instance: "i1", Counter: 1, Serving: []string{"a"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRegistryAnswersInProcess(t *testing.T) {
	d := testDirs(t)
	j := New(d)
	j.Local = func(s string) (bool, bool) { return s == "a", s == "a" || s == "b" }
	j.LocalServing = func() []string { return []string{"a"} }
	v := j.Judge(t.Context(), Target{Session: "a"})
	check(t, v, Yes, Alive)
	if v.Channel != ChannelRegistry || fmt.Sprint(v.Serving) != "[a]" {
		t.Fatalf("%+v", v)
	}
	check(t, j.Judge(t.Context(), Target{Session: "b"}), No, NotServing)
	v = j.Judge(t.Context(), Target{Session: "c"})
	check(t, v, No, Absent)
	if v.Channel != ChannelNone {
		t.Fatalf("%+v", v)
	}
}

// fakeClock runs on the bubble's time; asleep is how long the machine slept.
type fakeClock struct {
	start  time.Time
	asleep atomic.Int64
}

func (c *fakeClock) read() (time.Duration, time.Duration, string) {
	mono := time.Since(c.start)
	return time.Hour + mono + time.Duration(c.asleep.Load()), mono, bootA
}

// T15: a judge and a node in virtual time, with the file in between.
func TestTimersInVirtualTime(t *testing.T) {
	d := testDirs(t)
	n := d.Node("n")
	lock(t, n)
	synctest.Test(t, func(t *testing.T) {
		clock := &fakeClock{start: time.Now()}
		j := NewWithClock(d, clock.read)
		w, err := heartbeat.Create(string(n), heartbeat.Identity{Node: "n", Instance: "i1", Boot: bootA}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		beat := func() {
			up, _, _ := clock.read()
			if err := w.Beat(up, []string{"a"}); err != nil {
				t.Error(err)
			}
		}
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			beat()
			tick := time.NewTicker(heartbeat.Period)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					beat()
				case <-stop:
					return
				}
			}
		}()
		synctest.Wait()
		judge := func(a Answer, st State) {
			t.Helper()
			check(t, j.Judge(context.Background(), Target{Session: "a", Node: "n"}), a, st)
		}
		for range 200 {
			time.Sleep(777 * time.Millisecond)
			judge(Yes, Alive)
		}
		// The machine sleeps; timers go on where they stood.
		clock.asleep.Add(int64(8 * time.Hour))
		judge(Unknown, Unjudged)
		time.Sleep(heartbeat.Period + time.Millisecond)
		judge(Yes, Alive)
		// A node never seen before is judged across the resume too.
		clock.asleep.Add(int64(time.Minute))
		j.Forget("n")
		judge(Unknown, Unjudged)
		time.Sleep(heartbeat.Period + time.Millisecond)
		judge(Yes, Alive)
		// The loop hangs.
		close(stop)
		<-done
		beat()
		time.Sleep(Fresh)
		judge(Yes, Alive)
		time.Sleep(time.Nanosecond)
		judge(No, Stuck)
		beat()
		judge(Yes, Alive)
	})
}

// A hello is asked only where it can change the verdict, has a second, and is
// not repeated while the node stays silent.
func TestHello(t *testing.T) {
	d := testDirs(t)
	n := d.Node("n")
	lock(t, n)
	synctest.Test(t, func(t *testing.T) {
		clock := &fakeClock{start: time.Now()}
		j := NewWithClock(d, clock.read)
		asked := 0
		j.Hello = func(ctx context.Context, dir session.Node) Hello {
			asked++
			if dir != n {
				t.Errorf("asked %s", dir)
			}
			<-ctx.Done()
			return Hello{Result: HelloSilent}
		}
		target := Target{Session: "a", Node: "n"}
		begin := time.Now()
		check(t, j.Judge(context.Background(), target), No, Stuck)
		if took := time.Since(begin); took != HelloTimeout {
			t.Fatalf("took %s", took)
		}
		check(t, j.Judge(context.Background(), target), No, Stuck)
		if asked != 1 {
			t.Fatalf("asked %d times", asked)
		}
		time.Sleep(Fresh + 1)
		// The caller hangs up first: that says nothing of the node.
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		check(t, j.Judge(ctx, target), No, Absent)
		if asked != 2 {
			t.Fatalf("asked %d times", asked)
		}
		// With a beat nobody needs to be asked.
		w, err := heartbeat.Create(string(n), heartbeat.Identity{Node: "n", Instance: "i1", Boot: bootA}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		up, _, _ := clock.read()
		if err := w.Beat(up, []string{"a"}); err != nil {
			t.Fatal(err)
		}
		check(t, j.Judge(context.Background(), target), Yes, Alive)
		if err := w.Rest(up, nil); err != nil {
			t.Fatal(err)
		}
		j.Hello = func(context.Context, session.Node) Hello {
			asked++
			return Hello{Result: HelloAnswered, Instance: "i1", Serving: []string{"a"}}
		}
		v := j.Judge(context.Background(), target)
		check(t, v, Yes, Alive)
		if v.Channel != ChannelHello || asked != 3 {
			t.Fatalf("%+v, asked %d times", v, asked)
		}
	})
}

// SIGKILL is seen as soon as the kernel has closed the lock; a node that comes
// back under the same id is judged anew, and a reused pid means nothing.
func TestSIGKILL(t *testing.T) {
	d := testDirs(t)
	n := d.Node("n")
	j := New(d)
	for i := range rounds(200) {
		cmd := startHelper(t, n)
		check(t, j.Judge(t.Context(), Target{Session: "a", Node: "n"}), Yes, Alive)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		v := j.Judge(t.Context(), Target{Session: "a", Node: "n"})
		if v.State != Dead {
			t.Fatalf("round %d: %+v", i, v)
		}
	}
}

// rounds is how often a process is harmed (T11).
func rounds(n int) int {
	if testing.Short() {
		return n / 20
	}
	return n
}

// SIGSTOP leaves the lock held; only the beat tells.
func TestSIGSTOP(t *testing.T) {
	d := testDirs(t)
	n := d.Node("n")
	for range rounds(60) {
		cmd := startHelper(t, n)
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		// The clock of this judge is ahead by what a real one would wait.
		var ahead time.Duration
		m := New(d)
		j := NewWithClock(d, func() (time.Duration, time.Duration, string) {
			up, mono, boot := m.machine()
			return up + ahead, mono + ahead, boot
		})
		check(t, j.Judge(t.Context(), Target{Session: "a", Node: "n"}), Yes, Alive)
		ahead = Fresh
		check(t, j.Judge(t.Context(), Target{Session: "a", Node: "n"}), No, Stuck)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		check(t, j.Judge(t.Context(), Target{Session: "a", Node: "n"}), No, Dead)
	}
}

func BenchmarkJudge(b *testing.B) {
	d, err := session.Find(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	n := d.Node("n")
	if err := os.MkdirAll(string(n), 0o700); err != nil {
		b.Fatal(err)
	}
	l, err := host.TryLock(n.Lock())
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	boot, _ := host.BootID()
	w, err := heartbeat.Create(string(n), heartbeat.Identity{Node: "n", Instance: "i1", Boot: boot}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	j := New(d)
	up, _ := host.Uptime()
	if err := w.Beat(up+time.Hour, []string{"a"}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_ = j.Judge(b.Context(), Target{Session: "a", Node: "n"})
	}
}
