package host

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// child starts a process that sleeps until it is killed at the end of the
// test.
func child(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	if len(argv) == 0 {
		argv = []string{"sleep", "600"}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	start(t, cmd)
	return cmd
}

func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	// A group of its own, so that what a shell started goes with it.
	cmd.SysProcAttr = DetachAttr()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
}

func open(t *testing.T, pid int) *Process {
	t.Helper()
	p, err := OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// soon bounds what has to happen within milliseconds; it is generous because
// the machine may be busy.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestWaitSeesSigkill(t *testing.T) {
	cmd := child(t)
	p := open(t, cmd.Process.Pid)
	if !p.Alive() {
		t.Fatal("a running process is not alive")
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Wait(soon(t)) }()
	select {
	case err := <-ended:
		t.Fatalf("Wait returned %v while the process ran", err)
	case <-time.After(20 * time.Millisecond):
	}
	// Nobody reaps it: a zombie has ended.
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	t.Logf("seen after %v", time.Since(killed))
	if p.Alive() {
		t.Error("alive after its end")
	}
	if err := p.Wait(context.Background()); err != nil {
		t.Errorf("a second wait: %v", err)
	}
	if _, err := OpenProcess(p.PID()); !errors.Is(err, ErrNoProcess) {
		t.Errorf("opening a zombie: %v, want ErrNoProcess", err)
	}
	_ = cmd.Wait()
	if p.Alive() {
		t.Error("alive after it was reaped")
	}
	if err := p.Wait(context.Background()); err != nil {
		t.Errorf("wait after reaping: %v", err)
	}
	if _, err := StartTime(p.PID()); !errors.Is(err, ErrNoProcess) {
		t.Errorf("start time after reaping: %v, want ErrNoProcess", err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	p := open(t, child(t).Process.Pid)
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Wait(done); !errors.Is(err, context.Canceled) {
		t.Errorf("done before: %v", err)
	}
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := p.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	if !p.Alive() {
		t.Error("a wait that was called off ended the process")
	}
}

// Each waiter has its own context; one that gives up takes none with it.
func TestManyWaiters(t *testing.T) {
	cmd := child(t)
	p := open(t, cmd.Process.Pid)
	short, cancel := context.WithCancel(context.Background())
	long := soon(t)
	var givingUp, staying sync.WaitGroup
	for i := range 20 {
		givingUp.Go(func() {
			if err := p.Wait(short); !errors.Is(err, context.Canceled) {
				t.Errorf("waiter %d gave up with %v", i, err)
			}
		})
		staying.Go(func() {
			if err := p.Wait(long); err != nil {
				t.Errorf("waiter %d stayed and got %v", i, err)
			}
		})
	}
	cancel()
	givingUp.Wait()
	if !p.Alive() {
		t.Error("the process ended with a waiter's context")
	}
	_ = cmd.Process.Kill()
	staying.Wait()
}

func TestStoppedProcessIsAlive(t *testing.T) {
	cmd := child(t)
	p := open(t, cmd.Process.Pid)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || !p.Alive() {
		t.Errorf("stopped: wait %v, alive %v", err, p.Alive())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(soon(t)); err != nil {
		t.Errorf("killed while stopped: %v", err)
	}
}

func TestClosedProcess(t *testing.T) {
	p := open(t, os.Getpid())
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if p.Alive() {
		t.Error("a closed process answers alive")
	}
	if err := p.Wait(context.Background()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("wait: %v", err)
	}
	if yes, err := p.Descends(os.Getppid(), 0); yes || err == nil {
		t.Errorf("descends: %v, %v", yes, err)
	}
}

func TestNoSuchProcess(t *testing.T) {
	cmd := child(t, "true")
	_ = cmd.Wait()
	for _, pid := range []int{-1, 0, cmd.Process.Pid, 1 << 30} {
		_, open := OpenProcess(pid)
		_, start := StartTime(pid)
		_, parent := ParentPID(pid)
		_, args := Args(pid)
		_, exe := Exe(pid)
		_, comm := Comm(pid)
		_, ancestors := Ancestors(pid)
		yes, descends := Descends(pid, 1, 0)
		for what, err := range map[string]error{"open": open, "start": start, "parent": parent,
			"args": args, "exe": exe, "comm": comm, "ancestors": ancestors, "descends": descends} {
			var typed *ProcessError
			if !errors.Is(err, ErrNoProcess) || !errors.As(err, &typed) || typed.PID != pid {
				t.Errorf("%s of %d: %v, want ErrNoProcess", what, pid, err)
			}
		}
		if yes {
			t.Errorf("%d descends from the first process", pid)
		}
	}
}

func TestFacts(t *testing.T) {
	dir := t.TempDir()
	want := []string{"", "with space", "tab\tand\nline", ""}
	// Both arguments and the end of the list are empty strings.
	sh := "echo up; while :; do sleep 600; done"
	cmd := exec.Command("/bin/sh", append([]string{"-c", sh}, want...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	// Until it says something its arguments may not be in place.
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	args, err := Args(pid)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(args, "|"), strings.Join(append([]string{"/bin/sh", "-c", sh}, want...), "|"); got != want {
		t.Errorf("arguments %q, want %q", got, want)
	}
	exe, err := Exe(os.Getpid())
	if self, _ := os.Executable(); err != nil || exe != self {
		t.Errorf("program %q, %v, want %q", exe, err, self)
	}
	if parent, err := ParentPID(pid); err != nil || parent != os.Getpid() {
		t.Errorf("parent %d, %v", parent, err)
	}
	// A name that looks like the end of the name field.
	odd := filepath.Join(dir, "a) S 1 (b")
	if runtime.GOOS == "linux" {
		sleep, err := exec.LookPath("sleep")
		if err != nil {
			t.Skip(err)
		}
		data, err := os.ReadFile(sleep)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(odd, data, 0o755); err != nil {
			t.Fatal(err)
		}
		pid := child(t, odd, "600").Process.Pid
		if comm, err := Comm(pid); err != nil || comm != filepath.Base(odd) {
			t.Skipf("name %q, %v: a multi-call sleep", comm, err)
		}
		if parent, err := ParentPID(pid); err != nil || parent != os.Getpid() {
			t.Errorf("parent of %q: %d, %v", odd, parent, err)
		}
	}
}

func TestStartTimeIsStable(t *testing.T) {
	cmd := child(t)
	first, err := StartTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(15 * time.Millisecond)
	p := open(t, cmd.Process.Pid)
	second := open(t, cmd.Process.Pid)
	if p.StartTime() != first || second.ID() != p.ID() {
		t.Errorf("start times %d, %d, %d", first, p.StartTime(), second.StartTime())
	}
	later := open(t, child(t).Process.Pid)
	if later.StartTime() <= first {
		t.Errorf("a later process started at %d, an earlier at %d", later.StartTime(), first)
	}
}
