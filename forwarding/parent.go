package forwarding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"permd/api"
	"permd/ask"
	"permd/liveness"
)

// judgeEvery is how often a waiting node judges its parent: one look serves
// all asks that wait for the same session.
const judgeEvery = 2 * time.Second

// Parent is the terminal that relays: it has asks decided by a session of
// another node. Its zero Judge relies on the connection alone.
type Parent struct {
	Links *Uplinks
	// Session is the session of this node that relays; Target the one that is
	// asked, on Node.
	Session string
	Target  string
	Node    string
	// Judge tells a stuck parent from a deliberating one.
	Judge *liveness.Judge
	// Timeout is how long the parent may stay unknown; zero or less gives up
	// on it at once. It does not run while the parent is known to serve, nor
	// once a surface has the ask on screen. See [DefaultTimeout].
	Timeout time.Duration
}

// ParentLostError means that the parent's node ended, or could not be reached,
// while it was asked: the caller selects again.
type ParentLostError struct {
	Session string
	Node    string
	// Asked is true when the ask had reached the parent's mailbox.
	Asked bool
	Cause error
}

func (e *ParentLostError) Error() string {
	if !e.Asked {
		return fmt.Sprintf("parent session %s cannot be reached: %v", e.Session, e.Cause)
	}
	return fmt.Sprintf("parent session %s was lost before it decided: %v", e.Session, e.Cause)
}

// Unwrap gives the cause.
func (e *ParentLostError) Unwrap() error { return e.Cause }

// NotServingError means that the parent was a definite no for [Grace].
type NotServingError struct {
	Verdict liveness.Verdict
}

func (e *NotServingError) Error() string {
	return fmt.Sprintf("parent %s; waited %s for it", e.Verdict.Reason(), Grace)
}

// Errors of asks that are not sent.
var (
	// ErrCycle: the ask came through the parent's node before.
	ErrCycle = errors.New("the ask came through the parent's node before: parents must not form a cycle")
	// ErrTooFar: the ask has travelled [ask.MaxHops] nodes.
	ErrTooFar = errors.New("the ask has travelled as far as an ask may")
	// ErrDeaf: this node's own mailbox cannot be read, so no decision can come.
	ErrDeaf = errors.New("the mailbox of this node cannot be read")
	// ErrWaiting: the same ask waits at this parent already.
	ErrWaiting = errors.New("this ask waits at the parent already")
)

// wait is one ask that is out.
type wait struct {
	self, target Address
	digest       ask.Digest
	decided      chan ask.Decision
	stirred      chan struct{}

	// Guarded by the link's mutex.
	shown   bool
	onShown func()
}

func (w *wait) stir() {
	select {
	case w.stirred <- struct{}{}:
	default:
	}
}

// onScreen notes that a surface has the ask. The link's mutex is held.
func (w *wait) onScreen() {
	w.shown = true
	w.stir()
}

// Authorize is Ask without a notice when the ask is shown.
func (p *Parent) Authorize(ctx context.Context, a *ask.Ask) (ask.Decision, error) {
	return p.Ask(ctx, a, nil)
}

// Ask sends a, one hop longer, to the parent and waits for its decision, which
// comes back wrapped in one frame of the parent's session. A parent that stays
// unknown for the timeout ends it with a decision of its own: timed out. It
// blocks as long as the parent serves and ctx lasts; when ctx ends the ask is
// withdrawn there. onShown is called, once, when a surface above has the ask
// on screen.
//
// Every error comes with a decision that denies. A [*ParentLostError] or a
// [*NotServingError] asks the caller to select again.
func (p *Parent) Ask(ctx context.Context, a *ask.Ask, onShown func()) (ask.Decision, error) {
	none := ask.Decision{Ask: a.Body.ID, Digest: a.Digest, Outcome: ask.Unavailable, By: ask.By{Kind: ask.KindUnavailable}}
	srv := p.Links.cfg.Server
	if len(a.Header.Path)+1 > ask.MaxHops {
		return none, ErrTooFar
	}
	for _, h := range a.Header.Path {
		if h.Node == p.Node || h.Node == srv.cfg.Node {
			return none, ErrCycle
		}
	}
	l, err := p.Links.link(ctx, p.Node)
	if err != nil {
		if ctx.Err() != nil {
			return p.withdrawn(none), context.Cause(ctx)
		}
		return none, &ParentLostError{Session: p.Target, Node: p.Node, Cause: err}
	}
	k := askKey{a.Body.From.Session, a.Body.ID}
	w := &wait{self: Address{srv.cfg.Node, srv.cfg.Instance, p.Session}, target: Address{p.Node, l.instance, p.Target},
		digest: a.Digest, decided: make(chan ask.Decision, 1), stirred: make(chan struct{}, 1), onShown: onShown}
	l.mu.Lock()
	if l.waits[k] != nil {
		l.mu.Unlock()
		return none, ErrWaiting
	}
	l.waits[k] = w
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.waits, k)
		l.mu.Unlock()
	}()
	hop := ask.Hop{Session: p.Session, Node: srv.cfg.Node, Claimed: l.proof(p.Session, p.Target) == ""}
	body, err := encodeAsk(a.WithHop(hop))
	if err == nil {
		err = l.send(ctx, KindAsk, k, w, body)
	}
	if err != nil {
		if ctx.Err() != nil {
			return p.withdrawn(none), context.Cause(ctx)
		}
		return none, &ParentLostError{Session: p.Target, Node: p.Node, Cause: err}
	}
	d, err := p.wait(ctx, l, w, a)
	if err != nil || d.Outcome == ask.TimedOut && d.By.Kind == ask.KindTimeout {
		// Nobody shall answer what nobody waits for.
		_ = l.send(context.WithoutCancel(ctx), KindCancel, k, w, []byte(d.Outcome))
	}
	return d, err
}

func (p *Parent) withdrawn(d ask.Decision) ask.Decision {
	d.Outcome, d.By = ask.Withdrawn, ask.By{Kind: ask.KindWithdrawn}
	return d
}

// sendTries is how often a letter is tried under a new name when the file
// system refuses it.
const sendTries = 3

// send puts one letter to the parent and wakes it.
func (l *link) send(ctx context.Context, kind Kind, k askKey, w *wait, body []byte) error {
	m := Letter{Envelope: Envelope{Kind: kind, ID: k.id, Origin: k.origin, Digest: w.digest,
		From: w.self, To: w.target}, Body: body}
	var err error
	for range sendTries {
		err = l.u.cfg.Server.put(ctx, l.node, &m, l.sent.Add(1), l.key)
		if err == nil {
			if l.conn != nil {
				l.out.wakeUp()
			}
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrNoMailbox) || errors.Is(err, ErrMalformed) {
			break
		}
	}
	return err
}

// wait waits for the end of one ask.
func (p *Parent) wait(ctx context.Context, l *link, w *wait, a *ask.Ask) (ask.Decision, error) {
	none := ask.Decision{Ask: a.Body.ID, Digest: a.Digest, Outcome: ask.Unavailable, By: ask.By{Kind: ask.KindUnavailable}}
	begin := time.Now()
	st := waiting{timeout: p.Timeout}
	due := begin.Add(judgeEvery) // of the next look at the parent
	alarm := time.NewTimer(judgeEvery)
	defer alarm.Stop()
	for first := true; ; first = false {
		var late time.Duration
		judge := false
		if !first {
			select {
			case d := <-w.decided:
				return p.accept(l, a, d)
			case <-l.lost:
				select {
				case d := <-w.decided: // it came before the end
					return p.accept(l, a, d)
				default:
				}
				return none, &ParentLostError{Session: p.Target, Node: p.Node, Asked: true, Cause: context.Cause(l.ctx)}
			case <-ctx.Done():
				return p.withdrawn(none), context.Cause(ctx)
			case <-w.stirred:
			case <-alarm.C:
				if now := time.Now(); !now.Before(due) {
					judge, late, due = true, now.Sub(due), now.Add(judgeEvery)
				}
			}
		}
		if p.Links.cfg.Server.isDeaf() {
			return none, &ParentLostError{Session: p.Target, Node: p.Node, Asked: true, Cause: ErrDeaf}
		}
		v := p.judge(ctx, l, judge, late)
		l.mu.Lock()
		shown, onShown := w.shown, w.onShown
		if shown {
			w.onShown = nil
		}
		l.mu.Unlock()
		if shown && onShown != nil {
			onShown()
		}
		var end ending
		var next time.Duration
		st, next, end = st.step(sign{at: time.Since(begin), judged: true, answer: v.Answer, shown: shown})
		switch end {
		case notServing:
			return none, &NotServingError{Verdict: v}
		case timedOut:
			d := none
			d.Outcome, d.By = ask.TimedOut, ask.By{Kind: ask.KindTimeout}
			ms := p.Timeout.Milliseconds()
			d.WaitMS = &ms
			d.Reason = fmt.Sprintf("no one answered: waited %s for %s", p.Timeout, v.Reason())
			return d, nil
		}
		wake := time.Until(due)
		if next > 0 {
			wake = min(wake, time.Until(begin.Add(next)))
		}
		alarm.Reset(wake)
	}
}

// judge says whether the parent serves: what it told last over the connection,
// unless a look at its node says that it cannot tell any more. look is false
// where only something told has changed.
func (p *Parent) judge(ctx context.Context, l *link, look bool, late time.Duration) liveness.Verdict {
	v := liveness.Verdict{Answer: liveness.Unknown, Channel: liveness.ChannelNone, State: liveness.Unjudged, Session: p.Target, Node: p.Node}
	if p.Judge != nil {
		v = l.look(ctx, p.Judge, p.Target, look || l.conn == nil, late)
	}
	alive := v.State == liveness.Alive || v.State == liveness.NotServing || p.Judge == nil || v.State == liveness.Unjudged && v.Channel == liveness.ChannelNone
	if l.conn == nil || !alive {
		return v
	}
	l.mu.Lock()
	v.Serving = slices.Clone(l.serving)
	l.mu.Unlock()
	v.Answer, v.State, v.Instance = liveness.No, liveness.NotServing, l.instance
	if slices.Contains(v.Serving, p.Target) {
		v.Answer, v.State = liveness.Yes, liveness.Alive
	}
	return v
}

// look judges at most once in a while, for all waits together.
func (l *link) look(ctx context.Context, j *liveness.Judge, target string, look bool, late time.Duration) liveness.Verdict {
	l.mu.Lock()
	v, known, age := l.verdict, !l.judged.IsZero() && l.asked == target, time.Since(l.judged)
	l.mu.Unlock()
	switch {
	case known && (age < judgeEvery/2 || !look && age < 2*judgeEvery):
		return v
	case !look:
		// Nothing was looked at yet: what the connection says has to do.
		return liveness.Verdict{Channel: liveness.ChannelNone, State: liveness.Unjudged, Session: target, Node: l.node}
	}
	v = j.Judge(ctx, liveness.Target{Session: target, Node: l.node, Key: l.beatKey, Late: late})
	l.mu.Lock()
	l.verdict, l.judged, l.asked = v, time.Now(), target
	l.mu.Unlock()
	return v
}

// accept turns the parent's decision into ours. What does not fit denies.
func (p *Parent) accept(l *link, a *ask.Ask, d ask.Decision) (ask.Decision, error) {
	failed := func(why string) (ask.Decision, error) {
		f := denial(a, ask.Failed, ask.KindGateError, why)
		f.By = ask.Forwarded(p.Target, f.By)
		return f, nil
	}
	rep := p.Links.cfg.Server.rep
	switch {
	case d.Ask != a.Body.ID || d.Digest != a.Digest:
		return failed("the parent's decision is for another ask")
	case !d.Outcome.Valid() || d.Verdict != ask.Deny && d.Outcome != ask.Answered:
		return failed("the parent's decision contradicts itself")
	case d.By.Depth()+1 > ask.MaxFrames:
		return failed("the parent's decision names too many deciders")
	case d.Verdict == ask.Allow && l.proof(p.Session, p.Target) == "" && !byPerson(&d.By):
		return failed("a parent that is only claimed allows nothing by itself")
	}
	if g := d.Grant; g != nil && (g.Scope != ask.ScopeSession || g.Session != a.Body.From.Session) {
		rep.event(Event{Kind: EventGrantDropped, Node: p.Node, Session: p.Session, Ask: a.Body.ID,
			Why: "a parent may only give a grant for the origin session: " + ask.Quote(string(g.Scope))})
		d.Grant = nil
	}
	d.By = ask.Forwarded(p.Target, d.By)
	return d, nil
}

// decide hands a decision to its wait, once; it runs in a turn of the server.
func (l *link) decide(m *Letter) error {
	k := askKey{m.Origin, m.ID}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.waits[k]
	switch {
	case w == nil:
		return refuse("no ask waits for it")
	case m.To != w.self || m.From != w.target:
		return refuse("it is between two other sessions")
	case m.Digest != w.digest:
		return refuse("it is for another body")
	}
	delete(l.waits, k) // the id is burnt
	d, err := ask.DecodeDecision(m.Body)
	if err != nil {
		// It came from the parent and cannot be read: waiting on would be for
		// ever.
		w.decided <- ask.Decision{Ask: k.id, Digest: w.digest, Outcome: ask.Failed, By: ask.By{Kind: ask.KindGateError},
			Reason: "the parent's decision cannot be read"}
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	w.decided <- d
	return nil
}

// Delivered tells the parent what became of its decision: "released",
// "too_late" or "refused". It is best effort: a parent that is gone has nobody
// to tell.
func (p *Parent) Delivered(ctx context.Context, a *ask.Ask, how, why string) error {
	p.Links.mu.Lock()
	l := p.Links.links[p.Node]
	p.Links.mu.Unlock()
	if l == nil {
		return ErrLost
	}
	select {
	case <-l.tried:
	default:
		return ErrLost
	}
	if l.err != nil {
		return ErrLost
	}
	srv := p.Links.cfg.Server
	body, err := ask.Encode(api.Delivered{Ask: a.Body.ID, How: how, Why: why})
	if err != nil {
		return err
	}
	w := &wait{self: Address{srv.cfg.Node, srv.cfg.Instance, p.Session}, target: Address{p.Node, l.instance, p.Target}, digest: a.Digest}
	return l.send(ctx, KindDelivered, askKey{a.Body.From.Session, a.Body.ID}, w, body)
}
