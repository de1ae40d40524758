package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"permd/api"
	"permd/ask"
)

// keep is how many settled asks are remembered, so that a late answer hears
// who won and the origin's report finds its card.
const keep = 512

// Errors of [Broker.Put] and [Broker.Delivered].
var (
	ErrClosed    = errors.New("this node is ending")
	ErrDuplicate = errors.New("an ask with this id is open already")
	ErrUnknown   = errors.New("no ask with this id")
)

// Options are a broker's settings.
type Options struct {
	// Grace is how long an ask waits after the last answerer left; 0 means
	// [DefaultGrace].
	Grace time.Duration
}

// Broker holds the waiting asks of one node, in the order they came.
type Broker struct {
	rec   Recorder
	grace time.Duration

	mu        sync.Mutex
	closed    bool
	list      []*entry               // open entries, display order
	byKey     map[joinKey]*entry     // open entries that may be joined
	asks      map[string]*waiter     // by ask id: waiting and lately settled
	answerers map[*Registration]bool // registered
	ring      []*waiter              // settled, oldest first
	busy      sync.WaitGroup         // settlements on their way
	calls     sync.WaitGroup         // answerers' goroutines and dialogs
}

// New returns a broker that makes its decisions durable with rec. Without a
// recorder nothing can be allowed, so rec must not be nil.
func New(rec Recorder, o Options) *Broker {
	if rec == nil {
		panic("broker: no recorder")
	}
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	return &Broker{rec: rec, grace: o.Grace, byKey: map[joinKey]*entry{}, asks: map[string]*waiter{},
		answerers: map[*Registration]bool{}}
}

// Register adds an answerer. It is shown everything that waits, in display
// order, and from then on every new ask.
func (b *Broker) Register(to Answerer, id Identity) (*Registration, error) {
	if err := id.check(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	r := &Registration{b: b, id: id, to: to, faces: id.Faces, trusted: true, open: true, out: newQueue()}
	b.answerers[r] = true
	for _, e := range b.list {
		b.offer(e, r)
		b.arrange(e)
	}
	b.calls.Go(r.out.run)
	return r, nil
}

// Put puts one ask to everybody who can answer it and returns when it is
// settled. A cancelled ctx withdraws it. The decision is durable before Put
// returns it. An error never comes with a decision that allows.
func (b *Broker) Put(ctx context.Context, r Request) (ask.Decision, error) {
	if r.Ask == nil || r.Ask.Digest.IsZero() || !ask.ValidID(r.decider()) {
		return ask.Decision{}, errors.New("put: the ask is not sealed, or the deciding session has no valid id")
	}
	w, end, err := b.admit(ctx, r)
	if err != nil {
		return ask.Decision{Ask: r.Ask.Body.ID, Digest: r.Ask.Digest, Outcome: ask.Failed,
			By: ask.By{Kind: ask.KindGateError, Session: r.decider()}, Reason: err.Error()}, err
	}
	end()
	select {
	case <-w.done:
	case <-ctx.Done():
		b.withdraw(w, withdrawnReason(ctx))
		<-w.done
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d := w.decision
	w.phase, _, err = step(w.phase, taken)
	b.remember(w)
	return d, err
}

// admit files an ask: into an equal one, or as a new entry. end must be called
// without b.mu.
func (b *Broker) admit(ctx context.Context, r Request) (w *waiter, end func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, ErrClosed
	}
	now := time.Now()
	w = &waiter{id: r.Ask.Body.ID, ask: r.Ask, req: r, since: now, digest: r.Ask.Digest, done: make(chan struct{})}
	id := w.id
	if old := b.asks[id]; old != nil && (old.phase == phaseOpen || old.phase == phaseWon) {
		return nil, nil, fmt.Errorf("%w: %s", ErrDuplicate, ask.Quote(id))
	}
	key, joins := keyOf(&r)
	if e := b.byKey[key]; joins && e != nil && equal(&e.req, &r) {
		b.join(w, e)
		return w, after(e.shown, r.OnShown), nil
	}
	if b.openEntry(id) != nil {
		return nil, nil, fmt.Errorf("%w: %s", ErrDuplicate, ask.Quote(id))
	}
	e := &entry{id: id, key: key, ask: r.Ask, req: r, seen: now, held: map[*Registration]struct{}{},
		settled: make(chan struct{})}
	w.e, w.due = e, min(r.Timeout, math.MaxInt64/4)
	e.waiters = []*waiter{w}
	b.asks[id] = w
	able := false
	for a := range b.answerers {
		e.held[a] = struct{}{}
		able = able || a.able()
	}
	if r.Dialog != nil {
		e.dialog = &dialogCall{open: true}
	}
	if s := e.atOnce(ctx, e.mode()); s != nil {
		clear(e.held) // nobody was shown it, so nobody is told
		return w, b.settle(e, s), nil
	}
	b.list = append(b.list, e)
	if joins {
		b.byKey[key] = e
	}
	for a := range b.answerers {
		b.offer(e, a)
	}
	b.arrange(e)
	if e.dialog != nil {
		b.call(ctx, e, !able, now)
	}
	return w, func() {}, nil
}

// join adds w to an open entry. Its time is its own. b.mu is held.
func (b *Broker) join(w *waiter, e *entry) {
	e.clock.advance(e.clock.mode, w.since)
	w.e, w.due = e, e.clock.used+min(w.req.Timeout, math.MaxInt64/4)
	e.waiters = append(e.waiters, w)
	b.asks[w.id] = w
	b.arrange(e)
}

func after(yes bool, f func()) func() {
	if !yes || f == nil {
		return func() {}
	}
	return func() { contained(f) }
}

// Withdraw takes back an ask whose caller still waits; why is for the record
// and the surfaces. The entry stays while others wait for an equal one. It
// reports whether there was anything to withdraw.
func (b *Broker) Withdraw(id, why string) bool {
	b.mu.Lock()
	w := b.asks[id]
	b.mu.Unlock()
	return w != nil && b.withdraw(w, why)
}

func (b *Broker) withdraw(w *waiter, why string) bool {
	b.mu.Lock()
	if w.phase != phaseOpen {
		b.mu.Unlock()
		return false
	}
	s := w.e.withdrawn(w, why)
	var f func()
	if len(w.e.waiters) == 1 {
		f = b.settle(w.e, s)
	} else {
		f = b.leave(w, s)
		b.arrange(w.e)
	}
	b.mu.Unlock()
	f()
	return true
}

// Recheck asks f about every open ask and settles those it decides: after a
// grant was given or the policy changed. f is called without a lock held, and
// what it says of an ask that was settled meanwhile, or a decision that is not
// valid, has no effect. Recheck returns how many asks it settled, when all of them are recorded.
func (b *Broker) Recheck(f func(*ask.Ask) (ask.Decision, bool)) int {
	b.mu.Lock()
	open := slices.Clone(b.list)
	asks := make([]*ask.Ask, len(open))
	for i, e := range open {
		asks[i] = e.ask
	}
	b.mu.Unlock()
	var wg sync.WaitGroup
	n := 0
	for i, e := range open {
		var d ask.Decision
		decided := false
		if !contained(func() { d, decided = f(asks[i]) }) || !decided {
			continue
		}
		d.Ask, d.Digest = asks[i].Body.ID, asks[i].Digest
		if d.Check() != nil {
			continue // it contradicts itself: the ask goes on waiting
		}
		b.mu.Lock()
		if e.won {
			b.mu.Unlock()
			continue
		}
		end := b.settle(e, e.ruled(d))
		b.mu.Unlock()
		n++
		wg.Go(end)
	}
	wg.Wait()
	return n
}

// Delivered passes on what the origin did with a decision: released, too_late
// or refused, and why.
func (b *Broker) Delivered(id, how, why string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.asks[id]
	if w == nil {
		return fmt.Errorf("%w: %s", ErrUnknown, ask.Quote(id))
	}
	p, fx, err := step(w.phase, reported)
	if err != nil {
		return err
	}
	w.phase = p
	if slices.Contains(fx, fxDelivered) {
		b.tellDelivered(w, api.Delivered{Ask: w.e.id, How: how, Why: why})
	}
	return nil
}

func (b *Broker) tellDelivered(w *waiter, d api.Delivered) {
	for _, r := range w.e.told {
		if t, ok := r.to.(deliveredTo); ok {
			r.out.put(func(context.Context) { t.Delivered(d) })
		}
	}
}

// Snapshot returns everything that waits, in display order, with all offers.
func (b *Broker) Snapshot() []api.Shown {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	out := make([]api.Shown, len(b.list))
	for i, e := range b.list {
		out[i] = e.view(ask.ScopeUser.Width(), now)
	}
	return out
}

// Reach counts who can answer any ask now: surfaces with a face, and paired
// devices.
func (b *Broker) Reach() (surfaces, devices int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.answerers {
		switch {
		case !r.able():
		case r.id.Kind == KindDevice:
			devices++
		default:
			surfaces++
		}
	}
	return surfaces, devices
}

// Close refuses new asks, ends every open one as unavailable, tells the
// answerers and waits until all is recorded and every answerer's call has
// returned. When ctx ends first it lets the answerers go and returns an error.
func (b *Broker) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	var ends []func()
	for _, e := range slices.Clone(b.list) {
		ends = append(ends, b.settle(e, e.ending()))
	}
	b.mu.Unlock()
	var wg sync.WaitGroup
	for _, f := range ends {
		wg.Go(f)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
		b.busy.Wait()
		b.drain()
		b.calls.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		for r := range b.answerers {
			r.closeLocked()
		}
		return fmt.Errorf("broker: still waiting for a record or an answerer: %w", context.Cause(ctx))
	}
}

// drain closes every registration after it was told what it must hear.
func (b *Broker) drain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.answerers {
		r.out.put(func(context.Context) { r.Close() })
	}
}
