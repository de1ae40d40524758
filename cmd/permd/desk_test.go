package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"golang.org/x/term"

	"permd/api"
	"permd/ask"
	"permd/desk/desktest"
	"permd/session"
)

// installed is this test binary as permd and permd-hook, side by side.
func installed(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, name := range []string{"permd", "permd-hook"} {
		if err := link(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(bin, "permd")
}

// seat is a terminal with permd desk on it.
type seat struct {
	t     *testing.T
	tty   *os.File
	slave *os.File
	cmd   *exec.Cmd
	// before is how the terminal was.
	before *term.State
	ended  chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func (s *seat) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(b)
}

func (s *seat) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

func (s *seat) sees(want string) {
	s.t.Helper()
	desktest.Eventually(s.t, fmt.Sprintf("the terminal with %q", want), func() bool { return strings.Contains(ansi.Strip(s.text()), want) })
}

func (s *seat) press(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.tty, keys); err != nil {
		s.t.Fatal(err)
	}
}

// sit starts permd desk on a terminal of that size.
func sit(t *testing.T, permd string, d session.Dirs, width, height uint16, env ...string) *seat {
	t.Helper()
	tty, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: height, Cols: width}); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	s := &seat{t: t, tty: tty, slave: slave, before: before, cmd: exec.Command(permd, "--root", d.Root, "desk"), ended: make(chan struct{})}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.Env = append(append(os.Environ(), "TERM=xterm-256color"), env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	copied := make(chan struct{})
	go func() { defer close(copied); _, _ = io.Copy(s, tty) }()
	go func() { defer close(s.ended); _ = s.cmd.Wait() }()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
		slave.Close()
		tty.Close()
		<-copied
		_ = exec.Command(permd, "--root", d.Root, "stop").Run()
	})
	return s
}

// The program as it is installed: its own desk process, its own terminal.
func TestDeskOnTerminals(t *testing.T) {
	permd := installed(t)
	for _, size := range [][2]uint16{{80, 24}, {20, 8}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			d := desktest.Dirs(t)
			n := desktest.Start(t, d, "n-1")
			s := sit(t, permd, d, size[0], size[1])
			w := n.Put("make all")
			s.sees("Run a command")
			s.press("\r\ry\r") // too soon, and no words for an allow
			time.Sleep(time.Second)
			select {
			case dec := <-w.Decision:
				t.Fatalf("decided: %+v", dec)
			default:
			}
			s.press("d")
			if dec := w.Wait(t); dec.Verdict != ask.Deny || dec.By.Kind != ask.KindUser {
				t.Errorf("decision %+v", dec)
			}
			s.press("q")
			select {
			case <-s.ended:
			case <-time.After(10 * time.Second):
				t.Fatalf("it does not end:\n%q", s.text())
			}
			if code := s.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("it ended with %d", code)
			}
			after, err := term.GetState(int(s.slave.Fd()))
			if err != nil || fmt.Sprint(*after) != fmt.Sprint(*s.before) {
				t.Errorf("the terminal is %v, was %v, %v", after, s.before, err)
			}
			desktest.Eventually(t, "the screen given back and the cursor shown", func() bool {
				out := s.text()
				return strings.LastIndex(out, "\x1b[?1049l") > strings.LastIndex(out, "\x1b[?1049h") &&
					strings.LastIndex(out, "\x1b[?25h") > strings.LastIndex(out, "\x1b[?25l")
			})
		})
	}
}

func TestDeskOnADumbTerminal(t *testing.T) {
	permd := installed(t)
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	s := sit(t, permd, d, 80, 24, "TERM=dumb")
	s.sees("attached to the desk")
	w := n.Put("make all")
	s.sees("answer with: 1 allow")
	if strings.Contains(s.text(), "\x1b") {
		t.Errorf("a dumb terminal gets %q", s.text())
	}
	time.Sleep(600 * time.Millisecond)
	s.press("1 allow\n")
	if dec := w.Wait(t); dec.Verdict != ask.Allow {
		t.Errorf("decision %+v", dec)
	}
	s.press("\x04") // the end of the input
	<-s.ended
	s.sees("the input has ended")
}

func TestStatusLines(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     overall
		short string
		want  []string
	}{
		{"nothing", overall{}, "", []string{"desk: not running; open one with: permd desk", "agents: 0 nodes, 0 sessions", "waiting: 0"}},
		{"no face", overall{Desk: &api.Status{PID: 7}}, "", []string{"desk: running (process 7), no terminal attached; attach one with: permd desk"}},
		{"waiting", overall{Desk: &api.Status{PID: 7, Faces: 2}, Nodes: []api.Status{{Sessions: 1}}, Waiting: 2}, "permd 2 waiting",
			[]string{"desk: running (process 7), 2 surfaces attached", "agents: 1 node, 1 session", "waiting: 2"}},
		{"paused", overall{Nodes: []api.Status{{Node: "n1", PausedMS: 90_000}}}, "permd paused", []string{"paused: node n1 for 1m30s; its client's own prompts decide"}},
		{"bad policy", overall{Nodes: []api.Status{{Node: "n1", Policy: "line 3\x1b[2J"}}}, "", []string{"policy: node n1 keeps the last good one: line 3⟨U+001B⟩[2J"}},
		{"trouble", overall{Problems: []string{"node n1 does not answer"}}, "permd: trouble", []string{"problem: node n1 does not answer"}},
	} {
		if got := c.o.short(); got != c.short {
			t.Errorf("%s: short %q, want %q", c.name, got, c.short)
		}
		all := strings.Join(c.o.lines(), "\n")
		for _, w := range c.want {
			if !strings.Contains(all, w) {
				t.Errorf("%s: no line %q in\n%s", c.name, w, all)
			}
		}
	}
}

func TestAskLines(t *testing.T) {
	lines := askLines([]waitingAsk{{ID: "a", Session: "claude-1", AgeMS: 61_000, Title: "Run\x1b[2J", Text: "make\nall", Cwd: "/w\u202e",
		Path: []ask.Hop{{Session: "claude-1", Claimed: true}, {Session: "claude-2"}}}})
	want := []string{"a  claude-1 (its parent is only claimed) → claude-2  waits 1m1s", "    Run⟨U+001B⟩[2J: make⟨U+000A⟩all", "    in /w⟨U+202E⟩"}
	if strings.Join(lines, "|") != strings.Join(want, "|") {
		t.Errorf("lines %q, want %q", lines, want)
	}
}
