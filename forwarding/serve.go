package forwarding

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"permd/api"
	"permd/ask"
)

// Incoming is one ask of a child.
type Incoming struct {
	// Ask carries its whole path; the last hop is Child's.
	Ask *ask.Ask
	// Child is who relays it here, which is the origin at the first hop.
	Child Child
	// Session is the session of this node that is asked to answer.
	Session string
	// Verified is true when the whole path is proved. If it is not, this node
	// may deny, or carry the ask to a person; its rules, grants and modes allow
	// nothing.
	Verified bool
	// Shown tells the child that a surface has the ask on screen. It does not
	// block.
	Shown func()
}

// Receipt is what a child did with a decision.
type Receipt struct {
	Origin string
	Ask    string
	Digest ask.Digest
	How    string // as in [api.Delivered]
	Why    string
}

// Bounds a child.
const (
	maxAsks = 512 // asks that wait at a time
	maxPast = 512 // decisions kept for an ask that comes again
)

// askKey names an ask at a peer: two sessions may number theirs alike.
type askKey struct{ origin, id string }

// served is one ask of a peer.
type served struct {
	to       Address // where the decision goes
	session  string  // ours that was asked
	digest   ask.Digest
	cancel   context.CancelCauseFunc
	decision []byte // encoded, when it is past; nil when it was withdrawn
}

// refusal is a letter that has no effect: it is dropped and reported.
type refusal struct {
	kind EventKind
	why  string
}

func (r *refusal) Error() string { return r.why }

func refuse(format string, a ...any) error {
	return &refusal{EventRefusedMail, fmt.Sprintf(format, a...)}
}

// again is an ask that was seen before: it is served once.
var again = &refusal{EventDuplicate, "it came again and is served once"}

// handle takes one letter; it runs in a turn.
func (s *Server) handle(name Name, raw []byte) error {
	err := s.receive(name, raw)
	var r *refusal
	if errors.As(err, &r) {
		s.rep.event(Event{Kind: r.kind, Node: name.Node, Ask: name.ID, Why: string(name.Kind) + ": " + r.why})
		return nil
	}
	if errors.Is(err, ErrPartial) {
		return ErrLater
	}
	if err == nil {
		// What this letter set off goes first; removing the letter can wait.
		runtime.Gosched()
	}
	return err
}

func (s *Server) receive(name Name, raw []byte) error {
	s.mu.Lock()
	p, up := s.peers[name.Node], s.ups[name.Node]
	s.mu.Unlock()
	if name.Kind == KindDecision {
		if up == nil {
			return refuse("from a node that is no parent of this one")
		}
		l, err := s.open(name, raw, up.key, up.instance)
		if err != nil {
			return err
		}
		if !up.in.accept(l.Counter) {
			return refuse("counter %d was used before", l.Counter)
		}
		return up.decide(l)
	}
	if s.cfg.Unauthenticated {
		p = s.adopt(p, name, raw)
	}
	if p == nil {
		return refuse("from a node that is not registered")
	}
	l, err := s.open(name, raw, p.key, p.reg.Instance)
	if err != nil {
		return err
	}
	if !p.in.accept(l.Counter) {
		return refuse("counter %d was used before", l.Counter)
	}
	switch l.Kind {
	case KindAsk:
		return s.ask(p, l)
	case KindCancel:
		return s.withdraw(p, l)
	default:
		return s.delivered(p, l)
	}
}

// open believes a letter, or says why not.
func (s *Server) open(name Name, raw, key []byte, instance string) (*Letter, error) {
	l, err := Open(raw, key)
	switch {
	case err != nil:
		return nil, err
	case l.Name() != name:
		return nil, fmt.Errorf("%w: its name and what is inside differ", ErrMalformed)
	case l.To.Node != s.cfg.Node || l.To.Instance != s.cfg.Instance:
		return nil, refuse("addressed to another node or an earlier life of this one")
	case l.From.Instance != instance:
		return nil, refuse("from another life of the sender")
	}
	return l, nil
}

// ask starts serving an ask, once, however often it comes.
func (s *Server) ask(p *peer, l *Letter) error {
	a, err := decodeAsk(l.Body)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := s.checkAsk(p, l, a); err != nil {
		return err
	}
	k := askKey{l.Origin, l.ID}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := p.sessions[l.From.Session]
	if !ok && p.conn == nil && s.holder(l.From.Session) == nil {
		c, ok = &Child{Node: p.reg.Node, Instance: p.reg.Instance, Session: l.From.Session, Parent: l.To.Session}, true
		p.sessions[c.Session] = c
	}
	if !ok {
		return refuse("from session %s, which is not registered", l.From.Session)
	}
	if sv := p.asks[k]; sv != nil {
		if sv.digest != a.Digest {
			return refuse("ask %s came again with another body", l.ID)
		}
		return again
	}
	if sv := p.past[k]; sv != nil {
		if sv.digest != a.Digest {
			return refuse("ask %s came again with another body", l.ID)
		}
		if sv.decision != nil {
			s.serving.Go(func() { s.deliver(p, k, sv) })
		}
		return again
	}
	sv := &served{to: l.From, session: l.To.Session, digest: a.Digest}
	if len(p.asks) >= maxAsks {
		d := denial(a, ask.Unavailable, ask.KindUnavailable, fmt.Sprintf("more than %d asks of this child wait already", maxAsks))
		s.keep(p, k, sv, &d)
		s.serving.Go(func() { s.deliver(p, k, sv) })
		return nil
	}
	// The last hop is the sender's; whether its parent is proved is ours to say.
	hops := append([]ask.Hop(nil), a.Header.Path...)
	hops[len(hops)-1].Claimed = c.Proof == ""
	a.Header.Path = hops
	in := Incoming{Ask: a, Child: *c, Session: l.To.Session, Verified: !a.Header.Claimed(), Shown: func() {
		if p.conn != nil {
			p.out.push(api.TOnScreen, 0, api.OnScreen{Ask: l.ID})
		}
	}}
	ctx, cancel := context.WithCancelCause(p.ctx)
	sv.cancel = cancel
	p.asks[k] = sv
	s.serving.Go(func() { s.serve(ctx, p, k, sv, in) })
	return nil
}

// checkAsk holds the envelope, the body and the path against each other.
func (s *Server) checkAsk(p *peer, l *Letter, a *ask.Ask) error {
	switch {
	case a.Body.ID != l.ID || a.Body.From.Session != l.Origin || a.Digest != l.Digest:
		return refuse("envelope and body differ")
	case len(a.Header.Path) == 0:
		return refuse("no path")
	}
	last := a.Header.Path[len(a.Header.Path)-1]
	if last.Node != p.reg.Node || last.Session != l.From.Session {
		return refuse("the last hop of its path is not the sender")
	}
	passed := map[string]bool{s.cfg.Node: true}
	for _, h := range a.Header.Path {
		if passed[h.Node] {
			return refuse("its path goes round: node %s", h.Node)
		}
		passed[h.Node] = true
	}
	return nil
}

// serve has one ask decided and sends the decision.
func (s *Server) serve(ctx context.Context, p *peer, k askKey, sv *served, in Incoming) {
	defer sv.cancel(nil)
	d := s.decide(ctx, in)
	s.mu.Lock()
	delete(p.asks, k)
	if ctx.Err() != nil {
		s.keep(p, k, sv, nil)
		s.mu.Unlock()
		return
	}
	s.keep(p, k, sv, &d)
	s.mu.Unlock()
	s.deliver(p, k, sv)
}

// decide calls Serve; what it does wrong denies.
func (s *Server) decide(ctx context.Context, in Incoming) (d ask.Decision) {
	a := in.Ask
	defer func() {
		if r := recover(); r != nil {
			s.rep.event(Event{Kind: EventPanic, Node: in.Child.Node, Session: in.Session, Ask: a.Body.ID, Why: ask.Quote(fmt.Sprint(r))})
			d = denial(a, ask.Failed, ask.KindGateError, "the parent's permd failed while it decided")
		}
	}()
	d = s.cfg.Serve(ctx, in)
	switch {
	case d.Ask == "" && d.Digest.IsZero() && d.Outcome == "":
		return denial(a, ask.Failed, ask.KindGateError, "the parent gave no decision")
	case d.Ask != a.Body.ID || d.Digest != a.Digest:
		return denial(a, ask.Failed, ask.KindGateError, "the parent's decision is for another ask")
	case d.Verdict != ask.Deny && d.Outcome != ask.Answered:
		return denial(a, ask.Failed, ask.KindGateError, "the parent's decision contradicts itself")
	case d.Verdict == ask.Allow && !in.Verified && !byPerson(&d.By):
		return denial(a, ask.Failed, ask.KindGateError, "a parent that is only claimed allows nothing by itself")
	}
	return d
}

// byPerson reports whether a person decided, at whatever surface.
func byPerson(b *ask.By) bool { return b.Person() || b.Decider().Kind == ask.KindClientDialog }

func denial(a *ask.Ask, o ask.Outcome, k ask.Kind, reason string) ask.Decision {
	return ask.Decision{Ask: a.Body.ID, Digest: a.Digest, Outcome: o, By: ask.By{Kind: k}, Reason: reason}
}

// keep remembers how an ask ended. The server's mutex is held.
func (s *Server) keep(p *peer, k askKey, sv *served, d *ask.Decision) {
	if d != nil {
		b, err := ask.Encode(d)
		if err != nil {
			f := ask.Decision{Ask: d.Ask, Digest: d.Digest, Outcome: ask.Failed, By: ask.By{Kind: ask.KindGateError},
				Reason: "the parent's decision cannot be sent"}
			b, _ = ask.Encode(&f)
		}
		sv.decision = b
	}
	p.past[k] = sv
	if p.order = append(p.order, k); len(p.order) > maxPast {
		delete(p.past, p.order[0])
		p.order = p.order[1:]
	}
}

// deliver puts a decision into the child's mailbox. If that is not possible
// for a while the registration is ended, so that the child does not wait for
// what cannot come.
func (s *Server) deliver(p *peer, k askKey, sv *served) {
	l := Letter{Envelope: Envelope{Kind: KindDecision, ID: k.id, Origin: k.origin, Digest: sv.digest,
		From: Address{s.cfg.Node, s.cfg.Instance, sv.session}, To: sv.to}, Body: sv.decision}
	var err error
	for wait := 25 * time.Millisecond; wait < 2*time.Second; wait *= 2 {
		if err = s.put(p.ctx, p.reg.Node, &l, p.sent.Add(1), p.key); err == nil {
			p.wake()
			return
		}
		select {
		case <-p.ctx.Done():
			return // nobody waits any more
		case <-time.After(wait):
		}
	}
	s.rep.event(Event{Kind: EventUndelivered, Node: p.reg.Node, Ask: k.id, Why: ask.Quote(err.Error())})
	p.end(fmt.Errorf("a decision cannot be delivered: %w", err))
}

// put seals and sends one letter.
func (s *Server) put(ctx context.Context, to string, l *Letter, counter uint64, key []byte) error {
	l.Counter = counter
	raw, err := l.Seal(key)
	if err != nil {
		return err
	}
	return s.cfg.Transport.Put(ctx, to, l.Name(), raw)
}

// withdraw ends an ask that the child does not wait for any more.
func (s *Server) withdraw(p *peer, l *Letter) error {
	k := askKey{l.Origin, l.ID}
	s.mu.Lock()
	defer s.mu.Unlock()
	sv := p.asks[k]
	switch {
	case sv == nil && p.past[k] == nil:
		// It overtook its ask: remember that nobody wants that one.
		s.keep(p, k, &served{digest: l.Digest}, nil)
	case sv == nil: // the decision was faster
	case sv.digest != l.Digest || sv.to != l.From:
		return refuse("it is not the sender's ask")
	default:
		sv.cancel(fmt.Errorf("%w: %s", ErrWithdrawn, ask.Quote(string(l.Body[:min(len(l.Body), maxWhy)]))))
	}
	return nil
}

const maxWhy = 200

// delivered passes on what the child did with a decision.
func (s *Server) delivered(p *peer, l *Letter) error {
	var d api.Delivered
	if err := ask.Decode(l.Body, ask.MaxMessage, &d); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	s.mu.Lock()
	sv := p.past[askKey{l.Origin, l.ID}]
	c := Child{Node: p.reg.Node, Instance: p.reg.Instance, Session: l.From.Session}
	if have := p.sessions[l.From.Session]; have != nil {
		c = *have
	}
	s.mu.Unlock()
	if d.Ask != l.ID || sv == nil || sv.digest != l.Digest || sv.to != l.From || sv.decision == nil {
		return refuse("no decision went to the sender for this ask")
	}
	if s.cfg.Delivered != nil {
		s.cfg.Delivered(c, Receipt{Origin: l.Origin, Ask: l.ID, Digest: l.Digest, How: d.How, Why: d.Why})
	}
	return nil
}
