package hook

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"permd/api/hookwire"
)

func TestCarriesTheCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := w.command("{\"a\":1}\n", "--gate", "claude")
	cmd.Dir = w.root
	cmd.Env = append(cmd.Env, "TMUX_PANE=%1", "PWD=/somewhere/else", "ANTHROPIC_API_KEY=secret")
	got := run(t, cmd)
	dir, err := filepath.EvalSymlinks(w.root)
	if err != nil {
		t.Fatal(err)
	}
	want := `client=claude gate=true args=["--root" "` + w.root + `" "--gate" "claude"] env=[{"CLAUDE_PID" "` +
		strconv.Itoa(os.Getpid()) + `"} {"TMUX_PANE" "%1"}] cwd=` + dir + ` stdin="{\"a\":1}\n"` + "\n"
	if got.code != 0 || got.stdout != want || got.stderr != "" {
		t.Errorf("got  %v\nwant %q", got, want)
	}
}

func TestCarriesTheAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, code := range []int{0, 1, 2, 255} {
		for _, args := range [][]string{{"claude"}, {"--gate", "claude"}} {
			w.set("answer", "exit "+strconv.Itoa(code))
			got := w.call("{}", args...)
			if got.code != code || got.stdout != "out\x00\xff\n" || got.stderr != "err\xfe" {
				t.Errorf("%q: %v, want code %d", args, got, code)
			}
		}
	}
	w.set("answer", "large")
	got := w.call("{}", "--gate", "claude")
	if got.code != 0 || len(got.stdout) != hookwire.MaxStdout || len(got.stderr) != hookwire.MaxStderr {
		t.Errorf("the largest answer: code %d, %d and %d bytes", got.code, len(got.stdout), len(got.stderr))
	}
}

func TestWaitsWhileTheNodeWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Longer than the silence that ends a call.
	w.set("answer", "wait "+strconv.Itoa(int(hookwire.Silence/(100*time.Millisecond))+10))
	if got := w.call("{}", "--gate", "claude"); got.code != 0 || got.took < hookwire.Silence {
		t.Errorf("%v, want an answer after more than %v", got, hookwire.Silence)
	}
}

func TestInputLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("answer", "echo")
	largest := strings.Repeat("x", hookwire.MaxStdin)
	if got := w.call(largest, "--gate", "claude"); got.code != 0 || !strings.Contains(got.stdout, strconv.Itoa(len(largest))+" bytes") {
		t.Errorf("the largest input: %v", got)
	}
	w.refusal(largest+"x", "larger than the 6 MiB")
	// Much more: the client has to be rid of it, or it sees a broken pipe.
	cmd := w.command("", "--gate", "claude")
	cmd.Stdin = nil
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := in.Write(bytes.Repeat([]byte("x"), 4*hookwire.MaxStdin))
		in.Close()
		wrote <- err
	}()
	if got := run(t, cmd); got.code != 2 {
		t.Errorf("%v", got)
	}
	if err := <-wrote; err != nil {
		t.Errorf("the client could not write all: %v", err)
	}
}

func TestVariableTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := w.command("{}", "--gate", "claude")
	cmd.Env = append(cmd.Env, "CLAUDE_PROJECT_DIR=/"+strings.Repeat("x", hookwire.MaxText))
	if got := run(t, cmd); got.code != 2 || !strings.Contains(got.stderr, "CLAUDE_PROJECT_DIR") {
		t.Errorf("%v, want a refusal that names the variable", got)
	}
}

func TestInputThatPauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer in.Close()
	if _, err := in.WriteString(`{"half":`); err != nil {
		t.Fatal(err)
	}
	cmd := w.command("", "--gate", "claude")
	cmd.Stdin = r
	if got := run(t, cmd); got.code != 2 || !strings.Contains(got.stderr, "neither went on nor ended") {
		t.Errorf("%v, want a refusal", got)
	}
}

// Clients written in JavaScript hand over descriptors that are set to not
// waiting.
func TestDescriptorsThatDoNotWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("answer", "large")
	pair := func() (ours, theirs *os.File) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		// One flag for both would be the other end's as well: it is per end.
		if err := syscall.SetNonblock(fds[1], true); err != nil {
			t.Fatal(err)
		}
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
		return os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	}
	in, stdin := pair()
	out, stdout := pair()
	cmd := w.command("", "--gate", "claude")
	cmd.Stdin, cmd.Stdout = stdin, stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	stdout.Close()
	time.Sleep(20 * time.Millisecond)
	if _, err := in.WriteString("{}"); err != nil {
		t.Fatal(err)
	}
	in.Close()
	time.Sleep(50 * time.Millisecond)
	got, err := io.ReadAll(out)
	out.Close()
	if err != nil || len(got) != hookwire.MaxStdout {
		t.Errorf("%d bytes arrived, %v", len(got), err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("answer", "exit 0")
	for _, c := range []struct {
		args []string
		code int
	}{{[]string{"--gate", "claude"}, 2}, {[]string{"claude"}, 0}} {
		r, stdout, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := w.command("{}", c.args...)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = stdout, &stderr
		err = cmd.Run()
		stdout.Close()
		if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(stderr.String(), "could not be written") {
			t.Errorf("%q: %v, stderr %q; want code %d and not a signal", c.args, err, stderr.String(), c.code)
		}
	}
}

func TestDeathIsTheWithdrawal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("answer", "withdrawn")
	cmd := w.command("{}", "--gate", "claude")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return len(w.lines("events")) == 1 })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, want death by the signal", cmd.ProcessState)
	}
	until(t, func() bool { return len(w.lines("events")) == 2 })
	if got := w.lines("events")[1]; got != "withdrawn" {
		t.Errorf("the node saw %q", got)
	}
}

func TestPanicIsARefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := w.command("{}", "--gate", "claude")
	// A variable that lets the runtime itself give up at start.
	cmd.Env = append(cmd.Env, "GODEBUG=fips140=only", "GOMEMLIMIT=nonsense")
	if got := run(t, cmd); got.code != 2 || got.stdout != "" {
		t.Errorf("%v, want code 2", got)
	}
}
