package hook

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"permd/internal/host"
	"permd/session"
)

const (
	// startLimit is how long a node may take to be there, waiting for the
	// start of others included.
	startLimit = 10 * time.Second
	// readyLimit is the longest reason a starting node may give, in bytes.
	readyLimit = 4 << 10
	// logLimit is the size at which node-start.log is emptied.
	logLimit = 64 << 10
	// nodePath is all the environment a node gets: this process has what the
	// agent was started with.
	nodePath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Names in the runtime directory.
const (
	startLock = "start.lock"
	startLog  = "node-start.log"
)

// start starts the agent's node, unless somebody else has meanwhile, and
// connects to it.
func start(dirs session.Dirs, agent Agent) (*conn, error) {
	until := time.Now().Add(startLimit)
	if err := host.MakeDir(dirs.Run); err != nil {
		return nil, err
	}
	lock, err := lockUntil(filepath.Join(dirs.Run, startLock), until)
	if err != nil {
		return nil, err
	}
	node := dirs.Node(session.NodeID(agent.PID, agent.Start))
	c, err := dial(node)
	if err == nil || !errors.Is(err, errNoNode) {
		_ = lock.Close()
		return c, err
	}
	// From here on the lock is the node's: this copy goes as soon as it is
	// handed over.
	ready, err := spawn(dirs, agent, lock)
	_ = lock.Close()
	if err != nil {
		return nil, err
	}
	err = awaitReady(ready, until)
	_ = unix.Close(ready)
	if err != nil {
		return nil, errors.New("the node could not be started: " + err.Error() + "; see " + quote(filepath.Join(dirs.Run, startLog)))
	}
	c, err = dial(node)
	if errors.Is(err, errNoNode) {
		err = errors.New("the node said it was ready and is not; see " + quote(filepath.Join(dirs.Run, startLog)))
	}
	return c, err
}

// lockUntil waits for the lock. The wait itself cannot be called off, so a
// goroutine that is out of time is left to the end of the process, which is
// near: every caller ends with the error.
func lockUntil(path string, until time.Time) (*host.Lock, error) {
	type taken struct {
		lock *host.Lock
		err  error
	}
	done := make(chan taken, 1)
	go func() {
		lock, err := host.AcquireLock(path)
		done <- taken{lock, err}
	}()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case t := <-done:
		return t.lock, t.err
	case <-timer.C:
		go func() {
			if t := <-done; t.err == nil {
				_ = t.lock.Close()
			}
		}()
		return nil, errors.New("another start of a node has held " + quote(path) + " for " + startLimit.String() +
			"; find that process (fuser, lsof) and end it")
	}
}

// spawn runs the node and returns the reading end of its ready pipe.
func spawn(dirs session.Dirs, agent Agent, lock *host.Lock) (ready int, err error) {
	if err := agent.running(); err != nil {
		return -1, err
	}
	program, err := besideUs("permd")
	if err != nil {
		return -1, err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, errors.New(os.DevNull + ": " + err.Error())
	}
	defer unix.Close(null)
	log, err := openLog(filepath.Join(dirs.Run, startLog))
	if err != nil {
		return -1, err
	}
	defer unix.Close(log)
	var pipe [2]int
	if err := cloexecPipe(&pipe); err != nil {
		return -1, errors.New("no pipe: " + err.Error())
	}
	defer unix.Close(pipe[1])

	argv := []string{program, "node", "--client", agent.Client,
		"--pid", strconv.Itoa(agent.PID), "--start", strconv.FormatUint(agent.Start, 10)}
	if dirs.Root != "" {
		argv = append(argv, "--root", dirs.Root)
	}
	_, err = syscall.ForkExec(program, argv, &syscall.ProcAttr{
		Dir: "/",
		Env: []string{nodePath},
		Files: []uintptr{uintptr(null), uintptr(null), uintptr(log),
			lock.File().Fd(), uintptr(pipe[1])},
		Sys: host.DetachAttr(),
	})
	if err != nil {
		_ = unix.Close(pipe[0])
		return -1, errors.New(quote(program) + " could not be started: " + err.Error())
	}
	return pipe[0], nil
}

// cloexecPipe makes a pipe that other children do not get. macOS has no pipe2;
// the lock keeps any other start of this process from coming between.
func cloexecPipe(p *[2]int) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(p[:]); err != nil {
		return err
	}
	unix.CloseOnExec(p[0])
	unix.CloseOnExec(p[1])
	return nil
}

// besideUs is the program of that name in the directory of this one: PATH is
// the agent's to set.
func besideUs(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", errors.New("this program's own path: " + err.Error())
	}
	program := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(program); err != nil {
		return "", errors.New("no node is running and " + quote(program) + " is not there to start one; put permd and permd-hook into the same directory (make install)")
	}
	return program, nil
}

// openLog opens what a node's standard error goes to. Anything but a private
// file of ours is refused rather than written to.
func openLog(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, errors.New(quote(path) + ": " + err.Error() + "; remove it")
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || uint32(st.Mode)&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || uint32(st.Mode)&0o077 != 0 {
		_ = unix.Close(fd)
		return -1, errors.New(quote(path) + " is not a private file of this user; remove it")
	}
	if st.Size > logLimit {
		_ = unix.Ftruncate(fd, 0)
	}
	return fd, nil
}

// awaitReady waits for "ok\n". Anything else is the reason why not.
func awaitReady(fd int, until time.Time) error {
	var text []byte
	for {
		ready, err := poll(fd, unix.POLLIN, max(0, time.Until(until)))
		if err != nil {
			return err
		}
		if !ready {
			return errors.New("it was not ready after " + startLimit.String())
		}
		var b [512]byte
		n, err := unix.Read(fd, b[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		text = append(text, b[:n]...)
		switch {
		case string(text) == "ok\n":
			return nil
		case n > 0 && len(text) < readyLimit:
			continue
		case len(text) == 0:
			return errors.New("it ended without a word")
		}
		return errors.New(strings.TrimSpace(string(text[:min(len(text), readyLimit)])))
	}
}
