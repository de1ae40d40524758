package shell

import "errors"

// Bounds of what is parsed. A parser that recurses spends up to 40 µs a
// level, and a million levels end the process: the stack overflow of a
// goroutine cannot be recovered.
const (
	// MaxBytes is the longest command that is parsed.
	MaxBytes = 64 << 10
	// MaxNesting is how deeply brackets may stand open.
	MaxNesting = 200
	// maxOpeners bounds what may open a level in all, since closers in
	// quoted text can hide the depth.
	maxOpeners = 2000
	// maxScripts bounds the bytes of text within text (sh -c, eval) that is
	// parsed for one command.
	maxScripts = 4 * MaxBytes
)

// Reasons not to parse.
var (
	ErrTooLong = errors.New("longer than 64 KiB")
	ErrTooDeep = errors.New("nested too deeply, or too many brackets")
	ErrControl = errors.New("control characters")
)

// Check is the scan before parsing: one pass, no allocation. It follows
// quotes only roughly; what a confused scan misses, the bound on all openers
// together still holds.
func Check(cmd string) error {
	if len(cmd) > MaxBytes {
		return ErrTooLong
	}
	var (
		quote                  byte
		depth, inDouble        int // levels open; of them, opened within double quotes
		openers, signs, letter int // letter is where the current word began
	)
	for i := 0; i < len(cmd); i++ {
		c := cmd[i]
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return ErrControl
		}
		if c < 'a' || c > 'z' {
			if opens(cmd[letter:i]) {
				openers++
			}
			letter = i + 1
		}
		// Code is text that the shell reads as such: outside quotes, or in a
		// substitution within double quotes.
		code := quote == 0 || quote == '"' && inDouble > 0
		switch c {
		case '\\':
			if quote != '\'' {
				i++
				letter = i + 1
			}
		case '\'':
			if quote == 0 {
				quote = c
			} else if quote == c {
				quote = 0
			}
		case '"':
			if quote == 0 {
				quote = c
			} else if quote == c && inDouble == 0 {
				quote = 0
			}
		case '(', '{', '[':
			openers++
			if code {
				depth++
			} else if quote == '"' && i > 0 && cmd[i-1] == '$' {
				depth++
				inDouble++
			}
		case ')', '}', ']':
			if code {
				depth = max(depth-1, 0)
				inDouble = max(inDouble-1, 0)
			}
		case '`', '?':
			openers++
		}
		switch c {
		case '-', '+', '!', '~':
			signs++
		case ' ', '\t', '\n':
		default:
			signs = 0
		}
		if depth > MaxNesting || openers > maxOpeners || signs > MaxNesting {
			return ErrTooDeep
		}
	}
	return nil
}

// opens reports whether word opens a level of its own in the parser.
func opens(word string) bool {
	switch word {
	case "if", "while", "until", "for", "case", "select", "coproc", "time", "function", "let":
		return true
	}
	return false
}
