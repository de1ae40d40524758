package host

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	// hold takes the lock, says so and keeps it until its input ends.
	helpers["hold"] = func(args []string) int {
		l, err := TryLock(args[0])
		if err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			return 1
		}
		defer l.Close()
		os.Stdout.WriteString("held\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	// bequeath takes the lock, starts a child that inherits it, prints the
	// child's number and dies without closing anything.
	helpers["bequeath"] = func(args []string) int {
		l, err := AcquireLock(args[0])
		if err != nil {
			return 1
		}
		cmd := exec.Command("sleep", "600")
		cmd.ExtraFiles = []*os.File{l.File()}
		if cmd.Start() != nil {
			return 1
		}
		os.Stdout.WriteString(strconv.Itoa(cmd.Process.Pid))
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		return 1
	}
	// adopt takes over descriptor 3 and reports; its own child must not get it.
	helpers["adopt"] = func(args []string) int {
		l := AdoptLock(os.NewFile(3, "lock"))
		if err := l.Confirm(args[0]); err != nil {
			os.Stdout.WriteString(err.Error())
			return 1
		}
		flags, err := unix.FcntlInt(3, unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			os.Stdout.WriteString("goes on to children")
			return 1
		}
		os.Stdout.WriteString("adopted")
		return 0
	}
}

// holder is another process that holds the lock.
func holder(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := helper(t, "hold", path)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("holder says %q, %v", line, err)
	}
	return cmd
}

func wantHeld(t *testing.T, path string, want bool) {
	t.Helper()
	if got, err := Held(path); err != nil || got != want {
		t.Errorf("held %v, %v; want %v", got, err, want)
	}
}

func TestLockAgainstAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if held, err := Held(path); held || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v, %v", held, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a probe made the file")
	}
	cmd := holder(t, path)
	p := open(t, cmd.Process.Pid)
	wantHeld(t, path, true)
	if l, err := TryLock(path); l != nil || !errors.Is(err, ErrLocked) {
		t.Errorf("taken twice: %v", err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	// A stopped holder holds.
	_ = cmd.Process.Signal(syscall.SIGSTOP)
	wantHeld(t, path, true)
	_ = cmd.Process.Kill()
	if err := p.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	// Files are closed before the end of the process is told.
	wantHeld(t, path, false)
	l, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	wantHeld(t, path, true)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	wantHeld(t, path, false)
}

func TestAcquireWaitsForTheHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := holder(t, path)
	got := make(chan error, 1)
	go func() {
		l, err := AcquireLock(path)
		if err == nil {
			err = l.Close()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	_ = cmd.Process.Kill()
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-soon(t).Done():
		t.Error("still waits after the holder's end")
	}
}

func TestInheritedLockOutlivesTheParent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := helper(t, "bequeath", path)
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Run(); err == nil {
		t.Fatal("the parent did not die")
	}
	pid, err := strconv.Atoi(out.String())
	if err != nil {
		t.Fatal(err)
	}
	heir := open(t, pid)
	wantHeld(t, path, true)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	if err := heir.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	wantHeld(t, path, false)
}

func TestAdoptLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	adopt := func(f *os.File) string {
		cmd := helper(t, "adopt", path)
		cmd.ExtraFiles = []*os.File{f}
		out, _ := cmd.Output()
		return string(out)
	}
	l, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := adopt(l.File()); got != "adopted" {
		t.Error(got)
	}
	// The child has ended and closed its copy.
	wantHeld(t, path, true)
	// Another descriptor of the same file does not hold the lock.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := adopt(f); !strings.Contains(got, "locked by another") {
		t.Error(got)
	}
	other, err := os.OpenFile(filepath.Join(t.TempDir(), "other"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got := adopt(other); !strings.Contains(got, "removed or replaced") {
		t.Error(got)
	}
	if err := l.Confirm(path); err != nil {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wantFileError(t, l.Confirm(path), "removed or replaced")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestReleaseEndsASharedLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	share := func() int {
		fd, err := unix.FcntlInt(l.File().Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	copied := share()
	defer unix.Close(copied)
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	wantHeld(t, path, false)
	if l, err = TryLock(path); err != nil {
		t.Fatal(err)
	}
	copied2 := share()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	wantHeld(t, path, true)
	unix.Close(copied2)
	wantHeld(t, path, false)
}

func TestProbesDoNotDisturb(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var probes sync.WaitGroup
	for range 3 {
		probes.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := Held(path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		l, err := TryLock(path)
		if err != nil {
			t.Error(err)
			continue
		}
		wantHeld(t, path, true)
		_ = l.Close()
	}
	close(done)
	probes.Wait()
	wantHeld(t, path, false)
}

func TestOneHolderAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var inside, taken atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		take := TryLock
		if i%2 == 0 {
			take = AcquireLock
		}
		wg.Go(func() {
			for range 50 {
				l, err := take(path)
				if errors.Is(err, ErrLocked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d holders", n)
				}
				taken.Add(1)
				inside.Add(-1)
				_ = l.Close()
			}
		})
	}
	wg.Wait()
	if taken.Load() < 200 {
		t.Errorf("taken %d times; those that wait alone make 200", taken.Load())
	}
}

// The file is removed or replaced between opening and locking: the lock that
// comes back is on the file that others find.
func TestLockedFileIsTheOneAtThePath(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "lock")
		turns := 0
		l, err := lock(path, func(fd int) error {
			turns++
			if turns == 1 {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				if replaced {
					touch(t, 0o600, path)
				}
			}
			return tryExclusive(fd)
		})
		if err != nil || turns != 2 {
			t.Fatalf("replaced %v: %v after %d turns", replaced, err, turns)
		}
		if err := l.Confirm(path); err != nil {
			t.Error(err)
		}
		wantHeld(t, path, true)
		_ = l.Close()
	}
	path := filepath.Join(t.TempDir(), "lock")
	_, err := lock(path, func(int) error { return os.Remove(path) })
	wantFileError(t, err, "again and again")
}

func TestLockRefusesBadFiles(t *testing.T) {
	base := t.TempDir()
	good := touch(t, 0o600, base, "good")
	two := touch(t, 0o600, base, "two")
	if err := os.Link(two, two+"'"); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(base, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"link":              symlink(t, good, base, "link"),
		"dangling link":     symlink(t, filepath.Join(base, "nowhere"), base, "dangling"),
		"fifo":              fifo,
		"directory":         mkdir(t, 0o700, base, "dir"),
		"others may lock":   touch(t, 0o604, base, "wide"),
		"two names":         two,
		"another user's":    foreign(t, touch(t, 0o600, base, "foreign")),
		"in a missing dir":  filepath.Join(base, "missing", "lock"),
		"a file on the way": filepath.Join(good, "lock"),
	} {
		t.Run(name, func(t *testing.T) {
			held, heldErr := Held(path)
			_, tryErr := TryLock(path)
			_, acquireErr := AcquireLock(path)
			if held {
				t.Error("held")
			}
			for _, err := range []error{heldErr, tryErr, acquireErr} {
				var typed *FileError
				if !errors.As(err, &typed) || errors.Is(err, ErrLocked) {
					t.Errorf("%v, want a *FileError", err)
				}
			}
		})
	}
	if _, err := os.Lstat(filepath.Join(base, "nowhere")); err == nil {
		t.Error("a file was made through a link")
	}
}
