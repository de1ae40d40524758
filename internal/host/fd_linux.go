package host

import (
	"errors"

	"golang.org/x/sys/unix"
)

var errTooLarge = errors.New("larger than allowed")

// readFD reads to the end, and no more than limit bytes.
func readFD(fd, limit int) ([]byte, error) {
	buf := make([]byte, min(limit+1, 4096))
	n := 0
	for {
		got, err := unix.Read(fd, buf[n:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		case got == 0:
			return buf[:n], nil
		}
		n += got
		if n > limit {
			return nil, errTooLarge
		}
		if n == len(buf) {
			grown := make([]byte, min(limit+1, 2*len(buf)))
			copy(grown, buf)
			buf = grown
		}
	}
}
