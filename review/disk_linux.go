package review

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData leaves out the times of the file, which nothing needs.
func syncData(f *os.File, fd int) error {
	if err := again(func() error { return unix.Fdatasync(fd) }); err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

func reserve(f *os.File, fd int, from, size int64) error {
	err := again(func() error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, from, size) })
	if err == nil {
		return nil
	}
	err = &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return errors.Join(errors.ErrUnsupported, err)
	}
	return err
}
