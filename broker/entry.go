package broker

import (
	"context"
	"slices"
	"time"

	"permd/api"
	"permd/ask"
)

// waiter is one ask put by one caller.
type waiter struct {
	id     string
	ask    *ask.Ask
	req    Request
	e      *entry
	phase  phase
	since  time.Time
	digest ask.Digest
	// due is where on the entry's limit clock this ask times out.
	due      time.Duration
	decision ask.Decision
	done     chan struct{}
}

// entry is one line of the list: an ask as the answerers see it, and
// everybody who waits for its answer. Equal asks share one.
type entry struct {
	id   string // of the ask that is shown; the answerers know no other
	key  joinKey
	ask  *ask.Ask
	req  Request
	seen time.Time

	waiters []*waiter
	// held are the answerers that have it, and have not left it.
	held   map[*Registration]struct{}
	dialog *dialogCall
	shown  bool
	clock  clock

	// won is set by the compare-and-set; settled is closed when the record is
	// written or has failed, and end and failure are valid from then on.
	won     bool
	settled chan struct{}
	end     api.Settled
	failure error
	told    []*Registration
}

// joinKey finds asks that may be equal.
type joinKey struct {
	session string
	action  ask.Digest
}

// settlement is how an entry ends.
type settlement struct {
	outcome ask.Outcome
	verdict ask.Verdict
	by      ask.By
	reason  string
	answer  *ask.Answer
	grant   *ask.Grant
	// how and surface are told to the others, why as well.
	how, surface, why string
	winner            *Registration
	dialog            *dialogCall
}

// keyOf returns the key of an ask that may join others. Only an action joins:
// a question asked twice is two questions. An ask with a dialog of its own
// keeps to itself, because that dialog answers for that call alone.
func keyOf(r *Request) (joinKey, bool) {
	b := &r.Ask.Body
	if b.Origin != ask.OriginGate || b.Action == nil || r.Dialog != nil {
		return joinKey{}, false
	}
	return joinKey{b.From.Session, b.Action.ActionDigest()}, true
}

// equal reports whether the person who sees a has seen all there is of b: the
// same session, action and path, and every word of the body but the ids of
// the call.
func equal(a, b *Request) bool {
	if a.decider() != b.decider() || a.ClientDialog != b.ClientDialog ||
		!slices.Equal(a.Ask.Header.Path, b.Ask.Header.Path) {
		return false
	}
	bare := func(x *ask.Ask) ([]byte, error) {
		c := x.Body
		c.ID, c.Raw = "", nil
		act := *c.Action
		act.Call = ""
		c.Action = &act
		return ask.Encode(c)
	}
	x, errX := bare(a.Ask)
	y, errY := bare(b.Ask)
	return errX == nil && errY == nil && slices.Equal(x, y)
}

// view is the ask as one answerer is shown it: the offers within its cap and
// the time that is left.
func (e *entry) view(widest int, now time.Time) api.Shown {
	a := *e.ask
	if ms, ok := e.remaining(now); ok {
		a.Header.RemainingMS = &ms
	} else {
		a.Header.RemainingMS = nil
	}
	return api.Shown{Ask: &a, Offers: within(e.req.Offers, widest), AgeMS: now.Sub(e.seen).Milliseconds(),
		Denied: e.req.Denied, Elsewhere: e.req.Elsewhere}
}

// remaining is the time left in milliseconds: of the limit that runs here or
// of the one the ask came with, whichever ends first.
func (e *entry) remaining(now time.Time) (ms int64, ok bool) {
	if h := e.ask.Header.RemainingMS; h != nil {
		ms, ok = *h-now.Sub(e.seen).Milliseconds(), true
	}
	if left, runs := e.clock.left(e.waiters, now); runs && (!ok || left.Milliseconds() < ms) {
		ms, ok = left.Milliseconds(), true
	}
	return max(ms, 0), ok
}

// within returns the offers of at most the given width.
func within(offers []ask.Offer, widest int) []ask.Offer {
	var out []ask.Offer
	for _, o := range offers {
		if o.Scope.Width() <= widest {
			out = append(out, o)
		}
	}
	return out
}

// openEntry returns the open entry that is shown under id. b.mu is held.
func (b *Broker) openEntry(id string) *entry {
	if w := b.asks[id]; w != nil && !w.e.won && w.e.id == id {
		return w.e
	}
	return nil
}

// offer shows e to r. b.mu is held.
func (b *Broker) offer(e *entry, r *Registration) {
	e.held[r] = struct{}{}
	s := e.view(r.id.widest(), time.Now())
	r.out.put(func(ctx context.Context) {
		var err error
		if !contained(func() { err = r.to.Ask(ctx, s) }) || err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.drop(e, r)
		}
	})
}

// drop takes r out of e. b.mu is held.
func (b *Broker) drop(e *entry, r *Registration) {
	if _, has := e.held[r]; has && !e.won {
		delete(e.held, r)
		b.arrange(e)
	}
}

// dropAll takes r out of every open ask. b.mu is held.
func (b *Broker) dropAll(r *Registration) {
	for _, e := range b.list {
		b.drop(e, r)
	}
}
