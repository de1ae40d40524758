package translate

import (
	"strings"

	"permd/ask"
)

// Every function of this file gives two sets of matchers for a pattern of a
// source: narrow ones that say no more than it, and wide ones that say no less.

const shellText = "it has characters that the shell acts on, and permd's rules name one simple command"

// plainWord reports whether s means itself in a source's pattern and in
// permd's.
func plainWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_./,=@%+:^", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// pattern writes a word, which may hold stars, as permd's patterns do.
func pattern(word string) string {
	if word == "*" || !strings.Contains(word, ":") {
		return word
	}
	parts := strings.Split(word, "*")
	for i, p := range parts {
		if p != "" {
			parts[i] = "'" + p + "'"
		}
	}
	return strings.Join(parts, "*")
}

func command(words []string) ask.Rule {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = pattern(w)
	}
	return ask.Rule{Tool: "bash", Command: strings.Join(out, " ")}
}

// commandGlob is a text over the whole command line in which "*" stands for
// any text, spaces too. Optional says that a final " *" also stands for
// nothing.
func commandGlob(text string, optional bool) (e entry) {
	if strings.Trim(text, "*") == "" {
		m := []ask.Rule{{Tool: "bash"}}
		return entry{narrow: m, wide: m, all: true}
	}
	words := strings.Split(strings.TrimSpace(text), " ")
	e.narrow, e.whyNarrow = narrowCommand(words, optional)
	e.wide, e.whyWide = wideCommand(words)
	return e
}

func narrowCommand(words []string, optional bool) ([]ask.Rule, string) {
	stars := 0
	for i, w := range words {
		switch {
		case w == "*" && i < len(words)-1:
			stars++
		case w == "*":
		case !plainWord(strings.ReplaceAll(w, "*", "a")):
			return nil, shellText
		}
	}
	switch last := words[len(words)-1]; {
	case strings.Contains(words[0], "*"):
		return nil, "a star in the program's name could be any program"
	case stars > 1:
		return nil, "it has several stars between words"
	case last == "*":
		out := []ask.Rule{command(words)}
		if optional {
			out = append(out, command(words[:len(words)-1]))
		}
		return out, ""
	case strings.HasSuffix(last, "*"):
		return []ask.Rule{command(words), command(append(words[:len(words):len(words)], "*"))}, ""
	}
	return []ask.Rule{command(words)}, ""
}

// wideCommand keeps the words up to the first that permd's patterns cannot
// say, and lets any words follow.
func wideCommand(words []string) ([]ask.Rule, string) {
	var out []string
	for i, w := range words {
		last := i == len(words)-1
		switch before, _, star := strings.Cut(w, "*"); {
		case w == "*" && i == 0:
			return []ask.Rule{{Tool: "bash"}}, "every command, since it does not say which program"
		case w == "*" && last:
			return []ask.Rule{command(append(out, "*"))}, ""
		case w == "*":
			// Any words; those behind it may follow at any distance.
			rest := words[i+1:]
			if len(rest) == 1 && plainWord(rest[0]) {
				return []ask.Rule{command(append(out, "*", rest[0], "*"))}, ""
			}
			return []ask.Rule{command(append(out, "*"))}, "every command that begins so"
		case !star && plainWord(w):
			out = append(out, w)
		case i == 0 && !plainWord(before):
			return []ask.Rule{{Tool: "bash"}}, "every command, since it does not say which program"
		case star && last && w == before+"*":
			return []ask.Rule{command(append(out, w, "*"))}, ""
		case star && plainWord(before):
			return []ask.Rule{command(append(out, before+"*", "*"))}, "every command that begins so"
		default:
			return []ask.Rule{command(append(out, "*"))}, "every command that begins so, since " + shellText
		}
	}
	return []ask.Rule{command(out)}, ""
}

// commandPrefix is a list of exact words, with any words after them or none.
func commandPrefix(words []string) (e entry) {
	quoted := make([]string, len(words))
	for i, w := range words {
		if w == "" || strings.ContainsFunc(w, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			e.whyNarrow = "a word has a character that no rule can hold"
			quoted[i] = ""
			continue
		}
		quoted[i] = quote(w)
	}
	if e.whyNarrow == "" {
		text := strings.Join(quoted, " ")
		star := ask.Rule{Tool: "bash", Command: text + " *"}
		e.narrow, e.wide = []ask.Rule{{Tool: "bash", Command: text}, star}, []ask.Rule{star}
		return e
	}
	e.wide, e.whyWide = wideCommand(append(words[:len(words):len(words)], "*"))
	return e
}

func quote(w string) string {
	if plainWord(w) && !strings.HasSuffix(w, ":") {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
