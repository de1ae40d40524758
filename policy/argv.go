package policy

import (
	"errors"
	"fmt"
	"strings"

	"permd/policy/shell"
)

// argv is a pattern over the words of one simple command: exact words, a "*"
// within a word for any text in that word, a "*" as the last word for further
// words, and elsewhere for words in between.
type argv struct {
	words []wild
	rest  bool // the last word was "*"
	any   bool // the pattern is "*" alone: every command
}

// wild is a text in which "*" stands for any text.
type wild struct {
	text  string   // as it would be written, for a literal
	parts []string // the literal pieces between stars, nil for a literal
	star  bool     // "*" alone
}

func (w *wild) literal() bool { return w.parts == nil && !w.star }

// match reports whether s is w with every star replaced by some text.
func (w *wild) match(s string) bool {
	if w.star {
		return true
	}
	if w.parts == nil {
		return s == w.text
	}
	first, last := w.parts[0], w.parts[len(w.parts)-1]
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, p := range w.parts[1 : len(w.parts)-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return true
}

// parseWild reads a name in which "*" is special and nothing else is.
func parseWild(s string) wild {
	if s == "*" {
		return wild{text: s, star: true}
	}
	if !strings.Contains(s, "*") {
		return wild{text: s}
	}
	return wild{text: s, parts: strings.Split(s, "*")}
}

const maxCommand = 4096

// parseArgv reads a command pattern. Quotes and backslashes take the meaning
// from a star or a space, as in the shell; everything else that the shell
// would act on is an error, since such a pattern never matches one command.
func parseArgv(s string) (*argv, error) {
	if len(s) > maxCommand {
		return nil, fmt.Errorf("the pattern has %d bytes, at most %d are allowed", len(s), maxCommand)
	}
	p := &argv{}
	for rest := s; ; {
		rest = strings.TrimLeft(rest, " ")
		if rest == "" {
			break
		}
		w, tail, err := cutWord(rest)
		if err != nil {
			return nil, err
		}
		p.words = append(p.words, w)
		rest = tail
	}
	if len(p.words) == 0 {
		return nil, errors.New(`the pattern is empty; to match every command write "*"`)
	}
	first := &p.words[0]
	if name, _, ok := strings.Cut(first.text, "="); ok && shell.ValidName(name) {
		return nil, errors.New("an assignment is not part of a command; write the program first")
	}
	if last := &p.words[len(p.words)-1]; last.star {
		p.any = len(p.words) == 1
		p.rest, p.words = true, p.words[:len(p.words)-1]
	}
	return p, nil
}

// cutWord reads the word that s begins with.
func cutWord(s string) (wild, string, error) {
	var (
		b     strings.Builder
		parts []string
		quote byte
		plain = true // nothing was quoted
	)
	i := 0
scan:
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case c < ' ' || c == 0x7f:
			return wild{}, "", errors.New("the pattern has a control character or a line break; a rule names one simple command")
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				b.WriteByte(c)
			}
			continue
		}
		switch c {
		case ' ':
			break scan
		case '\'', '"':
			quote, plain = c, false
		case '\\':
			if i++; i == len(s) {
				return wild{}, "", errors.New("the pattern ends in a backslash")
			}
			plain = false
			b.WriteByte(s[i])
		case '*':
			parts = append(parts, b.String())
			b.Reset()
		case ';', '&', '|', '<', '>', '(', ')', '$', '`':
			return wild{}, "", fmt.Errorf("%q is for the shell, and a rule names one simple command: it would never match. "+
				"Write one rule for each command, or quote the character if it is part of a word", c)
		case '~':
			if i == 0 {
				return wild{}, "", errors.New(`the shell expands "~" before the program sees it; write the absolute path`)
			}
			b.WriteByte(c)
		case ':':
			if s[i:] == ":*" || strings.HasPrefix(s[i:], ":* ") {
				return wild{}, "", errors.New(`":*" is another program's notation; for any further words write " *". ` +
					`If the colon is part of the word, quote it: "npm run 'test:'*"`)
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	if quote != 0 {
		return wild{}, "", errors.New("a quote is not closed")
	}
	w := wild{text: b.String()}
	if parts != nil {
		w.star = plain && len(parts) == 1 && parts[0] == "" && w.text == ""
		w.parts = append(parts, w.text)
		w.text = strings.Join(w.parts, "*")
	}
	return w, s[i:], nil
}

// exact reports whether p stands for one command line.
func (p *argv) exact() bool {
	if p.rest {
		return false
	}
	for i := range p.words {
		if !p.words[i].literal() {
			return false
		}
	}
	return true
}

// open stands in a word for what is not known of it: only a star at the end
// of a pattern covers such a word.
const open = "\uFFFD"

// more stands for further words, or none.
const more = open + open

// permits reports whether argv, the very words the program gets, is what the
// pattern says. A star never stands for an option in between, nor for a step
// up in a path.
func (p *argv) permits(argv []string) bool {
	if p.any {
		return len(argv) > 0
	}
	n := len(argv)
	if n > 1 && argv[n-1] == more {
		n--
	}
	if n < len(p.words) || p.rest != (n > len(p.words)) {
		return false
	}
	for i := range p.words {
		w := &p.words[i]
		if !w.match(argv[i]) || strings.Contains(argv[i], open) {
			return false
		}
		if !w.literal() && (climbs(argv[i]) || w.star && strings.HasPrefix(argv[i], "-")) {
			return false
		}
	}
	return true
}

// climbs reports whether s has a path segment "..".
func climbs(s string) bool {
	for seg := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '/' || r == '=' || r == ':' }) {
		if seg == ".." {
			return true
		}
	}
	return false
}

// Quote writes words as a command pattern that matches exactly them.
func quoteArgv(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = quoteWord(w)
	}
	return strings.Join(out, " ")
}

func quoteWord(w string) string {
	plain := w != ""
	for i := range len(w) {
		c := w[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_./,=@%+:^#![]{}?", c) >= 0 || c >= 0x80) {
			plain = false
		}
	}
	if plain && !strings.HasSuffix(w, ":") {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
