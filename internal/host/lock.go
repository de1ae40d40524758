package host

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Lock is an exclusive flock on a file, held by everyone who has the open
// file: this process and each child that was given the descriptor. It ends
// when the last of them closes it or dies, in milliseconds, and with a Release
// of any of them. It needs no deletion; the file stays.
type Lock struct{ file *os.File }

// tries bounds what waits for probes and for a file that is being replaced.
const tries = 50

// AcquireLock waits for the lock as long as it takes; the wait holds a thread
// and cannot be called off. The file is made if missing, 0600.
func AcquireLock(path string) (*Lock, error) {
	return lock(path, func(fd int) error { return flock(fd, unix.LOCK_EX) })
}

// TryLock takes the lock or says ErrLocked. Probes of Held do not make it
// fail, unless they follow each other without a gap for 10 ms.
func TryLock(path string) (*Lock, error) {
	return lock(path, tryExclusive)
}

// tryExclusive waits out probes: while a shared lock can be had, nobody holds
// the exclusive one.
func tryExclusive(fd int) error {
	for range tries {
		err := flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK {
			return err
		}
		if err := flock(fd, unix.LOCK_SH|unix.LOCK_NB); err != nil {
			return err
		}
		if err := flock(fd, unix.LOCK_UN); err != nil {
			return err
		}
		time.Sleep(200 * time.Microsecond)
	}
	return unix.EWOULDBLOCK
}

// lock opens path and takes the lock, again when the file was removed or
// replaced between the two: a lock on a file that nobody finds guards nothing.
func lock(path string, take func(fd int) error) (*Lock, error) {
	for range tries {
		fd, err := openLock(path, unix.O_RDWR|unix.O_CREAT)
		if err != nil {
			return nil, err
		}
		if err := take(fd); err != nil {
			unix.Close(fd)
			return nil, lockError(path, err)
		}
		same, err := isAt(fd, path)
		if same {
			return &Lock{os.NewFile(uintptr(fd), path)}, nil
		}
		unix.Close(fd)
		if err != nil {
			return nil, lockError(path, err)
		}
	}
	return nil, &FileError{Name: path, Problem: "is replaced again and again",
		Remedy: "find out what removes it"}
}

// Held says whether somebody, this process included, holds the lock of path
// now. It takes a shared lock for a moment, so probes do not see each other.
// A missing file is os.ErrNotExist, one that is not a lock file of ours an
// error: neither is a no.
func Held(path string) (bool, error) {
	fd, err := openLock(path, unix.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	switch err := flock(fd, unix.LOCK_SH|unix.LOCK_NB); err {
	case nil:
		// By hand: a child that another thread is just starting may still
		// have the descriptor, and the lock would live on in it.
		return false, lockError(path, flock(fd, unix.LOCK_UN))
	case unix.EWOULDBLOCK:
		return true, nil
	default:
		return false, lockError(path, err)
	}
}

// AdoptLock takes over a lock that was inherited as an open file. It keeps
// the descriptor from children of this process. Confirm tells whether the
// file is what was expected.
func AdoptLock(f *os.File) *Lock {
	unix.CloseOnExec(int(f.Fd()))
	return &Lock{f}
}

// Confirm says whether this lock is the exclusive lock of path: the file is
// still there and ours, and is locked through this descriptor (which takes
// the lock if it was free). ErrLocked if somebody else has it.
func (l *Lock) Confirm(path string) error {
	fd := int(l.file.Fd())
	if err := checkLock(fd, path); err != nil {
		return err
	}
	same, err := isAt(fd, path)
	if err != nil {
		return lockError(path, err)
	}
	if !same {
		return &FileError{Name: path, Problem: "was removed or replaced",
			Remedy: "restart the process that holds it"}
	}
	return lockError(path, tryExclusive(fd))
}

// File is the open file, to hand to a child; the lock keeps owning it.
func (l *Lock) File() *os.File { return l.file }

// Close gives up this process's hold. Children that have the descriptor keep
// the lock.
func (l *Lock) Close() error { return l.file.Close() }

// Release ends the lock for everyone who shares it, and closes.
func (l *Lock) Release() error {
	return errors.Join(flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}

// openLock does not wait for a pipe's other end, and gives back a descriptor
// in blocking mode.
func openLock(path string, flags int) (int, error) {
	fd, err := openFD(path, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err != nil {
		return -1, lockError(path, err)
	}
	if err := checkLock(fd, path); err != nil {
		unix.Close(fd)
		return -1, err
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		unix.Close(fd)
		return -1, lockError(path, err)
	}
	return fd, nil
}

func checkLock(fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return lockError(path, err)
	}
	return checkFile(path, factsOf(&st), 0o077, -1)
}

// isAt says whether path names the file that is open as fd.
func isAt(fd int, path string) (bool, error) {
	var open, named unix.Stat_t
	if err := unix.Fstat(fd, &open); err != nil {
		return false, err
	}
	switch err := unix.Lstat(path, &named); err {
	case nil:
		return open.Dev == named.Dev && open.Ino == named.Ino, nil
	case unix.ENOENT:
		return false, nil
	default:
		return false, err
	}
}

func lockError(path string, err error) error {
	switch err {
	case nil:
		return nil
	case unix.EWOULDBLOCK:
		return &FileError{Name: path, Problem: "cannot be locked", Err: ErrLocked}
	case unix.ELOOP:
		return &FileError{Name: path, Problem: "is a symbolic link", Remedy: "remove the link", Err: err}
	default:
		return &FileError{Name: path, Problem: "cannot be locked", Err: err}
	}
}
