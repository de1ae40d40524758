package tui

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// row is one line of a screen, without styles.
type row struct {
	kind kind
	text string
}

// What a text may not do to a screen: push the rest out of sight with white
// space. Longer runs are written as their number.
const (
	maxBlanks     = 40
	maxEmptyLines = 20
	tabWidth      = 4
)

// rows lays paragraphs out in lines of at most width cells. Every line of an
// agent's text begins with a bar, one that only goes on from the line before
// with a broken one.
func rows(doc []para, width int) []row {
	var out []row
	for _, p := range doc {
		switch p.kind {
		case kindBlank:
			out = append(out, row{kind: kindBlank})
		case kindTitle:
			out = append(out, hang(p.kind, p.text, "", "", width)...)
		case kindFact:
			out = append(out, hang(p.kind, p.label+": "+p.text, "", "  ", width)...)
		case kindWarn:
			out = append(out, hang(p.kind, p.text, "! ", "  ", width)...)
		case kindAgent, kindRule:
			if p.label != "" {
				out = append(out, hang(kindFact, p.label+":", "", "  ", width)...)
			}
			for _, l := range strings.Split(fold(p.text), "\n") {
				out = append(out, hang(p.kind, l, "│ ", "┆ ", width)...)
			}
		}
	}
	return out
}

// hang breaks one line into rows; first stands before the first row, rest
// before the others.
func hang(k kind, text, first, rest string, width int) []row {
	room := width - max(ansi.StringWidth(first), ansi.StringWidth(rest))
	if room < 2 { // a wide character has two cells
		first, rest, room = "", "", max(width, 2)
	}
	var out []row
	for i, l := range strings.Split(ansi.Hardwrap(text, room, true), "\n") {
		if i == 0 {
			l = first + l
		} else {
			l = rest + l
		}
		out = append(out, row{k, l})
	}
	return out
}

// fold writes long runs of white space as their number and tabs as spaces.
func fold(s string) string {
	s = strings.ReplaceAll(s, "\t", strings.Repeat(" ", tabWidth))
	s = foldRun(s, ' ', maxBlanks, "⟨%d spaces⟩")
	return foldRun(s, '\n', maxEmptyLines, "\n⟨%d line breaks⟩\n")
}

func foldRun(s string, c byte, most int, format string) string {
	if !strings.Contains(s, strings.Repeat(string(c), most+1)) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		n := 0
		for i+n < len(s) && s[i+n] == c {
			n++
		}
		switch {
		case n > most:
			fmt.Fprintf(&b, format, n)
			i += n
		case n > 0:
			b.WriteString(s[i : i+n])
			i += n
		default:
			b.WriteByte(s[i])
			i++
		}
	}
	return b.String()
}

// fit cuts one line to width cells.
func fit(s string, width int) string { return ansi.Truncate(s, max(width, 0), "…") }
