package paths

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// Place is where a name leads.
type Place struct {
	// Given is what the name says: absolute, lexically cleaned, ~ expanded.
	Given string
	// Real is where it is: every link followed as far as something exists.
	Real string
	// Trusted is Real as far as only links of root were followed. A rule
	// that permits is resolved this way, so that an agent that makes a link
	// does not move the rule.
	Trusted string
	// Doubt says why Real is not certain, "" when it is.
	Doubt string
}

// Sure reports whether p is certain.
func (p Place) Sure() bool { return p.Doubt == "" && p.Given != "" }

const (
	maxLinks = 40   // as the kernel
	maxName  = 4096 // as the kernel
)

var errLoop = errors.New("too many links")

// Resolver finds places, with memory of directories for the time of one
// decision. It is not safe for concurrent use.
type Resolver struct {
	view View
	cwd  string
	home string
	// seen holds directories already resolved, longest last.
	seen []Place
}

// NewResolver returns a resolver for a process in the directory cwd whose
// user lives in home; home "" leaves ~ unresolved. With a nil view nothing is
// known and every place is in doubt.
func NewResolver(view View, cwd, home string) *Resolver {
	r := new(Resolver)
	r.Reset(view, cwd, home)
	return r
}

// Reset makes r what NewResolver would return, with the memory that it has.
func (r *Resolver) Reset(view View, cwd, home string) {
	*r = Resolver{view: view, cwd: clean(cwd), home: home, seen: r.seen[:0]}
	if home != "" {
		r.home = clean(home)
	}
}

func clean(name string) string {
	if name == "" || name[0] != '/' {
		return ""
	}
	return path.Clean(name)
}

// Know tells r a place found elsewhere. Names below it start from there.
func (r *Resolver) Know(p Place) {
	if !p.Sure() || p.Given == "/" {
		return
	}
	if r.seen == nil {
		r.seen = make([]Place, 0, 4)
	}
	i := len(r.seen)
	for i > 0 && len(r.seen[i-1].Given) > len(p.Given) {
		i--
	}
	r.seen = slices.Insert(r.seen, i, p)
}

// Dir resolves name like [Resolver.Places] and remembers it as a start for
// names below it.
func (r *Resolver) Dir(name string) Place {
	p := r.Place(name)
	if p.Given != p.Real || strings.Count(p.Given, "/") > 1 {
		r.Know(p)
	}
	return p
}

// Place resolves a name whose ".." are to be read lexically.
func (r *Resolver) Place(name string) Place {
	abs, doubt := r.absolute(name, r.cwd)
	if doubt != "" {
		return Place{Given: abs, Real: abs, Trusted: abs, Doubt: doubt}
	}
	return r.resolve(path.Clean(abs), path.Clean(abs))
}

// Written is where a name leads by what it says alone.
func (r *Resolver) Written(name, dir string) Place {
	if dir == "" {
		dir = r.cwd
	}
	const long = 512 // of a directory
	if i := len(dir) - long; i > 0 {
		if k := strings.IndexByte(dir[i:], '/'); k >= 0 {
			dir = dir[i+k:]
		}
	}
	abs, doubt := r.absolute(name, dir)
	if doubt == "" {
		abs, doubt = path.Clean(abs), "it was not looked at"
	}
	return Place{Given: abs, Real: abs, Trusted: abs, Doubt: doubt}
}

// Places resolves name, relative to dir or, when dir is "", to the resolver's
// directory. A name with ".." behind a link is two places: the one that the
// text says and the one that the kernel walks to; both are returned.
func (r *Resolver) Places(name, dir string) []Place { return r.AppendPlaces(nil, name, dir) }

// AppendPlaces is Places, appended to to.
func (r *Resolver) AppendPlaces(to []Place, name, dir string) []Place {
	if dir == "" {
		dir = r.cwd
	}
	abs, doubt := r.absolute(name, dir)
	if doubt != "" {
		return append(to, Place{Given: abs, Real: abs, Trusted: abs, Doubt: doubt})
	}
	given := path.Clean(abs)
	first := r.resolve(given, given)
	to = append(to, first)
	if !strings.Contains(abs, "..") {
		return to
	}
	walked := r.resolve(given, abs)
	if walked.Real == first.Real && walked.Doubt == first.Doubt {
		return to
	}
	return append(to, walked)
}

// absolute joins name to dir and expands a leading ~, without cleaning.
func (r *Resolver) absolute(name, dir string) (abs, doubt string) {
	switch {
	case name == "" || strings.IndexByte(name, 0) >= 0:
		return dir, "no file name"
	case len(name)+len(dir) > maxName:
		return dir, "the name is too long"
	case name[0] == '/':
		return name, ""
	case name == "~" || strings.HasPrefix(name, "~/"):
		if r.home == "" {
			return join(dir, name), "the home directory is not known"
		}
		return r.home + name[1:], ""
	case name == "~+" || strings.HasPrefix(name, "~+/"):
		name = strings.TrimPrefix(name[2:], "/")
	case name[0] == '~':
		return join(dir, name), "another user's home directory"
	}
	if dir == "" {
		return "/" + name, "the working directory is not known"
	}
	return join(dir, name), ""
}

func join(dir, name string) string {
	if name == "" {
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/" + name
}

// resolve walks abs, which says the same as given but may hold "..".
func (r *Resolver) resolve(given, abs string) Place {
	if r.view == nil {
		return Place{Given: given, Real: given, Trusted: given, Doubt: "the file system is not known"}
	}
	start := Place{}
	if given == abs {
		for i := len(r.seen) - 1; i >= 0; i-- {
			if Under(r.seen[i].Given, given) {
				start = r.seen[i]
				break
			}
		}
	}
	if start.Given == given {
		return start
	}
	rest := abs[len(start.Given):]
	p := Place{Given: given}
	p.Real, p.Doubt = r.walk(start.Real, rest, false)
	p.Trusted = p.Real
	if p.Real != given {
		p.Trusted, _ = r.walk(start.Trusted, rest, true)
	}
	return p
}

// walk follows rest from the resolved directory cur ("" is the root).
func (r *Resolver) walk(cur, rest string, rootOnly bool) (real, doubt string) {
	if cur == "/" {
		cur = ""
	}
	links := 0
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			cur = cur[:max(strings.LastIndexByte(cur, '/'), 0)]
			continue
		}
		next := cur + "/" + name
		if to, why, ok := r.magic(cur, name); ok {
			if why != "" && doubt == "" {
				doubt = why
			}
			cur, rest = "", join(to, rest)
			if strings.HasPrefix(to, "/proc/") || strings.HasPrefix(to, "/dev/") {
				cur, rest = to, strings.TrimPrefix(rest, to)
			}
			continue
		}
		target, root, err := r.view.Readlink(next)
		if err != nil {
			if !absent(err) {
				doubt = "it cannot be looked at"
			}
			return finish(next, rest), doubt
		}
		if target == "" || rootOnly && !root {
			cur = next
			continue
		}
		if links++; links > maxLinks {
			return finish(next, rest), errLoop.Error()
		}
		if target[0] == '/' {
			cur = ""
		}
		if rest != "" {
			target += "/" + rest
		}
		rest = target
	}
	if cur == "" {
		cur = "/"
	}
	return cur, doubt
}

// finish appends what does not exist; ".." in it can only be read lexically.
func finish(cur, rest string) string {
	if rest == "" {
		return cur
	}
	return path.Clean(cur + "/" + rest)
}

// magic answers for the names under /proc and /dev that mean another thing to
// every process that asks. They must not be asked of this one.
func (r *Resolver) magic(cur, name string) (to, doubt string, ok bool) {
	switch {
	case cur == "/dev" && (name == "fd" || name == "stdin" || name == "stdout" || name == "stderr"):
		return cur + "/" + name, "an open file of the process", true
	case cur == "/proc" && (name == "self" || name == "thread-self"):
		return cur + "/" + name, "", true
	case !strings.HasPrefix(cur, "/proc/"):
		return "", "", false
	}
	own, is := process(cur[len("/proc/"):])
	if !is {
		return "", "", false
	}
	switch name {
	case "root":
		if own {
			return "/", "", true
		}
		return "/", "the root directory of another process", true
	case "cwd":
		if own && r.cwd != "" {
			return r.cwd, "", true
		}
		return join("/", strings.TrimPrefix(r.cwd, "/")), "the directory of another process", true
	case "fd", "fdinfo", "exe", "map_files", "mem", "environ", "ns":
		return cur + "/" + name, "an open file or the memory of a process", true
	}
	return "", "", false
}

// process reports whether s, a path below /proc, is the directory of a
// process or of one of its threads, and whether of the asking one.
func process(s string) (own, is bool) {
	parts := strings.Split(s, "/")
	switch {
	case parts[0] == "self" || parts[0] == "thread-self":
		own = true
	case !digits(parts[0]):
		return false, false
	}
	switch {
	case len(parts) == 1:
		return own, true
	case len(parts) == 3 && parts[1] == "task" && digits(parts[2]):
		return own, true
	}
	return false, false
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
