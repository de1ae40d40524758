package tui

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	"permd/desk"
	"permd/desk/desktest"
	"permd/session"
)

// tty is a program on a terminal of its own.
type tty struct {
	t      testing.TB
	cmd    *exec.Cmd
	master *os.File
	slave  *os.File // kept open, so that settings can be read after the end
	done   chan struct{}
	before *term.State
	waited error

	mu   sync.Mutex
	out  []byte
	mark int
}

// onTTY starts a program on a terminal of that size.
func onTTY(t testing.TB, width, height uint16, env []string, argv ...string) *tty {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: height, Cols: width}); err != nil {
		t.Fatal(err)
	}
	x := &tty{t: t, master: master, slave: slave, done: make(chan struct{})}
	if x.before, err = term.GetState(int(slave.Fd())); err != nil {
		t.Fatal(err)
	}
	x.cmd = exec.Command(argv[0], argv[1:]...)
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = slave, slave, slave
	x.cmd.Env = append(append(os.Environ(), "TERM=xterm-256color"), env...)
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			x.mu.Lock()
			x.out = append(x.out, buf[:n]...)
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(x.done)
		x.waited = x.cmd.Wait()
	}()
	t.Cleanup(func() {
		x.cmd.Process.Kill()
		<-x.done
		slave.Close()
		master.Close()
		<-ended
	})
	return x
}

// desktop starts a terminal on the desk of d, which starts the desk process.
func desktop(t testing.TB, d session.Dirs, width, height uint16, env ...string) *tty {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endDesk(t, d) })
	return onTTY(t, width, height, env, self, "terminal", d.Root)
}

// endDesk ends the desk process of d, if one runs.
func endDesk(t testing.TB, d session.Dirs) {
	t.Helper()
	pid, err := deskPID(d)
	if err != nil {
		return
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func deskPID(d session.Dirs) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := api.DialControl(ctx, desk.Sock(d), "test")
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var st api.Status
	err = c.Call(ctx, api.OpStatus, nil, &st)
	return st.PID, err
}

// text is what was written since the last key, without styles.
func (x *tty) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return ansi.Strip(string(x.out[x.mark:]))
}

func (x *tty) raw() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return string(x.out)
}

// sees waits until the program has written the words since the last key.
func (x *tty) sees(want string) {
	x.t.Helper()
	for until := time.Now().Add(15 * time.Second); !strings.Contains(x.text(), want); {
		if time.Now().After(until) {
			x.t.Fatalf("the terminal does not show %q:\n%q", want, x.raw())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// armed waits until keys count: the ask has been on the screen for a moment.
func (x *tty) armed() { time.Sleep(armDelay + 400*time.Millisecond) }

func (x *tty) press(keys string) {
	x.t.Helper()
	x.mu.Lock()
	x.mark = len(x.out)
	x.mu.Unlock()
	if _, err := io.WriteString(x.master, keys); err != nil {
		x.t.Fatal(err)
	}
}

// ended waits for the end of the program.
func (x *tty) ended() *os.ProcessState {
	x.t.Helper()
	select {
	case <-x.done:
		return x.cmd.ProcessState
	case <-time.After(15 * time.Second):
		x.t.Fatalf("it does not end:\n%q", x.raw())
		return nil
	}
}

// restored fails unless the terminal is as it was before the program.
func (x *tty) restored() {
	x.t.Helper()
	now, err := term.GetState(int(x.slave.Fd()))
	if err != nil {
		x.t.Fatal(err)
	}
	if fmt.Sprint(*now) != fmt.Sprint(*x.before) {
		x.t.Errorf("the settings of the terminal are %v, were %v", *now, *x.before)
	}
	// What the program has written last may still be on its way.
	modes := []struct{ name, on, off string }{
		{"alternate screen", "\x1b[?1049h", "\x1b[?1049l"},
		{"hidden cursor", "\x1b[?25l", "\x1b[?25h"},
		{"bracketed paste", "\x1b[?2004h", "\x1b[?2004l"},
		{"focus reports", "\x1b[?1004h", "\x1b[?1004l"},
	}
	left := func() string {
		out := x.raw()
		for _, m := range modes {
			if on, off := strings.LastIndex(out, m.on), strings.LastIndex(out, m.off); on > off {
				return m.name
			}
		}
		return ""
	}
	for until := time.Now().Add(2 * time.Second); left() != "" && time.Now().Before(until); {
		time.Sleep(5 * time.Millisecond)
	}
	if name := left(); name != "" {
		x.t.Errorf("%s is left on:\n%q", name, x.raw())
	}
	if !strings.Contains(x.raw(), modes[0].on) {
		x.t.Error("it never drew a screen")
	}
}

func TestTerminalAnswers(t *testing.T) {
	for _, size := range [][2]uint16{{80, 24}, {20, 8}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			d := desktest.Dirs(t)
			n := desktest.Start(t, d, "n-1")
			x := desktop(t, d, size[0], size[1])
			x.sees("Nothing waits")
			// Typed ahead: none of it may count, whenever the ask comes.
			x.press("ay\rd\ra\rdd")
			w := n.Put("make all")
			x.sees("Run a command")
			x.armed()
			select {
			case dec := <-w.Decision:
				t.Fatalf("typed ahead, decided: %+v", dec)
			default:
			}
			for range 12 { // to the end of the text, where it is long
				x.press(" ")
				time.Sleep(20 * time.Millisecond)
			}
			x.press("a")
			x.sees("Allow this once?")
			time.Sleep(confirmDelay + 300*time.Millisecond)
			x.press("\r")
			if dec := w.Wait(t); dec.Verdict != ask.Allow || dec.By.Kind != ask.KindUser {
				t.Errorf("decision %+v", dec)
			}
			x.sees("make all: al") // allowed once; the narrow one cuts it
			w = n.Put("rm -rf build")
			x.armed()
			x.press("r")
			time.Sleep(100 * time.Millisecond)
			x.press("\x1b[200~not now,\nlater\x1b[201~")
			time.Sleep(200 * time.Millisecond)
			x.press("\r")
			if dec := w.Wait(t); dec.Verdict != ask.Deny || dec.Reason != "not now,\nlater" {
				t.Errorf("decision %+v", dec)
			}
			time.Sleep(100 * time.Millisecond)
			x.press("q")
			if st := x.ended(); st.ExitCode() != 0 {
				t.Errorf("it ended with %v", st)
			}
			x.restored()
		})
	}
}

// TestTerminalIsRestored: however the program is ended, the terminal is as it
// was, and what waits goes on waiting.
func TestTerminalIsRestored(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		end  func(*tty)
		code int
	}{
		{"ctrl+c", nil, func(x *tty) { x.press("\x03") }, 0},
		{"SIGINT", nil, func(x *tty) { x.cmd.Process.Signal(syscall.SIGINT) }, 0},
		{"SIGTERM", nil, func(x *tty) { x.cmd.Process.Signal(syscall.SIGTERM) }, 0},
		{"SIGHUP", nil, func(x *tty) { x.cmd.Process.Signal(syscall.SIGHUP) }, 0},
		{"SIGQUIT", nil, func(x *tty) { x.cmd.Process.Signal(syscall.SIGQUIT) }, 0},
		{"a panic", []string{"TEST_PANIC=1"}, func(x *tty) {}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := desktest.Dirs(t)
			n := desktest.Start(t, d, "n-1")
			w := n.Put("make all")
			x := desktop(t, d, 80, 24, c.env...)
			x.sees("make all")
			c.end(x)
			if st := x.ended(); st.ExitCode() != c.code {
				t.Errorf("it ended with %v", st)
			}
			x.restored()
			select {
			case dec := <-w.Decision:
				t.Errorf("decided: %+v", dec)
			default:
			}
		})
	}
}

// TestTerminalIsStoppedAndContinued: under a shell with job control the
// terminal is the shell's while the desk is stopped, and the screen is there
// again after it.
func TestTerminalIsStoppedAndContinued(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash, whose job control this needs")
	}
	for name, stop := range map[string]func(t *testing.T, x *tty){
		"ctrl+z": func(t *testing.T, x *tty) { x.press("\x1a") },
		"SIGTSTP": func(t *testing.T, x *tty) {
			group, err := foreground(x.master)
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(group, syscall.SIGTSTP); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := desktest.Dirs(t)
			n := desktest.Start(t, d, "n-1")
			w := n.Put("make all")
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { endDesk(t, d) })
			x := onTTY(t, 80, 24, nil, bash, "--norc", "--noprofile", "-mc", `"$0" terminal "$1"; echo stopped; read line; echo "read $line"; fg; echo over`, self, d.Root)
			x.sees("make all")
			x.armed()
			stop(t, x)
			x.sees("stopped")
			x.restored()
			x.press("a\r") // this is for the shell
			x.sees("read a")
			x.sees("make all")
			x.press("d") // too soon after it came back
			x.sees("not counted")
			x.armed()
			select {
			case dec := <-w.Decision:
				t.Fatalf("decided: %+v", dec)
			default:
			}
			x.press("d")
			if dec := w.Wait(t); dec.Verdict != ask.Deny {
				t.Errorf("decision %+v", dec)
			}
			time.Sleep(200 * time.Millisecond)
			x.press("q")
			x.sees("over")
			x.ended()
			x.restored()
		})
	}
}

// TestTerminalClosed: when the terminal itself goes, the program ends, the
// desk process does not, and nothing is answered.
func TestTerminalClosed(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	w := n.Put("make all")
	x := desktop(t, d, 80, 24)
	x.sees("make all")
	before, err := deskPID(d)
	if err != nil {
		t.Fatal(err)
	}
	x.slave.Close()
	x.master.Close()
	x.ended()
	desktest.Eventually(t, "no face at the node", func() bool { return n.Faces() == 0 })
	if after, err := deskPID(d); err != nil || after != before {
		t.Errorf("the desk is process %d, was %d, %v", after, before, err)
	}
	select {
	case dec := <-w.Decision:
		t.Errorf("decided: %+v", dec)
	default:
	}
}

// TestT16TerminalFindsTheNextDesk: the desk process is killed under the
// terminal, which starts another one and has everything again.
func TestT16TerminalFindsTheNextDesk(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	w := n.Put("make all")
	x := desktop(t, d, 80, 24)
	x.sees("make all")
	pid, err := deskPID(d)
	if err != nil {
		t.Fatal(err)
	}
	x.armed()
	x.press("a")
	x.sees("Allow this once?")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	desktest.Eventually(t, "another desk", func() bool {
		again, err := deskPID(d)
		return err == nil && again != pid && n.Faces() == 1
	})
	x.press("\r") // meant for what was on the screen before
	x.armed()
	x.armed()
	select {
	case dec := <-w.Decision:
		t.Fatalf("decided: %+v", dec)
	default:
	}
	x.press("d")
	if dec := w.Wait(t); dec.Verdict != ask.Deny {
		t.Errorf("decision %+v", dec)
	}
	// A desk that is ended on purpose takes its terminals along.
	c, err := api.DialControl(context.Background(), desk.Sock(d), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Call(context.Background(), api.OpStop, nil, nil); err != nil {
		t.Fatal(err)
	}
	if st := x.ended(); st.ExitCode() != 0 {
		t.Errorf("it ended with %v", st)
	}
	x.restored()
	if !strings.Contains(x.raw(), "permd stop") {
		t.Errorf("it does not say why:\n%q", x.raw())
	}
}

func TestTerminalResized(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	w := n.Put("make all")
	x := desktop(t, d, 80, 24)
	x.sees("make all")
	x.armed()
	if err := pty.Setsize(x.master, &pty.Winsize{Rows: 10, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	x.sees("a once")
	x.press("d")
	x.armed()
	select {
	case dec := <-w.Decision:
		t.Errorf("decided at once after the change: %+v", dec)
	default:
	}
}
