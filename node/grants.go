package node

import (
	"errors"

	"permd/api"
	"permd/ask"
	"permd/policy"
	"permd/review"
)

// keepGrant keeps a permission the deciding node gave for the origin session.
// It counts only once its giving is on the record.
func (n *Node) keepGrant(s *sess, a *ask.Ask, g ask.Grant) {
	if g.Session != s.id || g.Scope != ask.ScopeSession && g.Scope != ask.ScopeTree {
		n.warn(s.id, "a grant for another session or scope was dropped")
		return
	}
	n.storeGrant(s, a, g)
}

// storeGrant records and keeps a grant, and settles what waits and is covered
// by it now.
func (n *Node) storeGrant(s *sess, a *ask.Ask, g ask.Grant) {
	k, err := n.law.check(g, a.Body.Action)
	if err != nil {
		n.complain("the grant was not kept, only this call is allowed: " + err.Error())
		return
	}
	e := n.askEvent(review.GrantGiven, s, a, review.Field{Key: review.KeyGrant, Value: g.ID}, review.Field{Key: review.KeyScope, Value: string(g.Scope)})
	by := g.By
	e.By = &by
	if err := n.log.Commit(n.ctx, e); err != nil {
		n.complain("the grant was not kept, only this call is allowed: " + err.Error())
		return
	}
	n.law.given(g.ID)
	if err := n.law.grants.Add(k); err != nil {
		n.complain("the grant was not kept, only this call is allowed: " + err.Error())
		return
	}
	n.mu.Lock()
	s.repeats.forget(a.Body.Action.ActionDigest())
	n.mu.Unlock()
	n.work.Add(1)
	go func() {
		defer n.work.Done()
		n.recheck()
	}()
	n.changed()
}

// recheck settles waiting asks that recorded authority decides by now.
func (n *Node) recheck() {
	n.broker.Recheck(func(a *ask.Ask) (ask.Decision, bool) {
		origin := n.serving(a.Body.From.Session)
		var j judgement
		var at string
		switch {
		case len(a.Header.Path) == 0 && origin != nil:
			j, at = n.law.judge(origin, a, roleOrigin), origin.id
		default:
			s := n.serving(n.id)
			if s == nil {
				return ask.Decision{}, false
			}
			r := roleVerified
			if a.Header.Claimed() {
				r = roleClaimed
			}
			j, at = n.law.judge(s, a, r), s.id
		}
		if j.Verdict == ask.Prompt {
			return ask.Decision{}, false
		}
		if j.By.Session == "" {
			j.By.Session = at
		}
		return ask.Decision{Ask: a.Body.ID, Digest: a.Digest, Verdict: j.Verdict, Outcome: ask.Answered, By: j.By, Reason: j.Reason}, true
	})
}

// revoke ends a grant.
func (n *Node) revoke(id string) *api.Refused {
	err := n.law.revoke(id)
	if errors.Is(err, policy.ErrNoGrant) {
		return &api.Refused{Code: api.CodeBad, Text: "no grant " + ask.Quote(id) + " here; see permd policy grants"}
	}
	if err != nil {
		return &api.Refused{Code: api.CodeUnavailable, Text: err.Error()}
	}
	n.record(review.Event{Name: review.GrantRevoked, Fields: []review.Field{{Key: review.KeyGrant, Value: id}}})
	n.changed()
	return nil
}
