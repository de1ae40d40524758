package forwarding

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"permd/internal/host"
)

// Directories of a mailbox, and what a mailbox keeps.
const (
	tmpDir = "tmp" // being written
	newDir = "new" // letters
	badDir = "bad" // set aside, for a person to look at

	maxBad     = 16
	maxBadSize = 64 << 10
)

// inbox is this node's own mailbox, opened for taking. Names are relative to
// it, as "new/x". Tests put one in that fails.
type inbox interface {
	host.Files
	// Read reads a private regular file of ours in new.
	Read(name string, limit int64) ([]byte, error)
	Lstat(name string) (fs.FileInfo, error)
	// List opens a directory for listing.
	List(dir string) (lister, error)
	// Current reports whether new is still the directory found at its path,
	// and tmp is there.
	Current() bool
	Close() error
}

// target is another node's mailbox, opened for putting: only "tmp/x" and
// "new/x" exist in it. Tests put one in that fails.
type target interface {
	host.Files
	// Current reports whether new is still the directory found at its path.
	Current() bool
	Close() error
}

// lister lists a directory in pieces; at its end it returns io.EOF.
type lister interface {
	Readdirnames(n int) ([]string, error)
	Close() error
}

// rootBox is the real thing. No name leaves it and none is followed.
type rootBox struct {
	host.Files
	path string
	root *os.Root
	in   *os.File    // new, opened once: it is read all the time
	is   os.FileInfo // in's identity
}

var _ inbox = (*rootBox)(nil)

// openMail opens a mailbox that belongs to this user alone.
func openMail(dir string) (*os.Root, error) {
	if err := host.CheckDir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %w", ErrNoMailbox, err)
		}
		return nil, err
	}
	return os.OpenRoot(dir)
}

// openInbox opens a mailbox for taking.
func openInbox(dir string) (inbox, error) {
	root, err := openMail(dir)
	if err != nil {
		return nil, err
	}
	b := &rootBox{Files: host.FilesOf(root), path: dir, root: root}
	if b.in, err = root.OpenFile(newDir, openDir, 0); err == nil {
		b.is, err = b.in.Stat()
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *rootBox) Current() bool {
	if !isAt(b.is, path.Join(b.path, newDir)) {
		return false
	}
	tmp, err := os.Lstat(path.Join(b.path, tmpDir))
	return err == nil && tmp.IsDir()
}

func isAt(fi os.FileInfo, name string) bool {
	at, err := os.Lstat(name)
	return err == nil && os.SameFile(at, fi)
}

func (b *rootBox) Read(name string, limit int64) ([]byte, error) {
	return readAt(int(b.in.Fd()), name, limit)
}

func (b *rootBox) Lstat(name string) (fs.FileInfo, error) { return b.root.Lstat(name) }

// Remove removes a letter without looking its directory up again.
func (b *rootBox) Remove(name string) error {
	dir, file := path.Split(name)
	if dir != newDir+"/" {
		return b.root.Remove(name)
	}
	if _, err := retryEINTR(func() (int, error) { return 0, unix.Unlinkat(int(b.in.Fd()), file, 0) }); err != nil {
		return &fs.PathError{Op: "unlinkat", Path: name, Err: err}
	}
	return nil
}

func (b *rootBox) List(dir string) (lister, error) { return b.root.Open(dir) }

func (b *rootBox) Close() error {
	err := b.root.Close()
	if b.in != nil {
		err = errors.Join(err, b.in.Close())
	}
	return err
}

const openDir = os.O_RDONLY | unix.O_DIRECTORY

// readAt is [host.OpenPrivate] for one name in an open directory, with half the
// system calls: a regular file of ours alone, by its only name, not followed,
// not waited for.
func readAt(dir int, name string, limit int64) ([]byte, error) {
	fd, err := retryEINTR(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	switch err {
	case nil:
	case unix.ELOOP:
		return nil, &host.FileError{Name: name, Problem: "is a symbolic link"}
	case unix.ENXIO, unix.EOPNOTSUPP:
		return nil, &host.FileError{Name: name, Problem: "is not a regular file"}
	default:
		return nil, &host.FileError{Name: name, Problem: "cannot be read", Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &host.FileError{Name: name, Problem: "cannot be read", Err: err}
	}
	problem := ""
	switch {
	case uint32(st.Mode)&unix.S_IFMT != unix.S_IFREG:
		problem = "is not a regular file"
	case int(st.Uid) != os.Geteuid():
		problem = "belongs to another user"
	case st.Nlink != 1:
		problem = "has another name"
	case uint32(st.Mode)&0o022 != 0:
		problem = "may be written by others"
	case st.Size > limit:
		problem = "is too large"
	}
	if problem != "" {
		return nil, &host.FileError{Name: name, Problem: problem}
	}
	// A byte more than there is: one that grows while it is read is no letter.
	buf := make([]byte, st.Size+1)
	n, err := io.ReadFull(fdReader(fd), buf)
	switch {
	case err == nil:
		return nil, &host.FileError{Name: name, Problem: "grew while it was read"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return buf[:n], nil
	}
	return nil, &host.FileError{Name: name, Problem: "cannot be read", Err: err}
}

type fdReader int

func (f fdReader) Read(b []byte) (int, error) {
	n, err := retryEINTR(func() (int, error) { return unix.Read(int(f), b) })
	if n <= 0 && err == nil {
		return 0, io.EOF
	}
	return max(n, 0), err
}

// dirTarget writes into tmp and new of a mailbox through their descriptors,
// which were opened below an [os.Root] once; that spares each letter a dozen
// system calls. A name is one component, and none is followed.
type dirTarget struct {
	path     string
	tmp, new *os.File
	is       os.FileInfo // new's identity
}

var _ target = (*dirTarget)(nil)

// openTarget opens another node's mailbox for putting.
func openTarget(dir string) (target, error) {
	root, err := openMail(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	t := &dirTarget{path: dir}
	if t.tmp, err = root.OpenFile(tmpDir, openDir, 0); err == nil {
		if t.new, err = root.OpenFile(newDir, openDir, 0); err == nil {
			t.is, err = t.new.Stat()
		}
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *dirTarget) Current() bool { return isAt(t.is, path.Join(t.path, newDir)) }

func (t *dirTarget) Close() error {
	var err error
	for _, f := range []*os.File{t.tmp, t.new} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// at splits a name into its directory's descriptor and the file in it.
func (t *dirTarget) at(name string) (int, string, error) {
	dir, file := path.Split(name)
	if file != "" && file != "." && file != ".." {
		switch dir {
		case tmpDir + "/":
			return int(t.tmp.Fd()), file, nil
		case newDir + "/":
			return int(t.new.Fd()), file, nil
		}
	}
	return 0, "", fs.ErrInvalid
}

func (t *dirTarget) Create(name string, perm os.FileMode) (host.File, error) {
	dir, file, err := t.at(name)
	if err != nil {
		return nil, err
	}
	fd, err := retryEINTR(func() (int, error) {
		return unix.Openat(dir, file, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(perm.Perm()))
	})
	if err != nil {
		return nil, &fs.PathError{Op: "openat", Path: name, Err: err}
	}
	return rawFile(fd), nil
}

func (t *dirTarget) Rename(from, to string) error {
	dir1, file1, err := t.at(from)
	if err != nil {
		return err
	}
	dir2, file2, err := t.at(to)
	if err != nil {
		return err
	}
	if _, err := retryEINTR(func() (int, error) { return 0, unix.Renameat(dir1, file1, dir2, file2) }); err != nil {
		return &os.LinkError{Op: "renameat", Old: from, New: to, Err: err}
	}
	return nil
}

func (t *dirTarget) Remove(name string) error {
	dir, file, err := t.at(name)
	if err != nil {
		return err
	}
	if _, err := retryEINTR(func() (int, error) { return 0, unix.Unlinkat(dir, file, 0) }); err != nil {
		return &fs.PathError{Op: "unlinkat", Path: name, Err: err}
	}
	return nil
}

// SyncDir is not needed: letters need not outlive the machine.
func (t *dirTarget) SyncDir(string) error { return nil }

// rawFile is a regular file being written.
type rawFile int

func (f rawFile) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := retryEINTR(func() (int, error) { return unix.Write(int(f), b[done:]) })
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, io.ErrShortWrite
		}
		done += n
	}
	return done, nil
}

func (f rawFile) Sync() error { return unix.Fsync(int(f)) }

func (f rawFile) Close() error { return unix.Close(int(f)) }

// retryEINTR repeats a system call that a signal interrupted.
func retryEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// makeBox makes the directories of a mailbox that are missing.
func makeBox(dir string) error {
	for _, d := range []string{dir, path.Join(dir, tmpDir), path.Join(dir, newDir), path.Join(dir, badDir)} {
		if err := host.MakeDir(d); err != nil {
			return err
		}
	}
	return nil
}
