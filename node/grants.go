package node

import (
	"errors"
	"strconv"

	"permd/api"
	"permd/ask"
	"permd/policy"
	"permd/review"
)

// keepGrant keeps a permission that came with an allow for the origin session.
// Another node gives only what lives with that session; wider grants it keeps
// itself. It counts only once its giving is on the record.
func (n *Node) keepGrant(s *sess, a *ask.Ask, d ask.Decision) {
	g := *d.Grant
	lasting := g.Scope == ask.ScopeProject || g.Scope == ask.ScopeUser
	if lasting && d.By.Kind == ask.KindForwarded || !lasting && g.Session != s.id {
		n.warn(s.id, "a grant for another session or scope was dropped")
		return
	}
	n.storeGrant(s, a, g)
}

// storeGrant records and keeps a grant that came with an allow. What fails is
// said on every surface: the call it came with is allowed all the same.
func (n *Node) storeGrant(s *sess, a *ask.Ask, g ask.Grant) {
	if err := n.giveGrant(s, a, g); err != nil {
		n.complain("the grant was not kept, only this call is allowed: " + err.Error())
	}
}

// giveGrant records and keeps a grant, and settles what waits and is covered
// by it now.
func (n *Node) giveGrant(s *sess, a *ask.Ask, g ask.Grant) error {
	k, err := n.law.check(g, a.Body.Action)
	if err != nil {
		return err
	}
	digest, err := k.Digest()
	if err != nil {
		return err
	}
	e := n.askEvent(review.GrantGiven, s, a, review.Field{Key: review.KeyGrant, Value: g.ID}, review.Field{Key: review.KeyScope, Value: string(g.Scope)},
		review.Field{Key: review.KeyRule, Value: policy.Line(&g.Rule)}, review.Field{Key: review.KeyPolicyDigest, Value: digest.String()})
	if g.Project != "" {
		e.Fields = append(e.Fields, review.Field{Key: review.KeyProject, Value: g.Project})
	}
	if g.ExpiresMS > 0 {
		e.Fields = append(e.Fields, review.Field{Key: review.KeyExpiresMS, Value: strconv.FormatInt(g.ExpiresMS, 10)})
	}
	by := g.By
	e.By = &by
	if err := n.log.Commit(n.ctx, e); err != nil {
		return err
	}
	if err := n.law.grants.Add(k); err != nil {
		return err
	}
	n.law.given(givenGrant{g.ID, g.Session, digest})
	like := likenessOf(a.Body.Action)
	n.mu.Lock()
	s.repeats.forget(like)
	n.mu.Unlock()
	n.recheckSoon()
	n.changed()
	return nil
}

// recheckSoon has what waits judged again, beside what the caller does.
func (n *Node) recheckSoon() {
	n.work.Add(1)
	go func() {
		defer n.work.Done()
		n.recheck()
	}()
}

// recheck settles waiting asks that recorded authority decides by now.
func (n *Node) recheck() {
	n.broker.Recheck(func(a *ask.Ask) (ask.Decision, bool) {
		origin := n.serving(a.Body.From.Session)
		var j judgement
		var at string
		judgedAt := origin
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
			judgedAt = s
		}
		if j.Verdict == ask.Prompt || j.Verdict == ask.Allow && n.isTripped(judgedAt) {
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
