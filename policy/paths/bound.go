package paths

import (
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Bound is a pattern with its anchor put in place: what matches now, on this
// file system.
type Bound struct {
	p *Pattern
	// permit and forbid are the directories, or for a pattern without a glob
	// the names, that the pattern stands for: as written, with the anchor as
	// it really is, and with links followed; for a rule that permits only
	// links that root made.
	permit, forbid []string
	folded         []string // forbid in lower case
}

// Bind puts p in its place. Without a project, a pattern relative to it
// permits nothing and forbids relative to the working directory.
func (p *Pattern) Bind(r *Resolver, a Anchors) *Bound {
	b := &Bound{p: p}
	switch p.anchor {
	case AnchorAny:
		b.permit, b.forbid = []string{"/"}, []string{"/"}
	case AnchorRoot:
		b.bindRoot(r, a)
	case AnchorProject:
		if a.Project.Sure() {
			b.bindAt(r, a.Project)
		} else {
			b.bindAt(r, a.Cwd)
			b.permit = nil
		}
	case AnchorHome:
		b.bindAt(r, a.Home)
	case AnchorCwd:
		b.bindAt(r, a.Cwd)
		b.permit = nil // the agent chooses where it is
	}
	for _, s := range b.forbid {
		b.folded = append(b.folded, strings.ToLower(s))
	}
	return b
}

func (b *Bound) bindRoot(r *Resolver, a Anchors) {
	root := "/" + b.p.lit
	b.add(root, root)
	for _, at := range []Place{a.Project, a.Home} {
		if at.Sure() && at.Given != at.Real && Under(at.Given, root) {
			moved := join(at.Real, strings.TrimPrefix(root[len(at.Given):], "/"))
			b.add(moved, moved)
		}
	}
	pl := r.Place(root)
	b.add(pl.Trusted, pl.Real)
}

func (b *Bound) bindAt(r *Resolver, at Place) {
	if at.Given == "" {
		return
	}
	root := join(at.Given, b.p.lit)
	b.add(root, root)
	moved := join(at.Real, b.p.lit)
	b.add(moved, moved)
	pl := r.Place(root)
	b.add("", pl.Real)
}

func (b *Bound) add(permit, forbid string) {
	if permit != "" && !slices.Contains(b.permit, permit) {
		b.permit = append(b.permit, permit)
	}
	if forbid != "" && !slices.Contains(b.forbid, forbid) {
		b.forbid = append(b.forbid, forbid)
	}
}

// Permits reports whether pl certainly lies where the pattern points, by what
// it says and by where it is.
func (b *Bound) Permits(pl Place) bool {
	return pl.Sure() && b.permits(pl.Given) && (pl.Real == pl.Given || b.permits(pl.Real))
}

func (b *Bound) permits(name string) bool {
	for _, root := range b.permit {
		if b.p.match(root, b.p.glob, name, b.p.dir) {
			return true
		}
	}
	return false
}

// Forbids reports whether pl, by what it says or by where it is, lies where
// the pattern points or anywhere below it. Fold ignores the case of letters.
func (b *Bound) Forbids(pl Place, fold bool) bool {
	return b.forbids(pl.Given, fold) || pl.Real != pl.Given && b.forbids(pl.Real, fold)
}

func (b *Bound) forbids(name string, fold bool) bool {
	roots, glob := b.forbid, b.p.glob
	if fold {
		roots, glob, name = b.folded, b.p.folded, strings.ToLower(name)
	}
	for _, root := range roots {
		if b.p.match(root, glob, name, true) {
			return true
		}
	}
	return false
}

// Covers reports whether anything below the directory dir could be forbidden
// by the pattern: a search through dir would meet it.
func (b *Bound) Covers(dir Place, fold bool) bool {
	if b.Forbids(dir, fold) {
		return true
	}
	for _, root := range b.forbid {
		for _, at := range []string{dir.Given, dir.Real} {
			if Under(at, root) || b.p.glob != "" && Under(root, at) {
				return true
			}
		}
	}
	return false
}

func (p *Pattern) match(root, glob, name string, below bool) bool {
	if !Under(root, name) {
		return false
	}
	if glob == "" {
		return below || len(name) == len(root)
	}
	rest := strings.TrimPrefix(name[len(strings.TrimSuffix(root, "/")):], "/")
	if doublestar.MatchUnvalidated(glob, rest) {
		return true
	}
	if !below || strings.HasSuffix(glob, "**") {
		return false
	}
	// Below: some leading part of the name matches.
	for i := range len(rest) {
		if rest[i] == '/' && doublestar.MatchUnvalidated(glob, rest[:i]) {
			return true
		}
	}
	return false
}

// Keys returns literal segments one of which every name that the pattern
// forbids or permits must have, nil when there are none: an index by segment
// finds all patterns that can match a name.
func (b *Bound) Keys() []string {
	if lit := lastLiteral(b.p.glob); lit != "" {
		return []string{lit}
	}
	var keys []string
	for _, roots := range [][]string{b.permit, b.forbid} {
		for _, root := range roots {
			key := root[strings.LastIndexByte(root, '/')+1:]
			if key == "" {
				return nil
			}
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

func lastLiteral(glob string) string {
	if strings.ContainsAny(glob, "{[") {
		return "" // a slash may stand inside
	}
	for glob != "" {
		i := strings.LastIndexByte(glob, '/')
		if lit, ok := unescape(glob[i+1:]); ok {
			return lit
		}
		glob = glob[:max(i, 0)]
	}
	return ""
}
