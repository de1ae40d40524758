package review

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData leaves out the times of the file, which nothing needs.
func syncData(f *os.File) error {
	return onFD(f, "fdatasync", unix.Fdatasync)
}

func reserve(f *os.File, from, size int64) error {
	err := onFD(f, "fallocate", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, from, size)
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return errors.Join(errors.ErrUnsupported, err)
	}
	return err
}

func onFD(f *os.File, name string, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = raw.Control(func(fd uintptr) {
		for {
			if callErr = call(int(fd)); callErr != unix.EINTR {
				return
			}
		}
	})
	if err == nil && callErr != nil {
		err = &os.PathError{Op: name, Path: f.Name(), Err: callErr}
	}
	return err
}
