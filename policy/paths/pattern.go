package paths

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Anchor is what a pattern is relative to.
type Anchor uint8

// The anchors. A pattern without any is relative to the project.
const (
	AnchorProject Anchor = iota // "src/**", "<project>/src/**"
	AnchorRoot                  // "/etc/**"
	AnchorHome                  // "~/.ssh/**", "<home>/.ssh/**"
	AnchorCwd                   // "<cwd>/**"
	AnchorAny                   // "**/.env": at any depth, anywhere
)

// Bounds of a pattern. They keep matching linear: {a,aa} twenty-five times
// over takes seconds without them.
const (
	MaxPattern      = 1024
	maxStars        = 16  // "*" in all
	maxDoubleStars  = 4   // "**" segments
	maxAlternatives = 256 // product of the sizes of all {…}
)

// Pattern is a glob over absolute names: "*" within one segment, "**" as a
// whole segment for any number of them, "?", "[…]", "{a,b}", "\" before a
// character that is to be itself. A final "/" names a directory and all in it.
type Pattern struct {
	source string
	anchor Anchor
	lit    string // literal segments after the anchor, unescaped, no slash at either end
	glob   string // the rest, "" when the pattern is one name
	folded string // glob in lower case
	dir    bool   // written with a final slash
}

// String returns the pattern as written.
func (p *Pattern) String() string { return p.source }

// Anchor returns what p is relative to.
func (p *Pattern) Anchor() Anchor { return p.anchor }

// Literal reports whether p names exactly one file or directory.
func (p *Pattern) Literal() bool { return p.glob == "" && !p.dir }

// Parse reads a pattern. Errors say what to write instead.
func Parse(s string) (*Pattern, error) {
	switch {
	case s == "":
		return nil, errors.New("the pattern is empty; leave the key out to match every path")
	case len(s) > MaxPattern:
		return nil, fmt.Errorf("the pattern has %d bytes, at most %d are allowed", len(s), MaxPattern)
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return nil, errors.New("the pattern has a control character")
	case strings.TrimSpace(s) != s:
		return nil, errors.New("the pattern begins or ends with a space")
	}
	p := &Pattern{source: s}
	rest, err := p.cutAnchor(s)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(rest, "/") {
		p.dir, rest = true, strings.TrimSuffix(rest, "/")
	}
	if rest == "" {
		if p.anchor == AnchorRoot {
			p.dir = true
		}
		return p, nil
	}
	if err := checkSegments(rest); err != nil {
		return nil, err
	}
	p.split(rest)
	return p, nil
}

// cutAnchor sets the anchor and returns what follows it, without a slash.
func (p *Pattern) cutAnchor(s string) (string, error) {
	for _, a := range []struct {
		name   string
		anchor Anchor
	}{{"~", AnchorHome}, {"<home>", AnchorHome}, {"<project>", AnchorProject}, {"<cwd>", AnchorCwd}} {
		if rest, ok := strings.CutPrefix(s, a.name); ok && (rest == "" || rest[0] == '/') {
			p.anchor = a.anchor
			if rest == "/" {
				p.dir = true
			}
			return strings.TrimPrefix(rest, "/"), nil
		}
	}
	switch {
	case s[0] == '/':
		p.anchor = AnchorRoot
		return s[1:], nil
	case s[0] == '~':
		return "", errors.New("another user's home; write its absolute path")
	case s[0] == '<':
		return "", errors.New("unknown anchor; the anchors are <project>, <home> (or ~) and <cwd>")
	case s[0] == '$':
		return "", errors.New("variables are not expanded in a rule; write ~ for the home directory or <project> for the project")
	case strings.HasPrefix(s, "**/"):
		p.anchor = AnchorAny
	}
	return s, nil
}

func checkSegments(s string) error {
	if !doublestar.ValidatePattern(s) {
		return errors.New("the pattern is not valid: a bracket or brace is not closed, or it ends in a backslash")
	}
	doubles := 0
	for seg := range strings.SplitSeq(s, "/") {
		switch {
		case seg == "":
			return errors.New("two slashes in a row never match; write one")
		case seg == "." || seg == "..":
			return fmt.Errorf("%q never matches: names are cleaned first; write the path without it, from <project>, ~ or /", seg)
		case seg == "**":
			doubles++
		case strings.Contains(seg, "**"):
			return errors.New(`"**" crosses directories only as a whole segment, as in "src/**/x"; write "*" within a segment`)
		}
	}
	if doubles > maxDoubleStars || strings.Count(s, "*") > maxStars {
		return fmt.Errorf("too many stars: at most %d \"**\" and %d \"*\" in all", maxDoubleStars, maxStars)
	}
	return checkBraces(s)
}

func checkBraces(s string) error {
	product, size, in := 1, 0, false
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '{':
			if in {
				return errors.New("braces within braces; write the alternatives in one list, or a second rule")
			}
			in, size = true, 1
		case ',':
			size++
		case '}':
			if in {
				product *= size
			}
			in = false
		}
		if product > maxAlternatives || size > maxAlternatives {
			return fmt.Errorf("more than %d alternatives; write several rules", maxAlternatives)
		}
	}
	return nil
}

// split divides the leading literal segments from the glob.
func (p *Pattern) split(s string) {
	var lits []string
	rest := s
	for rest != "" {
		seg, tail, _ := strings.Cut(rest, "/")
		lit, ok := unescape(seg)
		if !ok {
			break
		}
		lits = append(lits, lit)
		rest = tail
	}
	p.lit = strings.Join(lits, "/")
	p.glob = rest
	p.folded = strings.ToLower(rest)
}

const meta = `*?[]{}\`

// unescape returns the literal that seg stands for, not ok when it is a glob.
func unescape(seg string) (string, bool) {
	if !strings.ContainsAny(seg, meta) {
		return seg, true
	}
	var b strings.Builder
	for i := 0; i < len(seg); i++ {
		switch c := seg[i]; c {
		case '\\':
			i++
			if i < len(seg) {
				b.WriteByte(seg[i])
			}
		case '*', '?', '[', '{':
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// Escape returns the pattern that matches exactly the absolute name.
func Escape(name string) string {
	if !strings.ContainsAny(name, meta) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if strings.IndexByte(meta, name[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(name[i])
	}
	return b.String()
}
