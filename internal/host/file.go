package host

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// FileError is a file that was not used, why, and what to do about it. Err is
// the system's error where there was one (os.ErrNotExist for a missing file),
// nil where the file was refused for what it is.
type FileError struct {
	Name    string
	Problem string
	Remedy  string
	Err     error
}

func (e *FileError) Error() string { return problemText(e.Name, e.Problem, e.Err, e.Remedy) }

// Unwrap gives the system's error.
func (e *FileError) Unwrap() error { return e.Err }

// problemText quotes the name, which may come from another process.
func problemText(name, problem string, err error, remedy string) string {
	s := strconv.Quote(name) + " " + problem
	if err != nil {
		s += ": " + err.Error()
	}
	if remedy != "" {
		s += "; " + remedy
	}
	return s
}

// OpenPrivate reads a small file under root that only its owner can have
// written: a regular file of this user, by its only name, writable by nobody
// else, at most limit bytes. It does not follow a link in the last place of
// name, does not wait for a pipe, and does not leave root. What is refused is
// a *FileError.
func OpenPrivate(root *os.Root, name string, limit int64) ([]byte, error) {
	for range tries {
		// os.Root follows links that stay inside it, whatever the flags. The
		// name is looked at first, and what is opened has to be that file.
		named, err := root.Lstat(name)
		if err != nil {
			return nil, openError(name, err)
		}
		data, err := readNamed(root, name, named, limit)
		if err != errReplaced {
			return data, err
		}
	}
	return nil, &FileError{Name: name, Problem: "is replaced again and again"}
}

// errReplaced: not the file that was looked at, as when its writer renamed a
// new one into its place.
var errReplaced = errors.New("replaced")

func readNamed(root *os.Root, name string, named fs.FileInfo, limit int64) ([]byte, error) {
	if named.Mode()&fs.ModeSymlink != 0 {
		return nil, &FileError{Name: name, Problem: "is a symbolic link", Remedy: "remove the link"}
	}
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, openError(name, err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, openError(name, err)
	}
	if !os.SameFile(named, opened) {
		return nil, errReplaced
	}
	if err := checkFile(name, infoFacts(opened), 0o022, limit); err != nil {
		return nil, err
	}
	return readLimited(f, name, opened.Size(), limit)
}

// readLimited trusts the size only as a hint: the file may grow meanwhile.
func readLimited(r io.Reader, name string, size, limit int64) ([]byte, error) {
	buf := make([]byte, size+1)
	n := 0
	for {
		got, err := r.Read(buf[n:])
		n += got
		switch {
		case int64(n) > limit:
			return nil, tooLarge(name, limit)
		case errors.Is(err, io.EOF):
			return buf[:n], nil
		case err != nil:
			return nil, openError(name, err)
		}
		if n == len(buf) {
			grown := make([]byte, min(limit+1, int64(2*len(buf))))
			copy(grown, buf)
			buf = grown
		}
	}
}

// fileFacts is what a check needs of a stat of either kind.
type fileFacts struct {
	regular bool
	uid     uint32
	links   uint64
	perm    uint32
	size    int64
}

func factsOf(st *unix.Stat_t) fileFacts {
	return fileFacts{
		regular: uint32(st.Mode)&unix.S_IFMT == unix.S_IFREG,
		uid:     st.Uid,
		links:   uint64(st.Nlink),
		perm:    uint32(st.Mode) & 0o777,
		size:    st.Size,
	}
}

func infoFacts(fi fs.FileInfo) fileFacts {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return fileFacts{}
	}
	return fileFacts{fi.Mode().IsRegular(), st.Uid, uint64(st.Nlink), uint32(fi.Mode().Perm()), fi.Size()}
}

// checkFile refuses what is not ours alone; limit < 0 means any size.
func checkFile(name string, f fileFacts, forbidden uint32, limit int64) error {
	switch {
	case !f.regular:
		return &FileError{Name: name, Problem: "is not a regular file", Remedy: "remove it"}
	case int(f.uid) != os.Geteuid():
		return &FileError{Name: name, Problem: "belongs to uid " + strconv.Itoa(int(f.uid)) +
			", not to uid " + strconv.Itoa(os.Geteuid()), Remedy: "remove it"}
	case f.links > 1:
		return &FileError{Name: name, Problem: "has " + strconv.FormatUint(f.links, 10) + " names",
			Remedy: "remove the other hard links, or the file"}
	case f.perm&forbidden != 0:
		return &FileError{Name: name, Problem: "has mode 0" + strconv.FormatUint(uint64(f.perm), 8) +
			", which lets other users in", Remedy: "chmod 0600 it"}
	case limit >= 0 && f.size > limit:
		return tooLarge(name, limit)
	}
	return nil
}

func tooLarge(name string, limit int64) error {
	return &FileError{Name: name, Problem: "is larger than " + strconv.FormatInt(limit, 10) + " bytes"}
}

func openError(name string, err error) error {
	// The path error's own text would say the name again.
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return &FileError{Name: name, Problem: "cannot be read", Err: err}
}
