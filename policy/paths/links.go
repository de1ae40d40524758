package paths

import (
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Linker is a View that can also tell whether a file has several names.
type Linker interface {
	// Links returns how many names the regular file name has, 0 when it is
	// none or cannot be looked at.
	Links(name string) int
}

// Folder is a View that can also tell whether names are compared without
// regard to the case of letters.
type Folder interface {
	// Folds reports whether the directory dir is found by a name in other
	// letters.
	Folds(dir string) bool
}

var (
	_ Linker = Disk{}
	_ Folder = Disk{}
)

// Links implements Linker with one lstat.
func (Disk) Links(name string) int {
	var st unix.Stat_t
	if lstat(name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	return int(st.Nlink)
}

// folding remembers what was found out about directories: a file system does
// not change its mind while it is mounted.
var folding struct {
	sync.Mutex
	known map[string]bool
}

// Folds implements Folder: it looks whether the last name of dir, in other
// letters, is the same directory.
func (Disk) Folds(dir string) bool {
	const most = 64
	folding.Lock()
	defer folding.Unlock()
	if folds, ok := folding.known[dir]; ok {
		return folds
	}
	i := strings.LastIndexByte(dir, '/')
	if i < 0 {
		return false
	}
	other := strings.ToUpper(dir[i:])
	if other == dir[i:] {
		other = strings.ToLower(dir[i:])
	}
	var a, b unix.Stat_t
	folds := other != dir[i:] && unix.Stat(dir, &a) == nil && unix.Stat(dir[:i]+other, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
	if folding.known == nil || len(folding.known) >= most {
		folding.known = map[string]bool{}
	}
	folding.known[dir] = folds
	return folds
}
