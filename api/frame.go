package api

import (
	"encoding/json"
	"fmt"

	"permd/ask"
)

// Check refuses a frame that no version writes.
func (f *Frame) Check() error {
	if !ask.ValidID(f.T) {
		return fmt.Errorf("%w: frame type %s", ask.ErrInvalid, ask.Quote(f.T))
	}
	return nil
}

// Body reads the body of f into v, strictly, and checks it.
func (f Frame) Body(v any) error { return decodeInto(f.T, f.B, v) }

// Arguments reads the arguments of c into v, strictly, and checks them.
func (c Call) Arguments(v any) error { return decodeInto(c.Op, c.Args, v) }

func decodeInto(what string, b json.RawMessage, v any) error {
	if err := ask.Decode(b, MaxFrame, v); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// known reports whether this build knows the frame type t.
func known(t string) bool {
	switch t {
	case THello, TWelcome, TRefused, TUnknown, TAttach, TSnapshot, TAsk, TAnswer, TVerdict, TSettled, TDeliver, TFaces,
		TOnScreen, THide, TSessions, TNotice, TRegister, TRegistered, TChildren, TServing, TWake, TCall, TResult, TError:
		return true
	}
	return false
}
