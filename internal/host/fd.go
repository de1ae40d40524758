package host

import "golang.org/x/sys/unix"

// openFD opens by a plain call, again when a signal came in between.
func openFD(path string, flags int, perm uint32) (int, error) {
	for {
		fd, err := unix.Open(path, flags, perm)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
