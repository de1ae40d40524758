package policy

import (
	"path"
	"slices"
	"strings"

	"permd/policy/shell"
)

// forbids reports whether u may be what the pattern says, however it is
// spelled: the program by any path, options in any order, bundle and place,
// other options beside them, and, for a pattern that ends in "*", with or
// without further words.
func (p *argv) forbids(u *shell.Unit, fold bool) bool {
	if p.any {
		return true
	}
	if len(p.words) > 0 && !p.program(u, fold) {
		return false
	}
	m := suspicion{p: p, dir: u.Dir, more: u.More}
	m.load(u.Words[1:])
	return m.match()
}

func (p *argv) program(u *shell.Unit, fold bool) bool {
	want := &p.words[0]
	if want.star {
		return true
	}
	name, full := u.Name(), u.Words[0].Text
	if name == "" {
		return false
	}
	if fold {
		lower := parseWild(strings.ToLower(want.text))
		want, name, full = &lower, strings.ToLower(name), strings.ToLower(full)
	}
	if want.match(full) || want.match(name) {
		return true
	}
	// A pattern with a path also stands for the bare name, which may be found
	// there; a word with another path is another program.
	if i := strings.LastIndexByte(want.text, '/'); i >= 0 && !strings.Contains(full, "/") {
		base := parseWild(want.text[i+1:])
		return base.match(name)
	}
	return false
}

// suspicion matches the words after the program.
type suspicion struct {
	p    *argv
	dir  string   // where relative names of files are
	more bool     // words that are not known follow
	opts []string // words that begin with "-"
	ops  []operand
}

// operand is a word that is no option.
type operand struct {
	text string
	// follows is true when an option without "=" stands before it: it may be
	// that option's value.
	follows bool
}

func (m *suspicion) load(words []shell.Word) {
	follows, end := false, false
	for i := range words {
		s := words[i].Text
		if !end && s == "--" {
			end = true
			continue
		}
		if !end && len(s) > 1 && s[0] == '-' {
			m.opts = append(m.opts, s)
			follows = !strings.Contains(s, "=")
			continue
		}
		m.ops = append(m.ops, operand{s, follows})
		follows = false
	}
}

// match wants all options of the pattern, whatever others there are, and its
// other words in order.
func (m *suspicion) match() bool {
	ops := make([]wild, 0, len(m.p.words))
	for i := 1; i < len(m.p.words); i++ {
		w := &m.p.words[i]
		switch {
		case w.text == "--" && w.literal():
		case len(w.text) > 1 && w.text[0] == '-' && !w.star:
			if !m.more && !m.option(w) {
				return false
			}
		default:
			ops = append(ops, *w)
		}
	}
	return m.sequence(ops, m.p.rest || m.p.open())
}

// open reports whether the last word of the pattern ends in a star: what
// forbids "git push --force*" means the words behind it too.
func (p *argv) open() bool {
	return len(p.words) > 0 && strings.HasSuffix(p.words[len(p.words)-1].text, "*") && !p.words[len(p.words)-1].literal()
}

// hits reports whether operand o is what w says, for an absolute pattern also
// by where a relative name leads.
func (m *suspicion) hits(w *wild, o *operand) bool {
	if w.match(o.text) {
		return true
	}
	if !strings.HasPrefix(w.text, "/") || o.text == "" || o.text[0] == '/' || m.dir == "" {
		return false
	}
	return w.match(path.Join(m.dir, o.text))
}

// option reports whether the pattern's option w is among those of the unit.
func (m *suspicion) option(w *wild) bool {
	for _, o := range m.opts {
		name, _, _ := strings.Cut(o, "=")
		if w.match(o) || w.match(name) || abbreviates(name, w) {
			return true
		}
	}
	// A bundle of letters, in any order and in any number of words.
	if !w.literal() || strings.HasPrefix(w.text, "--") || len(w.text) > 5 {
		return false
	}
	for i := 1; i < len(w.text); i++ {
		if !m.letter(w.text[i]) {
			return false
		}
	}
	return true
}

func (m *suspicion) letter(c byte) bool {
	for _, o := range m.opts {
		if strings.HasPrefix(o, "--") {
			if name, _, _ := strings.Cut(o, "="); longOf[c] != "" && len(name) >= len("--")+3 && strings.HasPrefix(longOf[c], name) {
				return true
			}
		} else if strings.IndexByte(o[1:], c) >= 0 {
			return true
		}
	}
	return false
}

// longOf are the long names that the letters of dangerous options commonly
// have.
var longOf = map[byte]string{'r': "--recursive", 'R': "--recursive", 'f': "--force"}

// abbreviates reports whether name may be short for the pattern's long
// option, as getopt and git take it.
func abbreviates(name string, w *wild) bool {
	const least = len("--") + 3
	return len(name) >= least && strings.HasPrefix(name, "--") && w.literal() && strings.HasPrefix(w.text, name)
}

// sequence reports whether the operands are the patterns in order. An operand
// that may be the value of an option may be left out; a star in between
// stands for any number of them. It keeps the set of patterns that may be
// next, so that its work is the product of the two lengths at most.
func (m *suspicion) sequence(patterns []wild, rest bool) bool {
	next := make([]bool, len(patterns)+1)
	reach(next, patterns, 0)
	end := len(patterns)
	for i := range m.ops {
		o := &m.ops[i]
		if rest && next[end] {
			return true
		}
		after := make([]bool, len(next))
		for j, may := range next {
			if !may {
				continue
			}
			if o.follows || j < end && patterns[j].star {
				reach(after, patterns, j)
			}
			if j < end && m.hits(&patterns[j], o) {
				reach(after, patterns, j+1)
			}
		}
		next = after
	}
	if m.more { // what is left of the pattern may be among the words that follow
		return slices.Contains(next, true)
	}
	return next[end]
}

// reach marks j, and what is behind stars there: a star may stand for
// nothing.
func reach(set []bool, patterns []wild, j int) {
	set[j] = true
	for j < len(patterns) && patterns[j].star {
		j++
		set[j] = true
	}
}
