package policy

import (
	"fmt"
	"sort"
	"strings"
)

// Problem is one fault of a rule file: where it is, what is wrong and what to
// write instead. Line and Col count from 1, Col in bytes; both are 0 when the
// fault is the file's as a whole.
type Problem struct {
	File string
	Line int
	Col  int
	Text string
}

// Error is "file:line:col: text".
func (p Problem) Error() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Col, p.Text)
}

// Problems are all faults found, in the order of the files. It is the error
// type of everything that reads rules.
type Problems []Problem

// Error lists the problems, one a line.
func (ps Problems) Error() string {
	const most = 20
	var b strings.Builder
	for i, p := range ps {
		if i == most {
			fmt.Fprintf(&b, "\nand %d more", len(ps)-most)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Error())
	}
	return b.String()
}

// Unwrap gives the single problems.
func (ps Problems) Unwrap() []error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errs
}

// nearest returns the word of list that s was most likely meant to be, "" when
// none is near.
func nearest(s string, list []string) string {
	best, least := "", 3
	if len(s) < 4 {
		least = 2
	}
	for _, w := range list {
		if d := distance(s, w); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// unknownWord says what a word may be instead of s.
func unknownWord(what, s string, list []string) string {
	sorted := append([]string(nil), list...)
	sort.Strings(sorted)
	if n := nearest(s, list); n != "" {
		return fmt.Sprintf("unknown %s %q; did you mean %q?", what, cut(s), n)
	}
	return fmt.Sprintf("unknown %s %q; it is one of %s", what, cut(s), strings.Join(sorted, ", "))
}

func cut(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
