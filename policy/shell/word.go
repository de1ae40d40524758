package shell

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// unknown stands in a word's text for what is not known.
const unknown = utf8.RuneError

// Word is one word of a command.
type Word struct {
	// Text is what the program gets, after the shell has removed quotes.
	// Pieces that are not known are U+FFFD; $HOME, $PWD and variables set to
	// literals in the same text are put in.
	Text string
	// Lit is true when Text is exactly that, whatever the shell's state and
	// whatever files exist.
	Lit bool
	// Quoted is true when some of the word stands in quotes: it is text by
	// intent.
	Quoted bool
	// Why says what makes the word not literal.
	Why string
	// Src is the word as written, without its outer double quotes; set for
	// words that are not literal.
	Src string
}

// Unknown reports whether a piece of the word is not known.
func (w Word) Unknown() bool { return strings.ContainsRune(w.Text, unknown) }

func (w *Word) not(why string) {
	w.Lit = false
	if w.Why == "" {
		w.Why = why
	}
}

// word resolves w as far as the text alone tells.
func (k *walker) word(w *syntax.Word) Word {
	if len(w.Parts) == 1 {
		switch p := w.Parts[0].(type) {
		case *syntax.Lit:
			if p.Value == "[" || !strings.ContainsAny(p.Value, `\*?[{~=`) {
				return Word{Text: p.Value, Lit: true}
			}
		case *syntax.SglQuoted:
			if !p.Dollar {
				return Word{Text: p.Value, Lit: true, Quoted: true}
			}
		}
	}
	out := Word{Lit: true}
	var b strings.Builder
	for i, part := range w.Parts {
		k.part(&out, &b, part, i == 0)
	}
	out.Text = b.String()
	if !out.Lit {
		out.Src = k.text(w)
		if len(w.Parts) == 1 {
			if q, ok := w.Parts[0].(*syntax.DblQuoted); ok {
				out.Src = unescapeDouble(k.src[q.Left.Offset()+1 : q.Right.Offset()])
			}
		}
	}
	return out
}

func (k *walker) part(out *Word, b *strings.Builder, part syntax.WordPart, first bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		k.lit(out, b, p.Value, first)
	case *syntax.SglQuoted:
		out.Quoted = true
		if p.Dollar {
			b.WriteString(ansiC(p.Value))
		} else {
			b.WriteString(p.Value)
		}
	case *syntax.DblQuoted:
		out.Quoted = true
		for _, q := range p.Parts {
			if lit, ok := q.(*syntax.Lit); ok {
				b.WriteString(unescapeDouble(lit.Value))
				continue
			}
			k.part(out, b, q, false)
		}
	case *syntax.ParamExp:
		out.not("a variable")
		if v, ok := k.variable(p); ok {
			b.WriteString(v)
		} else {
			b.WriteRune(unknown)
		}
	case *syntax.CmdSubst:
		out.not("a command substitution")
		b.WriteRune(unknown)
	case *syntax.ProcSubst:
		out.not("a process substitution")
		b.WriteRune(unknown)
	case *syntax.ArithmExp:
		out.not("an arithmetic expansion")
		b.WriteRune(unknown)
	case *syntax.ExtGlob:
		out.not("a file name pattern")
		b.WriteRune(unknown)
	default:
		out.not("an expansion")
		b.WriteRune(unknown)
	}
}

// lit writes unquoted text, seeing what the shell would expand in it.
func (k *walker) lit(out *Word, b *strings.Builder, s string, first bool) {
	if first && strings.HasPrefix(s, "~") {
		out.not("a ~")
		if k.env.Home != "" && (s == "~" || s[1] == '/') {
			b.WriteString(k.env.Home)
			s = s[1:]
		}
	}
	if first && strings.HasPrefix(s, "=") && len(s) > 1 {
		out.not("a = before a name, which zsh expands")
	}
	brace := -1
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch c {
		case '\\':
			i++
			if i < len(s) && s[i] != '\n' {
				b.WriteByte(s[i])
			}
			continue
		case '*', '?', '[':
			out.not("a file name pattern")
		case '{':
			brace = i
		case ',', '.':
			if brace >= 0 && (c == ',' || strings.HasPrefix(s[i:], "..")) && strings.IndexByte(s[i:], '}') > 0 {
				out.not("a brace expansion")
			}
		}
		b.WriteByte(c)
	}
}

// variable is the value of a plain $NAME when the text tells it.
func (k *walker) variable(p *syntax.ParamExp) (string, bool) {
	if p.Param == nil || !plainParam(p) {
		return "", false
	}
	name := p.Param.Value
	if v := k.vars[name]; len(v) > 0 {
		return v[len(v)-1], true
	}
	switch {
	case name == "HOME" && k.env.Home != "":
		return k.env.Home, true
	case name == "PWD":
		return k.env.Cwd, true
	}
	return "", false
}

func plainParam(p *syntax.ParamExp) bool {
	return p.Flags == nil && !p.Excl && !p.Length && !p.Width && !p.IsSet && p.NestedParam == nil && p.Index == nil &&
		len(p.Modifiers) == 0 && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
}

func unescapeDouble(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch s[i+1] {
			case '$', '`', '"', '\\':
				i++
			case '\n':
				i++
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
