package hook

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"permd/api/hookwire"
)

func TestStoppedNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.call("{}", "--gate", "claude"); got.code != 0 {
		t.Fatal(got)
	}
	pid := w.node()
	stop(t, pid)
	gate := w.refusal("{}", "(process "+strconv.Itoa(pid)+") has said nothing for 5s")
	if gate.took < hookwire.Silence || gate.took > 2*hookwire.Silence {
		t.Errorf("it was given up after %v, want some %v", gate.took, hookwire.Silence)
	}
	for _, remedy := range []string{"kill -CONT " + strconv.Itoa(pid), "kill -KILL " + strconv.Itoa(pid)} {
		if !strings.Contains(gate.stderr, remedy) {
			t.Errorf("the reason does not name the remedy %q: %q", remedy, gate.stderr)
		}
	}
	if n := len(w.nodes()); n != 1 {
		t.Errorf("%d nodes: a stopped one is not to be replaced", n)
	}

	// The remedies work.
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := w.call("{}", "--gate", "claude"); got.code != 0 {
		t.Errorf("after going on: %v", got)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return !alive(pid) })
	if got := w.call("{}", "--gate", "claude"); got.code != 0 || len(w.nodes()) != 2 {
		t.Errorf("after its end: %v, %d nodes", got, len(w.nodes()))
	}
}

// A stopped node's queue fills up, with connections or with bytes.
func TestStoppedNodeWithFullQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.call("{}", "--gate", "claude"); got.code != 0 {
		t.Fatal(got)
	}
	stop(t, w.node())
	w.refusal(strings.Repeat("x", hookwire.MaxStdin), "has said nothing")
	entries, err := filepath.Glob(filepath.Join(w.root, "run", "nodes", "*", "sock"))
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	fillQueue(t, entries[0])
	w.refusal("{}", "has said nothing")
}

// fillQueue connects until nobody can any more.
func fillQueue(t *testing.T, path string) {
	for {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Close(fd) })
		if err := syscall.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
		switch err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err {
		case nil:
		case syscall.EAGAIN:
			return
		default:
			t.Fatal(err)
		}
	}
}

func TestNodeThatTalksNonsense(t *testing.T) {
	t.Parallel()
	result, err := hookwire.AppendFrame(nil, hookwire.Frame{Kind: hookwire.Done, Result: hookwire.Result{Stdout: []byte("{\"allow\":true}")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, answer, want string }{
		{"http", `raw "HTTP/1.1 400 Bad Request\r\n"`, "makes no sense"},
		{"json", `raw "{\"t\":\"welcome\"}"`, "makes no sense"},
		{"plain allow", `raw "allow\n"`, "makes no sense"},
		{"zeros", `raw "\x00\x00\x00\x00\x00\x00\x00\x00"`, "makes no sense"},
		{"frame too large", `raw "R\xff\xff\xff\xff"`, "makes no sense"},
		{"waiting with a body", `raw "W\x00\x00\x00\x01x"`, "makes no sense"},
		{"nonsense after waiting", `raw "W\x00\x00\x00\x00?"`, "makes no sense"},
		{"hang-up", "hangup", "hung up"},
		{"refusal", "refuse no, because", "no, because"},
		{"refusal before all is read", "unread no, because", "no, because"},
		{"half a result", "raw " + strconv.Quote(string(result[:len(result)-1])), "said nothing"},
		{"nothing", "silent", "said nothing"},
		{"a byte at a time", "drip", "said nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.set("answer", c.answer)
			gate := w.refusal("{}", c.want)
			if gate.took > 2*hookwire.Silence {
				t.Errorf("it took %v", gate.took)
			}
		})
	}
	t.Run("refusal while much is sent", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.set("answer", "unread no, because")
		w.refusal(strings.Repeat("x", hookwire.MaxStdin), "no, because")
	})
}

func TestNodeDiesWhileItWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("answer", "withdrawn")
	for _, c := range []struct {
		args []string
		code int
	}{{[]string{"--gate", "claude"}, 2}, {[]string{"claude"}, 0}} {
		before := len(w.lines("events"))
		done := make(chan outcome, 1)
		cmd := w.command("{}", c.args...)
		go func() { done <- run(t, cmd) }()
		until(t, func() bool { return len(w.lines("events")) > before })
		nodes := w.nodes()
		if err := syscall.Kill(nodes[len(nodes)-1], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if got := <-done; got.code != c.code || got.stdout != "" || !strings.Contains(got.stderr, "before it answered") {
			t.Errorf("%q: %v, want code %d", c.args, got, c.code)
		}
	}
}

// A call that was stopped itself, with its agent (Ctrl-Z), goes on where it
// was: what came meanwhile is heard.
func TestStoppedHookGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("answer", "wait "+strconv.Itoa(int(2*hookwire.Silence/(100*time.Millisecond))))
	cmd := w.command("{}", "--gate", "claude")
	done := make(chan outcome, 1)
	go func() { done <- run(t, cmd) }()
	until(t, func() bool { return len(w.lines("events")) == 1 })
	stop(t, cmd.Process.Pid)
	time.Sleep(hookwire.Silence + 500*time.Millisecond)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.code != 0 || got.stdout == "" {
		t.Errorf("%v, want the answer", got)
	}
}

func TestNodesDirectoryOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.call("{}", "--gate", "claude"); got.code != 0 {
		t.Fatal(got)
	}
	dirs, err := filepath.Glob(filepath.Join(w.root, "run", "nodes", "*"))
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}
	if err := os.Chmod(dirs[0], 0o777); err != nil {
		t.Fatal(err)
	}
	w.refusal("{}", "wider than 0700")
	if err := os.Chmod(dirs[0], 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dirs[0], dirs[0]+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dirs[0]+".moved", dirs[0]); err != nil {
		t.Fatal(err)
	}
	w.refusal("{}", "is a symbolic link")
}

func TestSocketPathTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := filepath.Join(w.root, strings.Repeat("d", 90))
	node := filepath.Join(long, "run", "nodes", nodeIDOf(t, os.Getpid()))
	if err := os.MkdirAll(node, 0o700); err != nil {
		t.Fatal(err)
	}
	w.root = long
	w.refusal("{}", "shorter --root")
	w.root = filepath.Dir(long)
}
