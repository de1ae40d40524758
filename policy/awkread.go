package policy

import (
	"slices"
	"strings"
)

// awkReads reports whether an awk program only computes and prints: no
// redirection and no pipe, no system, getline, environment or further files.
// Words are listed; a program that can be split into words in two ways is no
// reader.
func awkReads(program string) bool {
	p := awkProgram{rest: program}
	for p.rest != "" {
		if !p.token() {
			return false
		}
	}
	for _, name := range p.called {
		if !slices.Contains(p.defined, name) {
			return false
		}
	}
	return true
}

type awkProgram struct {
	rest  string
	depth int // braces
	round int // parentheses
	// called are functions that the program is to define itself.
	called, defined []string
	define          bool // the next word is defined
	// operand is true behind what a "/" would divide.
	operand bool
	// unsure is true where a "/" may divide or begin a pattern.
	unsure bool
}

// awkWords are the names in capitals that a program may use; all others are
// its own, or change what it reads.
const awkWords = " BEGIN END NR NF FS OFS RS ORS FNR FILENAME RSTART RLENGTH SUBSEP CONVFMT OFMT IGNORECASE FPAT FIELDWIDTHS RT "

// awkCalls are the functions that a program may call, and the words that a
// bracket may follow.
const awkCalls = " length substr index split sub gsub match sprintf sin cos atan2 exp log sqrt int rand srand tolower toupper strftime systime mktime gensub " +
	"asort asorti print printf if while for and or xor compl lshift rshift strtonum in return exit "

// awkPatterns are words after which a "/" begins a pattern.
const awkPatterns = " print printf return in else do exit case "

func (p *awkProgram) token() bool {
	c := p.rest[0]
	switch {
	case strings.HasPrefix(p.rest, "\\\n"):
		p.rest = p.rest[2:]
	case c == ' ' || c == '\t' || c == '\n' || c == ';':
		if c == '\n' || c == ';' {
			p.operand, p.unsure = false, false
		}
		p.rest = p.rest[1:]
	case c == '"':
		return p.quoted('"')
	case c == '/':
		if p.unsure {
			return false
		}
		if !p.operand {
			return p.quoted('/')
		}
		p.rest, p.operand = p.rest[1:], false
	case c == '#':
		_, p.rest, _ = strings.Cut(p.rest, "\n")
	case isWordRune(rune(c)):
		return p.word()
	case strings.HasPrefix(p.rest, "||"):
		p.rest, p.operand, p.unsure = p.rest[2:], false, false
	case c == '|' || c == '@' || c == '`' || c == '\'' || c == '\\' || c >= 0x80:
		return false
	case c == '>':
		// Within parentheses, and outside of all braces, it compares.
		if p.depth > 0 && p.round == 0 {
			return false
		}
		p.rest, p.operand, p.unsure = p.rest[1:], false, false
	case strings.HasPrefix(p.rest, "++") || strings.HasPrefix(p.rest, "--"):
		p.rest, p.unsure = p.rest[2:], true
	default:
		switch c {
		case '{':
			p.depth++
		case '}':
			p.depth--
		case '(':
			p.round++
		case ')':
			p.round--
		}
		p.operand, p.unsure = c == ']', c == ')' || c == '$'
		p.rest = p.rest[1:]
	}
	return p.depth >= 0 && p.round >= 0
}

// quoted passes a text or a pattern. A pattern with a bracket, in which a
// slash may be meant as it is, is left to others.
func (p *awkProgram) quoted(by byte) bool {
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '\\':
			i++
		case '\n':
			return false
		case '[':
			if by == '/' && !plainSet(p.rest[i:]) {
				return false
			}
		case by:
			p.rest, p.operand, p.unsure = p.rest[i+1:], true, false
			return true
		}
	}
	return false
}

// plainSet reports whether the bracket that s begins with ends where every awk
// says so.
func plainSet(s string) bool {
	set, _, closed := strings.Cut(s[1:], "]")
	set = strings.TrimPrefix(set, "^")
	return closed && set != "" && !strings.ContainsAny(set, `/\`) && !strings.Contains(strings.TrimPrefix(set, "[:"), "[")
}

func (p *awkProgram) word() bool {
	i := strings.IndexFunc(p.rest, func(r rune) bool { return !isWordRune(r) })
	if i < 0 {
		i = len(p.rest)
	}
	w := p.rest[:i]
	p.rest = p.rest[i:]
	p.operand, p.unsure = !listed(awkPatterns, w), false
	next := strings.TrimLeft(p.rest, " \t")
	switch {
	case strings.Trim(w, "0123456789") == "":
		return true
	case w == "getline" || w == "system" || w == "close" || w == "fflush":
		return false
	case w == "function" || w == "func":
		p.define = true
		return true
	case strings.ToUpper(w) == w && len(w) > 1 && !listed(awkWords, w):
		return false
	case p.define:
		p.define, p.defined = false, append(p.defined, w)
	case strings.HasPrefix(next, "(") && !listed(awkCalls, w):
		p.called = append(p.called, w)
	}
	return true
}
