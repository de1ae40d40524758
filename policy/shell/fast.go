package shell

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
	return false
}

// plain reads text without the parser when it is one command of plain and
// quoted words, which most are. It is false when the parser must tell.
func (w *walker) plain(text string, c *context) bool {
	n := 1
	for i := range len(text) {
		if text[i] == ' ' {
			n++
		}
	}
	const most = 48
	if n > most {
		return false
	}
	words := w.reader.room(n)
	end := 0
	for i := 0; i < len(text); {
		if text[i] == ' ' {
			i++
			continue
		}
		word, next, ok := plainWord(text, i)
		if !ok {
			return false
		}
		words = append(words, word)
		i, end = next, next
	}
	if len(words) == 0 || words[0].Quoted || reserved(words[0].Text) || words[0].Text == "" {
		return false
	}
	for i := range len(words[0].Text) {
		if words[0].Text[i] == '=' {
			return false // an assignment
		}
	}
	start := 0
	for text[start] == ' ' {
		start++
	}
	k := len(w.script.Units)
	w.unit(words, text[start:end], *c, nil, "")
	w.effects(k, words, c)
	return true
}

// plainWord reads the word at i: plain bytes, or one text in quotes in which
// nothing has a meaning.
func plainWord(text string, i int) (word Word, next int, ok bool) {
	start := i
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
		if i == len(text) || i+1 < len(text) && text[i+1] != ' ' {
			return word, 0, false
		}
		return Word{Text: text[start+1 : i], Lit: true, Quoted: true}, i + 1, true
	case '=':
		return word, 0, false
	}
	for i < len(text) && text[i] != ' ' {
		if !plainByte(text[i]) {
			return word, 0, false
		}
		i++
	}
	return Word{Text: text[start:i], Lit: true}, i, true
}
