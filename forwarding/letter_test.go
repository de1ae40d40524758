package forwarding

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"permd/ask"
)

var update = flag.Bool("update", false, "write testdata/letters.txt anew")

var (
	goldKey    = bytes.Repeat([]byte{1}, 32)
	goldDigest = ask.BodyDigest([]byte("body"))
)

func goldLetter() Letter {
	return Letter{Envelope: Envelope{Kind: KindAsk, ID: "ask-1", Origin: "claude-a", Digest: goldDigest, Counter: 7,
		From: Address{"n1", "i1", "claude-a"}, To: Address{"n2", "i2", "claude-b"}}, Body: []byte("{}\n{}")}
}

// resealed seals text as it stands, whatever it is.
func resealed(envelope, body string) []byte {
	out := make([]byte, firstLine)
	copy(out, mailPrefix)
	out = append(append(out, envelope...), body...)
	hex.Encode(out[len(mailPrefix):], mac(out, goldKey))
	out[firstLine-1] = '\n'
	return out
}

type goldVector struct {
	want string // "good", "malformed", "partial", "forged"
	why  string
	raw  []byte
}

func makeLetters(t *testing.T) []goldVector {
	var vs []goldVector
	good := func(why string, change func(*Letter)) {
		l := goldLetter()
		change(&l)
		raw, err := l.Seal(goldKey)
		if err != nil {
			t.Fatal(why, err)
		}
		vs = append(vs, goldVector{"good", why, raw})
	}
	long := strings.Repeat("x", 64)
	good("an ask", func(*Letter) {})
	for _, k := range []Kind{KindAsk, KindCancel, KindDecision, KindDelivered} {
		good("kind "+string(k), func(l *Letter) { l.Kind = k })
		good("empty "+string(k), func(l *Letter) { l.Kind = k; l.Body = nil })
		good("binary "+string(k), func(l *Letter) { l.Kind = k; l.Body = []byte{0, 10, 13, 255, ' '} })
		good("first "+string(k), func(l *Letter) { l.Kind = k; l.Counter = 1 })
		good("last "+string(k), func(l *Letter) { l.Kind = k; l.Counter = 1<<64 - 1 })
		good("longest ids of "+string(k), func(l *Letter) {
			l.Kind, l.ID, l.Origin = k, long, long
			l.From, l.To = Address{long, long, long}, Address{long[1:], long, long}
		})
	}
	good("one byte", func(l *Letter) { l.Body = []byte("x") })
	good("a newline", func(l *Letter) { l.Body = []byte("\n") })
	good("looks like a letter", func(l *Letter) { l.Body = resealed("x\n", "y") })
	good("all characters of an id", func(l *Letter) { l.ID = "A-Z.a_z-09" })
	good("dots inside", func(l *Letter) { l.ID = "a..b" })
	good("same session", func(l *Letter) { l.To.Session = l.From.Session })
	good("same instance", func(l *Letter) { l.To.Instance = l.From.Instance })

	l := goldLetter()
	plain := string(l.appendTo(nil, 5))
	const body = "{}\n{}"
	bad := func(why, envelope string) {
		vs = append(vs, goldVector{"malformed", why, resealed(envelope, body)})
	}
	field := func(why string, i int, values ...string) {
		for _, v := range values {
			f := strings.Split(strings.TrimSuffix(plain, "\n"), " ")
			f[i] = v
			bad(fmt.Sprintf("%s %.20q", why, v), strings.Join(f, " ")+"\n")
		}
	}
	ids := []string{"", ".", "..", ".x", "../x", "a/b", "a~b", "a\x00b", "a\tb", "é", strings.Repeat("x", 65), "a b"}
	field("kind", 0, "", "allow", "Ask", "ask\r", "asks")
	field("id", 1, ids...)
	field("origin", 2, ids...)
	field("digest", 3, "", "0", strings.Repeat("0", 64), strings.ToUpper(goldDigest.String()), goldDigest.String()[1:], goldDigest.String()+"0", strings.Repeat("g", 64))
	field("from node", 4, append(ids, "n2")...)
	field("from instance", 5, ids...)
	field("from session", 6, ids...)
	field("to node", 7, append(ids, "n1")...)
	field("to instance", 8, ids...)
	field("to session", 9, ids...)
	field("counter", 10, "", "0", "-1", "07", "+7", "7.0", "0x7", "7e0", " 7", "18446744073709551616")
	field("size", 11, "", "-5", "05", "+5", "4", "0", "0x5", "4260000", "99999999999")
	bad("no envelope", "\n")
	bad("a field more", strings.TrimSuffix(plain, "\n")+" x\n")
	bad("a field less", plain[:strings.LastIndex(plain, " ")]+"\n")
	bad("two spaces", strings.Replace(plain, " ", "  ", 1))
	bad("carriage return", strings.Replace(plain, "\n", "\r\n", 1))
	bad("space in front", " "+plain)
	bad("JSON", `{"v":1}`+"\n")
	bad("endless envelope", strings.Repeat("x", maxEnvelope)+"\n")

	seal, err := l.Seal(goldKey)
	if err != nil {
		t.Fatal(err)
	}
	file := func(want, why string, change func([]byte) []byte) {
		vs = append(vs, goldVector{want, why, change(bytes.Clone(seal))})
	}
	file("partial", "nothing", func([]byte) []byte { return nil })
	file("partial", "a piece of the prefix", func(b []byte) []byte { return b[:5] })
	file("partial", "a piece of the first line", func(b []byte) []byte { return b[:40] })
	file("partial", "the first line", func(b []byte) []byte { return b[:firstLine] })
	file("partial", "half an envelope", func(b []byte) []byte { return b[:firstLine+20] })
	file("partial", "no body", func(b []byte) []byte { return b[:len(b)-5] })
	file("partial", "one byte missing", func(b []byte) []byte { return b[:len(b)-1] })
	file("partial", "a size too large", func([]byte) []byte { return resealed(strings.Replace(plain, " 5\n", " 6\n", 1), body) })
	file("malformed", "one byte more", func(b []byte) []byte { return append(b, 'x') })
	file("malformed", "twice", func(b []byte) []byte { return append(b, b...) })
	file("malformed", "version 2", func(b []byte) []byte { return bytes.Replace(b, []byte("permd-mail 1"), []byte("permd-mail 2"), 1) })
	file("malformed", "version 0", func(b []byte) []byte { return bytes.Replace(b, []byte("permd-mail 1"), []byte("permd-mail 0"), 1) })
	file("malformed", "JSON", func([]byte) []byte { return []byte(`{"version":1,"kind":"decision","verdict":"allow"}`) })
	file("malformed", "MAC in capitals", func(b []byte) []byte {
		copy(b[len(mailPrefix):], bytes.ToUpper(b[len(mailPrefix):firstLine-1]))
		return b
	})
	file("malformed", "MAC is not hex", func(b []byte) []byte { b[len(mailPrefix)] = 'g'; return b })
	file("malformed", "MAC one digit longer", func(b []byte) []byte {
		return append(b[:firstLine-1:firstLine-1], append([]byte("0"), b[firstLine-1:]...)...)
	})
	file("malformed", "no newline after the MAC", func(b []byte) []byte { b[firstLine-1] = ' '; return b })
	file("forged", "MAC of zeros", func(b []byte) []byte {
		copy(b[len(mailPrefix):], bytes.Repeat([]byte("0"), 64))
		return b
	})
	file("forged", "another key", func([]byte) []byte { b, _ := l.Seal([]byte("guess")); return b })
	file("forged", "no key", func([]byte) []byte { b, _ := l.Seal(nil); return b })
	file("forged", "the shared key", func([]byte) []byte { b, _ := l.Seal(sharedKey); return b })
	for _, swap := range [][2]string{{"ask ", "decision "}, {"ask-1", "ask-2"}, {"claude-a ", "claude-c "}, {" 7 ", " 8 "}, {"n1", "n3"}, {"i2", "i3"}} {
		file("forged", "changed "+swap[0], func(b []byte) []byte { return bytes.Replace(b, []byte(swap[0]), []byte(swap[1]), 1) })
	}
	file("forged", "swapped body", func(b []byte) []byte { b[len(b)-1] = ']'; return b })
	return vs
}

func TestLetterVectors(t *testing.T) {
	const name = "testdata/letters.txt"
	if *update {
		var out bytes.Buffer
		for _, v := range makeLetters(t) {
			fmt.Fprintf(&out, "%s\t%q\t%x\n", v.want, v.why, v.raw)
		}
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(name, out.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var good, bad int
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		p := strings.Split(sc.Text(), "\t")
		raw, err := hex.DecodeString(p[2])
		if err != nil {
			t.Fatal(err)
		}
		l, err := Open(raw, goldKey)
		want := map[string]error{"malformed": ErrMalformed, "partial": ErrPartial, "forged": ErrForged}[p[0]]
		if p[0] == "good" {
			good++
			if err != nil {
				t.Errorf("%s: %v", p[1], err)
				continue
			}
			if again, err := l.Seal(goldKey); err != nil || !bytes.Equal(again, raw) {
				t.Errorf("%s: does not re-serialise to itself: %v", p[1], err)
			}
			if n, ok := ParseName(l.Name().String()); !ok || n != l.Name() {
				t.Errorf("%s: name %s", p[1], l.Name())
			}
			continue
		}
		bad++
		if !errors.Is(err, want) || l != nil {
			t.Errorf("%s: %v, want %s", p[1], err, p[0])
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	if good < 30 || bad < 4*good {
		t.Errorf("%d good and %d bad vectors", good, bad)
	}
}

// Every bit and every cut of a letter matters.
func TestLetterTampering(t *testing.T) {
	l := goldLetter()
	raw, err := l.Seal(goldKey)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(raw) * 8 {
		c := bytes.Clone(raw)
		c[i/8] ^= 1 << (i % 8)
		if _, err := Open(c, goldKey); err == nil {
			t.Fatalf("bit %d flipped: accepted", i)
		}
	}
	for n := range raw {
		if _, err := Open(raw[:n], goldKey); err == nil {
			t.Fatalf("%d bytes: accepted", n)
		}
		if _, err := Open(append(bytes.Clone(raw[:n]), raw[n+1:]...), goldKey); err == nil {
			t.Fatalf("byte %d missing: accepted", n)
		}
	}
}

func TestSealRefuses(t *testing.T) {
	for name, change := range map[string]func(*Letter){
		"kind":       func(l *Letter) { l.Kind = "" },
		"id":         func(l *Letter) { l.ID = "../x" },
		"digest":     func(l *Letter) { l.Digest = ask.Digest{} },
		"counter":    func(l *Letter) { l.Counter = 0 },
		"to itself":  func(l *Letter) { l.To.Node = l.From.Node },
		"no session": func(l *Letter) { l.To.Session = "" },
		"too large":  func(l *Letter) { l.Body = make([]byte, maxLetterBody+1) },
	} {
		l := goldLetter()
		change(&l)
		if _, err := l.Seal(goldKey); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := goldLetter()
	l.Body = make([]byte, maxLetterBody)
	raw, err := l.Seal(goldKey)
	if err != nil || len(raw) > MaxLetter {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	if _, err := Open(raw, goldKey); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(append(raw, make([]byte, MaxLetter)...), goldKey); !errors.Is(err, ErrMalformed) {
		t.Fatal(err)
	}
}

func TestNames(t *testing.T) {
	good := Name{"n1", "i1", 7, KindAsk, "ask-1"}
	if s := good.String(); s != "n1~i1~0000000000000007~ask~ask-1" {
		t.Fatal(s)
	}
	longest := Name{strings.Repeat("n", 64), strings.Repeat("i", 64), 1<<64 - 1, KindDelivered, strings.Repeat("a", 64)}
	if s := longest.String(); len(s) > 255 {
		t.Fatalf("%d bytes", len(s))
	}
	for _, n := range []Name{good, longest, {"n", "i", 1, KindCancel, "a"}, {"n", "i", 1, KindDecision, "a.b"}} {
		if got, ok := ParseName(n.String()); !ok || got != n {
			t.Errorf("%s: %+v", n, got)
		}
	}
	for _, s := range []string{"", "~", "~~~~", "n1~i1~0000000000000007~ask", "n1~i1~0000000000000007~ask~a~b", "n1~i1~7~ask~a",
		"n1~i1~0000000000000000~ask~a", "n1~i1~000000000000000G~ask~a", "n1~i1~000000000000000A~ask~a", "n1~i1~+000000000000007~ask~a",
		"n1~i1~00000000000000007~ask~a", "n1~i1~0000000000000007~allow~a", "n1~i1~0000000000000007~Ask~a", "n1~i1~0000000000000007~ask~",
		"n1~i1~0000000000000007~ask~..", "n1~i1~0000000000000007~ask~../a", "..~i1~0000000000000007~ask~a", ".n~i1~0000000000000007~ask~a",
		"n1~~0000000000000007~ask~a", "n1~i1~0000000000000007~ask~a/b", "n1~i1~0000000000000007~ask~a\x00", "n1~i1~0000000000000007~ask~é",
		" n1~i1~0000000000000007~ask~a", ".permd-tmp-1", echoPrefix + "x"} {
		if n, ok := ParseName(s); ok {
			t.Errorf("%q is taken for %+v", s, n)
		}
	}
}

func FuzzOpen(f *testing.F) {
	l := goldLetter()
	raw, err := l.Seal(goldKey)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[firstLine:])
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, raw := range [][]byte{in, resealed(string(in), "")} {
			l, err := Open(raw, goldKey)
			if err != nil {
				continue
			}
			again, err := l.Seal(goldKey)
			if err != nil || !bytes.Equal(again, raw) {
				t.Fatalf("parsed %q, re-serialised %q, %v", raw, again, err)
			}
		}
	})
}

func FuzzParseName(f *testing.F) {
	f.Add("n1~i1~0000000000000007~ask~ask-1")
	f.Fuzz(func(t *testing.T, s string) {
		if n, ok := ParseName(s); ok && (n.String() != s || strings.ContainsAny(s, "/\x00") || len(s) > 255) {
			t.Fatalf("%q is taken for %+v", s, n)
		}
	})
}

func FuzzDecodeAsk(f *testing.F) {
	a, err := testAsk("c1", "ask-1")
	if err != nil {
		f.Fatal(err)
	}
	b, err := encodeAsk(a.WithHop(ask.Hop{Session: "c1", Node: "n1"}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, in []byte) {
		a, err := decodeAsk(in)
		if err != nil {
			return
		}
		again, err := encodeAsk(a)
		if err != nil || !bytes.Equal(again, in) {
			t.Fatalf("parsed %q, re-serialised %q, %v", in, again, err)
		}
	})
}

// The window accepts each counter once, in whatever order, and nothing too old.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		seen := map[uint64]bool{}
		var top uint64
		base := rapid.Uint64Range(0, 1<<63).Draw(t, "base")
		for range rapid.IntRange(1, 300).Draw(t, "letters") {
			n := base + rapid.Uint64Range(0, 3*windowSize).Draw(t, "counter")
			got := w.accept(n)
			switch {
			case n == 0 || seen[n]:
				if got {
					t.Fatalf("%d accepted twice", n)
				}
			case n > top || top-n < windowSize:
				if !got {
					t.Fatalf("%d refused, highest is %d", n, top)
				}
				seen[n] = true
				top = max(top, n)
			default:
				if got {
					t.Fatalf("%d accepted, highest is %d", n, top)
				}
			}
		}
	})
}

func TestWindowEdges(t *testing.T) {
	var w window
	for _, c := range []struct {
		n    uint64
		want bool
	}{{0, false}, {1, true}, {1, false}, {windowSize, true}, {2, true}, {windowSize + 1, true}, {2, false}, {1, false}, {3, true},
		{windowSize + 63, true}, {windowSize + 64, true}, {64, false}, {65, true}, {1 << 63, true}, {1<<63 - windowSize + 1, true}, {1<<63 - windowSize, false},
		{1<<64 - 1, true}, {1<<64 - 1, false}, {1<<64 - 2, true}} {
		if got := w.accept(c.n); got != c.want {
			t.Fatalf("%d: %v", c.n, got)
		}
	}
}
