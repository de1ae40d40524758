package review

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData is F_FULLFSYNC, which os.File.Sync calls here: plain fsync leaves
// the data in the drive's cache.
func syncData(f *os.File) error { return f.Sync() }

func reserve(f *os.File, _, size int64) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = raw.Control(func(fd uintptr) {
		callErr = unix.FcntlFstore(fd, unix.F_PREALLOCATE, &unix.Fstore_t{
			Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: size,
		})
	})
	if err != nil {
		return err
	}
	if errors.Is(callErr, unix.ENOTSUP) || errors.Is(callErr, unix.EINVAL) {
		return errors.Join(errors.ErrUnsupported, callErr)
	}
	return callErr
}
