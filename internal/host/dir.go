package host

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"syscall"
)

// DirError is a directory that was not used, why, and what to do about it.
// Err is the system's error where there was one (os.ErrNotExist for a missing
// directory).
type DirError struct {
	Path    string
	Problem string
	Remedy  string
	Err     error
}

func (e *DirError) Error() string { return problemText(e.Path, e.Problem, e.Err, e.Remedy) }

// Unwrap gives the system's error.
func (e *DirError) Unwrap() error { return e.Err }

// CheckDir makes sure that name is a directory, not a link to one, that it
// belongs to this user, that its permissions are within mode, and that it is
// not in a directory where anybody may replace it. Otherwise a *DirError.
func CheckDir(name string, mode os.FileMode) error {
	// A path with a slash at its end would be followed by lstat.
	name = path.Clean(name)
	fi, err := os.Lstat(name)
	if err != nil {
		return dirError(name, "cannot be used", err)
	}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		return &DirError{Path: name, Problem: "is a symbolic link", Remedy: "remove the link"}
	case !fi.IsDir():
		return &DirError{Path: name, Problem: "is not a directory", Remedy: "remove it"}
	case !ours(fi):
		return &DirError{Path: name, Problem: ownerText(fi), Remedy: "move it away"}
	case fi.Mode().Perm()&^mode.Perm() != 0:
		return &DirError{Path: name,
			Problem: "has mode " + octal(fi.Mode()) + ", wider than " + octal(mode),
			Remedy:  "chmod " + octal(mode) + " it"}
	}
	return checkOpenParent(path.Dir(name))
}

// checkOpenParent refuses a directory in which anybody may rename what is
// ours; with the sticky bit (/tmp) they may not.
func checkOpenParent(parent string) error {
	fi, err := os.Stat(parent)
	if err != nil {
		return dirError(parent, "cannot be used", err)
	}
	if fi.Mode().Perm()&0o002 != 0 && fi.Mode()&fs.ModeSticky == 0 {
		return &DirError{Path: parent, Problem: "lets every user replace what is in it",
			Remedy: "chmod o-w it"}
	}
	return nil
}

// MakeDir makes sure that name is a private directory of this user: one that
// exists has to pass CheckDir with 0700, a missing one is made with its missing
// parents, all 0700. The nearest directory that exists has to belong to this
// user and be closed to others' writing, so nothing is ever made in /tmp (which
// is root's own) or in another user's tree.
func MakeDir(name string) error {
	name = path.Clean(name)
	err := CheckDir(name, 0o700)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	missing, err := missingDirs(name)
	if err != nil {
		return err
	}
	for _, dir := range missing {
		// Another process may be making the same one.
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return dirError(dir, "cannot be made", err)
		}
		if err := CheckDir(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// missingDirs lists what is to be made, outermost first, below a directory of
// ours.
func missingDirs(name string) ([]string, error) {
	var missing []string
	at := name
	for {
		if _, err := os.Lstat(at); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, dirError(at, "cannot be used", err)
		}
		missing = append([]string{at}, missing...)
		at = path.Dir(at)
	}
	// Here a link is fine: a home directory may be one.
	fi, err := os.Stat(at)
	switch {
	case err != nil:
		return nil, dirError(at, "cannot be used", err)
	case !fi.IsDir():
		return nil, &DirError{Path: at, Problem: "is not a directory", Remedy: "remove it"}
	case !ours(fi):
		return nil, &DirError{Path: at, Problem: ownerText(fi),
			Remedy: makeItRemedy(name)}
	case len(missing) > 0 && fi.Mode().Perm()&0o002 != 0:
		return nil, &DirError{Path: at, Problem: "is writable by every user", Remedy: makeItRemedy(name)}
	}
	return missing, nil
}

func makeItRemedy(name string) string {
	return "make " + strconv.Quote(name) + " yourself with mode 0700, or name another place with --root DIR"
}

func ours(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

func ownerText(fi fs.FileInfo) string {
	owner := "another user"
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		owner = "uid " + strconv.Itoa(int(st.Uid))
	}
	return "belongs to " + owner + ", not to uid " + strconv.Itoa(os.Geteuid())
}

func octal(m os.FileMode) string { return "0" + strconv.FormatUint(uint64(m.Perm()), 8) }

func dirError(name, problem string, err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return &DirError{Path: name, Problem: problem, Err: err}
}
