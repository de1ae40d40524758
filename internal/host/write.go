package host

import (
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// TempPrefix begins the names of files that are still being written. A reader
// skips them; one that is old was left by a process that died.
const TempPrefix = ".permd-tmp-"

// File is a new file being written.
type File interface {
	io.WriteCloser
	Sync() error
}

// Files is the file system as a writer needs it. Tests put one in that fails.
type Files interface {
	// Create makes a file that must not exist.
	Create(name string, perm os.FileMode) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(name string) error
}

// FilesOf is the real thing, below root; no name leaves it.
func FilesOf(root *os.Root) Files { return rootFiles{root} }

type rootFiles struct{ root *os.Root }

func (r rootFiles) Create(name string, perm os.FileMode) (File, error) {
	return r.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

func (r rootFiles) Rename(from, to string) error { return r.root.Rename(from, to) }

func (r rootFiles) Remove(name string) error { return r.root.Remove(name) }

func (r rootFiles) SyncDir(name string) error {
	d, err := r.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// WriteAtomic puts data at name below dir: whoever reads sees what was there
// before or all of data. It writes a file beside it and renames; perm is cut
// by the umask. With durable the data and the name outlive a power cut once it
// has returned nil. On an error the file may be the old or, if only the last
// sync failed, the new one; the file beside it is gone, if the system lets it be
// removed.
func WriteAtomic(dir *os.Root, name string, data []byte, perm os.FileMode, durable bool) error {
	return WriteFiles(FilesOf(dir), path.Join(path.Dir(name), TempName()), name, data, perm, durable)
}

// WriteFiles is WriteAtomic with the file system and the temporary name (in
// any directory of the same file system) given.
func WriteFiles(files Files, temp, name string, data []byte, perm os.FileMode, durable bool) error {
	if err := fill(files, temp, data, perm, durable); err != nil {
		return &FileError{Name: name, Problem: "cannot be written", Err: err}
	}
	if err := rename(files, temp, name); err != nil {
		discard(files, temp)
		return &FileError{Name: name, Problem: "cannot be put in place", Err: err}
	}
	if durable {
		if err := files.SyncDir(path.Dir(name)); err != nil {
			return &FileError{Name: name, Problem: "may not outlive a power cut", Err: err}
		}
	}
	return nil
}

// fill writes the temporary file, or leaves none.
func fill(files Files, temp string, data []byte, perm os.FileMode, durable bool) error {
	f, err := files.Create(temp, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && durable {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		discard(files, temp)
	}
	return err
}

// rename tries again. There is no other way in: never a direct write.
func rename(files Files, from, to string) error {
	return again(func() error { return files.Rename(from, to) })
}

// discard leaves a file only where it cannot be removed, under a name that
// every reader skips.
func discard(files Files, temp string) {
	_ = again(func() error { return files.Remove(temp) })
}

// again repeats what a virus scanner, a backup or a network file system
// refuses for a moment.
func again(op func() error) error {
	err := op()
	for wait := 10 * time.Millisecond; wait <= 30*time.Millisecond; wait += 10 * time.Millisecond {
		if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EBUSY) {
			return err
		}
		time.Sleep(wait)
		err = op()
	}
	return err
}

var tempCount atomic.Uint64

// TempName makes a name for a file that is being written, which no other call
// on this machine has made since boot.
func TempName() string {
	up, _ := Uptime()
	return TempPrefix + strconv.Itoa(os.Getpid()) +
		"-" + strconv.FormatInt(int64(up), 36) + "-" + strconv.FormatUint(tempCount.Add(1), 36)
}
