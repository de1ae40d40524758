package policy

import "strings"

// sedReads reports whether a sed script only prints: it neither writes a file
// (w, W and the flag w), reads another one (r, R) nor runs a command (e and
// the flag e). Commands are listed, never forbidden: what is not known, or
// might be read in two ways, is no reader.
func sedReads(script string) bool {
	p := sedScript{rest: script}
	for p.rest != "" {
		if !p.command() {
			return false
		}
	}
	return p.open == 0
}

type sedScript struct {
	rest string
	open int // braces
}

// command reads one command with its addresses and what separates it.
func (p *sedScript) command() bool {
	p.rest = strings.TrimLeft(p.rest, " \t\n;")
	if p.rest == "" {
		return true
	}
	if p.rest[0] == '#' {
		_, p.rest, _ = strings.Cut(p.rest, "\n")
		return true
	}
	if !p.address() {
		return false
	}
	if after, ok := strings.CutPrefix(p.rest, ","); ok {
		p.rest = strings.TrimLeft(after, " \t")
		p.rest = strings.TrimLeft(p.rest, "+~")
		before := len(p.rest)
		if !p.address() || len(p.rest) == before {
			return false
		}
	}
	p.rest = strings.TrimLeft(p.rest, " \t!")
	if p.rest == "" {
		return false
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	switch c {
	case 'p', 'P', 'd', 'D', 'n', 'N', 'h', 'H', 'g', 'G', 'x', '=', 'F', 'z':
		return p.ends()
	case 'q', 'Q', 'l':
		p.rest = strings.TrimLeft(strings.TrimLeft(p.rest, " "), "0123456789")
		return p.ends()
	case 'b', 't', 'T', ':':
		p.rest = strings.TrimLeft(p.rest, " ")
		i := strings.IndexFunc(p.rest, func(r rune) bool { return !isWordRune(r) })
		if i < 0 {
			i = len(p.rest)
		}
		p.rest = p.rest[i:]
		return p.ends()
	case '{':
		p.open++
		return true
	case '}':
		p.open--
		return p.open >= 0 && p.ends()
	case 'a', 'i', 'c': // text to the end of the line, or of lines that end in a backslash
		for {
			line, rest, more := strings.Cut(p.rest, "\n")
			p.rest = rest
			if slashes := len(line) - len(strings.TrimRight(line, `\`)); !more || slashes%2 == 0 {
				return true
			}
		}
	case 's':
		return p.substitute("gpIiMm0123456789")
	case 'y':
		return p.substitute("")
	}
	return false
}

func isWordRune(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// ends reports whether a command is over here, and passes what ends it.
func (p *sedScript) ends() bool {
	p.rest = strings.TrimLeft(p.rest, " \t")
	return p.rest == "" || strings.IndexByte(";\n}#", p.rest[0]) >= 0
}

// address passes an address, if there is one.
func (p *sedScript) address() bool {
	switch {
	case p.rest == "":
		return false
	case p.rest[0] == '$':
		p.rest = p.rest[1:]
	case p.rest[0] >= '0' && p.rest[0] <= '9':
		p.rest = strings.TrimLeft(p.rest, "0123456789")
		if after, ok := strings.CutPrefix(p.rest, "~"); ok {
			p.rest = strings.TrimLeft(after, "0123456789")
		}
	case p.rest[0] == '/':
		p.rest = p.rest[1:]
		if !p.until('/') {
			return false
		}
		p.rest = strings.TrimLeft(p.rest, "IM")
	}
	return true
}

func (p *sedScript) substitute(flags string) bool {
	if p.rest == "" || strings.IndexByte("/|#,:@!%~+=_", p.rest[0]) < 0 {
		return false
	}
	delim := p.rest[0]
	p.rest = p.rest[1:]
	if !p.until(delim) {
		return false
	}
	if !p.until(delim) {
		return false
	}
	p.rest = strings.TrimLeft(p.rest, flags)
	return p.ends()
}

// until passes text and the delimiter after it. Whether one within brackets
// ends the text depends on whose sed it is: then it is not ours to say.
func (p *sedScript) until(delim byte) bool {
	bracket := -1
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '\\':
			i++
		case c == delim:
			if bracket >= 0 {
				return false
			}
			p.rest = p.rest[i+1:]
			return true
		case c == '[' && bracket < 0:
			bracket = i
		case c == ']' && bracket >= 0 && i > bracket+1 && p.rest[bracket+1:i] != "^":
			bracket = -1
		}
	}
	return false
}
