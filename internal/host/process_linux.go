package host

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// startsInOrder: start times are boot-time ticks, so a parent never started
// after its child.
const startsInOrder = true

// maxArgs is the most that Args reads; the kernel lets argv and environment
// together have a quarter of the stack limit, 2 MiB as a rule.
const maxArgs = 8 << 20

// Args gives a process's arguments, argv[0] first, as they are in its memory
// now: a process can overwrite them (node's process.title does), so they are
// what it says about itself. The list is empty for a kernel thread, and in the
// moment in which a program is being started.
func Args(pid int) ([]string, error) {
	b, err := readProc(pid, "/cmdline", maxArgs)
	if err != nil {
		return nil, &ProcessError{"arguments", pid, err}
	}
	if len(b) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), nil
}

// Exe gives the path of the program that a process runs. When that file has
// been replaced or removed since, the path ends in " (deleted)". Another
// user's process, and one that hides its memory, are a permission error.
func Exe(pid int) (string, error) {
	path, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil {
		return "", &ProcessError{"program", pid, procError(err)}
	}
	return path, nil
}

// Comm gives a process's short name, at most 15 bytes on Linux, which the
// process can change.
func Comm(pid int) (string, error) {
	b, err := readProc(pid, "/comm", 256)
	if err != nil {
		return "", &ProcessError{"name", pid, err}
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}

var errProcForm = errors.New("unknown form of /proc entry")

func statProcess(pid int) (procStat, error) {
	b, err := readProc(pid, "/stat", 4096)
	if err != nil {
		return procStat{}, err
	}
	return parseStat(string(b))
}

// parseStat reads "pid (name) state ppid … starttime …", where the name may
// hold spaces, parentheses and line ends: the last ')' closes it.
func parseStat(s string) (procStat, error) {
	end := strings.LastIndexByte(s, ')')
	if end < 0 {
		return procStat{}, errProcForm
	}
	// Field 3 of the manual page, the state, is the first after the name.
	fields := strings.Fields(s[end+1:])
	if len(fields) < 20 {
		return procStat{}, errProcForm
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil || parent < 0 {
		return procStat{}, errProcForm
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return procStat{}, errProcForm
	}
	state := fields[0]
	return procStat{parent, start, state == "Z" || state == "X"}, nil
}

// readProc reads a /proc entry by plain calls: package os would start the
// runtime's poller, which a short-lived hook does not need.
func readProc(pid int, entry string, limit int) ([]byte, error) {
	if pid <= 0 {
		return nil, ErrNoProcess
	}
	fd, err := openFD("/proc/"+strconv.Itoa(pid)+entry, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, procError(err)
	}
	defer unix.Close(fd)
	b, err := readFD(fd, limit)
	if err != nil {
		return nil, procError(err)
	}
	return b, nil
}

func procError(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return ErrNoProcess
	}
	return err
}

// pin is a pidfd, kept non-blocking so that the runtime's poller takes it.
type pin struct{ fd int }

func openPin(pid int) (pin, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return pin{}, procError(err)
	}
	return adoptPin(fd)
}

func adoptPin(fd int) (pin, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return pin{}, err
	}
	return pin{fd}, nil
}

// startTime reads the time by number; the process not having ended afterwards
// proves that the number was still its own.
func (p pin) startTime(pid int) (uint64, error) {
	st, err := statProcess(pid)
	if err != nil {
		return 0, err
	}
	if p.ended() {
		return 0, ErrNoProcess
	}
	return st.start, nil
}

func (p pin) ended() bool { return readable(p.fd) }

func (p pin) close() error { return unix.Close(p.fd) }

// readable: a pidfd is, once its process has ended.
func readable(fd int) bool {
	for {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(set, 0)
		if err == unix.EINTR {
			continue
		}
		return err == nil && n == 1 && set[0].Revents&(unix.POLLIN|unix.POLLHUP) != 0
	}
}

// waiter has a descriptor of its own: deadlines and the read lock of an
// os.File are per file, and each caller of Wait has its own context.
type waiter struct{ file *os.File }

func (p pin) waiter() (*waiter, error) {
	fd, err := unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &waiter{os.NewFile(uintptr(fd), "pidfd")}, nil
}

func (w *waiter) wait(ctx context.Context) (ended bool, err error) {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return false, err
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_ = w.file.SetReadDeadline(time.Unix(1, 0))
	})
	err = raw.Read(func(fd uintptr) bool { return readable(int(fd)) })
	if !stop() {
		<-woken
	}
	return err == nil, err
}

func (w *waiter) close() { _ = w.file.Close() }
