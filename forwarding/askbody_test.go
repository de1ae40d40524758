package forwarding

import (
	"bytes"
	"strings"
	"testing"

	"permd/ask"
)

func TestAskBody(t *testing.T) {
	a, err := testAsk("c1", "ask-1")
	if err != nil {
		t.Fatal(err)
	}
	ms := func(n int64) *int64 { return &n }
	long := strings.Repeat("x", 64)
	var far []ask.Hop
	for range ask.MaxHops {
		far = append(far, ask.Hop{Session: long, Node: long, Claimed: true})
	}
	for line, h := range map[string]ask.Header{
		"-":                         {Path: []ask.Hop{}},
		"0":                         {Path: []ask.Hop{}, RemainingMS: ms(0)},
		"600000 a n1 +":             {Path: []ask.Hop{{Session: "a", Node: "n1"}}, RemainingMS: ms(600000)},
		"- a n1 ?":                  {Path: []ask.Hop{{Session: "a", Node: "n1", Claimed: true}}},
		"- a n1 + b n2 ? c.d n_3 +": {Path: []ask.Hop{{Session: "a", Node: "n1"}, {Session: "b", Node: "n2", Claimed: true}, {Session: "c.d", Node: "n_3"}}},
		"9223372036854775807" + strings.Repeat(" "+long+" "+long+" ?", ask.MaxHops): {Path: far, RemainingMS: ms(1<<63 - 1)},
	} {
		c := *a
		c.Header = h
		b, err := encodeAsk(&c)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(b[:bytes.IndexByte(b, '\n')]); got != line {
			t.Errorf("%q, want %q", got, line)
		}
		got, err := decodeAsk(b)
		if err != nil || got.Digest != a.Digest || !bytes.Equal(got.Raw, a.Raw) {
			t.Fatalf("%s: %v", line, err)
		}
		again, err := encodeAsk(got)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: does not re-serialise to itself: %v", line, err)
		}
	}
	for _, line := range []string{"", " ", "-1", "+1", "01", "1.5", "1e3", "0x1", "9223372036854775808", "--", "- ", " -", "-  ", "- a", "- a n1", "- a n1 x", "- a n1 + ",
		"- a n1  +", "-  a n1 +", "- a n1 ++", "- a n1 + b", "- a n1 + b n2", "- .a n1 +", "- .. n1 +", "- a/b n1 +", "- a .. +", "- a n1 true", "-\t", "-\r", "- é n1 +",
		"- " + long + "x n1 +", "-" + strings.Repeat(" a n1 +", ask.MaxHops+1), `{"path":[]}`, strings.Repeat("x", maxHeader)} {
		if got, err := decodeAsk([]byte(line + "\n" + string(a.Raw))); err == nil {
			t.Errorf("%q is taken for %+v", line, got.Header)
		}
	}
	for what, b := range map[string][]byte{
		"nothing": nil, "no body": []byte("-\n"), "no header": a.Raw, "no newline": append([]byte("-"), a.Raw...),
		"a byte more": append([]byte("-\n"), append(bytes.Clone(a.Raw), ' ')...), "a byte less": append([]byte("-\n"), a.Raw[:len(a.Raw)-1]...),
	} {
		if _, err := decodeAsk(b); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	c := *a
	c.Header.Path = append(far, far...)
	if _, err := encodeAsk(&c); err == nil {
		t.Error("too many hops are encoded")
	}
}
