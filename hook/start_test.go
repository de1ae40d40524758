package hook

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"permd/internal/host"
	"permd/session"
)

func nodeIDOf(t testing.TB, pid int) string {
	t.Helper()
	start, err := host.StartTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	return session.NodeID(pid, start)
}

func TestFirstCallStartsTheNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		if got := w.call("{}", "--gate", "claude"); got.code != 0 {
			t.Fatal(got)
		}
	}
	w.node()
	start, err := host.StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	want := " node --client claude --pid " + strconv.Itoa(os.Getpid()) + " --start " + strconv.FormatUint(start, 10) + " --root " + w.root
	if got := w.lines("starts")[0]; !strings.HasSuffix(got, want) {
		t.Errorf("started as %q, want %q", got, want)
	}
	// Every event is a sign of an agent at work, so it need not be a gate.
	w = newWorld(t)
	if got := w.call("{}", "claude"); got.code != 0 || got.stdout == "" {
		t.Fatal(got)
	}
	w.node()
}

func TestNoStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.call("{}", "--no-start", "claude"); got.code != 0 || got.stdout != "" || got.stderr != "" {
		t.Errorf("%v, want nothing", got)
	}
	if entries, _ := os.ReadDir(w.root); len(entries) != 0 {
		t.Errorf("it left %v", entries)
	}
	if got := w.call("{}", "claude"); got.code != 0 {
		t.Fatal(got)
	}
	if got := w.call("{}", "--no-start", "claude"); got.code != 0 || !strings.Contains(got.stdout, "client=claude") {
		t.Errorf("%v, want the answer of the node that is there", got)
	}
}

func TestFiftyCallsStartOneNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("start", "slow")
	var all sync.WaitGroup
	got := make([]outcome, 50)
	for i := range got {
		all.Go(func() { got[i] = w.call("{}", "--gate", "claude") })
	}
	all.Wait()
	for _, o := range got {
		if o.code != 0 || !strings.Contains(o.stdout, "client=claude") {
			t.Errorf("%v", o)
		}
	}
	w.node()
}

// The caller that starts the node is killed while the node is on its way: the
// lock goes on with the node, and the others wait for that one.
func TestCallerKilledAfterSpawn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("start", "slow")
	starter := w.command("{}", "--gate", "claude")
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return len(w.nodes()) == 1 })
	var all sync.WaitGroup
	got := make([]outcome, 8)
	for i := range got {
		all.Go(func() { got[i] = w.call("{}", "--gate", "claude") })
	}
	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = starter.Wait()
	all.Wait()
	for _, o := range got {
		if o.code != 0 {
			t.Errorf("%v", o)
		}
	}
	w.node()
}

// helper starts one of the programs that wait for the end of their input, and
// reads the line that it says first.
func (w *world) helper(name string, args ...string) (cmd *exec.Cmd, said string) {
	w.t.Helper()
	cmd = exec.Command(filepath.Join(w.bin, name), args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	said, _ = bufio.NewReader(out).ReadString('\n')
	return cmd, said
}

// holdLock takes start.lock in a process of its own.
func (w *world) holdLock() *exec.Cmd {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Join(w.root, "run"), 0o700); err != nil {
		w.t.Fatal(err)
	}
	cmd, said := w.helper("lockholder", filepath.Join(w.root, "run", startLock))
	if said != "held\n" {
		w.t.Fatalf("the lock holder said %q", said)
	}
	return cmd
}

// The caller that holds the lock is killed before it has started anything.
func TestCallerKilledWithTheLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	holder := w.holdLock()
	done := make(chan outcome, 1)
	go func() { done <- w.call("{}", "--gate", "claude") }()
	select {
	case got := <-done:
		t.Fatalf("it did not wait for the lock: %v", got)
	case <-time.After(300 * time.Millisecond):
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.code != 0 {
		t.Errorf("%v", got)
	}
	w.node()
}

func TestLockHeldForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.holdLock()
	got := w.call("{}", "--gate", "claude")
	if got.code != 2 || !strings.Contains(got.stderr, startLock) || !strings.Contains(got.stderr, "has held") {
		t.Errorf("%v, want a refusal that names the lock", got)
	}
	if n := len(w.nodes()); n != 0 {
		t.Errorf("%d nodes were started", n)
	}
}

func TestNodeThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ start, want string }{
		{"refuse the policy is broken; see permd doctor", "could not be started: the policy is broken; see permd doctor; see "},
		{"die", "could not be started: it ended without a word"},
		{"liar", "said it was ready and is not"},
		{"hang", "was not ready after 10s"},
	} {
		t.Run(c.start, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.set("start", c.start)
			if c.start == "hang" {
				// Both at once: the second has the lock against it.
				var second outcome
				var wait sync.WaitGroup
				first := w.command("{}", "--gate", "claude")
				wait.Go(func() {
					until(t, func() bool { return len(w.nodes()) == 1 })
					second = w.call("{}", "claude")
				})
				if got := run(t, first); got.code != 2 || !strings.Contains(got.stderr, c.want) {
					t.Errorf("%v, want a refusal with %q", got, c.want)
				}
				wait.Wait()
				if second.code != 0 || !strings.Contains(second.stderr, "has held") {
					t.Errorf("the second: %v", second)
				}
				return
			}
			w.refusal("{}", c.want)
			log, err := os.ReadFile(filepath.Join(w.root, "run", startLog))
			if err != nil {
				t.Fatal(err)
			}
			if c.start == "die" && !strings.Contains(string(log), "this node dies\n") {
				t.Errorf("the log has %q", log)
			}
			// Nothing is left that keeps the next call from trying again.
			w.set("start", "ok")
			if got := w.call("{}", "--gate", "claude"); got.code != 0 {
				t.Errorf("the next call: %v", got)
			}
		})
	}
}

func TestStartLogIsPrivateAndSmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(w.root, "run", startLog)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(w.root, "target")
	w.set("target", "mine")
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	w.refusal("{}", startLog)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	w.refusal("{}", startLog)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, logLimit+1), 0o644); err != nil {
		t.Fatal(err)
	}
	w.refusal("{}", startLog)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.call("{}", "--gate", "claude"); got.code != 0 {
		t.Fatal(got)
	}
	if fi, err := os.Stat(path); err != nil || fi.Size() > 1024 {
		t.Errorf("the log has %d bytes, %v", fi.Size(), err)
	}
	if b, err := os.ReadFile(target); err != nil || string(b) != "mine\n" {
		t.Errorf("what the link named has %q, %v", b, err)
	}
}

// alone is a copy of the hook in a directory without permd.
func (w *world) alone() {
	w.t.Helper()
	dir := filepath.Join(w.root, "alone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Link(filepath.Join(w.bin, "permd-hook"), filepath.Join(dir, "permd-hook")); err != nil {
		w.t.Fatal(err)
	}
	w.bin = dir
}

func TestNoPermdBesideTheHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.alone()
	w.refusal("{}", "put permd and permd-hook into the same directory")
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("start", "slow")
	agent, said := w.helper("ensurer", w.root)
	if said != "ensured\n" {
		t.Fatalf("it said %q", said)
	}
	node := w.node()
	start, err := host.StartTime(agent.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if below, err := host.Descends(node, agent.Process.Pid, start); below || err != nil {
		t.Errorf("the node descends from the agent: %t, %v", below, err)
	}
	if want := " --pid " + strconv.Itoa(agent.Process.Pid) + " "; !strings.Contains(w.lines("starts")[0], want) {
		t.Errorf("started as %q, want %q", w.lines("starts")[0], want)
	}
	// A second time there is one; this process has nothing to start one with.
	if err := Ensure(w.root, Agent{"claude", agent.Process.Pid, start}); err != nil {
		t.Errorf("with a node: %v", err)
	}
	w.node()
}

func TestEnsureFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start, err := host.StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// The test binary has no permd-hook beside it.
	agent := Agent{Client: "claude", PID: os.Getpid(), Start: start}
	if err := Ensure(w.root, agent); err == nil || !strings.Contains(err.Error(), "make install") {
		t.Errorf("without the programs: %v", err)
	}
	if err := Ensure("relative", agent); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("a relative root: %v", err)
	}
	w.set("start", "refuse the policy is broken")
	if _, said := w.helper("ensurer", w.root); !strings.Contains(said, "could not be started: the policy is broken") {
		t.Errorf("a node that does not start: %q", said)
	}
	// A process that is another by now.
	got := run(t, exec.Command(filepath.Join(w.bin, "permd-hook"), ensureOption+strconv.Itoa(os.Getpid())+":1", "--root", w.root, "claude"))
	if got.code == 0 || !strings.Contains(got.stderr, "has ended") {
		t.Errorf("%v, want a failure", got)
	}
	if n := len(w.nodes()); n != 1 {
		t.Errorf("%d nodes were started, want the one that refused", n)
	}
}
