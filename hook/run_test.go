package hook

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"permd/internal/host"
)

// world is a root with the programs to run in it. The agent is the test
// process itself: it is what calls the hook.
type world struct {
	t    testing.TB
	root string
	// bin has permd-hook and, as a rule, permd.
	bin string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	hook, err := exec.LookPath("permd-hook")
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: its path is too long for a socket.
	root, err := os.MkdirTemp("", "hook")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t, root, filepath.Dir(hook)}
	t.Cleanup(func() {
		w.endNodes()
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	return w
}

// set writes one of the files that a fake node goes by.
func (w *world) set(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.root, name), []byte(text+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) lines(name string) []string {
	b, err := os.ReadFile(filepath.Join(w.root, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	var lines []string
	for l := range strings.Lines(string(b)) {
		lines = append(lines, strings.TrimSuffix(l, "\n"))
	}
	return lines
}

// nodes are the process ids of all nodes that were started.
func (w *world) nodes() []int {
	var pids []int
	for _, l := range w.lines("starts") {
		first, _, _ := strings.Cut(l, " ")
		pid, err := strconv.Atoi(first)
		if err != nil {
			w.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// node is the one node that was started.
func (w *world) node() int {
	w.t.Helper()
	pids := w.nodes()
	if len(pids) != 1 {
		w.t.Fatalf("%d nodes were started, want 1", len(pids))
	}
	return pids[0]
}

// endNodes ends what the hooks have started, and waits until it has ended: it
// is nobody's child here.
func (w *world) endNodes() {
	for _, pid := range w.nodes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, pid := range w.nodes() {
		until(w.t, func() bool { return !alive(pid) })
	}
}

// stop stops a process, all threads of it.
func stop(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		time.Sleep(100 * time.Millisecond)
		return
	}
	until(t, func() bool {
		stats, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
		if err != nil || len(stats) == 0 {
			t.Fatal("no threads", err)
		}
		for _, s := range stats {
			if b, err := os.ReadFile(s); err == nil && !bytes.Contains(b, []byte(") T ")) {
				return false
			}
		}
		return true
	})
}

// alive is false for a zombie, too.
func alive(pid int) bool {
	p, err := host.OpenProcess(pid)
	if err != nil {
		return !errors.Is(err, host.ErrNoProcess)
	}
	defer p.Close()
	return p.Alive()
}

// until waits for what other processes do.
func until(t testing.TB, done func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it did not happen within 20 s")
		}
	}
}

// outcome is how a hook ended.
type outcome struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

func (o outcome) String() string {
	return fmt.Sprintf("code %d, stdout %.300q, stderr %.600q after %v", o.code, o.stdout, o.stderr, o.took)
}

// command is a hook that is called by an agent which is this process.
func (w *world) command(stdin string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(w.bin, "permd-hook"), append([]string{"--root", w.root}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = []string{"CLAUDE_PID=" + strconv.Itoa(os.Getpid()), "HOME=" + w.root, "SECRET=secret",
		"GORACE=atexit_sleep_ms=0"}
	return cmd
}

func (w *world) call(stdin string, args ...string) outcome {
	w.t.Helper()
	return run(w.t, w.command(stdin, args...))
}

func run(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begun := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Error(err)
		return outcome{code: -1}
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(begun)}
}

// refusal checks that a gate stays shut and another event does no harm, each
// with the reason.
func (w *world) refusal(stdin, want string) (gate outcome) {
	w.t.Helper()
	other := make(chan outcome, 1)
	go func() { other <- w.call(stdin, "claude") }()
	gate = w.call(stdin, "--gate", "claude")
	if gate.code != 2 || gate.stdout != "" || !strings.Contains(gate.stderr, want) ||
		!strings.HasPrefix(gate.stderr, "permd could not decide this call, so it is refused: ") {
		w.t.Errorf("gate: %v\nwant code 2 and %q", gate, want)
	}
	if got := <-other; got.code != 0 || got.stdout != "" || !strings.Contains(got.stderr, want) {
		w.t.Errorf("no gate: %v\nwant code 0 and %q", got, want)
	}
	return gate
}

func getsid() int {
	sid, _ := unix.Getsid(0)
	return sid
}
