package ask

import (
	"fmt"
	"strings"
	"unicode"
)

// Quote returns s for use in an error or a log: made visible, cut to 120
// runes, in double quotes.
func Quote(s string) string {
	const most = 120
	v := Visible(s)
	if r := []rune(v); len(r) > most {
		v = string(r[:most]) + "…"
	}
	return "\"" + strings.ReplaceAll(v, "\"", "\\\"") + "\""
}

// Visible returns s with every control, bidirectional, zero-width, tag and
// private-use character written as ⟨U+XXXX⟩; newline and tab stay. It is for
// text that is shown; what is judged, stored and digested stays raw.
func Visible(s string) string {
	if !strings.ContainsFunc(s, Hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if Hidden(r) {
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Hidden reports whether r could change what a person sees without being
// seen itself.
func Hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r == unicode.ReplacementChar:
		return true
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp):
		return true
	case r == 0x00AD, r == 0x034F, r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5, r == 0x3164, r == 0xFFA0, r == 0x2800:
		return true
	case 0xFE00 <= r && r <= 0xFE0F, 0xE0100 <= r && r <= 0xE01EF:
		return true
	case r != ' ' && unicode.Is(unicode.Zs, r):
		return true
	}
	return false
}
