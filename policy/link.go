package policy

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"permd/ask"
	"permd/policy/paths"
)

// Link is one external decider: a program that is asked between rules and
// people, as a rule file has it ([[authorizer]]).
type Link struct {
	// Name is how the record calls it: "name", else the program's last element.
	Name string `json:"name"`
	// Exec is its argument vector; the first is an absolute path.
	Exec []string `json:"exec"`
	// TimeoutMS is how long it may take.
	TimeoutMS int64 `json:"timeout_ms"`
	// Paths and Outside let it decide asks about files, and asks that are not
	// certainly about the project alone.
	Paths   bool        `json:"paths,omitempty"`
	Outside bool        `json:"outside,omitempty"`
	Ref     ask.RuleRef `json:"ref"`
	// Pins are the files in permd's own directory that it runs, as they were
	// when a person let it stand.
	Pins []Pin `json:"pins,omitempty"`
}

// Times of a link.
const (
	DefaultLinkTimeout = 5 * time.Second
	MaxLinkTimeout     = time.Minute
)

const (
	maxLinks    = 8
	maxLinkArgs = 64
)

// Timeout is how long the link may take.
func (l *Link) Timeout() time.Duration { return time.Duration(l.TimeoutMS) * time.Millisecond }

// line says l on one line, for people.
func (l *Link) line() string {
	s := "authorizer " + l.Name + " exec " + strings.Join(l.Exec, " ")
	if l.Paths {
		s += ", also about files"
	}
	if l.Outside {
		s += ", also outside the project"
	}
	for _, p := range l.Pins {
		s += ", " + filepath.Base(p.Path) + " with content " + p.SHA256[:16]
	}
	return s
}

// files are the program and the files that its arguments name, as they really
// are.
func (l *Link) files() (real []string) {
	for i, arg := range l.Exec {
		if !strings.HasPrefix(arg, "/") {
			continue
		}
		r, err := filepath.EvalSymlinks(arg)
		if err == nil {
			real = append(real, r)
		} else if i == 0 {
			real = append(real, arg)
		}
	}
	return real
}

// pinned returns l with the content of its files below own, permd's own
// directory, as it is now.
func (l Link) pinned(own string) Link {
	l.Pins = nil
	if real, err := filepath.EvalSymlinks(own); err == nil {
		own = real
	}
	for _, f := range l.files() {
		if own == "" || !paths.Under(own, f) {
			continue
		}
		if sum, err := (paths.Disk{}).Sum(f, maxPinned); err == nil {
			l.Pins = append(l.Pins, Pin{Path: f, SHA256: hex.EncodeToString(sum[:])})
		}
	}
	return l
}

// changed names a file of l that is not as it was pinned, "" for none.
func (l *Link) changed() string {
	for _, p := range l.Pins {
		if sum, err := (paths.Disk{}).Sum(p.Path, maxPinned); err != nil || hex.EncodeToString(sum[:]) != p.SHA256 {
			return p.Path
		}
	}
	return ""
}

// same reports whether two links mean the same wherever they stand.
func (l *Link) same(m *Link) bool {
	a, b := *l, *m
	a.Ref, b.Ref = ask.RuleRef{}, ask.RuleRef{}
	a.Pins, b.Pins = nil, nil
	return reflect.DeepEqual(a, b)
}

// May returns why l must not be asked about in, on which r was the result, ""
// when it may. This is the envelope: what only a person answers is kept from
// it, and unless its table says so what is about files or may be outside the
// project. What is not understood may be about any file.
func (l *Link) May(in Input, r Result) string {
	unclear := !r.Grantable
	switch a := in.Action; {
	case r.Verdict != ask.Prompt || a == nil:
		return "nothing is asked"
	case in.Node == Claimed:
		return "the session only claims to be below this one"
	case r.Firm:
		return "only a person answers this"
	case !l.Paths && (unclear || aboutFiles(a, &r)):
		return "it is about files, or not understood, and the table has no paths = true"
	case !l.Outside && (unclear || !insideProject(&in, r.Paths)):
		return "it is not certainly about the project alone, and the table has no outside = true"
	}
	return ""
}

func aboutFiles(a *ask.Action, r *Result) bool {
	switch a.Tool {
	case ask.ToolRead, ask.ToolWrite, ask.ToolEdit:
		return true
	}
	return slices.ContainsFunc(r.Reasons, func(x Reason) bool { return x.Verdict == ask.Prompt && x.Path != "" })
}

// insideProject reports whether all of list certainly lie in the project.
func insideProject(in *Input, list []ask.Path) bool {
	a := in.Action
	project := recordedProject(a, paths.Place{Given: a.Project, Real: a.Project})
	if in.Node == Origin {
		var err error
		if project, err = paths.NewResolver(in.View, a.Cwd, a.Home).Project(a.Project); err != nil {
			return false
		}
	}
	if !project.Sure() || project.Given == "" {
		return false
	}
	for _, p := range list {
		if !strings.HasPrefix(p.Real, "/") || p.Real == nowhere || !paths.Under(project.Real, p.Real) || !paths.Under(project.Given, p.Given) && !paths.Under(project.Real, p.Given) {
			return false
		}
	}
	return true
}

// CheckProgram returns why the program of l, or a file that its arguments
// name, must not be run: an agent of this user could have written it. What
// belongs to root and is writable by root alone cannot be; in the directory
// own, which self-protection keeps agents from, a file may also be the user's,
// with the content that it had when a person let the link stand. Every
// directory on the way counts.
func (l *Link) CheckProgram(own string) error {
	if name := l.changed(); name != "" {
		return fmt.Errorf("%s changed since it was applied; look at it, then: permd policy apply", ask.Quote(name))
	}
	ownReal, err := filepath.EvalSymlinks(own)
	if err != nil {
		ownReal = own
	}
	for _, f := range l.files() {
		if own != "" && paths.Under(ownReal, f) && !slices.ContainsFunc(l.Pins, func(p Pin) bool { return p.Path == f }) {
			return fmt.Errorf("%s was not there when it was applied; look at it, then: permd policy apply", ask.Quote(f))
		}
	}
	for i, arg := range l.Exec {
		if !strings.HasPrefix(arg, "/") {
			continue
		}
		if _, err := os.Stat(arg); i > 0 && errors.Is(err, fs.ErrNotExist) {
			continue // no file
		}
		if err := checkWritable(arg, own, i == 0); err != nil {
			return err
		}
	}
	return nil
}

func checkWritable(name, own string, program bool) error {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	if own != "" {
		if own, err = filepath.EvalSymlinks(own); err != nil {
			own = ""
		}
	}
	euid := uint32(os.Geteuid())
	for _, file := range []string{name, real} {
		for at := filepath.Clean(file); ; at = filepath.Dir(at) {
			var st unix.Stat_t
			if err := unix.Stat(at, &st); err != nil {
				return &fs.PathError{Op: "stat", Path: at, Err: err}
			}
			protected := own != "" && paths.Under(own, real) && (paths.Under(own, at) || paths.Under(at, own))
			switch {
			case st.Uid != 0 && !(protected && st.Uid == euid):
				return fmt.Errorf("%s belongs to uid %d: agents of that user could change it; move it to a place of root's, or below %s", ask.Quote(at), st.Uid, ask.Quote(own))
			case uint32(st.Mode)&0o022 != 0 && uint32(st.Mode)&unix.S_ISVTX == 0, uint32(st.Mode)&0o022 != 0 && at == filepath.Clean(file):
				return fmt.Errorf("%s has mode %04o: others may write it; chmod go-w it", ask.Quote(at), uint32(st.Mode)&0o7777)
			}
			if program && at == real && (uint32(st.Mode)&unix.S_IFMT != unix.S_IFREG || uint32(st.Mode)&0o111 == 0) {
				return fmt.Errorf("%s is no program", ask.Quote(at))
			}
			if at == "/" {
				break
			}
		}
	}
	return nil
}

// Links are the external deciders, an administrator's first, each in the order
// in which it stands.
func (p *Policy) Links() []Link { return p.links }

// linksOf are the links of files, in order.
func linksOf(files []*File) (out []Link) {
	for _, f := range files {
		out = append(out, f.Links...)
	}
	return out
}

// mergeLinks brings two versions of the user's links together: one that is new
// can allow, so it waits for a person; one that was taken out is gone at once.
// So does one whose program changed since.
func (r *ratchet) mergeLinks(applied, edited []Link, own string) {
	for _, e := range edited {
		now := e.pinned(own)
		if i := slices.IndexFunc(applied, func(a Link) bool { return a.same(&e) && slices.Equal(a.Pins, now.Pins) }); i >= 0 {
			r.links = append(r.links, now)
		} else {
			r.newLinks = append(r.newLinks, now)
		}
	}
}

// changedLink reports whether a program of a link changed since it was looked
// at.
func (r *ratchet) changedLink() bool {
	changed := func(l Link) bool { return l.changed() != "" }
	return slices.ContainsFunc(r.links, changed) || slices.ContainsFunc(r.newLinks, changed)
}

func sameLinks(a, b []Link) bool {
	return slices.EqualFunc(a, b, func(x, y Link) bool { return x.same(&y) && slices.Equal(x.Pins, y.Pins) })
}

func pinLinks(links []Link, own string) []Link {
	out := make([]Link, len(links))
	for i := range links {
		out[i] = links[i].pinned(own)
	}
	return out
}
