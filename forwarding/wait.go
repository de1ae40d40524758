package forwarding

import (
	"time"

	"permd/liveness"
)

// Grace is how long a parent must be a definite no before a wait gives up.
const Grace = 2 * time.Second

// DefaultTimeout is how long an ask waits for a parent that can be neither
// confirmed nor ruled out.
const DefaultTimeout = 10 * time.Minute

// ending says how a wait ended by itself. The zero value waits on.
type ending uint8

const (
	waitsOn    ending = iota
	notServing        // a definite no for Grace
	timedOut          // unknown for the whole timeout, and nobody had it on screen
)

// waiting is the state of one relayed ask. Times are the waiter's monotonic
// clock. The zero value, with limits set, has seen nothing, which counts as
// unknown.
type waiting struct {
	timeout time.Duration

	answer liveness.Answer
	since  time.Duration // since when answer has been what it is
	shown  bool          // a surface has it on screen
}

// sign is what a wait learns: a judgement of the parent, or that a surface has
// the ask on screen, or nothing but that time has passed.
type sign struct {
	at     time.Duration
	judged bool
	answer liveness.Answer
	shown  bool
}

// step advances a wait.
//
//	the parent is   for                        the wait
//	yes             any time                   goes on, without a limit
//	no              < Grace                    goes on
//	no              ≥ Grace                    ends: not serving
//	unknown         < timeout                  goes on
//	unknown         ≥ timeout, never shown     ends: timed out
//	unknown         ≥ timeout, shown           goes on
//
// A change of the judgement starts its time anew: only a continuous no, or a
// continuous unknown, ends anything. A timeout of zero or less ends an unknown
// at once. The second result is when step must be called again at the latest,
// 0 for never.
func (w waiting) step(s sign) (waiting, time.Duration, ending) {
	w.shown = w.shown || s.shown
	if s.judged && s.answer != w.answer {
		w.answer, w.since = s.answer, s.at
	}
	switch w.answer {
	case liveness.Yes:
		return w, 0, waitsOn
	case liveness.No:
		if s.at-w.since >= Grace {
			return w, 0, notServing
		}
		return w, w.since + Grace, waitsOn
	}
	switch {
	case w.shown:
		return w, 0, waitsOn
	case s.at-w.since >= w.timeout:
		return w, 0, timedOut
	}
	return w, w.since + w.timeout, waitsOn
}
