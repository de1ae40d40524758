package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"permd/api"
	"permd/ask"
	"permd/authority"
	"permd/broker"
	"permd/forwarding"
	"permd/heartbeat"
	"permd/internal/host"
	"permd/internal/host/peer"
	"permd/review"
	"permd/selection"
)

// downward is this node's side towards children: the mailbox, the loop that
// serves, and what their asks are judged by.
type downward struct {
	n    *Node
	srv  *forwarding.Server
	disk *forwarding.Disk
	beat *heartbeat.Writer
}

func newDownward(n *Node) (*downward, error) {
	d := &downward{n: n}
	var err error
	if d.disk, err = forwarding.OpenDisk(n.cfg.Dirs, n.id, d.log); err != nil {
		return nil, err
	}
	key := forwarding.NewBeatKey()
	if d.beat, err = heartbeat.Create(string(n.dir), heartbeat.Identity{Node: n.id, Instance: n.instance, Boot: n.boot}, key); err != nil {
		d.disk.Close()
		return nil, err
	}
	d.srv, err = forwarding.NewServer(forwarding.Config{
		Node: n.id, Instance: n.instance, Transport: d.disk, Serve: d.serve, Delivered: d.delivered,
		Beat: watchedBeat{d.beat, n}, BeatKey: key, Log: d.log,
		Proofs: forwarding.Proofs{
			Hosts:     d.hosts,
			Descends:  forwarding.DescendsFrom(host.ProcessID{PID: n.cfg.PID, Start: n.cfg.Start}, n.cfg.Dirs),
			Announced: d.announced, Ticket: d.ticket, Confirmed: d.confirmed,
		}})
	return d, err
}

// run is the loop that serves.
func (d *downward) run(ctx context.Context) error {
	err := d.srv.Run(ctx)
	d.disk.Close()
	d.beat.Close()
	return err
}

// serving asks the loop which sessions serve.
func (d *downward) serving(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return d.srv.Hello(ctx)
}

// child holds one child's registration.
func (d *downward) child(ctx context.Context, c *api.Conn, p *peer.Peer) {
	d.srv.Child(ctx, c, forwarding.CallerOf(p))
	d.n.changed()
}

// recheck asks the proofs again.
func (d *downward) recheck() { d.srv.Reprove() }

// servingChanged tells the loop, and so the children, which sessions serve now.
func (d *downward) servingChanged() {
	n := d.n
	n.mu.Lock()
	now := n.servingLocked()
	root := n.root
	n.mu.Unlock()
	if slices.Contains(now, root) {
		now = append(now, n.id) // children may know the node by its id
	}
	d.srv.SetServing(now)
}

// log puts what forwarding reports on the record.
func (d *downward) log(e forwarding.Event) {
	name := map[forwarding.EventKind]review.Name{
		forwarding.EventRegistered: review.ChildRegistered, forwarding.EventGone: review.ChildGone,
		forwarding.EventRefusedMail: review.MailRefused, forwarding.EventSetAside: review.MailRefused,
		forwarding.EventUnguarded: review.ChannelMode, forwarding.EventMailbox: review.ForwardingError,
		forwarding.EventBeat: review.ForwardingError, forwarding.EventPanic: review.ForwardingError,
	}[e.Kind]
	if name == "" {
		name = review.ForwardingWarning
	}
	fields := []review.Field{{Key: review.KeyCode, Value: string(e.Kind)}}
	if e.Node != "" {
		fields = append(fields, review.Field{Key: review.KeyNode, Value: e.Node})
	}
	if e.Skipped > 0 {
		fields = append(fields, review.Field{Key: review.KeyLost, Value: itoa(e.Skipped)})
	}
	if e.Why != "" {
		fields = append(fields, review.Field{Key: review.KeyMessage, Value: e.Why})
	}
	ev := review.Event{Name: name, Session: e.Session, Fields: fields}
	if ask.ValidID(e.Ask) {
		ev.Ask = e.Ask
	}
	d.n.record(ev)
}

func (d *downward) hosts(id string) bool { return id == d.n.id || d.n.hosts(id) }

// announced says whether our own agent's launcher told us to expect this
// process.
func (d *downward) announced(child api.Register, s api.ChildSession) bool {
	n := d.n
	n.mu.Lock()
	defer n.mu.Unlock()
	below, ok := n.expected[procID{child.PID, child.Start}]
	return ok && (below == s.Parent || below == n.id && s.Parent == n.root || s.Parent == n.id)
}

// ticket takes a ticket once; the node that used it may show it again.
func (d *downward) ticket(t string, child api.Register) (string, bool) {
	n := d.n
	n.mu.Lock()
	defer n.mu.Unlock()
	k := procID{child.PID, child.Start}
	if below, ok := n.used[t]; ok {
		return below.below, below.by == k
	}
	below, ok := n.tickets[t]
	if !ok {
		return "", false
	}
	delete(n.tickets, t)
	n.used[t] = usedTicket{below, k}
	return below, true
}

type usedTicket struct {
	below string
	by    procID
}

func (d *downward) confirmed(session, parent string) bool {
	n := d.n
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.confirms[session]
	return p != "" && (p == parent || p == n.id && parent == n.root)
}

// serve decides one ask of a child: by what is on record here, else by
// whoever answers for the session it was sent to.
func (d *downward) serve(ctx context.Context, in forwarding.Incoming) ask.Decision {
	n := d.n
	s := n.serving(in.Session)
	if s == nil {
		return authority.Unavailable(in.Ask, n.id, "session "+in.Session+" is not running any more")
	}
	return n.decideFor(ctx, s, in.Ask, in.Shown)
}

// serving finds the session a child's ask is for; the node's id is its root.
func (n *Node) serving(id string) *sess {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id == n.id {
		id = n.root
	}
	return n.sessions[id]
}

// decideFor decides, at session s, an ask that came from below.
func (n *Node) decideFor(ctx context.Context, s *sess, a *ask.Ask, shown func()) ask.Decision {
	n.mu.Lock()
	d, again := n.decided.again(a)
	n.mu.Unlock()
	if again {
		return d
	}
	z := &authority.Recorded{Session: s.id, Judge: servingJudge{n, s}, Recorder: forwardedRecorder{n, s},
		Next: authorizerFunc(func(ctx context.Context, a *ask.Ask) (ask.Decision, error) { return n.passOn(ctx, s, a, shown) })}
	d = authority.Decide(ctx, z, s.id, a)
	n.mu.Lock()
	n.decided.keep(a, d)
	n.mu.Unlock()
	return d
}

// passOn has an ask from below decided by s's own authority.
func (n *Node) passOn(ctx context.Context, s *sess, a *ask.Ask, shown func()) (ask.Decision, error) {
	// A child's call is a sign of life below this session too: who answers for
	// it now counts, not who did at its own last call.
	choice := n.activate(ctx, s)
	var lost *lostParent
	asked := false // the external deciders, once
	for range maxMoves {
		if choice.Authority != selection.Relay && !asked {
			asked = true
			r := roleVerified
			if a.Header.Claimed() {
				r = roleClaimed
			}
			if d, decided := n.consult(ctx, s, a, r); decided {
				return d, nil
			}
		}
		switch choice.Authority {
		case selection.Relay:
			n.delegated(s, a)
			d, err := n.up.authorize(ctx, s, a, choice, shown)
			if !errors.As(err, &lost) {
				return d, err
			}
			var ok bool
			if choice, ok = n.reselect(ctx, s, lost); !ok {
				return lost.decision(a, s.id), nil
			}
		case selection.Local:
			n.record(n.askEvent(review.ForwardedPrompted, s, a))
			req := broker.Request{Ask: a, Decider: s.id, Timeout: n.cfg.Settings.AskTimeout, OnShown: shown}
			if !a.Header.Claimed() { // a claim must not be remembered
				req.Offers, req.Narrower = n.law.offers(s, a), n.law.narrower(a)
			}
			d, err := n.broker.Put(ctx, req)
			if err == nil && d.Grant != nil && d.Grant.Scope != ask.ScopeSession {
				n.storeGrant(s, a, *d.Grant) // it is kept here, where it was given
				d.Grant = nil
			}
			return d, err
		default:
			return authority.Denying{Session: s.id}.Authorize(ctx, a)
		}
	}
	return lost.decision(a, s.id), nil
}

// relayInside has an ask decided by another session of this process: an
// in-process subagent's by its root.
func (n *Node) relayInside(ctx context.Context, s *sess, a *ask.Ask, target string, shown func()) (ask.Decision, error) {
	t := n.serving(target)
	if t == nil || t == s {
		return ask.Decision{}, &lostParent{target, errNotHere}
	}
	up := a.WithHop(ask.Hop{Session: s.id, Node: n.id})
	n.record(n.askEvent(review.RequestCreated, s, a, review.Field{Key: review.KeyTargetSession, Value: target},
		review.Field{Key: review.KeyChannel, Value: "registry"}))
	d := n.decideFor(ctx, t, up, shown)
	d = authority.Relayed(target, d)
	n.recordResponse(s, a, target, d)
	return d, nil
}

// delivered passes on what the origin did with a decision of ours.
func (d *downward) delivered(c forwarding.Child, r forwarding.Receipt) {
	n := d.n
	n.record(review.Event{Name: review.AnswerDelivered, Session: r.Origin, Ask: r.Ask, Digest: &r.Digest,
		Fields: []review.Field{{Key: review.KeyDelivered, Value: r.How}, {Key: review.KeyChild, Value: c.Session}, {Key: review.KeyMessage, Value: r.Why}}})
	if n.broker.Delivered(r.Ask, r.How, r.Why) == nil {
		return
	}
	// It was decided further up: the report goes on.
	a := &ask.Ask{Digest: r.Digest}
	a.Body.ID, a.Body.From.Session = r.Ask, r.Origin
	n.up.delivered(n.ctx, a, r.How, r.Why)
}

// tellDelivered says what came of an ask of ours to whoever decided it.
func (n *Node) tellDelivered(a *ask.Ask, how, why string) {
	if n.broker.Delivered(a.Body.ID, how, why) != nil {
		n.up.delivered(context.WithoutCancel(n.ctx), a, how, why)
	}
}

type authorizerFunc func(context.Context, *ask.Ask) (ask.Decision, error)

// Authorize calls f.
func (f authorizerFunc) Authorize(ctx context.Context, a *ask.Ask) (ask.Decision, error) {
	return f(ctx, a)
}
