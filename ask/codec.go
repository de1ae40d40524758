package ask

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// Errors of strict decoding. Every error of [Decode] wraps one of these or
// [ErrInvalid].
var (
	ErrTooLarge = errors.New("too large")
	ErrTooDeep  = errors.New("nested too deeply")
	// ErrMalformed means the bytes are not one JSON value of the expected type.
	ErrMalformed = errors.New("malformed")
	// ErrNotCanonical means the bytes decode, but not to themselves: a
	// duplicate key, a case variant, an unknown field, white space, another
	// escape, or text that is not UTF-8.
	ErrNotCanonical = errors.New("not in canonical form")
)

// MaxDepth is how deeply any value given to [Decode] may nest.
const MaxDepth = 128

// Encode returns the canonical bytes of v: compact JSON, fields in the order
// of the type, no HTML escaping, no trailing newline. Text that is not UTF-8
// has no canonical form and is an error, never quietly replaced.
func Encode(v any) ([]byte, error) {
	b, err := encode(v)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("encode: raw JSON that is not UTF-8: %w", ErrNotCanonical)
	}
	// encoding/json writes a byte that is no UTF-8 as this escape, and the
	// real replacement character as itself. Raw JSON may hold the escape in
	// its own right, so a second look decides.
	if bytes.Contains(b, []byte(`\ufffd`)) && lossy(v, b) {
		return nil, fmt.Errorf("encode: text that is not UTF-8: %w", ErrNotCanonical)
	}
	return b, nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// lossy reports whether b, the encoding of v, does not decode to itself.
func lossy(v any, b []byte) bool {
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	p := reflect.New(t).Interface()
	if json.Unmarshal(b, p) != nil {
		return true
	}
	again, err := encode(p)
	return err != nil || !bytes.Equal(again, b)
}

// Decode reads exactly one canonical value of at most limit bytes into v. It
// decodes, encodes again and compares: what differs by one byte is refused
// with [ErrNotCanonical]. When v has a method Check() error, what that refuses
// is refused too. After an error v must not be used.
//
// Size, nesting and UTF-8 are looked at before anything is parsed.
func Decode(b []byte, limit int, v any) error {
	if len(b) > limit {
		return fmt.Errorf("%d bytes: %w (limit %d)", len(b), ErrTooLarge, limit)
	}
	if tooDeep(b, MaxDepth) {
		return fmt.Errorf("%w (limit %d)", ErrTooDeep, MaxDepth)
	}
	if !utf8.Valid(b) {
		return fmt.Errorf("bytes that are not UTF-8: %w", ErrNotCanonical)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return decodeError(err)
	}
	again, err := encode(v)
	if err != nil {
		return decodeError(err)
	}
	if !bytes.Equal(again, b) {
		return fmt.Errorf("%w, first at byte %d", ErrNotCanonical, firstDifference(again, b))
	}
	if c, ok := v.(interface{ Check() error }); ok {
		return c.Check()
	}
	return nil
}

// decodeError keeps our own errors and cuts the texts of encoding/json, which
// repeat whole keys and values of the peer.
func decodeError(err error) error {
	for _, own := range []error{ErrTooLarge, ErrTooDeep, ErrMalformed, ErrNotCanonical, ErrInvalid} {
		if errors.Is(err, own) {
			return err
		}
	}
	return fmt.Errorf("%w: %s", ErrMalformed, ExcerptLine(err.Error(), 160))
}

func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// DecodeAnswer reads an answer, strictly, and checks what can be checked
// without its ask; see [Ask.Validate] for the rest.
func DecodeAnswer(b []byte) (Answer, error) { return decodeAs[Answer](b, MaxAnswer, "answer") }

// DecodeDecision reads a decision, strictly, and checks it. A decision whose
// By is malformed in any frame is refused as a whole.
func DecodeDecision(b []byte) (Decision, error) {
	return decodeAs[Decision](b, MaxAnswer, "decision")
}

// DecodeGrant reads a grant, strictly, and checks it.
func DecodeGrant(b []byte) (Grant, error) { return decodeAs[Grant](b, MaxMessage, "grant") }

// DecodeAsk reads an ask with its header, strictly, and checks it.
func DecodeAsk(b []byte) (*Ask, error) {
	a, err := decodeAs[Ask](b, MaxBody+MaxMessage, "ask")
	if err != nil {
		return nil, err
	}
	return &a, nil
}

func decodeAs[T any](b []byte, limit int, what string) (T, error) {
	var v T
	if err := Decode(b, limit, &v); err != nil {
		var zero T
		return zero, fmt.Errorf("%s: %w", what, err)
	}
	return v, nil
}
