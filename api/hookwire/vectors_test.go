package hookwire

import (
	"bytes"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"
)

// vector is one line of testdata: what is to become of which bytes.
type vector struct {
	verdict, name string
	bytes         []byte
}

func readVectors(t testing.TB, file string) []vector {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []vector
	for n, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		verdict, rest, _ := strings.Cut(line, " ")
		name, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
		b, err := parseBytes(rest)
		if err != nil {
			t.Fatalf("%s:%d: %v", file, n+1, err)
		}
		out = append(out, vector{verdict, name, b})
	}
	return out
}

func parseBytes(s string) ([]byte, error) {
	var out []byte
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		if s[0] == '"' {
			quoted, err := strconv.QuotedPrefix(s)
			if err != nil {
				return nil, err
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, err
			}
			out, s = append(out, text...), s[len(quoted):]
			continue
		}
		token, rest, _ := strings.Cut(s, " ")
		times := 1
		if count, of, found := strings.Cut(token, "*"); found {
			var err error
			if times, err = strconv.Atoi(count); err != nil {
				return nil, err
			}
			token = of
		}
		b, err := hex.DecodeString(token)
		if err != nil {
			return nil, err
		}
		out, s = append(out, bytes.Repeat(b, times)...), rest
	}
	return out, nil
}

// atLeastFourBad holds the share of bad vectors: it is the refusals that go
// wrong unseen.
func atLeastFourBad(t *testing.T, vs []vector) {
	t.Helper()
	good := 0
	for _, v := range vs {
		if v.verdict == "good" {
			good++
		}
	}
	if good == 0 || len(vs)-good < 4*good {
		t.Errorf("%d good vectors, %d others; want four others for each good one", good, len(vs)-good)
	}
}
