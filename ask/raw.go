package ask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// MaxRawDepth is how deeply raw JSON of a client (a tool input, a native
// request) may nest; the messages around it need the rest of [MaxDepth].
const MaxRawDepth = 96

// Fields reads a JSON object of a client by exact keys. Use it, not a struct,
// for what a client's tool input says: encoding/json would take "Command" for
// "command" and the last of two equal keys, where the client's own parser may
// not. A duplicate key, or anything but one object, is an error.
func Fields(raw []byte) (map[string]json.RawMessage, error) {
	if err := checkRaw(raw); err != nil {
		return nil, err
	}
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, decodeError(err)
	}
	if m == nil {
		return nil, invalid("null stands where a JSON object is wanted")
	}
	return m, nil
}

// checkRaw refuses raw JSON that two parsers could read differently, or that
// one could choke on.
func checkRaw(raw []byte) error {
	if len(raw) > MaxBody {
		return fmt.Errorf("%d bytes: %w (limit %d)", len(raw), ErrTooLarge, MaxBody)
	}
	if tooDeep(raw, MaxRawDepth) {
		return fmt.Errorf("%w (limit %d)", ErrTooDeep, MaxRawDepth)
	}
	if !utf8.Valid(raw) {
		return fmt.Errorf("%w: raw JSON is not UTF-8", ErrMalformed)
	}
	if !json.Valid(raw) {
		return fmt.Errorf("%w: raw text is not JSON", ErrMalformed)
	}
	if k, twice := duplicateKey(raw); twice {
		return invalid("key %s stands twice in one object", Quote(k))
	}
	return nil
}

// tooDeep reports whether b nests deeper than limit. It needs no valid JSON,
// no memory and no stack.
func tooDeep(b []byte, limit int) bool {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = stringEnd(b, i) - 1
		case '{', '[':
			if depth++; depth > limit {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}

// stringEnd returns the index after the string that starts at b[i], or
// len(b) when it never ends.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// duplicateKey finds a key that one object of b, valid JSON, holds twice.
// Keys are compared as text, so an escape does not hide one.
func duplicateKey(b []byte) (string, bool) {
	type level struct {
		keys map[string]bool // nil in an array
		key  bool            // the next string is a key
	}
	var stack []level
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{':
			stack = append(stack, level{keys: map[string]bool{}, key: true})
		case '[':
			stack = append(stack, level{})
		case '}', ']':
			stack = stack[:len(stack)-1]
		case ',':
			top := &stack[len(stack)-1]
			top.key = top.keys != nil
		case '"':
			end := stringEnd(b, i)
			if n := len(stack) - 1; n >= 0 && stack[n].key {
				k := keyText(b[i:end])
				if stack[n].keys[k] {
					return k, true
				}
				stack[n].keys[k] = true
				stack[n].key = false
			}
			i = end - 1
		}
	}
	return "", false
}

func keyText(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return string(quoted)
	}
	return s
}
