package ask

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
)

func TestEncodeIsCanonical(t *testing.T) {
	for _, tc := range []struct {
		name string
		v    any
		want string
	}{
		{"no html escapes", Hop{Session: "a<b>&c", Node: "n"}, `{"session":"a<b>&c","node":"n"}`},
		{"line separators are escaped", Hop{Session: "\u2028\u2029", Node: "n"}, `{"session":"\u2028\u2029","node":"n"}`},
		{"control characters", Hop{Session: "\x00\b\f\n\r\t\x1f\x7f", Node: `"\`}, `{"session":"\u0000\b\f\n\r\t\u001f` + "\x7f" + `","node":"\"\\"}`},
		{"other text as it is", Hop{Session: "é\u202e😀\ufffd", Node: "n"}, "{\"session\":\"é\u202e😀\ufffd\",\"node\":\"n\"}"},
		{"raw JSON is compacted", Answer{Edited: json.RawMessage("{ \"a\" : [ 1 , 2 ] }\n")},
			`{"ask":"","digest":"` + strings.Repeat("0", 64) + `","outcome":"","edited":{"a":[1,2]}}`},
		{"raw JSON keeps its own escapes", Answer{Edited: json.RawMessage(`"\u003c\ufffd\u2028<"`)},
			`{"ask":"","digest":"` + strings.Repeat("0", 64) + `","outcome":"","edited":"\u003c\ufffd\u2028<"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Encode(tc.v)
			if err != nil || string(got) != tc.want {
				t.Fatalf("got  %q, %v\nwant %q", got, err, tc.want)
			}
		})
	}
}

func TestEncodeRefusesWhatIsNotText(t *testing.T) {
	for name, v := range map[string]any{
		"a string":                              Hop{Session: "a\xff", Node: "n"},
		"below a pointer":                       &Decision{By: By{Rule: &RuleRef{File: "/tmp/\xc3"}}},
		"half a surrogate":                      Hop{Session: "\xed\xa0\x80", Node: "n"},
		"raw JSON":                              Answer{Edited: json.RawMessage("\"\xff\"")},
		"beside the real replacement character": Hop{Session: "\ufffd\xff", Node: `\ufffd`},
	} {
		if b, err := Encode(v); !errors.Is(err, ErrNotCanonical) {
			t.Errorf("%s: got %q, %v", name, b, err)
		}
	}
	if _, err := Encode(Hop{Session: "\ufffd", Node: `\ufffd`}); err != nil {
		t.Errorf("the replacement character and its escape are text: %v", err)
	}
}

// Every change of a canonical message that keeps its meaning for a lax parser
// is refused, and with the right error.
func TestDecodeIsStrict(t *testing.T) {
	good := string(mustEncode(t, sampleGrant()))
	if _, err := DecodeGrant([]byte(good)); err != nil {
		t.Fatal(err)
	}
	replace := func(old, new string) string {
		t.Helper()
		if !strings.Contains(good, old) {
			t.Fatalf("%s is not in %s", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}
	for _, tc := range []struct {
		name, in string
		want     error
	}{
		{"nothing", "", ErrMalformed},
		{"cut", good[:len(good)-1], ErrMalformed},
		{"two values", good + good, ErrMalformed},
		{"trailing brace", good + "}", ErrMalformed},
		{"trailing zero byte", good + "\x00", ErrMalformed},
		{"array", "[" + good + "]", ErrMalformed},
		{"byte order mark", "\ufeff" + good, ErrMalformed},
		{"comment", good + "/**/", ErrMalformed},
		{"single quotes", strings.ReplaceAll(good, `"`, `'`), ErrMalformed},
		{"number for text", replace(`"g-1"`, `1`), ErrMalformed},
		{"text for a number", replace(`3600000`, `"3600000"`), ErrMalformed},
		{"null", "null", ErrNotCanonical},
		{"trailing newline", good + "\n", ErrNotCanonical},
		{"leading space", " " + good, ErrNotCanonical},
		{"inner space", replace(`,"scope"`, `, "scope"`), ErrNotCanonical},
		{"duplicate key, equal", replace(`"id":"g-1"`, `"id":"g-1","id":"g-1"`), ErrNotCanonical},
		{"duplicate key, other", replace(`"id":"g-1"`, `"id":"g-2","id":"g-1"`), ErrNotCanonical},
		{"duplicate object merges", replace(`"rule":{`, `"rule":{"action":"allow","name":"x"},"rule":{`), ErrNotCanonical},
		{"case variant", replace(`"id"`, `"ID"`), ErrNotCanonical},
		{"case variant beside", replace(`"id":"g-1"`, `"id":"g-2","Id":"g-1"`), ErrNotCanonical},
		{"kelvin sign folds to k", strings.ReplaceAll(good, `"kind"`, "\"\u212aind\""), ErrNotCanonical},
		{"unknown field", replace(`{"id"`, `{"x":1,"id"`), ErrNotCanonical},
		{"unknown field, deep", replace(`"kind"`, `"x":null,"kind"`), ErrNotCanonical},
		{"other order", replace(`"id":"g-1","scope":"session"`, `"scope":"session","id":"g-1"`), ErrNotCanonical},
		{"empty field written", replace(`"tool":"bash"`, `"tool":"bash","class":""`), ErrNotCanonical},
		{"null field written", replace(`"tool":"bash"`, `"tool":"bash","except":null`), ErrNotCanonical},
		{"zero written", replace(`3600000`, `0`), ErrNotCanonical},
		{"escaped letter", replace(`"g-1"`, `"\u0067-1"`), ErrNotCanonical},
		{"escaped slash", replace(`"go test *"`, `"\/bin"`), ErrNotCanonical},
		{"html escape", replace(`"go test *"`, `"\u003c"`), ErrNotCanonical},
		{"raw line separator", replace(`"go test *"`, "\"\u2028\""), ErrNotCanonical},
		{"upper-case escape", replace(`"go test *"`, `"\u000B"`), ErrNotCanonical},
		{"long form of a short escape", replace(`"go test *"`, `"\u0009"`), ErrNotCanonical},
		{"lone surrogate", replace(`"go test *"`, `"\ud800"`), ErrNotCanonical},
		{"surrogate pair", replace(`"go test *"`, `"\ud83d\ude00"`), ErrNotCanonical},
		{"bad UTF-8", replace(`go test`, "go\xfftest"), ErrNotCanonical},
		{"overlong UTF-8", replace(`go test`, "go\xc0\xaftest"), ErrNotCanonical},
		{"fraction", replace(`3600000`, `3600000.0`), ErrMalformed},
		{"exponent", replace(`3600000`, `36e5`), ErrMalformed},
		{"huge number", replace(`3600000`, `9223372036854775808`), ErrMalformed},
		{"endless number", replace(`3600000`, strings.Repeat("9", 5000)), ErrMalformed},
		{"plus sign", replace(`3600000`, `+3600000`), ErrMalformed},
		{"leading zero", replace(`3600000`, `03600000`), ErrMalformed},
		{"minus zero", replace(`3600000`, `-0`), ErrNotCanonical},
		{"not a number", replace(`3600000`, `NaN`), ErrMalformed},
		{"too large", good + strings.Repeat(" ", MaxMessage), ErrTooLarge},
		{"deep", strings.Repeat(`{"by":`, 1000), ErrTooDeep},
		{"deep array", strings.Repeat(`[`, MaxDepth+1), ErrTooDeep},
		{"a word of no verdict", replace(`"action":"allow"`, `"action":"Allow"`), ErrMalformed},
		{"null for a verdict", replace(`"action":"allow"`, `"action":null`), ErrNotCanonical},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g, err := DecodeGrant([]byte(tc.in))
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if g.ID != "" || g.Rule.Action != Deny {
				t.Fatalf("a refused grant still has content: %+v", g)
			}
			if len(err.Error()) > 400 || strings.ContainsFunc(err.Error(), unseen) {
				t.Fatalf("error text echoes the peer: %q", err)
			}
		})
	}
}

// What was in v before does not survive into a value that is accepted.
func TestDecodeIntoUsedValue(t *testing.T) {
	v := Grant{Project: "/left/over"}
	if err := Decode(mustEncode(t, sampleGrant()), MaxMessage, &v); !errors.Is(err, ErrNotCanonical) {
		t.Fatal(err)
	}
}

// A bomb costs neither stack nor memory: it is refused before it is parsed.
func TestDecodeBombs(t *testing.T) {
	for name, in := range map[string]string{
		"arrays":          strings.Repeat("[", MaxBody),
		"objects":         strings.Repeat(`{"a":`, MaxBody/5),
		"frames of by":    strings.Repeat(`{"kind":"forwarded","inner":`, MaxBody/28),
		"in a string":     `{"kind":"` + strings.Repeat("[", MaxDepth) + strings.Repeat(`\"[`, 100),
		"past the limit":  strings.Repeat("[", MaxBody+1),
		"inside an input": `{"v":1,"action":{"input":` + strings.Repeat("[", MaxBody-30),
	} {
		var before, after runtime.MemStats
		b := []byte(in)
		runtime.ReadMemStats(&before)
		var v By
		err := Decode(b, MaxBody, &v)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Fatalf("%s: accepted", name)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%s: %d bytes allocated to refuse it", name, got)
		}
	}
	at := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	var v json.RawMessage
	if err := Decode([]byte(at), MaxBody, &v); err != nil {
		t.Errorf("the limit itself is allowed: %v", err)
	}
}

func TestRawJSONInside(t *testing.T) {
	body := func(input string) []byte {
		a := seal(t, gateBody())
		return bytes.Replace(a.Raw, []byte(`{"command":"rm -rf build"}`), []byte(input), 1)
	}
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, tc := range []struct {
		name, input string
		want        error
	}{
		{"compact", `{"a":1,"b":[true,null,"x"]}`, nil},
		{"own escapes", `{"a":"\u003c\/\u2028\ud800"}`, nil},
		{"huge number kept as text", `{"a":1e999999999,"b":` + strings.Repeat("9", 4000) + `}`, nil},
		{"deepest", nest(MaxRawDepth), nil},
		{"same key in two objects", `[{"a":1},{"a":{"a":1}}]`, nil},
		{"keys that differ in case", `{"a":1,"A":2}`, nil},
		{"space", `{"a": 1}`, ErrNotCanonical},
		{"newline", "{\"a\":1\n}", ErrNotCanonical},
		{"too deep", nest(MaxRawDepth + 1), ErrTooDeep},
		{"duplicate key", `{"a":1,"b":2,"a":1}`, ErrInvalid},
		{"duplicate key by escape", `{"a":1,"\u0061":2}`, ErrInvalid},
		{"duplicate key, deep", `[1,{"x":{"y":[],"y":{}}}]`, ErrInvalid},
		{"duplicate empty key", `{"":1,"":2}`, ErrInvalid},
		{"bad UTF-8", "{\"a\":\"\xff\"}", ErrNotCanonical},
		{"missing", ``, ErrMalformed},
		{"two values", `{} {}`, ErrMalformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := Open(body(tc.input))
			if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if err == nil && string(a.Body.Action.Input) != tc.input {
				t.Fatalf("input became %s", a.Body.Action.Input)
			}
		})
	}
}

func TestFields(t *testing.T) {
	m, err := Fields([]byte(` {"command":"ls","Command":"rm"} `))
	if err != nil || string(m["command"]) != `"ls"` || string(m["Command"]) != `"rm"` {
		t.Fatalf("%s %v", m, err)
	}
	for _, bad := range []string{``, `null`, `[]`, `"x"`, `{"a":1,"a":1}`, `{"a":1}x`, "{\"\xff\":1}", strings.Repeat("[", 200)} {
		if m, err := Fields([]byte(bad)); err == nil {
			t.Errorf("%q gives %v", bad, m)
		}
	}
}

func TestAskOnTheWire(t *testing.T) {
	a := seal(t, gateBody()).WithHop(Hop{Session: "claude-7f3", Node: "n1"}).WithHop(Hop{Session: "claude-lead", Node: "n2", Claimed: true})
	a.Header.RemainingMS = RemainingMS(-1)
	raw := mustEncode(t, a)
	if again := mustEncode(t, *a); !bytes.Equal(raw, again) {
		t.Fatal("a value and a pointer encode differently")
	}
	got, err := DecodeAsk(raw)
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest != a.Digest || !bytes.Equal(got.Raw, a.Raw) || len(got.Header.Path) != 2 || !got.Header.Claimed() || *got.Header.RemainingMS != 0 {
		t.Fatalf("%+v", got)
	}
	// A field of the body that this build does not know is refused, because
	// what is not understood cannot be judged.
	newer := bytes.Replace(raw, []byte(`"items"`), []byte(`"elevate":true,"items"`), 1)
	if _, err := DecodeAsk(newer); !errors.Is(err, ErrNotCanonical) {
		t.Fatal(err)
	}
	long := a
	for range MaxHops {
		long = long.WithHop(Hop{Session: "s", Node: "n"})
	}
	if _, err := DecodeAsk(mustEncode(t, long)); !errors.Is(err, ErrInvalid) {
		t.Fatalf("path of %d hops: %v", len(long.Header.Path), err)
	}
	for _, h := range []Hop{{Session: "..", Node: "n"}, {Session: "s", Node: "a/b"}, {Session: "s"}} {
		if _, err := DecodeAsk(mustEncode(t, a.WithHop(h))); !errors.Is(err, ErrInvalid) {
			t.Errorf("hop %+v: %v", h, err)
		}
	}
	late := *a
	ms := int64(-1)
	late.Header.RemainingMS = &ms
	if _, err := DecodeAsk(mustEncode(t, late)); !errors.Is(err, ErrInvalid) {
		t.Errorf("negative time: %v", err)
	}
}

func TestWithHopSharesNothing(t *testing.T) {
	a := seal(t, gateBody()).WithHop(Hop{Session: "a", Node: "n"})
	b := a.WithHop(Hop{Session: "b", Node: "n"})
	c := a.WithHop(Hop{Session: "c", Node: "n"})
	if b.Header.Path[1].Session != "b" || c.Header.Path[1].Session != "c" || len(a.Header.Path) != 1 {
		t.Fatalf("%+v %+v", b.Header, c.Header)
	}
}

func TestDigests(t *testing.T) {
	a := seal(t, gateBody())
	if a.Digest != BodyDigest(a.Raw) || a.Digest.IsZero() {
		t.Fatal(a.Digest)
	}
	base := *a.Body.Action
	same := base
	same.Input = []byte("{ \"command\": \"rm -rf build\" }")
	same.Call, same.Home, same.Agent = "other", "/x", "other"
	if same.ActionDigest() != base.ActionDigest() {
		t.Error("white space, call id or home changed the digest of an action")
	}
	seen := map[Digest]string{base.ActionDigest(): "base"}
	for name, change := range map[string]func(*Action){
		"client":      func(a *Action) { a.Client = "codex" },
		"client tool": func(a *Action) { a.ClientTool = "Bash2" },
		"input":       func(a *Action) { a.Input = []byte(`{"command":"rm -rf build "}`) },
		"key order":   func(a *Action) { a.Input = []byte(`{"x":1,"command":"rm -rf build"}`) },
		"cwd":         func(a *Action) { a.Cwd += "/x" },
		"moved border": func(a *Action) {
			a.Client, a.ClientTool = a.Client+a.ClientTool[:1], a.ClientTool[1:]
		},
	} {
		c := base
		change(&c)
		if other, dup := seen[c.ActionDigest()]; dup {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[c.ActionDigest()] = name
	}
	for _, bad := range []string{"", "00", strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("A", 64), strings.Repeat("0", 63) + "g"} {
		var d Digest
		if d.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is a digest", bad)
		}
	}
}

func mustEncode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
