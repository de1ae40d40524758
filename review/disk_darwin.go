package review

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData is F_FULLFSYNC, which os.File.Sync calls here: plain fsync leaves
// the data in the drive's cache.
func syncData(f *os.File, _ int) error { return f.Sync() }

func reserve(f *os.File, fd int, _, size int64) error {
	err := again(func() error {
		return unix.FcntlFstore(uintptr(fd), unix.F_PREALLOCATE, &unix.Fstore_t{
			Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: size,
		})
	})
	if err == nil {
		return nil
	}
	err = &os.PathError{Op: "fcntl", Path: f.Name(), Err: err}
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) {
		return errors.Join(errors.ErrUnsupported, err)
	}
	return err
}
