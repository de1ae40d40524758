package forwarding

import (
	"sync"
	"time"
)

// Event is something that happened to mail or registrations and belongs on
// the record. Text from outside in it is quoted and cut.
type Event struct {
	Kind EventKind
	// Node, Session and Ask are the peer and what it was about, where known
	// and checked.
	Node    string
	Session string
	Ask     string
	// Why says more: the error, the rule that was broken.
	Why string
	// Skipped is how many events of this kind were not reported before this
	// one, because they came too fast.
	Skipped int
}

// EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	EventRegistered   EventKind = "child_registered"
	EventGone         EventKind = "child_gone"
	EventRefusedChild EventKind = "child_refused"
	EventProof        EventKind = "parent_proof" // a claim was proved, or a proof failed
	EventRefusedMail  EventKind = "letter_refused"
	EventSetAside     EventKind = "letter_set_aside"
	EventUnknownName  EventKind = "mailbox_unknown_names"
	EventDuplicate    EventKind = "ask_duplicate"
	EventUndelivered  EventKind = "decision_undelivered"
	EventWatch        EventKind = "mailbox_watch" // how arrivals are noticed changed
	EventMailbox      EventKind = "mailbox_error"
	EventBeat         EventKind = "heartbeat_error"
	EventPanic        EventKind = "serve_failed"
	EventGrantDropped EventKind = "grant_dropped" // a decision carried a grant it may not
	EventUnguarded    EventKind = "unauthenticated_mode"
)

// Limits of reporting: whoever floods a mailbox must not flood the record.
const (
	eventBurst  = 64
	eventRefill = 250 * time.Millisecond // one event more
)

// reporter passes events on, each kind at a bounded rate.
type reporter struct {
	to func(Event)

	mu    sync.Mutex
	kinds map[EventKind]*allowance
}

type allowance struct {
	left    int
	at      time.Time
	skipped int
}

func newReporter(to func(Event)) *reporter {
	return &reporter{to: to, kinds: map[EventKind]*allowance{}}
}

func (r *reporter) event(e Event) {
	if r.to == nil {
		return
	}
	now := time.Now()
	r.mu.Lock()
	a := r.kinds[e.Kind]
	if a == nil {
		a = &allowance{left: eventBurst, at: now}
		r.kinds[e.Kind] = a
	}
	if n := int(now.Sub(a.at) / eventRefill); n > 0 {
		a.left = min(eventBurst, a.left+n)
		a.at = a.at.Add(time.Duration(n) * eventRefill)
	}
	if a.left == 0 {
		a.skipped++
		r.mu.Unlock()
		return
	}
	a.left--
	e.Skipped, a.skipped = a.skipped, 0
	r.mu.Unlock()
	r.to(e)
}
