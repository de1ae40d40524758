package ask

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// seedWith gives a fuzz target the vectors of its type, good and bad.
func seedWith(f *testing.F, typ string) {
	for _, v := range readVectors(f) {
		if v.Type == typ && v.InHex == "" {
			f.Add([]byte(v.In))
		}
	}
}

// sameAgain is the law of every decoder: what parses is written back as the
// same bytes, is text, and passes its own check.
func sameAgain[T any](f *testing.F, typ string, check func(t *testing.T, v T)) {
	seedWith(f, typ)
	f.Fuzz(func(t *testing.T, b []byte) {
		var v T
		if Decode(b, MaxBody+MaxMessage, &v) != nil {
			return
		}
		again, err := Encode(v)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%q\nis written again as\n%q, %v", b, again, err)
		}
		if !utf8.Valid(b) {
			t.Fatal("accepted what is not text")
		}
		if check != nil {
			check(t, v)
		}
	})
}

func FuzzBody(f *testing.F) {
	sameAgain(f, "body", func(t *testing.T, b Body) {
		a, err := Seal(b)
		if err != nil {
			t.Fatalf("what opens must seal: %v", err)
		}
		raw, _ := Encode(b)
		if !bytes.Equal(a.Raw, raw) {
			t.Fatal("sealed to other bytes")
		}
		if p := b.Permission(); (p != nil) != (b.Origin == OriginGate || b.Origin == OriginPlan) {
			t.Fatalf("origin %s with permission %v", b.Origin, p)
		}
	})
}

func FuzzAsk(f *testing.F) {
	sameAgain(f, "ask", func(t *testing.T, a Ask) {
		if a.Digest != BodyDigest(a.Raw) {
			t.Fatal("digest of other bytes")
		}
	})
}

func FuzzDecision(f *testing.F) {
	sameAgain(f, "decision", func(t *testing.T, d Decision) {
		if d.Allows(d.Ask, d.Digest) != (d.Verdict == Allow) {
			t.Fatal("an allow that does not allow, or the reverse")
		}
		if d.By.Depth() > MaxFrames {
			t.Fatal("too many frames")
		}
	})
}

func FuzzBy(f *testing.F)    { sameAgain[By](f, "by", nil) }
func FuzzGrant(f *testing.F) { sameAgain[Grant](f, "grant", nil) }
func FuzzRule(f *testing.F)  { sameAgain[Rule](f, "rule", nil) }

// FuzzAnswer also holds that an answer which is valid for a permission is a
// yes or a no, and never both a deny and a grant.
func FuzzAnswer(f *testing.F) {
	gate, err := Seal(gateBody())
	if err != nil {
		f.Fatal(err)
	}
	form, err := Seal(formBody())
	if err != nil {
		f.Fatal(err)
	}
	offers := []Offer{sessionOffer()}
	sameAgain(f, "answer", func(t *testing.T, n Answer) {
		n.Ask, n.Digest = gate.Body.ID, gate.Digest
		if gate.Validate(&n, offers) == nil && n.Outcome == Answered {
			allow, ok := gate.Permission(&n)
			if !ok || n.Offer != "" && !allow || n.Edited != nil && !allow {
				t.Fatalf("%+v", n)
			}
		}
		n.Ask, n.Digest = form.Body.ID, form.Digest
		_ = form.Validate(&n, nil)
	})
}

// FuzzRawJSON compares our duplicate-key search and nesting limit with what
// encoding/json sees.
func FuzzRawJSON(f *testing.F) {
	for _, s := range []string{`{"a":1,"a":2}`, `{"a":[{"b":{}},"\"}"],"\u0061":"{"}`, `[[[{"x":"]"}]]]`, `"\\"`, `{"":{"":0}}`, "{\"\xff\":1,\"\xfe\":2}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if checkRaw(b) != nil {
			return
		}
		if n := depth(t, b); n > MaxRawDepth {
			t.Fatalf("nests %d deep", n)
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(b, &m) == nil && m != nil {
			if got := keys(t, b); got != len(m) {
				t.Fatalf("%d keys, %d of them different", got, len(m))
			}
		}
	})
}

func depth(t *testing.T, b []byte) int {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	n, most := 0, 0
	for {
		tok, err := d.Token()
		if err != nil {
			return most
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			n++
			most = max(most, n)
		case json.Delim('}'), json.Delim(']'):
			n--
		}
	}
}

// keys counts the keys of the outermost object of b.
func keys(t *testing.T, b []byte) int {
	d := json.NewDecoder(bytes.NewReader(b))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for d.More() {
		var v json.RawMessage
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"a", "\u202e", "a\xff", "e\u0301\u0301\u0301\u0301\u0301", "\u200b\u200b\u200b\u200b", "\n\t  ⟨U+0000⟩"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, show := range []func(string) string{Visible, VisibleLine} {
			v := show(s)
			if !utf8.ValidString(v) || show(v) != v || HiddenCount(v) != 0 {
				t.Fatalf("%q shown as %q", s, v)
			}
		}
		if e := Excerpt(s, 64); utf8.RuneCountInString(e) > 64 || HiddenCount(e) != 0 {
			t.Fatalf("%q cut to %q", s, e)
		}
	})
}
