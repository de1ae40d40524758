package shell

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// unknown stands in a word's text for what is not known.
const unknown = utf8.RuneError

// Openness says how much a word that is understood leaves open: what it is
// made of are variables of the text and the output of commands that are units
// themselves.
type Openness uint8

// How open a word is.
const (
	Closed    Openness = iota
	OpenCount          // digits stand where it is not known
	OpenWord           // it is one word
	OpenWords          // it may be any number of words, and names of files
)

// Word is one word of a command.
type Word struct {
	// Text is what the program gets, after the shell has removed quotes.
	// Pieces that are not known are U+FFFD; $HOME, $PWD and variables set to
	// literals in the same text are put in.
	Text string
	// Lit is true when Text is exactly that, whatever files exist.
	Lit bool
	// Quoted is true when some of the word stands in quotes: it is text by
	// intent.
	Quoted bool
	// Split is true when the shell reads the names that Glob stands for again:
	// one with a space in it is several words.
	Split bool
	// Pipe is true for a process substitution: the word names a pipe.
	Pipe bool
	// Open is not Closed for a word that is understood though not all of its
	// text is known.
	Open Openness
	x    *extra // what only few words have
}

type extra struct{ why, src, head, guess, glob string }

// Why says what keeps the word from being plain text in the source, "" when it
// is. A word may be Lit all the same.
func (w Word) Why() string {
	if w.x == nil {
		return ""
	}
	return w.x.why
}

// Src is the word as written, without its outer double quotes; set when Why is.
func (w Word) Src() string {
	if w.x == nil {
		return ""
	}
	return w.x.src
}

// Head is what stands before the first piece of an open word that is not known.
func (w Word) Head() string {
	if w.x == nil {
		return ""
	}
	return w.x.head
}

// Guess is the text of an open word with values that the variables in it may
// have, "" when there are none.
func (w Word) Guess() string {
	if w.x == nil {
		return ""
	}
	return w.x.guess
}

// Glob is the file name pattern that the word is, literal characters of special
// meaning behind a backslash; "" for no pattern.
func (w Word) Glob() string {
	if w.x == nil {
		return ""
	}
	return w.x.glob
}

func noted(text string, lit bool, why string) Word {
	return Word{Text: text, Lit: lit, x: &extra{why: why}}
}

// Further is a word that stands for further words, or for none.
func Further(text, why string) Word {
	return Word{Text: text, Open: OpenWords, x: &extra{why: why, head: text}}
}

// Unknown reports whether a piece of the word is not known.
func (w Word) Unknown() bool { return strings.ContainsRune(w.Text, unknown) }

// Settled reports whether the word is understood: its text is known, or what
// is not known of it is of a known kind.
func (w *Word) Settled() bool { return w.Lit || w.Open != Closed || w.Pipe || w.Glob() != "" }

// builder makes a word of its parts.
type builder struct {
	Word
	x      extra
	b      strings.Builder
	glob   strings.Builder
	isGlob bool
	broken bool // something in it is not understood
	open   Openness
	whole  *Word // the value of the variable that is the only part
	tries  []string
}

// why notes what keeps the word from being plain.
func (o *builder) why(why string) {
	if o.x.why == "" {
		o.x.why = why
	}
}

func (o *builder) doubt(why string) {
	if !o.broken {
		o.x.why = why
	}
	o.broken = true
}

func (o *builder) leave(how Openness) {
	if o.open == Closed {
		o.x.head = o.b.String()
	}
	o.open = max(o.open, how)
	o.b.WriteRune(unknown)
}

// write adds literal text.
func (o *builder) write(s string) {
	o.b.WriteString(s)
	if strings.ContainsAny(s, `\*?[`) {
		for i := range len(s) {
			if strings.IndexByte(`\*?[]`, s[i]) >= 0 {
				o.glob.WriteByte('\\')
			}
			o.glob.WriteByte(s[i])
		}
		return
	}
	o.glob.WriteString(s)
}

// word resolves w as far as the text alone tells.
func (k *walker) word(w *syntax.Word, c *context) Word {
	if len(w.Parts) == 1 {
		switch p := w.Parts[0].(type) {
		case *syntax.Lit:
			if p.Value == "[" || !strings.ContainsAny(p.Value, `\*?[{~=`) {
				return Word{Text: p.Value, Lit: !strings.ContainsRune(p.Value, unknown)}
			}
		case *syntax.SglQuoted:
			if !p.Dollar {
				return Word{Text: p.Value, Lit: !strings.ContainsRune(p.Value, unknown), Quoted: true}
			}
		case *syntax.DblQuoted:
			if len(p.Parts) == 1 {
				if lit, ok := p.Parts[0].(*syntax.Lit); ok && strings.IndexByte(lit.Value, '\\') < 0 {
					return Word{Text: lit.Value, Lit: !strings.ContainsRune(lit.Value, unknown), Quoted: true}
				}
			}
		}
	}
	if v, ok := k.known(w, c); ok {
		return v
	}
	var o builder
	for i, part := range w.Parts {
		k.part(&o, part, c, i == 0, false, len(w.Parts) == 1)
	}
	return k.finish(&o, w)
}

// known is word for "$name" of a variable whose value is text.
func (k *walker) known(w *syntax.Word, c *context) (Word, bool) {
	if len(w.Parts) != 1 {
		return Word{}, false
	}
	q, ok := w.Parts[0].(*syntax.DblQuoted)
	if !ok || len(q.Parts) != 1 || q.Dollar {
		return Word{}, false
	}
	p, ok := q.Parts[0].(*syntax.ParamExp)
	if !ok {
		return Word{}, false
	}
	v, ok := k.value(p, c)
	if !ok || !v.Lit || strings.ContainsRune(v.Text, unknown) {
		return Word{}, false
	}
	src := unescapeDouble(k.src[q.Left.Offset()+1 : q.Right.Offset()])
	return Word{Text: v.Text, Lit: true, Quoted: true, x: k.reader.extra(extra{why: "a variable", src: src})}, true
}

func (k *walker) finish(o *builder, w *syntax.Word) Word {
	out, x := o.Word, o.x
	out.Text = o.b.String()
	switch {
	case o.broken:
		x.head, out.Pipe = "", false
	case o.whole != nil:
		x.glob, x.head = o.whole.Glob(), o.whole.Head()
		out.Lit, out.Split, out.Open = o.whole.Lit, o.whole.Split, o.whole.Open
	case out.Pipe && len(w.Parts) == 1:
	case out.Pipe, o.isGlob && o.open != Closed:
		out.Pipe = false
		x.why = "a pattern or pipe beside what is not known"
	case o.isGlob:
		x.glob = o.glob.String()
	case o.open != Closed:
		out.Open = o.open
		if n := strings.Count(out.Text, string(unknown)); n > 0 && n == len(o.tries) {
			x.guess = out.Text
			for _, v := range o.tries {
				x.guess = strings.Replace(x.guess, string(unknown), v, 1)
			}
		}
	default:
		out.Lit = !strings.ContainsRune(out.Text, unknown)
		if !out.Lit && x.why == "" {
			x.why = "text that is not UTF-8"
		}
	}
	if x.why == "" {
		return out
	}
	if len(w.Parts) > 0 {
		x.src = k.text(w)
		if len(w.Parts) == 1 {
			if q, ok := w.Parts[0].(*syntax.DblQuoted); ok {
				x.src = unescapeDouble(k.src[q.Left.Offset()+1 : q.Right.Offset()])
			}
		}
	}
	out.x = k.reader.extra(x)
	return out
}

// part adds one part; quoted within double quotes, alone when it is the whole
// word.
func (k *walker) part(o *builder, part syntax.WordPart, c *context, first, quoted, alone bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		if quoted {
			o.write(unescapeDouble(p.Value))
		} else {
			k.lit(o, p.Value, first)
		}
	case *syntax.SglQuoted:
		o.Quoted = true
		if p.Dollar {
			o.write(ansiC(p.Value))
		} else {
			o.write(p.Value)
		}
	case *syntax.DblQuoted:
		o.Quoted = true
		for _, q := range p.Parts {
			k.part(o, q, c, false, true, alone && len(p.Parts) == 1)
		}
	case *syntax.ParamExp:
		k.param(o, p, c, quoted, alone)
	case *syntax.CmdSubst:
		o.why("a command substitution")
		if text, ok := k.heredocText(p); ok && quoted {
			o.write(text)
			return
		}
		how := OpenWord
		if !quoted {
			how = OpenWords
		}
		if p.TempFile || p.ReplyVar {
			o.doubt("a command substitution in the shell itself")
		}
		o.leave(how)
	case *syntax.ProcSubst:
		o.why("a process substitution")
		o.Pipe = true
		o.leave(OpenWord)
	case *syntax.ArithmExp:
		o.why("an arithmetic expansion")
		if !k.arithmetic(p.X, c) {
			o.doubt("an arithmetic expansion")
		}
		o.leave(OpenCount)
	case *syntax.ExtGlob:
		o.doubt("a file name pattern")
		o.b.WriteRune(unknown)
	default:
		o.doubt("an expansion")
		o.b.WriteRune(unknown)
	}
}

// heredocText is the output of a substitution that only prints text:
// $(cat <<'EOF' …).
func (k *walker) heredocText(p *syntax.CmdSubst) (string, bool) {
	if len(p.Stmts) != 1 {
		return "", false
	}
	s := p.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) != 1 || len(call.Assigns) > 0 || call.Args[0].Lit() != "cat" || len(s.Redirs) != 1 || s.Background || s.Negated || s.Coprocess {
		return "", false
	}
	r := s.Redirs[0]
	if r.Op != syntax.Hdoc || r.Hdoc == nil || r.N != nil {
		return "", false
	}
	text := ""
	for _, part := range r.Hdoc.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			return "", false
		}
		text += lit.Value
	}
	if inert(r.Word) && r.Word.Lit() != "" && strings.IndexByte(text, '\\') >= 0 && strings.IndexByte(r.Word.Lit(), '\\') < 0 {
		return "", false // the delimiter is not quoted, and backslashes count
	}
	return strings.TrimRight(text, "\n"), !strings.ContainsRune(text, unknown)
}

// lit writes unquoted text, seeing what the shell would expand in it.
func (k *walker) lit(o *builder, s string, first bool) {
	if first && strings.HasPrefix(s, "~") {
		o.why("a ~")
		if k.env.Home != "" && (s == "~" || s[1] == '/') {
			o.write(k.env.Home)
			s = s[1:]
		} else {
			o.doubt("a ~")
		}
	}
	if first && strings.HasPrefix(s, "=") && len(s) > 1 {
		o.doubt("a = before a name, which zsh expands")
	}
	brace := -1
	if name, value, ok := strings.Cut(s, "="); first && ok && strings.Contains(value, "~") && ValidName(name) && (value[0] == '~' || strings.Contains(value, ":~")) {
		o.doubt("a ~ behind a =, which bash expands") // others do not
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch c {
		case '\\':
			i++
			if i < len(s) && s[i] != '\n' {
				o.write(s[i : i+1])
			}
			continue
		case '*', '?', '[':
			o.why("a file name pattern")
			o.isGlob = true
			o.glob.WriteByte(c)
			o.b.WriteByte(c)
			continue
		case '{':
			brace = i
		case ',', '.':
			if brace >= 0 && (c == ',' || strings.HasPrefix(s[i:], "..")) && strings.IndexByte(s[i:], '}') > 0 {
				o.doubt("a brace expansion")
			}
		}
		o.b.WriteByte(c)
		o.glob.WriteByte(c)
	}
}

const maxBraces = 64 // words that one written word may become

// braced gives the words that the list in braces makes of w, nil when there
// is none or the shell is not known to make any.
func (k *walker) braced(w *syntax.Word, c *context) []Word {
	lit := ""
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); ok && strings.IndexByte(l.Value, '{') >= 0 {
			lit = l.Value
		}
	}
	if lit == "" || c.posix || len(lit) > 1024 || strings.Count(lit, "{") > 8 {
		return nil
	}
	cp := &syntax.Word{Parts: append([]syntax.WordPart(nil), w.Parts...)}
	if !syntax.SplitBraces(cp) {
		return nil
	}
	var out []Word
	for x, err := range expand.BracesSeq(nil, cp) {
		if err != nil || len(out) >= maxBraces {
			return nil
		}
		var o builder
		for i, part := range x.Parts {
			k.part(&o, part, c, i == 0, false, false)
		}
		v := k.finish(&o, &syntax.Word{})
		if v.x == nil {
			v.x = &extra{why: "a brace expansion"}
		}
		v.x.src = v.Text
		if v.Text != "" {
			out = append(out, v)
		}
	}
	return out
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
