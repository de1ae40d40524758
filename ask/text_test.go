package ask

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Every character of the categories that draw nothing, or not what they say,
// is hidden; letters, digits, punctuation and symbols of all scripts are not.
func TestHiddenByCategory(t *testing.T) {
	hidden := []*unicode.RangeTable{
		unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Zs,
		unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point,
		unicode.Bidi_Control, unicode.Join_Control, unicode.Noncharacter_Code_Point, unicode.White_Space,
	}
	seen := []*unicode.RangeTable{unicode.L, unicode.M, unicode.N, unicode.P, unicode.S}
	draws := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		want := unicode.In(r, hidden...) || !unicode.In(r, seen...)
		switch {
		case r == ' ' || r == '\n' || r == '\t':
			want = false
		case r == 0xFFFC || r == 0xFFFD || blank(r):
			want = true
		}
		if Hidden(r) != want {
			t.Fatalf("Hidden(%U) = %v", r, !want)
		}
		if !want {
			draws++
		}
	}
	if draws < 100_000 {
		t.Errorf("only %d characters are shown as they are", draws)
	}
	for _, r := range "azAZ09~!éßñøžžЖשعहกあ漢한😀→±€" {
		if Hidden(r) {
			t.Errorf("%U %c is text", r, r)
		}
	}
}

func TestVisible(t *testing.T) {
	for _, tc := range []struct {
		name, in, want string
		count          int
	}{
		{"plain", "rm -rf build", "rm -rf build", 0},
		{"lines and tabs stay", "a\n\tb", "a\n\tb", 0},
		{"carriage return would overprint", "safe\rrm", "safe⟨U+000D⟩rm", 1},
		{"escape sequence", "\x1b[2Jx", "⟨U+001B⟩[2Jx", 1},
		{"8-bit escape sequence", "\u009b2J", "⟨U+009B⟩2J", 1},
		{"backspace and delete", "a\b\x7f", "a⟨U+0008⟩⟨U+007F⟩", 2},
		{"bidi", "http://good.example/\u202e\u2066live.daoln\u2069", "http://good.example/⟨U+202E⟩⟨U+2066⟩live.daoln⟨U+2069⟩", 3},
		{"arabic letter mark", "\u061ca", "⟨U+061C⟩a", 1},
		{"zero width", "rm\u200b\u200c\u200d\u2060\ufeff -rf", "rm⟨U+200B⟩⟨U+200C⟩⟨U+200D⟩⟨U+2060⟩⟨U+FEFF⟩ -rf", 5},
		{"soft hyphen", "a\u00adb", "a⟨U+00AD⟩b", 1},
		{"tags", "x\U000E0072\U000E006D", "x⟨U+E0072⟩⟨U+E006D⟩", 2},
		{"variation selectors", "a\ufe0f\U000E0101\u180b", "a⟨U+FE0F⟩⟨U+E0101⟩⟨U+180B⟩", 3},
		{"private use", "\ue000\U000F0000\U0010FFFD", "⟨U+E000⟩⟨U+F0000⟩⟨U+10FFFD⟩", 3},
		{"noncharacters and unassigned", "\ufdd0\U0001FFFE\u0378", "⟨U+FDD0⟩⟨U+1FFFE⟩⟨U+0378⟩", 3},
		{"spaces that are none", "a\u00a0b\u2003c\u3000d\u1680e", "a⟨U+00A0⟩b⟨U+2003⟩c⟨U+3000⟩d⟨U+1680⟩e", 4},
		{"fillers", "\u3164\uffa0\u115f\u2800", "⟨U+3164⟩⟨U+FFA0⟩⟨U+115F⟩⟨U+2800⟩", 4},
		{"line separators", "a\u2028b\u2029c\u0085d", "a⟨U+2028⟩b⟨U+2029⟩c⟨U+0085⟩d", 3},
		{"replacement character", "\ufffd", "⟨U+FFFD⟩", 1},
		{"not UTF-8", "a\xff\xe2\xe2\x80\xae\xc3", "a⟨0xFF⟩⟨0xE2⟩⟨U+202E⟩⟨0xC3⟩", 4},
		{"surrogates in UTF-8", "\xed\xa0\x80", "⟨0xED⟩⟨0xA0⟩⟨0x80⟩", 3},
		{"accents stay", "e\u0301\u0323 שָׁ", "e\u0301\u0323 שָׁ", 0},
		{"a flood of marks", "a" + strings.Repeat("\u0301", 4) + strings.Repeat("\u0302", 9) + "b", "a" + strings.Repeat("\u0301", 4) + "⟨U+0302 ×9⟩b", 9},
		{"a mixed flood", "a\u0301\u0302\u0303\u0304\u0305\u0306b", "a\u0301\u0302\u0303\u0304⟨U+0305⟩⟨U+0306⟩b", 2},
		{"a mark with nothing to stand on", "\u0338x\n\u20ddy", "⟨U+0338⟩x\n⟨U+20DD⟩y", 2},
		{"three of a kind", "\u200b\u200b\u200b", "⟨U+200B⟩⟨U+200B⟩⟨U+200B⟩", 3},
		{"many of a kind", strings.Repeat("\u200b", 5000), "⟨U+200B ×5000⟩", 5000},
		{"many of each", strings.Repeat("\u200b\u200c", 3), "⟨U+200B⟩⟨U+200C⟩⟨U+200B⟩⟨U+200C⟩⟨U+200B⟩⟨U+200C⟩", 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Visible(tc.in); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if got := HiddenCount(tc.in); got != tc.count {
				t.Errorf("count %d, want %d", got, tc.count)
			}
		})
	}
}

func TestVisibleLine(t *testing.T) {
	for in, want := range map[string]string{
		"title\nAllowed by policy":       "title⟨U+000A⟩Allowed by policy",
		"a\tb\r\nc":                      "a⟨U+0009⟩b⟨U+000D⟩⟨U+000A⟩c",
		"a        b":                     "a        b",
		"a         b":                    "a⟨9 spaces⟩b",
		"ls" + strings.Repeat(" ", 2000): "ls⟨2000 spaces⟩",
		strings.Repeat("\n", 100) + "rm": "⟨U+000A ×100⟩rm",
	} {
		if got := VisibleLine(in); got != want {
			t.Errorf("%q\ngot  %q\nwant %q", in, got, want)
		}
	}
}

func TestExcerptKeepsTheTail(t *testing.T) {
	long := "head " + strings.Repeat("x", 5000) + "; rm -rf ~ # tail"
	for _, most := range []int{-1, 0, 64, 100, 1000, 5000} {
		got := Excerpt(long, most)
		if n := utf8.RuneCountInString(got); n > max(most, MinExcerpt) {
			t.Errorf("%d characters for at most %d", n, most)
		}
		if !strings.HasPrefix(got, "head ") || !strings.HasSuffix(got, "# tail") || !strings.Contains(got, "characters not shown⟩") {
			t.Errorf("at most %d: %q", most, got)
		}
		var shown int
		before, rest, _ := strings.Cut(got, "⟨")
		fmt.Sscanf(rest, "%d", &shown)
		_, after, _ := strings.Cut(rest, "⟩")
		if len(before)+shown+len(after) != len(long) {
			t.Errorf("%d + %d + %d characters are not %d", len(before), shown, len(after), len(long))
		}
	}
	if got := Excerpt(long, len(long)); got != long {
		t.Error("cut although it fits")
	}
	if got := ExcerptLine("a\nb", 64); got != "a⟨U+000A⟩b" {
		t.Error(got)
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		``:                      `""`,
		`say "no"\`:             `"say \"no\"\\"`,
		"a\nfake: line":         `"a⟨U+000A⟩fake: line"`,
		"\x1b]0;title\a":        `"⟨U+001B⟩]0;title⟨U+0007⟩"`,
		"\u202e" + `"` + "\xff": `"⟨U+202E⟩\"⟨0xFF⟩"`,
	} {
		if got := Quote(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
	if n := utf8.RuneCountInString(Quote(strings.Repeat("é", 1<<16))); n > 122 {
		t.Errorf("%d characters", n)
	}
}

// The laws of shown text, for any text: it holds nothing hidden, showing it
// again changes nothing, plain text is untouched, an excerpt keeps its bound
// and both ends, and nothing hidden goes uncounted.
func TestTextLaws(t *testing.T) {
	texts := rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "pieces") {
			n := rapid.SampledFrom([]int{1, 1, 1, 2, 5, 30}).Draw(t, "times")
			piece := rapid.OneOf(
				rapid.SampledFrom([]string{" ", "\n", "\t", "a", "\u0301", "\u0302", "\u202e", "\u200b", "\xff", "\xe2", "\ufffd", "⟨", "⟩", "⟨U+202E⟩", "漢", "\U000E0041"}),
				rapid.StringN(0, 4, -1),
				rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 4), func(b []byte) string { return string(b) }),
			).Draw(t, "piece")
			b.WriteString(strings.Repeat(piece, n))
		}
		return b.String()
	})
	rapid.Check(t, func(t *rapid.T) {
		s := texts.Draw(t, "text")
		for name, show := range map[string]func(string) string{"Visible": Visible, "VisibleLine": VisibleLine} {
			v := show(s)
			if !utf8.ValidString(v) || strings.ContainsFunc(v, Hidden) {
				t.Fatalf("%s leaves something hidden in %q", name, v)
			}
			if again := show(v); again != v {
				t.Fatalf("%s twice: %q, then %q", name, v, again)
			}
			if name == "VisibleLine" && strings.ContainsAny(v, "\n\t") {
				t.Fatalf("%q is more than a line", v)
			}
		}
		if (HiddenCount(s) == 0) != (Visible(s) == s) {
			t.Fatalf("%d hidden in %q", HiddenCount(s), s)
		}
		raw := 0
		for tok := range tokens(s, true) {
			raw += tok.raw
		}
		if raw != utf8.RuneCountInString(s) {
			t.Fatalf("%d characters of %d accounted for", raw, utf8.RuneCountInString(s))
		}
		most := rapid.IntRange(0, 200).Draw(t, "most")
		e := Excerpt(s, most)
		if utf8.RuneCountInString(e) > max(most, MinExcerpt) || strings.ContainsFunc(e, Hidden) {
			t.Fatalf("excerpt %q", e)
		}
		if v := Visible(s); utf8.RuneCountInString(v) <= max(most, MinExcerpt) && e != v {
			t.Fatalf("cut although it fits: %q", e)
		} else if last, _ := utf8.DecodeLastRuneInString(v); !strings.HasSuffix(e, string(last)) && v != "" {
			t.Fatalf("%q loses the end of %q", e, v)
		}
	})
}

func BenchmarkVisible(b *testing.B) {
	for name, s := range map[string]string{
		"plain":  strings.Repeat("go test ./... && ", 4000),
		"accent": strings.Repeat("go tést ./... && ", 4000),
		"hidden": strings.Repeat("\u200bx", 32000),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				Visible(s)
			}
		})
	}
}
