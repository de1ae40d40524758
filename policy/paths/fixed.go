package paths

import (
	"io/fs"
	"path"
	"sort"
	"strings"
)

// Fixed is a file system written down: for examples, for judging an action of
// another host, and for tests. What it does not name exists and is no link.
type Fixed struct {
	// Links maps absolute names to their targets. They count as made by
	// root when RootLinks names them.
	Links     map[string]string
	RootLinks []string
	// Files are absolute names of files, for [Fixed.List]. When Closed is
	// set, nothing exists but these, their parents and the links.
	Files  []string
	Closed bool
}

var (
	_ View   = Fixed{}
	_ Lister = Fixed{}
)

// Readlink implements View.
func (f Fixed) Readlink(name string) (string, bool, error) {
	if target, ok := f.Links[name]; ok {
		root := false
		for _, n := range f.RootLinks {
			root = root || n == name
		}
		return target, root, nil
	}
	if f.Closed && !f.exists(name) {
		return "", false, fs.ErrNotExist
	}
	return "", false, nil
}

func (f Fixed) exists(name string) bool {
	for _, n := range f.Files {
		if Under(name, n) {
			return true
		}
	}
	for n := range f.Links {
		if Under(name, n) {
			return true
		}
	}
	return false
}

// List implements Lister.
func (f Fixed) List(dir string, limit int) ([]string, bool, error) {
	seen := map[string]bool{}
	for _, n := range f.Files {
		rest, ok := strings.CutPrefix(n, strings.TrimSuffix(dir, "/")+"/")
		if !ok || path.Clean(n) != n {
			continue
		}
		first, more, _ := strings.Cut(rest, "/")
		if more != "" {
			first += "/"
		}
		seen[first] = true
	}
	names := make([]string, 0, len(seen))
	for n := range seen {
		names = append(names, n)
	}
	sort.Strings(names)
	if len(names) > limit {
		return names[:limit], true, nil
	}
	return names, false, nil
}
