package hook

import (
	"errors"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"permd/api/hookwire"
)

const (
	// inputLimit is how long the client may pause in the middle of its input.
	inputLimit = 10 * time.Second
	// drainLimit is how much input over the limit is thrown away, so that a
	// client that is still writing reads our answer and not a broken pipe.
	drainLimit = 64 << 20
)

// readInput reads standard input to its end.
func readInput(fd int) ([]byte, error) {
	buf := make([]byte, 0, 8<<10)
	for {
		if len(buf) == cap(buf) {
			if len(buf) > hookwire.MaxStdin {
				drain(fd, buf)
				return nil, errors.New("the client's input is larger than the " + strconv.Itoa(hookwire.MaxStdin>>20) +
					" MiB that permd looks at; let the agent split the action")
			}
			buf = append(make([]byte, 0, min(2*cap(buf), hookwire.MaxStdin+1)), buf...)
		}
		n, err := readSome(fd, buf[len(buf):cap(buf)])
		if err != nil {
			return nil, errors.New("the client's input could not be read: " + err.Error())
		}
		if n == 0 {
			return buf, nil
		}
		buf = buf[:len(buf)+n]
	}
}

var errPaused = errors.New("it neither went on nor ended for " + inputLimit.String())

// readSome reads what there is; 0 is the end.
func readSome(fd int, b []byte) (int, error) {
	for {
		ready, err := poll(fd, unix.POLLIN, inputLimit)
		if err != nil {
			return 0, err
		}
		if !ready {
			return 0, errPaused
		}
		n, err := unix.Read(fd, b)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR, unix.EAGAIN:
		default:
			return 0, err
		}
	}
}

func drain(fd int, buf []byte) {
	for total := 0; total < drainLimit; {
		n, err := readSome(fd, buf[:cap(buf)])
		if n == 0 || err != nil {
			return
		}
		total += n
	}
}

// writeAll writes b. EAGAIN is returned from a socket whose time is up; on
// anything else that is set to not waiting, it is waited for.
func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		switch err {
		case nil:
			b = b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			if flags, ferr := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); ferr != nil || flags&unix.O_NONBLOCK == 0 {
				return err
			}
			if _, err := poll(fd, unix.POLLOUT, forever); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}

// forever is no limit.
const forever = time.Duration(-1)

// poll waits until fd is ready, in error or hung up, which the call that
// follows tells apart. false is that the limit is over; one of 0 looks once.
func poll(fd int, events int16, limit time.Duration) (bool, error) {
	until := time.Now().Add(limit)
	for {
		ms := -1
		if limit != forever {
			// Rounded up, or the last part of a millisecond would be a busy loop.
			ms = int((max(0, time.Until(until)) + time.Millisecond - 1) / time.Millisecond)
		}
		set := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(set, ms)
		if err == unix.EINTR {
			continue
		}
		return n > 0, err
	}
}
