package ask

import (
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns s with every character that could change what a person
// sees without being seen itself written as ⟨U+XXXX⟩, see [Hidden]; a byte
// that is no UTF-8 as ⟨0xXX⟩; a run of four or more equal ones as one with
// its count. So are combining marks with nothing to stand on, and those after
// the fourth on one character. Newline and tab stay.
//
// It is for text that is shown; what is judged, stored and digested stays
// raw. Applying it twice changes nothing more.
func Visible(s string) string { return show(s, false) }

// VisibleLine is [Visible] for text that must stay on one line: newline and
// tab are written out too, and a run of more than eight spaces, which could
// push the rest out of sight, as its count.
func VisibleLine(s string) string { return show(s, true) }

// HiddenCount is how many characters of s Visible writes out. A surface warns
// when it is not zero.
func HiddenCount(s string) int {
	n := 0
	if plain(s) {
		return n
	}
	for t := range tokens(s, false) {
		if t.hidden {
			n += t.raw
		}
	}
	return n
}

// MinExcerpt is the least length that [Excerpt] cuts to.
const MinExcerpt = 64

// Excerpt is Visible(s) in at most most characters, never fewer than
// [MinExcerpt]. A longer text loses its middle, never its tail: two thirds
// head, a marker that counts what is not shown, one third tail.
func Excerpt(s string, most int) string { return excerpt(s, most, false) }

// ExcerptLine is [Excerpt] over [VisibleLine].
func ExcerptLine(s string, most int) string { return excerpt(s, most, true) }

// Quote returns s for use in an error or a log: on one line, made visible,
// at most 120 characters, in double quotes.
func Quote(s string) string {
	return `"` + quoteEscapes.Replace(ExcerptLine(s, 120)) + `"`
}

var quoteEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// Hidden reports whether r could change what a person sees without being
// seen itself: control, format (bidirectional, zero-width, tag), private-use,
// surrogate and unassigned characters, variation selectors and other
// ignorable ones, line separators, every space but U+0020, fillers that draw
// nothing, and the replacement character, which stands for what is lost.
func Hidden(r rune) bool {
	switch {
	case ' ' <= r && r <= '~':
		return false
	case r == '\n' || r == '\t':
		return false
	case r == utf8.RuneError || r == 0xFFFC:
		return true
	case blank(r):
		return true
	case unicode.In(r, unicode.C, unicode.Z, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		return true
	}
	// Unassigned characters draw as nothing, a box or anything at all.
	return !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S)
}

// blank holds the letters and symbols that draw nothing, which no Unicode
// property of Go names.
func blank(r rune) bool {
	switch r {
	case 0x2800, // braille pattern blank
		0x3164, 0xFFA0, // Hangul fillers
		0x13441, 0x13442, // Egyptian blanks
		0x16FE4, // Khitan filler
		0x1D159: // musical null notehead
		return true
	}
	return false
}

const (
	maxMarks  = 4 // combining marks on one character; scripts in use need three
	maxSpaces = 8
	foldFrom  = 4 // a run this long is written as its count
)

// token is one piece of shown text and how many characters of the original it
// stands for.
type token struct {
	out    string
	raw    int
	hidden bool
}

// plain reports whether s is shown as it is, the common case.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\n' && c != '\t') || c > '~' {
			return false
		}
	}
	return true
}

func show(s string, line bool) string {
	if !line && plain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for t := range tokens(s, line) {
		b.WriteString(t.out)
	}
	return b.String()
}

// tokens cuts s into what is shown, in order. The out parts of all tokens are
// the shown text, the raw parts add up to the characters of s.
func tokens(s string, line bool) iter.Seq[token] {
	return func(yield func(token) bool) {
		marks := maxMarks // at the start of a line there is nothing to stand on
		for i := 0; i < len(s); {
			r, w := utf8.DecodeRuneInString(s[i:])
			one := s[i : i+w]
			t := token{out: one, raw: 1}
			mark := unicode.Is(unicode.M, r)
			switch {
			case r == '\n' || r == '\t':
				t.hidden = line
			case mark && marks >= maxMarks:
				t.hidden = true
			default:
				t.hidden = Hidden(r)
			}
			if t.hidden {
				t.raw = run(s[i:], r, w)
				t.out = written(r, one, t.raw)
			} else if line && r == ' ' {
				if n := run(s[i:], r, w); n > maxSpaces {
					t = token{out: fmt.Sprintf("⟨%d spaces⟩", n), raw: n}
				}
			}
			switch {
			case t.hidden && mark:
			case mark:
				marks++
			case r == '\n' && !line:
				marks = maxMarks
			default:
				marks = 0
			}
			if t.hidden && t.raw < foldFrom {
				t.raw, t.out = 1, written(r, one, 1)
			}
			if !yield(t) {
				return
			}
			i += t.raw * w
		}
	}
}

// run is how many times in a row s starts with r in w bytes: the same rune,
// or for bytes that are no UTF-8 the same byte.
func run(s string, r rune, w int) int {
	one := s[:w]
	n := 0
	for s != "" {
		if next, nw := utf8.DecodeRuneInString(s); next != r || nw != w || s[:w] != one {
			break
		}
		n, s = n+1, s[w:]
	}
	return n
}

func written(r rune, one string, n int) string {
	code := fmt.Sprintf("U+%04X", r)
	if r == utf8.RuneError && len(one) == 1 {
		code = fmt.Sprintf("0x%02X", one[0])
	}
	if n >= foldFrom {
		return fmt.Sprintf("⟨%s ×%d⟩", code, n)
	}
	return "⟨" + code + "⟩"
}

func excerpt(s string, most int, line bool) string {
	most = max(most, MinExcerpt)
	if len(s) <= most && plain(s) && !line {
		return s
	}
	total := 0
	for t := range tokens(s, line) {
		total += utf8.RuneCountInString(t.out)
	}
	if total <= most {
		return show(s, line)
	}
	const marker = 40 // room for the marker with any count
	tail := (most - marker) / 3
	head := most - marker - tail
	var b strings.Builder
	seen, left, skipped := 0, total, 0
	cut := false
	for t := range tokens(s, line) {
		n := utf8.RuneCountInString(t.out)
		switch {
		case !cut && seen+n <= head:
			seen += n
			b.WriteString(t.out)
		case left > tail:
			cut = true
			skipped += t.raw
		default:
			if skipped > 0 {
				fmt.Fprintf(&b, "⟨%d characters not shown⟩", skipped)
				skipped = 0
			}
			b.WriteString(t.out)
		}
		left -= n
	}
	if skipped > 0 {
		fmt.Fprintf(&b, "⟨%d characters not shown⟩", skipped)
	}
	return b.String()
}
