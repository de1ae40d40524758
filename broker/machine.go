package broker

import (
	"errors"
	"fmt"
)

// phase is where one ask stands.
type phase uint8

// The phases, in the order an ask passes them; recorded and unrecorded are
// alternatives.
const (
	phaseOpen       phase = iota // waiting for an answer
	phaseWon                     // settled; its record is being written
	phaseRecorded                // the record is durable, the winner was told so
	phaseUnrecorded              // the record could not be written; the ask is denied
	phaseReleased                // the decision left for the origin
	phaseDelivered               // the origin said what it did with it
)

var phaseText = [...]string{"open", "won", "recorded", "unrecorded", "released", "delivered"}

func (p phase) String() string {
	if int(p) < len(phaseText) {
		return phaseText[p]
	}
	return fmt.Sprintf("phase %d", uint8(p))
}

// event is what happens to an ask.
type event uint8

const (
	win       event = iota // an answer, a timer, a withdrawal or a new grant settles it
	stored                 // the record is durable
	notStored              // the record could not be written
	taken                  // the asker's call returned with the decision
	reported               // the origin told what it did
)

var eventText = [...]string{"win", "stored", "not stored", "taken", "reported"}

func (e event) String() string {
	if int(e) < len(eventText) {
		return eventText[e]
	}
	return fmt.Sprintf("event %d", uint8(e))
}

// effect is what the broker does after a step.
type effect uint8

const (
	fxCommit    effect = iota // write the record
	fxAccept                  // tell the winner that its answer counts
	fxVoid                    // tell the winner that its answer did not count
	fxTell                    // tell every other answerer how the ask ended
	fxHandOver                // wake the asker with the decision
	fxDelivered               // tell the answerers what the origin did
)

// errTooLate says that the ask was settled before.
var errTooLate = errors.New("too late: the ask is settled")

// errOrder says that an event came where it cannot come.
var errOrder = errors.New("event out of order")

// step is the life of one ask:
//
//	           win          stored             not stored         taken     reported
//	open       won: commit  –                  –                  –         –
//	won        too late     recorded: accept,  unrecorded: void,  –         –
//	                        tell, hand over    tell, hand over
//	recorded   too late     –                  –                  released  –
//	unrecorded too late     –                  –                  released  –
//	released   too late     –                  –                  –         delivered: delivered
//	delivered  too late     –                  –                  –         –
//
// "–" is errOrder, "too late" is errTooLate; both leave the phase as it was
// and have no effect. The win of an open ask is the one compare-and-set.
func step(p phase, e event) (phase, []effect, error) {
	switch {
	case e == win && p == phaseOpen:
		return phaseWon, []effect{fxCommit}, nil
	case e == win:
		return p, nil, errTooLate
	case e == stored && p == phaseWon:
		return phaseRecorded, []effect{fxAccept, fxTell, fxHandOver}, nil
	case e == notStored && p == phaseWon:
		return phaseUnrecorded, []effect{fxVoid, fxTell, fxHandOver}, nil
	case e == taken && (p == phaseRecorded || p == phaseUnrecorded):
		return phaseReleased, nil, nil
	case e == reported && p == phaseReleased:
		return phaseDelivered, []effect{fxDelivered}, nil
	}
	return p, nil, fmt.Errorf("%w: %s while %s", errOrder, e, p)
}
