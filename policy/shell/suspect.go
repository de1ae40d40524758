package shell

import (
	"iter"
	"strings"
)

// suspects yields the words that would be a command if text were read with
// its quotes taken away: what follows a separator, and what follows a keyword
// there. It is for text that the parser refuses.
func suspects(text string) iter.Seq[[]Word] {
	return func(yield func([]Word) bool) {
		var seen map[string]bool
		n := 0
		for segment := range segments(text) {
			if n++; n > maxDifferent {
				if seen[segment] {
					continue
				}
				if seen == nil {
					seen = map[string]bool{}
				}
				seen[segment] = true
			}
			words := rawWords(segment)
			for len(words) > 0 && leads(words[0].Text) {
				words = words[1:]
			}
			if len(words) > 0 && !yield(words) {
				return
			}
		}
	}
}

// segments cuts text at everything that ends or opens a command.
func segments(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start := 0
		for i := 0; i <= len(text); i++ {
			if i < len(text) && !strings.ContainsRune(";|&\n\r(){}`<>", rune(text[i])) {
				continue
			}
			if s := strings.TrimSpace(text[start:i]); s != "" && !yield(s) {
				return
			}
			start = i + 1
		}
	}
}

var unquote = strings.NewReplacer(`'`, "", `"`, "", `\`, "", "\x00", "")

func rawWords(segment string) []Word {
	fields := strings.Fields(unquote.Replace(segment))
	words := make([]Word, len(fields))
	for i, f := range fields {
		words[i] = Word{Text: f}
	}
	return words
}

// leads reports whether word stands before a command without being one.
func leads(word string) bool {
	switch word {
	case "if", "then", "else", "elif", "while", "until", "do", "time", "coproc", "!", "$", "[[", "fi", "done", "esac":
		return true
	}
	name, _, ok := strings.Cut(word, "=")
	return ok && ValidName(name)
}

// ValidName reports whether s is the name of a variable.
func ValidName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
