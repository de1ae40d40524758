package host

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// startsInOrder: start times are wall clock, which a step can turn back.
const startsInOrder = false

// zombie is SZOMB of <sys/proc.h>.
const zombie = 5

// Args gives a process's arguments, argv[0] first, as the process holds them.
// Another user's process is an error.
func Args(pid int) ([]string, error) {
	_, args, err := execInfo(pid)
	if err != nil {
		return nil, &ProcessError{"arguments", pid, err}
	}
	return args, nil
}

// Exe gives the path of the program that a process runs, as it was given to
// exec. Another user's process is an error.
func Exe(pid int) (string, error) {
	path, _, err := execInfo(pid)
	if err != nil {
		return "", &ProcessError{"program", pid, err}
	}
	return path, nil
}

// Comm gives a process's short name, at most 16 bytes on macOS.
func Comm(pid int) (string, error) {
	k, err := kinfo(pid)
	if err != nil {
		return "", &ProcessError{"name", pid, err}
	}
	return unix.ByteSliceToString(k.Proc.P_comm[:]), nil
}

var errArgsForm = errors.New("unknown form of kern.procargs2")

// execInfo reads argc, the path, padding, then argc arguments.
func execInfo(pid int) (path string, args []string, err error) {
	if _, err := kinfo(pid); err != nil {
		return "", nil, err
	}
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return "", nil, err
	}
	return parseArgs(b)
}

func parseArgs(b []byte) (path string, args []string, err error) {
	if len(b) < 4 {
		return "", nil, errArgsForm
	}
	argc := binary.NativeEndian.Uint32(b)
	path, rest, ok := strings.Cut(string(b[4:]), "\x00")
	if !ok {
		return "", nil, errArgsForm
	}
	rest = strings.TrimLeft(rest, "\x00")
	for range argc {
		arg, after, ok := strings.Cut(rest, "\x00")
		if !ok {
			return "", nil, errArgsForm
		}
		args = append(args, arg)
		rest = after
	}
	return path, args, nil
}

func kinfo(pid int) (*unix.KinfoProc, error) {
	if pid <= 0 {
		return nil, ErrNoProcess
	}
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	switch {
	case err == unix.EIO || err == unix.ESRCH:
		// An empty answer: x/sys makes EIO of it.
		return nil, ErrNoProcess
	case err != nil:
		return nil, err
	case int(k.Proc.P_pid) != pid:
		return nil, ErrNoProcess
	}
	return k, nil
}

func statProcess(pid int) (procStat, error) {
	k, err := kinfo(pid)
	if err != nil {
		return procStat{}, err
	}
	t := k.Proc.P_starttime
	return procStat{
		parent: int(k.Eproc.Ppid),
		start:  uint64(t.Sec)*1_000_000 + uint64(t.Usec),
		zombie: k.Proc.P_stat == zombie,
	}, nil
}

// pin is number and start time: macOS has no descriptor of a process, and the
// pair is not used again.
type pin struct {
	pid   int
	start uint64
}

func openPin(pid int) (pin, error) {
	st, err := statProcess(pid)
	if err != nil {
		return pin{}, err
	}
	if st.zombie {
		return pin{}, ErrNoProcess
	}
	return pin{pid, st.start}, nil
}

func (p pin) startTime(int) (uint64, error) { return p.start, nil }

func (p pin) ended() bool {
	st, err := statProcess(p.pid)
	return err != nil || st.zombie || st.start != p.start
}

func (p pin) close() error { return nil }

// wake is the identifier of the event that ends a wait early.
const wake = 1

// waiter is a kernel queue that hears the end of the process, and a wake-up.
type waiter struct {
	pin pin
	kq  int
}

func (p pin) waiter() (*waiter, error) {
	kq, err := unix.Kqueue()
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(kq)
	return &waiter{p, kq}, nil
}

func (w *waiter) change(ident uint64, filter int16, flags uint16, fflags uint32) error {
	change := []unix.Kevent_t{{Ident: ident, Filter: filter, Flags: flags, Fflags: fflags}}
	for {
		_, err := unix.Kevent(w.kq, change, nil, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

func (w *waiter) wait(ctx context.Context) (ended bool, err error) {
	if err := w.change(wake, unix.EVFILT_USER, unix.EV_ADD|unix.EV_CLEAR, 0); err != nil {
		return false, err
	}
	err = w.change(uint64(w.pin.pid), unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT, unix.NOTE_EXIT)
	if err != nil && err != unix.ESRCH {
		return false, err
	}
	// Registered on a number: it has to be the same process after that.
	if err == unix.ESRCH || w.pin.ended() {
		return true, nil
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_ = w.change(wake, unix.EVFILT_USER, 0, unix.NOTE_TRIGGER)
	})
	events := make([]unix.Kevent_t, 1)
	for {
		var n int
		n, err = unix.Kevent(w.kq, nil, events, nil)
		if err != unix.EINTR {
			ended = err == nil && n == 1 && events[0].Filter == unix.EVFILT_PROC
			break
		}
	}
	if !stop() {
		<-woken
	}
	return ended, err
}

func (w *waiter) close() { _ = unix.Close(w.kq) }
