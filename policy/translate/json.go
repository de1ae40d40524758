package translate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"permd/ask"
)

// member is a key of an object, in the order written.
type member struct {
	key   string
	value json.RawMessage
}

// members are the keys of an object in order. Keys that come twice are an
// error: clients differ in which of them counts.
func members(raw []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var out []member
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, notJSON(err)
		}
		key, ok := t.(string)
		if !ok || seen[key] {
			return nil, fmt.Errorf("the key %s is there twice", ask.Quote(fmt.Sprint(t)))
		}
		seen[key] = true
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, notJSON(err)
		}
		out = append(out, member{key, v})
	}
	if _, err := dec.Token(); err != nil {
		return nil, notJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	return out, nil
}

func notJSON(err error) error {
	return fmt.Errorf("it is not JSON: %s", ask.ExcerptLine(err.Error(), 160))
}

// get is the value of key, nil when it is not there.
func get(ms []member, key string) json.RawMessage {
	for _, m := range ms {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

func text(v json.RawMessage) (string, bool) {
	var s *string
	if json.Unmarshal(v, &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

// texts is a list of texts; nothing is none.
func texts(v json.RawMessage, what string) ([]string, error) {
	if v == nil {
		return nil, nil
	}
	var list []string
	if err := json.Unmarshal(v, &list); err != nil {
		return nil, fmt.Errorf("%s is not a list of texts", what)
	}
	return list, nil
}

// uncommented takes out // and /* */ comments and, where trailing commas are
// the client's habit, those.
func uncommented(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	quoted := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case quoted && c == '\\' && i+1 < len(raw):
			out = append(out, c, raw[i+1])
			i++
			continue
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '/' && i+1 < len(raw) && raw[i+1] == '/':
			for i < len(raw) && raw[i] != '\n' {
				i++
			}
			c = '\n'
		case c == '/' && i+1 < len(raw) && raw[i+1] == '*':
			end := bytes.Index(raw[i+2:], []byte("*/"))
			if end < 0 {
				return out // not closed: what is left is not JSON
			}
			i += 2 + end + 1
			c = ' '
		case c == '}' || c == ']':
			for n := len(out) - 1; n >= 0; n-- {
				if out[n] == ',' {
					out = append(out[:n], out[n+1:]...)
					break
				}
				if out[n] != ' ' && out[n] != '\n' && out[n] != '\t' && out[n] != '\r' {
					break
				}
			}
		}
		out = append(out, c)
	}
	return out
}
