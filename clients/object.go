package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"permd/ask"
)

// MaxDepth is the deepest nesting of a native event; no client sends a tenth
// of it, and beyond it decoding would only burn time.
const MaxDepth = 200

// ErrNative is wrapped by every error about an event that cannot be trusted.
var ErrNative = errors.New("the client's message cannot be read")

// Object is a JSON object with its members as sent. Names are compared
// exactly: encoding/json would fold their case and take the last of two.
type Object map[string]json.RawMessage

// ParseObject reads one JSON object. A name that appears twice in any object,
// nesting past [MaxDepth], trailing bytes or anything but an object is an
// error: two readers could understand it differently.
func ParseObject(raw []byte) (Object, error) {
	if err := unique(raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNative, err)
	}
	var o Object
	if err := json.Unmarshal(raw, &o); err != nil || o == nil {
		return nil, fmt.Errorf("%w: it is not a JSON object", ErrNative)
	}
	return o, nil
}

// Object returns the object member name, nil when it is absent. Its names were
// checked with the whole.
func (o Object) Object(name string) (Object, error) {
	raw, ok := o[name]
	if !ok {
		return nil, nil
	}
	var in Object
	if err := json.Unmarshal(raw, &in); err != nil || in == nil {
		return nil, fmt.Errorf("%w: member %s is not an object", ErrNative, ask.Quote(name))
	}
	return in, nil
}

// Text returns the string member name, "" when it is absent. A member of
// another type is an error.
func (o Object) Text(name string) (string, error) {
	raw, ok := o[name]
	if !ok || bytes.Equal(raw, []byte("null")) {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("%w: member %s is not a string", ErrNative, ask.Quote(name))
	}
	return s, nil
}

// unique walks raw once and refuses duplicate names and deep nesting.
func unique(raw []byte) error {
	type level struct {
		names map[string]bool // nil for an array
		key   bool            // the next string is a name
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var stack []level
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			if len(stack) > 0 {
				return errors.New("it ends too early")
			}
			return nil
		}
		if err != nil {
			return err
		}
		top := len(stack) - 1
		switch t := tok.(type) {
		case json.Delim:
			switch t {
			case '{', '[':
				if top >= 0 {
					stack[top].key = stack[top].names != nil
				}
				if len(stack) == MaxDepth {
					return fmt.Errorf("nesting is deeper than %d", MaxDepth)
				}
				l := level{}
				if t == '{' {
					l = level{names: map[string]bool{}, key: true}
				}
				stack = append(stack, l)
			default:
				stack = stack[:top]
			}
			continue
		case string:
			if top >= 0 && stack[top].key {
				if stack[top].names[t] {
					return fmt.Errorf("name %s appears twice", ask.Quote(t))
				}
				stack[top].names[t] = true
				stack[top].key = false
				continue
			}
		}
		if top >= 0 && stack[top].names != nil {
			stack[top].key = true
		}
		if top < 0 && d.More() {
			return errors.New("there is more than one value")
		}
	}
}
