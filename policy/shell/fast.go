package shell

import (
	"slices"
	"strings"
)

// Most commands are plain and quoted words, joined by operators that mean one
// thing. They are read here, without the parser, which costs more than all
// the rest; what is not certain to mean the same there is left to it. A fuzz
// test holds both to the same result.

// single is one command of such a line.
type single struct {
	words []Word
	text  string
	// redirected is true for 2>&1 and for a redirection to /dev/null.
	redirected bool
	// op is what stands before it: ';', '|', '&' for &&, 'o' for ||.
	op byte
}

const (
	fastWords    = 64
	fastCommands = 12
)

// plain reads text without the parser, false when the parser must tell.
func (w *walker) plain(text string, c *context) bool {
	var (
		room [fastCommands]single
		all  = room[:0]
		cur  = single{op: ';'}
		from = -1
		end  int
	)
	words := w.reader.room(fastWords)
	finish := func() bool {
		if len(cur.words) == 0 || len(all) == fastCommands || cur.words[0].Quoted || reserved(cur.words[0].Text) || strings.IndexByte(cur.words[0].Text, '=') >= 0 {
			return false
		}
		cur.text = text[from:end]
		cur.words = slices.Clip(cur.words)
		all = append(all, cur)
		from = -1
		return true
	}
	for i := 0; i < len(text); {
		b := text[i]
		next := byte(0)
		if i+1 < len(text) {
			next = text[i+1]
		}
		op, took := byte(0), 0
		switch {
		case b == ' ':
			i++
			continue
		case b == '|' && next == '|':
			op, took = 'o', 2
		case b == '|' && next != '&':
			op, took = '|', 1
		case b == '&' && next == '&':
			op, took = '&', 2
		case b == ';' && next != ';' && next != '&' && next != '|':
			op, took = ';', 1
		}
		if took > 0 {
			if !finish() {
				return false
			}
			i += took
			cur = single{op: op, words: words[len(words):]}
			continue
		}
		if n := silent(text[i:]); n > 0 {
			if len(cur.words) == 0 {
				return false
			}
			cur.redirected = true
			i += n
			continue
		}
		word, to, ok := plainWord(text, i)
		if !ok || cur.redirected || len(words) == cap(words) {
			return false
		}
		words = append(words, word)
		if from < 0 {
			from = i
			cur.words = words[len(words)-1:]
		} else {
			cur.words = cur.words[:len(cur.words)+1]
		}
		i, end = to, to
	}
	if from >= 0 || len(all) == 0 || all[len(all)-1].text == "" {
		if !finish() {
			return false
		}
	} else if cur.op != ';' {
		return false // an operator at the end
	}
	w.line(all, c)
	return true
}

// silent returns the length of a redirection that text begins with and that
// keeps nothing: 2>&1, >/dev/null, 2>/dev/null.
func silent(text string) int {
	for _, r := range [...]string{"2>&1", "2>/dev/null", ">/dev/null", "2> /dev/null", "> /dev/null"} {
		if strings.HasPrefix(text, r) && (len(text) == len(r) || strings.IndexByte(" ;|&", text[len(r)]) >= 0) {
			return len(r)
		}
	}
	return 0
}

// line walks the commands of a line as the walker walks statements.
func (w *walker) line(all []single, c *context) {
	several := false
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].op != ';' {
			n++
		}
		m := c.mark()
		w.chain(all[:n], c)
		if all = all[n:]; len(all) > 0 {
			c.maybeNot(m)
			several = true
		}
	}
	if several {
		w.floor("several commands")
	}
}

// chain walks pipelines joined by && and ||, which group from the left.
func (w *walker) chain(all []single, c *context) {
	last := len(all) - 1
	for last > 0 && all[last].op == '|' {
		last--
	}
	if last == 0 {
		w.pipeline(all, c)
		return
	}
	w.floor("several commands")
	m := c.mark()
	w.chain(all[:last], c)
	if all[last].op == '&' {
		left := c.vars
		w.pipeline(all[last:], c)
		c.conditional(left)
		return
	}
	right := *c
	right.maybeNot(m)
	w.pipeline(all[last:], &right)
	if len(all) == last+1 && (all[last].words[0].Text == "exit" || all[last].words[0].Text == "return") {
		c.only(m)
		return
	}
	c.join(&right)
}

func (w *walker) pipeline(all []single, c *context) {
	if len(all) == 1 {
		w.single(&all[0], c)
		return
	}
	w.floor("a pipe")
	d := *c
	for i := range all {
		n := len(w.script.Units)
		w.single(&all[i], &d)
		if i+1 < len(all) {
			d = *c
			d.fed, d.piped, d.stdin = true, true, w.printed(n)
		}
	}
	c.afterPipe(&d)
}

func (w *walker) single(s *single, c *context) {
	if s.redirected {
		w.floor("a redirection")
	}
	n := len(w.script.Units)
	w.unit(s.words, s.text, *c, nil, "")
	w.effects(n, s.words, c)
}

// plainByte reports whether c means itself wherever it stands, but for the
// first byte of a word.
func plainByte(c byte) bool {
	if c >= '+' && c <= ':' || c >= '@' && c <= 'Z' || c >= 'a' && c <= 'z' { // "+,-./0…9:" and "@A…Z"
		return true
	}
	return c == '_' || c == '%' || c == '='
}

// reserved are words that begin something else than a simple command.
func reserved(word string) bool {
	switch word {
	case "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "select", "function", "coproc", "time", "let",
		"declare", "local", "export", "readonly", "typeset", "nameref", "eval", "foreach", "repeat", "end", "always", "nocorrect", "noglob":
		return true
	}
	return word == ""
}

// plainWord reads the word at i: plain bytes, or one text in quotes in which
// nothing has a meaning.
func plainWord(text string, i int) (word Word, next int, ok bool) {
	start := i
	ends := func(i int) bool { return i == len(text) || strings.IndexByte(" ;|&", text[i]) >= 0 }
	switch q := text[i]; q {
	case '\'', '"':
		for i++; i < len(text); i++ {
			b := text[i]
			if b == q {
				break
			}
			if b >= 0x80 || q == '"' && (b == '$' || b == '`' || b == '\\' || b == '!') || b < ' ' {
				return word, 0, false
			}
		}
		if i == len(text) || !ends(i+1) {
			return word, 0, false
		}
		return Word{Text: text[start+1 : i], Lit: true, Quoted: true}, i + 1, true
	case '=':
		return word, 0, false
	}
	for i < len(text) && plainByte(text[i]) {
		i++
	}
	if i == start || !ends(i) {
		return word, 0, false
	}
	return Word{Text: text[start:i], Lit: true}, i, true
}
