package review

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Disk is the file system as a log needs it. Tests put one in that fails.
type Disk interface {
	// Open opens a regular file of this user, never through a link, for
	// reading and for appending. With create a missing one is made, 0600.
	Open(name string, create bool) (File, error)
	// Stat says what is at name, without following a link.
	Stat(name string) (Ident, error)
	// Rename puts from in the place of to.
	Rename(from, to string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
}

// File is an open log file.
type File interface {
	// Write appends at the end of the file, wherever that is by now.
	io.Writer
	io.ReaderAt
	io.Closer
	Truncate(size int64) error
	// Sync returns nil only when all that was written, and the file's size,
	// would outlive a power cut.
	Sync() error
	// Reserve sets space aside so that the file can grow to size bytes on a
	// full disk; what is in the file and its size do not change.
	// errors.ErrUnsupported where the file system cannot.
	Reserve(size int64) error
	Stat() (Ident, error)
}

// Ident tells one file from another, and how long it is.
type Ident struct {
	Dev, Ino uint64
	Size     int64
}

func (i Ident) same(o Ident) bool { return i.Dev == o.Dev && i.Ino == o.Ino }

// RealDisk is the file system of this machine.
type RealDisk struct{}

var _ Disk = RealDisk{}

// Open implements Disk.
func (RealDisk) Open(name string, create bool) (File, error) {
	flags := os.O_RDWR | os.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	if create {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := private(f); err != nil {
		f.Close()
		return nil, err
	}
	return realFile{f, int(f.Fd())}, nil
}

// private refuses what is not ours alone, and closes our own file to others.
func private(f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !fi.Mode().IsRegular():
		return fmt.Errorf("%q is not a regular file; remove it", f.Name())
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%q belongs to uid %d; remove it", f.Name(), st.Uid)
	case st.Nlink > 1:
		return fmt.Errorf("%q has %d names; remove the other hard links", f.Name(), st.Nlink)
	}
	if fi.Mode().Perm() != 0o600 {
		return f.Chmod(0o600)
	}
	return nil
}

// Stat implements Disk. It is on the path of every commit, so it is the plain
// call.
func (RealDisk) Stat(name string) (Ident, error) {
	var st unix.Stat_t
	if err := again(func() error { return unix.Lstat(name, &st) }); err != nil {
		return Ident{}, &os.PathError{Op: "lstat", Path: name, Err: err}
	}
	return identOf(&st), nil
}

// Rename implements Disk.
func (RealDisk) Rename(from, to string) error { return os.Rename(from, to) }

// SyncDir implements Disk.
func (RealDisk) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// realFile keeps the descriptor beside the file: the calls of every commit are
// made on it directly. It is not used once the file is closed.
type realFile struct {
	*os.File
	fd int
}

func (f realFile) Stat() (Ident, error) {
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstat(f.fd, &st) }); err != nil {
		return Ident{}, &os.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	return identOf(&st), nil
}

func (f realFile) Sync() error { return syncData(f.File, f.fd) }

func (f realFile) Reserve(size int64) error {
	at, err := f.Stat()
	if err != nil || at.Size >= size {
		return err
	}
	return reserve(f.File, f.fd, at.Size, size-at.Size)
}

func identOf(st *unix.Stat_t) Ident {
	return Ident{Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size}
}

// again repeats a call that a signal broke off.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// full says whether err means that there is no room.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
