package hook

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"permd/internal/host"
	"permd/session"
)

// Variables that an agent or a repository can set lead nowhere else: not to
// another node, not to another program, not to another verdict.
func TestHostileEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("answer", "exit 2")
	if got := w.call("{}", "--gate", "claude"); got.code != 2 || got.stderr != "err\xfe" {
		t.Fatal(got)
	}
	trap := newTrap(t)
	for _, env := range [][]string{
		{"HOME=" + trap.dir},
		{"HOME="},
		{"XDG_RUNTIME_DIR=" + trap.dir, "XDG_STATE_HOME=" + trap.dir, "XDG_CONFIG_HOME=" + trap.dir},
		{"PATH=" + trap.dir},
		{"PATH="},
		{"TMPDIR=" + trap.dir, "PWD=" + trap.dir},
		{"PERMD_SOCKET=" + trap.sock, "PERMD_ROOT=" + trap.dir, "PERMD_RUN=" + trap.dir},
		{"PERMD_SESSION=claude-bound", "PERMD_PARENT_SESSION=claude-bound", "PERMD_GATE=0", "PERMD_OFF=1"},
		{"CLAUDE_PID=1"}, {"CLAUDE_PID=0"}, {"CLAUDE_PID=-1"}, {"CLAUDE_PID=x"}, {"CLAUDE_PID="},
		{"CLAUDE_PID=" + strconv.Itoa(trap.bystander)},
		{"CLAUDE_CODE_SESSION_ID=../../trap"},
		{"CLAUDE_CODE_SESSION_ID=" + strings.Repeat("x", 5000)},
	} {
		for _, args := range [][]string{{"--gate", "claude"}, {"claude"}} {
			cmd := w.command("{}", args...)
			cmd.Env = append(env, "GORACE=atexit_sleep_ms=0")
			if env[0] != "CLAUDE_PID=1" {
				cmd.Env = append(cmd.Env, "CLAUDE_PID="+strconv.Itoa(os.Getpid()))
			}
			if got := run(t, cmd); got.code != 2 || got.stderr != "err\xfe" {
				// 1 is an ancestor and no agent: it adopts orphans.
				t.Errorf("%q %q: %v, want what the node says", env, args, got)
			}
		}
	}
	trap.check(t)
}

// Without --root the directories are the user's own, whatever the variables
// say. With --no-start nothing is made there.
func TestHostileEnvironmentWithoutRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	trap := newTrap(t)
	cmd := exec.Command(filepath.Join(w.bin, "permd-hook"), "--no-start", "claude")
	cmd.Env = []string{"CLAUDE_PID=" + strconv.Itoa(os.Getpid()), "HOME=" + trap.dir, "XDG_RUNTIME_DIR=" + trap.dir,
		"XDG_STATE_HOME=" + filepath.Join(trap.dir, ".local", "state"), "PERMD_SOCKET=" + trap.sock, "GORACE=atexit_sleep_ms=0"}
	cmd.Stdin = strings.NewReader("{}")
	if got := run(t, cmd); got.code != 0 || got.stdout != "" {
		t.Errorf("%v, want nothing", got)
	}
	trap.check(t)
}

// trap is a directory that looks like permd's own from wherever a variable
// could lead to it, with a node that would allow and a permd that would tell.
type trap struct {
	dir, sock string
	// bystander is a process that is nobody's ancestor.
	bystander int
	caught    chan string
}

func newTrap(t *testing.T) *trap {
	dir, err := os.MkdirTemp("", "trap")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	tr := &trap{dir: dir, caught: make(chan string, 100)}
	id := nodeIDOf(t, os.Getpid())
	for _, run := range []string{"permd", ".local/state/permd/run", "run", "permd/run", "."} {
		node := filepath.Join(dir, run, "nodes", id)
		if err := os.MkdirAll(node, 0o700); err != nil {
			t.Fatal(err)
		}
		tr.sock = filepath.Join(node, "sock")
		l, err := net.Listen("unix", tr.sock)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				tr.caught <- c.LocalAddr().String()
				c.Close()
			}
		}()
		t.Cleanup(func() {
			l.Close()
			<-done
		})
	}
	if err := os.WriteFile(filepath.Join(dir, "permd"+"x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"getent", "sh"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho ran >"+filepath.Join(dir, "ran")+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sleep := exec.Command("sleep", "600")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sleep.Process.Kill()
		_ = sleep.Wait()
	})
	tr.bystander = sleep.Process.Pid
	return tr
}

func (tr *trap) check(t *testing.T) {
	t.Helper()
	select {
	case where := <-tr.caught:
		t.Errorf("a hook was led to %s", where)
	default:
	}
	if _, err := os.Stat(filepath.Join(tr.dir, "ran")); err == nil {
		t.Error("a program of the trap ran")
	}
}

// A shell between the agent and the hook is what clients put there; the node
// is the agent's.
func TestThroughShells(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, client, env string }{
		{"named by its variable", "claude", "CLAUDE_PID=" + strconv.Itoa(os.Getpid())},
		{"nearest program", "codex", "X=1"},
		{"nearest program, variable of a stranger", "claude", "CLAUDE_PID=999999999"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			// Not the last command of either, so that both shells stay.
			cmd := exec.Command("/bin/sh", "-c", `/bin/sh -c '"$0" "$@"; exit $?' "$0" "$@"; exit $?`,
				filepath.Join(w.bin, "permd-hook"), "--root", w.root, "--gate", c.client)
			cmd.Env = []string{c.env, "GORACE=atexit_sleep_ms=0"}
			cmd.Stdin = strings.NewReader("{}")
			if got := run(t, cmd); got.code != 0 {
				t.Fatal(got)
			}
			if got := w.lines("starts")[0]; !strings.Contains(got, " --pid "+strconv.Itoa(os.Getpid())+" ") {
				t.Errorf("the node is that of another process: %q", got)
			}
		})
	}
}

// Where the agent's process cannot be told, its session's node is found.
func TestFoundBySession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.call("{}", "--gate", "claude"); got.code != 0 {
		t.Fatal(got)
	}
	// env stays between this process and the hook, and is no shell.
	call := func(session string) outcome {
		cmd := exec.Command(filepath.Join(w.bin, "permd-hook"), "--root", w.root, "--no-start", "claude")
		cmd.Env = []string{"CLAUDE_CODE_SESSION_ID=" + session, "GORACE=atexit_sleep_ms=0"}
		cmd.Stdin = strings.NewReader("{}")
		wrapper := exec.Command("timeout", append([]string{"60"}, cmd.Args...)...)
		wrapper.Env, wrapper.Stdin = cmd.Env, cmd.Stdin
		return run(t, wrapper)
	}
	if got := call("bound"); got.code != 0 || !strings.Contains(got.stdout, "client=claude") {
		t.Errorf("bound session: %v, want the node's answer", got)
	}
	if got := call("other"); got.code != 0 || got.stdout != "" {
		t.Errorf("other session: %v, want nothing", got)
	}
	w.node()
}

func TestNearestProgram(t *testing.T) {
	t.Parallel()
	self := os.Getpid()
	if got, err := nearestProgram(self, "claude"); err != nil || got != self {
		t.Errorf("from a program: %d, %v", got, err)
	}
	if _, err := nearestProgram(0, "claude"); err == nil {
		t.Error("from nowhere: no error")
	}
	if got, err := nearestProgram(1, "claude"); err == nil {
		t.Errorf("from process 1, which adopts orphans: %d", got)
	}
	comm, err := host.Comm(1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := nearestProgram(1, comm); !in(inits[:], comm) && !in(shells[:], comm) && (err != nil || got != 1) {
		t.Errorf("a client that is process 1 of its container: %d, %v", got, err)
	}
	if isAncestor(self, 0) || isAncestor(0, self) || isAncestor(self, -1) {
		t.Error("no process is somebody's ancestor")
	}
	if !isAncestor(self, self) || !isAncestor(self, os.Getppid()) {
		t.Error("this process and its parent are not")
	}
}

func TestClientsAreNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range clients {
		if seen[c.name] || !session.Valid(c.name) {
			t.Errorf("client %q", c.name)
		}
		seen[c.name] = true
	}
	if c := clientOf("other"); c.pid != "" || c.session != "" || c.name != "other" {
		t.Errorf("a client that is not listed: %+v", c)
	}
}
