package broker

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestStep goes through every cell of the table in step's comment.
func TestStep(t *testing.T) {
	type cell struct {
		to  phase
		fx  []effect
		err error
	}
	over := []effect{fxTell, fxHandOver}
	table := map[phase]map[event]cell{
		phaseOpen: {win: {to: phaseWon, fx: []effect{fxCommit}}},
		phaseWon: {
			win:       {err: errTooLate},
			stored:    {to: phaseRecorded, fx: append([]effect{fxAccept}, over...)},
			notStored: {to: phaseUnrecorded, fx: append([]effect{fxVoid}, over...)},
		},
		phaseRecorded:   {win: {err: errTooLate}, taken: {to: phaseReleased}},
		phaseUnrecorded: {win: {err: errTooLate}, taken: {to: phaseReleased}},
		phaseReleased:   {win: {err: errTooLate}, reported: {to: phaseDelivered, fx: []effect{fxDelivered}}},
		phaseDelivered:  {win: {err: errTooLate}},
	}
	for p := phaseOpen; p <= phaseDelivered+1; p++ {
		for e := win; e <= reported+1; e++ {
			want, has := table[p][e]
			if !has {
				want = cell{err: errOrder}
				if e == win {
					want.err = errTooLate
				}
			}
			if want.err != nil {
				want.to = p
			}
			to, fx, err := step(p, e)
			if to != want.to || !slices.Equal(fx, want.fx) || !errors.Is(err, want.err) {
				t.Errorf("%s, %s: %s %v %v, want %s %v %v", p, e, to, fx, err, want.to, want.fx, want.err)
			}
			if err != nil && len(fx) > 0 {
				t.Errorf("%s, %s: an error with an effect", p, e)
			}
		}
	}
}

// TestStepOneWay: no event ever leads back, so nothing is settled twice.
func TestStepOneWay(t *testing.T) {
	for p := phaseOpen; p <= phaseDelivered; p++ {
		for e := win; e <= reported; e++ {
			if to, _, err := step(p, e); err == nil && to <= p {
				t.Errorf("%s leads from %s back to %s", e, p, to)
			}
		}
	}
	if s := phase(9).String() + event(9).String(); !strings.Contains(s, "9") {
		t.Errorf("unknown values read as %q", s)
	}
}
