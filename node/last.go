package node

import (
	"time"

	"github.com/google/uuid"

	"permd/api"
	"permd/ask"
	"permd/policy"
)

// lastCall is the last call of a session that recorded authority did not
// allow: it was asked about, or denied.
type lastCall struct {
	ask *ask.Ask
	at  time.Duration // on the boot-time clock
}

// remember notes that a was asked about or denied, for permd grant --last.
func (n *Node) remember(s *sess, a *ask.Ask) {
	at := n.law.clock().Up
	n.mu.Lock()
	s.last = lastCall{a, at}
	n.mu.Unlock()
}

// lastOf is the session, or with "" the one of all sessions, whose call was
// asked about or denied last.
func (n *Node) lastOf(id string) (*sess, lastCall) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var s *sess
	for _, x := range n.ordered() {
		if x.last.ask != nil && (id == "" || x.id == id || x.root == id) && (s == nil || x.last.at > s.last.at) {
			s = x
		}
	}
	if s == nil {
		return nil, lastCall{}
	}
	return s, s.last
}

// lastAsked tells a person what was asked about or denied last, and what of it
// could be granted.
func (n *Node) lastAsked(a api.LastArgs) (any, *api.Refused) {
	s, k := n.lastOf(a.Session)
	if s == nil {
		return api.Last{}, nil
	}
	in := n.law.input(s, k.ask, roleOrigin)
	r := policy.Decide(in)
	out := api.Last{Session: s.id, Ask: k.ask, AgeMS: max(0, (in.Now.Up - k.at).Milliseconds()), Verdict: r.Verdict, Reason: r.Reason, Offers: policy.Offers(in, r)}
	return out, nil
}

// grantLast gives a grant for the last call, as a person saw it in what
// lastAsked said.
func (n *Node) grantLast(g api.GrantArgs) (any, *api.Refused) {
	bad := func(text string) (any, *api.Refused) { return nil, &api.Refused{Code: api.CodeBad, Text: text} }
	s, k := n.lastOf(g.Session)
	if s == nil || k.ask.Body.ID != g.Ask || k.ask.Digest != g.Digest {
		return bad("another call was asked about since; look again")
	}
	in := n.law.input(s, k.ask, roleOrigin)
	r := policy.Decide(in)
	switch r.Verdict {
	case ask.Deny:
		return bad("it is denied, and a grant never lifts that: " + r.Reason)
	case ask.Allow:
		return bad("it is allowed by now")
	}
	offers := policy.Offers(in, r)
	if d, err := ask.OffersDigest(offers); err != nil || d != g.OfferDigest {
		return bad("what can be granted is not any more what was shown; look again")
	}
	given := ask.Grant{ID: uuid.NewString(), By: ask.By{Kind: ask.KindUser, Session: s.id, Surface: "permd grant"}, Given: time.Now().UTC().Format(time.RFC3339)}
	for _, o := range offers {
		if o.ID == g.Offer {
			given.Scope, given.Rule = o.Scope, o.Rule
		}
	}
	switch given.Scope {
	case "":
		return bad("that grant was not offered")
	case ask.ScopeSession, ask.ScopeTree:
		given.Session = s.id
	case ask.ScopeProject:
		given.Project = k.ask.Body.Action.Project
	}
	if e := g.Edit; e != nil {
		given.ExpiresMS = e.ExpiresMS
		if e.Rule != nil {
			if err := n.law.narrower(k.ask)(given.Rule, *e.Rule); err != nil {
				return bad(err.Error())
			}
			given.Rule = *e.Rule
		}
	}
	if err := n.giveGrant(s, k.ask, given); err != nil {
		return nil, &api.Refused{Code: api.CodeUnavailable, Text: err.Error()}
	}
	return api.Granted{Grant: given}, nil
}
