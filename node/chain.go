package node

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"permd/ask"
	"permd/authority"
	"permd/broker"
	"permd/policy"
	"permd/review"
)

// maxConsultations is how many external deciders run at a time.
const maxConsultations = 8

// consult asks the external deciders about an ask of s, or that came to s from
// below, where recorded authority left it open and before any person is asked.
// decided is false when it stays open. What is decided is on the record.
func (n *Node) consult(ctx context.Context, s *sess, a *ask.Ask, r role) (d ask.Decision, decided bool) {
	links := n.law.links(s, a, r)
	if len(links) == 0 || n.isTripped(s) {
		return d, false
	}
	if n.consultations.Add(1) > maxConsultations {
		n.consultations.Add(-1)
		n.warn(s.id, "too many external deciders run already; this ask goes to people at once")
		return d, false
	}
	defer n.consultations.Add(-1)
	c := authority.Chain{Session: s.id, Links: links, Note: func(x authority.Consultation) error { return n.consulted(ctx, s, a, x) }}
	if d, decided = c.Consult(ctx, a); !decided {
		return d, false
	}
	if err := n.log.Commit(context.WithoutCancel(ctx), n.decisionEvent(broker.Record{Ask: a, Decision: d})); err != nil {
		return authority.GateError(a, s.id, errors.New(unrecorded(err))), true
	}
	return d, true
}

// consulted puts one consultation on the record. One that allows is durable
// before it does.
func (n *Node) consulted(ctx context.Context, s *sess, a *ask.Ask, x authority.Consultation) error {
	code := x.Say.String()
	e := n.askEvent(review.ChainConsulted, s, a, review.Field{Key: review.KeyLinks, Value: x.Link},
		review.Field{Key: review.KeyWaitedMS, Value: strconv.FormatInt(x.Took.Milliseconds(), 10)})
	if x.Err != nil {
		code = "failed"
		e.Fields = append(e.Fields, review.Field{Key: review.KeyMessage, Value: x.Err.Error()})
	}
	e.Fields = append(e.Fields, review.Field{Key: review.KeyCode, Value: code})
	e.By, e.Reason = &ask.By{Kind: ask.KindLink, Session: s.id, Surface: x.Link}, x.Reason
	if x.Say == authority.SayAllow {
		return n.log.Commit(context.WithoutCancel(ctx), e)
	}
	n.record(e)
	return nil
}

// delegated records that the chain here is not asked: this session relays, and
// the node that decides has a chain of its own.
func (n *Node) delegated(s *sess, a *ask.Ask) {
	if l := n.law.policy(s).Links(); len(l) > 0 {
		n.record(n.askEvent(review.ChainDelegated, s, a, review.Field{Key: review.KeyLinks, Value: linkNames(l)}))
	}
}

func linkNames(links []policy.Link) string {
	var names []string
	for _, l := range links {
		names = append(names, l.Name)
	}
	return strings.Join(names, " ")
}

// policy are the rules that hold for s.
func (l *law) policy(s *sess) *policy.Policy { return l.store.Policy(s.project) }

// links are the external deciders that may be asked about a at s.
func (l *law) links(s *sess, a *ask.Ask, r role) []authority.ChainLink {
	if r == roleClaimed || len(l.policy(s).Links()) == 0 {
		return nil
	}
	in := l.input(s, a, r)
	links := in.Policy.Links()
	l.resolved(s, links)
	res := policy.Decide(in)
	var out []authority.ChainLink
	for i := range links {
		k := &links[i]
		if k.May(in, res) != "" {
			continue
		}
		out = append(out, authority.ChainLink{Name: k.Name, Decider: &authority.External{Exec: k.Exec, Timeout: k.Timeout(), Home: l.dirs.Home,
			Because: res.Reason, Check: func() error { return k.CheckProgram(l.dirs.Config) }}})
	}
	return out
}

// resolved records once which deciders judge asks here.
func (l *law) resolved(s *sess, links []policy.Link) {
	names := linkNames(links)
	l.mu.Lock()
	news := l.chain != names
	l.chain = names
	l.mu.Unlock()
	if news {
		l.n.record(review.Event{Name: review.ChainResolved, Session: s.id, Fields: []review.Field{{Key: review.KeyLinks, Value: names}}})
	}
}
