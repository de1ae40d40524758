package ask

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Errors of strict decoding.
var (
	ErrTooLarge = errors.New("too large")
	// ErrNotCanonical means the bytes decode, but not to themselves: a
	// duplicate key, a case variant, an unknown field, white space or
	// trailing bytes.
	ErrNotCanonical = errors.New("not in canonical form")
)

// Encode returns the canonical bytes of v: compact JSON, fields in the order
// of the type, no HTML escaping, no trailing newline.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Decode reads exactly one canonical value of at most limit bytes into v. It
// decodes, encodes again and compares: what differs by one byte is refused
// with [ErrNotCanonical], and v must then not be used.
func Decode(b []byte, limit int, v any) error {
	if len(b) > limit {
		return fmt.Errorf("%d bytes: %w (limit %d)", len(b), ErrTooLarge, limit)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("trailing bytes: %w", ErrNotCanonical)
	}
	again, err := Encode(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, b) {
		return ErrNotCanonical
	}
	return nil
}
