package shell

import (
	"strconv"
	"strings"
)

var ansiSimple = map[byte]byte{
	'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'n': '\n', 'r': '\r', 't': '\t', 'v': 11,
	'\\': '\\', '\'': '\'', '"': '"', '?': '?',
}

// ansiC decodes the body of $'…' as bash does.
func ansiC(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if v, ok := ansiSimple[c]; ok {
			b.WriteByte(v)
			continue
		}
		switch {
		case '0' <= c && c <= '7':
			n, v := number(s[i:], 3, 8)
			b.WriteByte(byte(v))
			i += n - 1
		case c == 'x':
			n, v := number(s[i+1:], 2, 16)
			if n == 0 {
				b.WriteString(`\x`)
				continue
			}
			b.WriteByte(byte(v))
			i += n
		case c == 'u' || c == 'U':
			most := 4
			if c == 'U' {
				most = 8
			}
			n, v := number(s[i+1:], most, 16)
			if n == 0 {
				b.WriteByte('\\')
				b.WriteByte(c)
				continue
			}
			b.WriteRune(rune(v))
			i += n
		case c == 'c' && i+1 < len(s):
			i++
			b.WriteByte(s[i] & 0x1f)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	out := b.String()
	// A NUL ends the text, as in the shell.
	out, _, _ = strings.Cut(out, "\x00")
	return out
}

// number reads at most most digits of base from the start of s.
func number(s string, most, base int) (n int, v uint64) {
	for n < most && n < len(s) {
		d, err := strconv.ParseUint(s[n:n+1], base, 8)
		if err != nil {
			break
		}
		v = v*uint64(base) + d
		n++
	}
	return n, v
}
