package ask

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// vectorsDigest pins testdata/vectors.json. It changes only with [Version]:
// canonical bytes live in logs, under digests and between two builds, so a
// vector that fails means the format changed by accident (a new release of
// encoding/json would be such an accident), not that the file is old.
const vectorsDigest = "d3235574748a79c7b402f8a156d1b5d3b74ac0b4988134a148b9385710231e71"

const vectorsFile = "testdata/vectors.json"

// vector is one message and what every implementation must make of it. The
// file is for other languages too: In is the message, or InHex when it is not
// UTF-8.
type vector struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	In    string `json:"in,omitempty"`
	InHex string `json:"in_hex,omitempty"`
	// SHA256 is over the bytes of In; Digest over version and body.
	SHA256 string `json:"sha256"`
	Digest string `json:"digest,omitempty"`
}

func (v *vector) bytes(t *testing.T) []byte {
	if v.InHex == "" {
		return []byte(v.In)
	}
	b, err := hex.DecodeString(v.InHex)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// errorNames are the words of the vectors for what Decode returns.
var errorNames = map[string]error{
	"malformed": ErrMalformed, "not_canonical": ErrNotCanonical, "too_deep": ErrTooDeep, "too_large": ErrTooLarge, "invalid": ErrInvalid,
}

func errorName(err error) string {
	for name, e := range errorNames {
		if errors.Is(err, e) {
			return name
		}
	}
	return fmt.Sprintf("untyped: %v", err)
}

// decoders are the strict readers by the vectors' type.
var decoders = map[string]func([]byte) (any, error){
	"body":     func(b []byte) (any, error) { a, err := Open(b); return a, err },
	"ask":      func(b []byte) (any, error) { return DecodeAsk(b) },
	"answer":   func(b []byte) (any, error) { return DecodeAnswer(b) },
	"decision": func(b []byte) (any, error) { return DecodeDecision(b) },
	"grant":    func(b []byte) (any, error) { return DecodeGrant(b) },
	"by":       func(b []byte) (any, error) { return decodeAs[By](b, MaxMessage, "by") },
	"rule":     func(b []byte) (any, error) { return decodeAs[Rule](b, MaxMessage, "rule") },
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	raw, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(raw)); got != vectorsDigest {
		t.Fatalf("%s has digest %s, want %s", vectorsFile, got, vectorsDigest)
	}
	var file struct{ Vectors []vector }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Vectors
}

func TestVectors(t *testing.T) {
	good, bad := map[string]int{}, map[string]int{}
	for _, v := range readVectors(t) {
		t.Run(v.Type+"/"+v.Name, func(t *testing.T) {
			b := v.bytes(t)
			if fmt.Sprintf("%x", sha256.Sum256(b)) != v.SHA256 {
				t.Fatal("the bytes of the vector changed")
			}
			got, err := decoders[v.Type](b)
			if !v.OK {
				bad[v.Type]++
				if err == nil {
					t.Fatal("accepted")
				}
				if name := errorName(err); name != v.Error {
					t.Fatalf("refused as %s (%v), want %s", name, err, v.Error)
				}
				return
			}
			good[v.Type]++
			if err != nil {
				t.Fatal(err)
			}
			if a, ok := got.(*Ask); ok {
				if a.Digest.String() != v.Digest {
					t.Fatalf("digest %s, want %s", a.Digest, v.Digest)
				}
				if v.Type == "body" {
					got = a.Body
				}
			}
			if again := mustEncode(t, got); !bytes.Equal(again, b) {
				t.Fatalf("written again as %s", again)
			}
		})
	}
	for typ := range decoders {
		if good[typ] < 3 || bad[typ] < 4*good[typ] {
			t.Errorf("%s has %d good and %d bad vectors", typ, good[typ], bad[typ])
		}
	}
}

// No good vector may be cut or changed in one byte and mean the same: each
// such change is refused, or gives another value, never the value itself.
func TestVectorsByteByByte(t *testing.T) {
	for _, v := range readVectors(t) {
		if !v.OK {
			continue
		}
		b := v.bytes(t)
		want, err := decoders[v.Type](b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b {
			if _, err := decoders[v.Type](b[:i]); err == nil {
				t.Fatalf("%s/%s cut to %d bytes is accepted", v.Type, v.Name, i)
			}
			// The other case of a letter, a space out of a zero byte and the like.
			changed := bytes.Clone(b)
			changed[i] ^= 0x20
			if got, err := decoders[v.Type](changed); err == nil && reflect.DeepEqual(meaning(got), meaning(want)) {
				t.Fatalf("%s/%s with byte %d as %q means the same", v.Type, v.Name, i, changed[i])
			}
		}
	}
}

// meaning is v without the bytes it was read from.
func meaning(v any) any {
	if a, ok := v.(*Ask); ok {
		return []any{a.Header, a.Body}
	}
	return v
}

func vectorOf(typ, name string, b []byte, want error) vector {
	v := vector{Type: typ, Name: name, OK: want == nil, SHA256: fmt.Sprintf("%x", sha256.Sum256(b))}
	if strings.ToValidUTF8(string(b), "") == string(b) {
		v.In = string(b)
	} else {
		v.InHex = hex.EncodeToString(b)
	}
	if want != nil {
		v.Error = errorName(want)
	}
	return v
}
