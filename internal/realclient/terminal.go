package realclient

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var terminals atomic.Int64

// Terminal is a client in a terminal of a tmux server of its own, which reads
// no configuration and which nothing else can find by name.
type Terminal struct {
	rig    *Rig
	name   string
	pid    int // of the client: leader of the session that tmux made for it
	ctx    context.Context
	cancel context.CancelFunc
	closed sync.Once
}

// Terminal starts the client in a terminal of 140 by 45 cells and waits until
// it takes input. Scenario is not used; see [Terminal.Say]. The screen is the
// test's only view, so pass the permission mode in Args. The terminal is closed
// at the end of the test.
func (r *Rig) Terminal(run Run) *Terminal {
	r.t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		Missing(r.t, "tmux is needed for tests in a terminal; install tmux")
	}
	argv := append(append(append([]string{}, run.Wrap...), r.Client.Path), run.Args...)
	t := r.open(run, argv)
	// The line under the prompt names the mode or offers the help.
	t.WaitUntil("the client takes input", func(s string) bool {
		return strings.Contains(s, " mode on") || strings.Contains(s, "? for shortcuts") || strings.Contains(s, "(shift+tab to cycle)")
	})
	return t
}

// open starts argv in a terminal.
func (r *Rig) open(run Run, argv []string) *Terminal {
	r.t.Helper()
	t := &Terminal{rig: r, name: fmt.Sprintf("t%d", terminals.Add(1))}
	t.ctx, t.cancel = context.WithTimeout(r.t.Context(), run.time())
	args := []string{"-L", t.name, "-f", "/dev/null", "new-session", "-d", "-x", "140", "-y", "45", "-s", "main", "-c", run.dir(r)}
	args = append(args, "--", "env")
	args = append(append(args, run.Env...), argv...)
	cmd := exec.CommandContext(t.ctx, "tmux", args...)
	// What run.Env sets is for this client alone, as when a person starts it in a
	// pane: other panes get the environment of the server.
	cmd.Dir, cmd.Env = run.dir(r), r.env([]string{"TERM=xterm-256color"})
	r.t.Cleanup(t.Close)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("tmux new-session: %v: %s", err, tail(out, 300))
	}
	pid, err := strconv.Atoi(strings.TrimSpace(t.Tmux("display-message", "-p", "-t", "main", "#{pane_pid}")))
	if err != nil || pid <= 1 {
		r.t.Fatalf("tmux names no process: %v", err)
	}
	t.pid = pid
	return t
}

// Pid is the process id of the client, or of the command that wraps it.
func (t *Terminal) Pid() int { return t.pid }

// Tmux runs one command of the private tmux server and gives its output.
func (t *Terminal) Tmux(args ...string) string {
	t.rig.t.Helper()
	out, err := t.tmux(args...)
	if err != nil {
		t.rig.t.Fatalf("tmux %s: %v: %s", strings.Join(args, " "), err, tail(out, 300))
	}
	return string(out)
}

func (t *Terminal) tmux(args ...string) ([]byte, error) {
	// Not under t.ctx: its end must not keep Close from closing.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-L", t.name}, args...)...)
	cmd.Env = t.rig.env(nil)
	return cmd.CombinedOutput()
}

// Screen is the text on the screen of the first pane.
func (t *Terminal) Screen() string {
	t.rig.t.Helper()
	return t.Tmux("capture-pane", "-p", "-t", "main:0.0")
}

// Keys presses keys by tmux's names ("Enter", "Escape", "1").
func (t *Terminal) Keys(keys ...string) {
	t.rig.t.Helper()
	t.Tmux(append([]string{"send-keys", "-t", "main:0.0"}, keys...)...)
}

// Answer presses key until dialog, a text of the dialog, is off the screen. A
// client drops keys for a moment after a dialog opens (so that typed-ahead keys
// decide nothing), which is why the first key comes late and once may not be
// enough. Seldom, since on a busy machine a key too many would answer the next
// dialog.
func (t *Terminal) Answer(key, dialog string) {
	t.rig.t.Helper()
	const first, again = 400 * time.Millisecond, 4 * time.Second
	pressed := time.Now().Add(first - again)
	t.WaitUntil(fmt.Sprintf("%q to be gone after %s", dialog, key), func(s string) bool {
		if !strings.Contains(s, dialog) {
			return true
		}
		if time.Since(pressed) > again {
			pressed = time.Now()
			t.Keys(key)
		}
		return false
	})
}

// Say types text at the prompt, waits until the client has it, and sends it.
func (t *Terminal) Say(text string) {
	t.rig.t.Helper()
	t.Tmux("send-keys", "-t", "main:0.0", "-l", text)
	t.WaitScreen(text)
	t.Keys("Enter")
}

// WaitScreen waits until every one of texts is on the screen and gives that
// screen. The test fails, with the screen, when the terminal's time is over.
func (t *Terminal) WaitScreen(texts ...string) string {
	t.rig.t.Helper()
	return t.WaitUntil(fmt.Sprintf("%q on the screen", texts), func(s string) bool {
		for _, text := range texts {
			if !strings.Contains(s, text) {
				return false
			}
		}
		return true
	})
}

// WaitUntil waits until ok holds for the screen. what names it in the failure.
func (t *Terminal) WaitUntil(what string, ok func(screen string) bool) string {
	t.rig.t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	last := ""
	for {
		out, err := t.tmux("capture-pane", "-p", "-t", "main:0.0")
		if err != nil {
			t.rig.t.Fatalf("waiting for %s: the terminal is gone: %v: %s; last screen:\n%s", what, err, tail(out, 300), last)
		}
		if last = string(out); ok(last) {
			return last
		}
		select {
		case <-look.C:
		case <-t.ctx.Done():
			t.rig.t.Fatalf("waiting for %s: %v; last screen:\n%s", what, t.ctx.Err(), strings.TrimRight(last, "\n"))
		}
	}
}

// Close ends the tmux server and what runs in its panes. It may be called again.
func (t *Terminal) Close() {
	t.closed.Do(func() {
		defer t.cancel()
		var pids []int
		if out, err := t.tmux("list-panes", "-a", "-F", "#{pane_pid}"); err == nil {
			for f := range strings.FieldsSeq(string(out)) {
				if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
					pids = append(pids, pid)
				}
			}
		}
		if out, err := t.tmux("kill-server"); err != nil && !strings.Contains(string(out), "no server") && !strings.Contains(string(out), "error connecting") {
			t.rig.t.Logf("tmux kill-server: %v: %s", err, tail(out, 300))
		}
		for _, pid := range pids {
			if waitGone(pid, 5*time.Second) {
				continue
			}
			// A pane's process leads the session that tmux made, so its group is its own.
			if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.rig.t.Logf("end process %d of a pane: %v", pid, err)
			}
			waitGone(pid, 5*time.Second)
		}
	})
}
