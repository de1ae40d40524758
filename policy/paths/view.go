package paths

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// View is what is known of a file system.
type View interface {
	// Readlink returns the target of the symbolic link name and whether
	// root owns that link, "" when name exists and is no link, and an error
	// that wraps fs.ErrNotExist when nothing is there. Name is absolute.
	Readlink(name string) (target string, root bool, err error)
}

// Lister is a View that can also look through a directory tree.
type Lister interface {
	// List returns the names in the directory dir, directories with a final
	// "/", at most limit of them; more reports that some were left out.
	List(dir string, limit int) (names []string, more bool, err error)
}

// Summer is a View that can also tell whether a file has changed.
type Summer interface {
	// Sum returns the SHA-256 of the regular file name, an error when it is
	// not one or has more than limit bytes.
	Sum(name string, limit int64) ([sha256.Size]byte, error)
}

// Disk is the file system of this process.
type Disk struct{}

var (
	_ View   = Disk{}
	_ Lister = Disk{}
	_ Summer = Disk{}
)

// Readlink implements View with one lstat, and one readlink for a link.
func (Disk) Readlink(name string) (string, bool, error) {
	var st unix.Stat_t
	if err := lstat(name, &st); err != nil {
		return "", false, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", false, nil
	}
	target, err := os.Readlink(name)
	if err == nil && target == "" {
		err = errors.New("link with an empty target")
	}
	return target, st.Uid == 0, err
}

func lstat(name string, st *unix.Stat_t) error {
	for {
		err := unix.Lstat(name, st)
		if err != unix.EINTR {
			return err
		}
	}
}

// List implements Lister.
func (Disk) List(dir string, limit int) ([]string, bool, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	entries, err := f.ReadDir(limit + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	more := len(entries) > limit
	if more {
		entries = entries[:limit]
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
		if e.IsDir() {
			names[i] += "/"
		}
	}
	return names, more, nil
}

// Sum implements Summer. It opens without following a link and without
// waiting for a writer of a pipe.
func (Disk) Sum(name string, limit int64) ([sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return sum, err
	}
	if !info.Mode().IsRegular() {
		return sum, fmt.Errorf("%q is not a regular file", name)
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, limit+1))
	if err != nil {
		return sum, err
	}
	if n > limit {
		return sum, fmt.Errorf("%q has more than %d bytes", name, limit)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// absent reports whether err says that nothing is there, also because a
// parent is no directory.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// Under reports whether name is root or lies below it. Both are clean and
// absolute; no prefix of a component counts.
func Under(root, name string) bool {
	if root == "/" {
		return strings.HasPrefix(name, "/")
	}
	return strings.HasPrefix(name, root) && (len(name) == len(root) || name[len(root)] == '/')
}
