package desk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"permd/api"
	"permd/ask"
	"permd/internal/host"
	"permd/session"
)

const (
	// startLimit is how long a desk may take to be there, waiting for the
	// start of others included.
	startLimit = 10 * time.Second
	// readyLimit is the longest reason a starting desk may give, in bytes.
	readyLimit = 4 << 10
	// logLimit is the size in bytes at which the desk's log is emptied.
	logLimit = 64 << 10
)

// Command is the hidden command that becomes the desk process.
const Command = "desk-process"

// environment is all that a desk process gets.
var environment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

// Connect makes sure that a desk process runs and attaches a face to it.
func Connect(ctx context.Context, d session.Dirs, build string, at api.Attach) (*api.Answerer, error) {
	if err := Ensure(ctx, d, build); err != nil {
		return nil, err
	}
	return api.DialAnswerer(ctx, Sock(d), build, at)
}

// Ensure makes sure that this user's desk process takes connections: it starts
// this program as "desk-process", detached, unless one runs. Any number of
// callers at once get one desk.
func Ensure(ctx context.Context, d session.Dirs, build string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if up, err := running(ctx, d, build); up || err != nil {
		return err
	}
	if err := host.MakeDir(d.Desk()); err != nil {
		return err
	}
	lock, err := startLock(ctx, d)
	if err != nil {
		return err
	}
	defer lock.Close()
	if up, err := running(ctx, d, build); up || err != nil {
		return err
	}
	if err := spawn(ctx, d, lock); err != nil {
		return fmt.Errorf("the desk process could not be started: %w; see %q", err, logFile(d))
	}
	up, err := running(ctx, d, build)
	if err == nil && !up {
		err = fmt.Errorf("the desk process said it was ready and is not; see %q", logFile(d))
	}
	return err
}

// running reports whether a desk answers. The error is for one that does not
// let us in, or does not answer.
func running(ctx context.Context, d session.Dirs, build string) (bool, error) {
	w, err := api.Probe(ctx, Sock(d), build)
	switch {
	case err == nil && w.Node == Name:
		return true, nil
	case err == nil:
		return false, fmt.Errorf("%q is served by %s and not by a desk", Sock(d), ask.Quote(w.Node))
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return false, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, fmt.Errorf("the desk process does not answer; end it (fuser %q names it): %w", LockFile(d), err)
	}
	return false, err
}

func logFile(d session.Dirs) string { return filepath.Join(d.Desk(), "log") }

// startLock waits for its turn to start a desk.
func startLock(ctx context.Context, d session.Dirs) (*host.Lock, error) {
	path := filepath.Join(d.Desk(), "start.lock")
	for {
		lock, err := host.TryLock(path)
		if !errors.Is(err, host.ErrLocked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another start of the desk has held %q for %s; find that process (fuser, lsof) and end it", path, startLimit)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// spawn runs the desk process with the start lock as descriptor 3 and waits
// for its word on descriptor 4.
func spawn(ctx context.Context, d session.Dirs, lock *host.Lock) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := openLog(logFile(d))
	if err != nil {
		return err
	}
	defer log.Close()
	ready, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd := exec.Command(program, Command)
	if d.Root != "" {
		cmd.Args = append(cmd.Args, "--root", d.Root)
	}
	cmd.Dir, cmd.Env, cmd.Stderr = "/", environment, log
	cmd.ExtraFiles = []*os.File{lock.File(), theirs}
	cmd.SysProcAttr = host.DetachAttr()
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return err
	}
	defer cmd.Process.Release() // it outlives us
	return awaitReady(ctx, ready)
}

// awaitReady waits for "ok\n". Anything else is the reason why not.
func awaitReady(ctx context.Context, ready *os.File) error {
	if until, ok := ctx.Deadline(); ok {
		if err := ready.SetReadDeadline(until); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, func() { ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	b := make([]byte, readyLimit)
	n := 0
	for n < len(b) {
		m, err := ready.Read(b[n:])
		n += m
		if strings.Contains(string(b[:n]), "\n") {
			break
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("it was not ready after %s", startLimit)
		}
		if err != nil {
			break
		}
	}
	switch said := strings.TrimSpace(string(b[:n])); said {
	case "ok":
		return nil
	case "":
		return errors.New("it ended without a word")
	default:
		return errors.New(ask.ExcerptLine(said, 1000))
	}
}

// openLog opens what the desk's standard error goes to. Anything but a private
// file of ours is refused rather than written to.
func openLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w; remove it", err)
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err != nil || uint32(st.Mode)&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || uint32(st.Mode)&0o077 != 0 {
		f.Close()
		return nil, fmt.Errorf("%q is not a private file of this user; remove it", path)
	}
	if st.Size > logLimit {
		_ = f.Truncate(0)
	}
	return f, nil
}
