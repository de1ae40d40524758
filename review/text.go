package review

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"permd/ask"
)

// longMark is from which limit on the mark of a cut says more.
const longMark = 96

// clean gives s as it is written: visible, and in at most most bytes of JSON
// (quotes not counted). What is too long loses its middle; a mark says how
// long it was and gives a keyed digest of the whole.
func (k keys) clean(s string, most int) string {
	if fits(s, most) {
		return s
	}
	raw := s
	// A hostile command may be megabytes; only its ends are ever shown.
	if limit := 4 * most; len(s) > 2*limit {
		s = s[:limit] + s[len(s)-limit:]
	} else if v := ask.Visible(s); escaped(v) <= most {
		return v
	}
	v := ask.Visible(s)
	mark := "…[cut]…"
	if most >= longMark {
		mark = "…[cut, " + strconv.Itoa(len(raw)) + " bytes in all, hmac:" + k.sum(raw) + "]…"
	}
	room := most - len(mark)
	return headOf(v, room-room/3) + mark + tailOf(v, room/3)
}

// redacted stands for a value that is not written.
func (k keys) redacted(s string) string { return "[redacted hmac:" + k.sum(s) + "]" }

// sum is the keyed digest of s, 32 hex digits. Equal values have equal ones;
// without the key nobody can try values out.
func (k keys) sum(s string) string {
	h := hmac.New(sha256.New, k)
	h.Write([]byte(s))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// fits is the common case: printable ASCII, and short.
func fits(s string, most int) bool {
	n := len(s)
	if n > most {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\t':
			n++
		case c < ' ' || c > '~':
			return false
		}
	}
	return n <= most
}

// escaped is the length of visible text in JSON.
func escaped(v string) int {
	n := len(v)
	for i := range len(v) {
		switch v[i] {
		case '"', '\\', '\n', '\t':
			n++
		}
	}
	return n
}

func width(r rune, size int) int {
	switch r {
	case '"', '\\', '\n', '\t':
		return 2
	}
	return size
}

// headOf is as much of the beginning of v as fits in n bytes of JSON.
func headOf(v string, n int) string {
	for i := 0; i < len(v); {
		r, size := utf8.DecodeRuneInString(v[i:])
		if n -= width(r, size); n < 0 {
			return v[:i]
		}
		i += size
	}
	return v
}

// tailOf is as much of the end.
func tailOf(v string, n int) string {
	for i := len(v); i > 0; {
		r, size := utf8.DecodeLastRuneInString(v[:i])
		if n -= width(r, size); n < 0 {
			return v[i:]
		}
		i -= size
	}
	return v
}

const hexDigits = "0123456789abcdef"

// appendString writes s as [ask.Encode] does: no HTML escaping, the line
// separators of JavaScript escaped, broken UTF-8 replaced.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, s[from:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case '\t':
				b = append(b, '\\', 't')
			case '\r':
				b = append(b, '\\', 'r')
			case '\b':
				b = append(b, '\\', 'b')
			case '\f':
				b = append(b, '\\', 'f')
			default:
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(append(b, s[from:i]...), `\ufffd`...)
			from = i + size
		case r == '\u2028' || r == '\u2029':
			b = append(append(b, s[from:i]...), '\\', 'u', '2', '0', '2', hexDigits[r&15])
			from = i + size
		}
		i += size
	}
	return append(append(b, s[from:]...), '"')
}
