package heartbeat

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/vectors.txt anew")

const boot = "01234567-89ab-cdef-0123-456789abcdef"

var testKey = bytes.Repeat([]byte{7}, 32)

func sample() Beat {
	return Beat{V: 1, Node: "n-4711", Instance: "i1", Counter: 9, Boot: boot, UptimeNS: 123456789, Serving: []string{"claude-a", "claude-b"}}
}

// raw seals a body as Encode does, whatever the body says.
func raw(body, key []byte) []byte {
	out := make([]byte, bodyAt+len(body))
	copy(out, magic)
	binary.BigEndian.PutUint32(out[len(magic):], uint32(len(body)))
	copy(out[bodyAt:], body)
	if key != nil {
		copy(out[macAt:], seal(out, key))
	}
	return recrc(out, len(body))
}

func recrc(b []byte, n int) []byte {
	binary.BigEndian.PutUint32(b[crcAt:], crc32.Checksum(b[macAt:bodyAt+n], castagnoli))
	return b
}

type vector struct {
	good bool
	why  string
	key  []byte
	file []byte
}

func makeVectors(t *testing.T) []vector {
	var vs []vector
	good := func(why string, change func(*Beat)) {
		b := sample()
		change(&b)
		for _, key := range [][]byte{nil, testKey} {
			f, err := Encode(b, key)
			if err != nil {
				t.Fatal(why, err)
			}
			vs = append(vs, vector{true, why, key, f})
		}
	}
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf("claude-%064d", i)[:64]
		many[i] = fmt.Sprintf("%s%05d", many[i][:59], i)
	}
	good("plain", func(*Beat) {})
	good("nobody serves", func(b *Beat) { b.Serving = []string{} })
	good("one serves", func(b *Beat) { b.Serving = []string{"x"} })
	good("first", func(b *Beat) { b.Counter = 1 })
	good("last", func(b *Beat) { b.Counter = 1<<64 - 1 })
	good("no boot id", func(b *Beat) { b.Boot = "" })
	good("at boot", func(b *Beat) { b.UptimeNS = 0 })
	good("late", func(b *Beat) { b.UptimeNS = 1<<63 - 1 })
	good("resting", func(b *Beat) { b.Resting = true })
	good("cut", func(b *Beat) { b.Cut = true })
	good("resting and cut", func(b *Beat) { b.Resting, b.Cut = true, true })
	good("longest ids", func(b *Beat) { b.Node = strings.Repeat("n", 64); b.Instance = strings.Repeat("i", 64) })
	good("all characters", func(b *Beat) { b.Serving = []string{"A-Z.a_z-09"} })
	good("many", func(b *Beat) { b.Serving = many })
	good("dots inside", func(b *Beat) { b.Serving = []string{"a..b"} })

	body := func(s string) []byte { return []byte(s) }
	plain := `{"v":1,"node":"n-4711","instance":"i1","counter":9,"boot":"` + boot + `","uptime_ns":123456789,"serving":["claude-a","claude-b"]}`
	bad := func(why, text string) {
		for _, key := range [][]byte{nil, testKey} {
			vs = append(vs, vector{false, why, key, raw(body(text), key)})
		}
	}
	swap := func(why, old, new string) {
		if !strings.Contains(plain, old) {
			t.Fatal(why)
		}
		bad(why, strings.Replace(plain, old, new, 1))
	}
	swap("version 0", `"v":1`, `"v":0`)
	swap("version 2", `"v":1`, `"v":2`)
	swap("version is text", `"v":1`, `"v":"1"`)
	swap("version missing", `"v":1,`, ``)
	swap("node dot", `"n-4711"`, `"."`)
	swap("node dot dot", `"n-4711"`, `".."`)
	swap("node with separator", `"n-4711"`, `"../n"`)
	swap("node empty", `"n-4711"`, `""`)
	swap("node too long", `"n-4711"`, `"`+strings.Repeat("n", 65)+`"`)
	swap("node with NUL", `"n-4711"`, `"n\u0000"`)
	swap("node null", `"n-4711"`, `null`)
	swap("instance empty", `"i1"`, `""`)
	swap("instance slash", `"i1"`, `"a/b"`)
	swap("instance missing", `"instance":"i1",`, ``)
	swap("counter 0", `"counter":9`, `"counter":0`)
	swap("counter negative", `"counter":9`, `"counter":-1`)
	swap("counter fraction", `"counter":9`, `"counter":9.0`)
	swap("counter exponent", `"counter":9`, `"counter":9e0`)
	swap("counter too large", `"counter":9`, `"counter":18446744073709551616`)
	swap("counter missing", `"counter":9,`, ``)
	swap("boot id with space", boot, "a b")
	swap("boot id escape", boot, `\u0030`)
	swap("boot missing", `"boot":"`+boot+`",`, ``)
	swap("uptime negative", `:123456789`, `:-1`)
	swap("uptime too large", `:123456789`, `:9223372036854775808`)
	swap("uptime text", `:123456789`, `:"123456789"`)
	swap("resting false", `"serving"`, `"resting":false,"serving"`)
	swap("resting text", `"serving"`, `"resting":"yes","serving"`)
	swap("cut false", `"serving"`, `"cut":false,"serving"`)
	swap("cut before resting", `"serving"`, `"cut":true,"resting":true,"serving"`)
	swap("serving null", `["claude-a","claude-b"]`, `null`)
	swap("serving missing", `,"serving":["claude-a","claude-b"]`, ``)
	swap("serving text", `["claude-a","claude-b"]`, `"claude-a"`)
	swap("serving number", `"claude-a"`, `1`)
	swap("serving descending", `["claude-a","claude-b"]`, `["claude-b","claude-a"]`)
	swap("serving twice", `["claude-a","claude-b"]`, `["claude-a","claude-a"]`)
	swap("serving bad id", `"claude-a"`, `"../a"`)
	swap("serving leading dot", `"claude-a"`, `".a"`)
	swap("serving empty id", `"claude-a"`, `""`)
	swap("unknown field", `"serving"`, `"x":1,"serving"`)
	swap("duplicate key", `"counter":9`, `"counter":8,"counter":9`)
	swap("case variant", `"counter"`, `"Counter"`)
	swap("order of fields", `"v":1,"node":"n-4711"`, `"node":"n-4711","v":1`)
	bad("white space in front", " "+plain)
	bad("newline behind", plain+"\n")
	bad("two values", plain+plain)
	bad("cut off", plain[:len(plain)-1])
	bad("array", "["+plain+"]")
	bad("null", "null")
	bad("empty body", "")
	bad("not UTF-8", strings.Replace(plain, "n-4711", "n\xff", 1))
	bad("deep", strings.Repeat("[", 5000))

	file := func(why string, change func([]byte) []byte) {
		for _, key := range [][]byte{nil, testKey} {
			vs = append(vs, vector{false, why, key, change(raw(body(plain), key))})
		}
	}
	file("empty file", func([]byte) []byte { return nil })
	file("header only", func(b []byte) []byte { return b[:bodyAt] })
	file("short header", func(b []byte) []byte { return b[:bodyAt-1] })
	file("other magic", func(b []byte) []byte { b[7] = '2'; return b })
	file("length one more", func(b []byte) []byte { b[crcAt-1]++; return b })
	file("length one less", func(b []byte) []byte { b[crcAt-1]--; return b })
	file("length huge", func(b []byte) []byte { b[len(magic)] = 0xff; return b })
	file("checksum flipped", func(b []byte) []byte { b[crcAt] ^= 1; return b })
	file("body flipped", func(b []byte) []byte { b[bodyAt+40] ^= 1; return b })
	file("last byte missing", func(b []byte) []byte { return b[:len(b)-1] })
	file("text after", func(b []byte) []byte { return append(b, 'x') })
	file("text after zeros", func(b []byte) []byte { return append(b, 0, 0, 'x') })
	vs = append(vs,
		vector{false, "other key", testKey, raw(body(plain), []byte("another key"))},
		vector{false, "no key", testKey, raw(body(plain), nil)},
		vector{false, "mac of another beat", testKey, func() []byte {
			a, b := raw(body(plain), testKey), raw(body(strings.Replace(plain, ":9,", ":8,", 1)), testKey)
			copy(a[macAt:bodyAt], b[macAt:bodyAt])
			return recrc(a, len(plain))
		}()})
	return vs
}

func TestVectors(t *testing.T) {
	const name = "testdata/vectors.txt"
	if *update {
		var out bytes.Buffer
		for _, v := range makeVectors(t) {
			verdict, key := "bad", "-"
			if v.good {
				verdict = "good"
			}
			if v.key != nil {
				key = hex.EncodeToString(v.key)
			}
			fmt.Fprintf(&out, "%s\t%s\t%s\t%x\n", verdict, v.why, key, v.file)
		}
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
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
	sc.Buffer(nil, 4<<20)
	for sc.Scan() {
		p := strings.Split(sc.Text(), "\t")
		if len(p) != 4 {
			t.Fatalf("line %q", sc.Text())
		}
		var key []byte
		if p[2] != "-" {
			key = unhex(t, p[2])
		}
		file := unhex(t, p[3])
		b, err := Decode(file, key)
		switch p[0] {
		case "good":
			good++
			if err != nil {
				t.Errorf("%s: %v", p[1], err)
				continue
			}
			again, err := Encode(b, key)
			if err != nil || !bytes.Equal(again, file) {
				t.Errorf("%s: does not re-serialise to itself: %v", p[1], err)
			}
		case "bad":
			bad++
			if err == nil {
				t.Errorf("%s: accepted", p[1])
			}
		default:
			t.Fatalf("verdict %q", p[0])
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	if good < 30 || bad < 4*good {
		t.Errorf("%d good and %d bad vectors", good, bad)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every single bit of a sealed beat matters.
func TestBitFlips(t *testing.T) {
	file, err := Encode(sample(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(file) * 8 {
		c := bytes.Clone(file)
		c[i/8] ^= 1 << (i % 8)
		if _, err := Decode(c, testKey); err == nil {
			t.Fatalf("bit %d flipped: accepted", i)
		}
		// A forger mends the checksum, which needs no key.
		if i/8 >= macAt {
			recrc(c, len(c)-bodyAt)
			if _, err := Decode(c, testKey); err == nil {
				t.Fatalf("bit %d flipped, checksum mended: accepted", i)
			}
		}
	}
	for n := range file {
		if _, err := Decode(file[:n], testKey); err == nil {
			t.Fatalf("%d bytes: accepted", n)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, key := range [][]byte{nil, testKey} {
		file, err := Encode(sample(), key)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
		f.Add(append(file, 0, 0, 0))
		f.Add([]byte(`{"v":1,"node":"n","instance":"i","counter":1,"boot":"","uptime_ns":0,"serving":[]}`))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		// The checksum would keep the fuzzer out, so the body is tried too.
		for _, file := range [][]byte{in, raw(in, nil)} {
			b, err := Decode(file, nil)
			if err != nil {
				continue
			}
			again, err := Encode(b, nil)
			if err != nil {
				t.Fatalf("parsed, but does not encode: %v", err)
			}
			if !bytes.Equal(again[bodyAt:], file[bodyAt:len(again)]) {
				t.Fatalf("parsed %q, re-serialised %q", file[bodyAt:], again[bodyAt:])
			}
		}
	})
}
