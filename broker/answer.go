package broker

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"permd/api"
	"permd/ask"
)

// Answer takes an answer of this answerer and says what became of it. It
// returns at once for an answer that changes nothing; for the one that wins,
// and for one that comes while another is being recorded, when the record is
// durable or has failed. The checks, in this order: the answerer is registered
// and trusted, the ask is known, it was offered to this answerer, the digest
// is equal, the answer is valid and within the cap, nobody was first.
func (r *Registration) Answer(ans ask.Answer) api.AnswerVerdict {
	v := r.answer(&ans)
	if v.Verdict != api.VerdictAccepted && v.Verdict != api.VerdictNotRecorded {
		if rec, ok := r.b.rec.(interface{ Refused(Refusal) }); ok {
			contained(func() { rec.Refused(Refusal{Surface: r.id.Name, Kind: r.id.Kind, Verdict: v}) })
		}
	}
	return v
}

func (r *Registration) answer(ans *ask.Answer) api.AnswerVerdict {
	b := r.b
	b.mu.Lock()
	e, no := b.screen(r, ans)
	if no != nil || e.won {
		b.mu.Unlock()
		return late(ans.Ask, e, no)
	}
	a, req := e.ask, e.req
	b.mu.Unlock()

	// The check may read megabytes and run patterns: not under the lock. What
	// it reads never changes; who may answer is looked at again afterwards.
	s, no := examine(a, ans, &req, r.id)
	if no != nil {
		return *no
	}
	b.mu.Lock()
	e, no = b.screen(r, ans)
	if no != nil || e.won {
		b.mu.Unlock()
		return late(ans.Ask, e, no)
	}
	s.winner = r
	end := b.settle(e, s)
	b.mu.Unlock()
	end()
	return e.verdict()
}

func verdict(id, word, text string) *api.AnswerVerdict {
	return &api.AnswerVerdict{Ask: id, Verdict: word, Text: text}
}

// screen makes the checks that need the list: everything before validity. It
// returns the entry, settled or not, or a refusal. b.mu is held.
func (b *Broker) screen(r *Registration, ans *ask.Answer) (*entry, *api.AnswerVerdict) {
	id := ans.Ask
	if !r.open || !r.trusted {
		return nil, verdict(id, api.VerdictNotTrusted, "this answerer is not trusted or no longer registered")
	}
	w := b.asks[id]
	if w == nil {
		return nil, verdict(id, api.VerdictUnknownAsk, "no ask with this id waits here; it may have ended long ago")
	}
	e := w.e
	if !e.won {
		switch {
		case e.id != id:
			return nil, verdict(id, api.VerdictNotOffered, "this ask waits with an equal one, "+e.id+"; answer that")
		case !r.mayAnswer(e):
			return nil, verdict(id, api.VerdictNotOffered, "this ask is not open at this answerer")
		}
	}
	if ans.Digest != w.digest {
		return nil, verdict(id, api.VerdictWrongDigest, "the answer is for another text than this ask's; look at it again")
	}
	return e, nil
}

// late waits until what settled e is recorded and says who was first; or it
// passes a refusal on.
func late(id string, e *entry, no *api.AnswerVerdict) api.AnswerVerdict {
	if no != nil {
		return *no
	}
	<-e.settled
	v := verdict(id, api.VerdictTooLate, e.end.Why)
	v.Winner = e.end.Surface
	if v.Winner != "" {
		v.Text = "answered first at " + v.Winner
	}
	return *v
}

// verdict is what the winner is told. e is settled.
func (e *entry) verdict() api.AnswerVerdict {
	<-e.settled
	if e.failure != nil {
		return *verdict(e.id, api.VerdictNotRecorded, cannotWrite(e.failure)+"; the answer did not count and the ask is denied")
	}
	return *verdict(e.id, api.VerdictAccepted, "")
}

// examine makes the checks that need the ask alone, and turns a valid answer
// into the settlement it asks for.
func examine(a *ask.Ask, ans *ask.Answer, req *Request, who Identity) (*settlement, *api.AnswerVerdict) {
	refuse := func(err error) (*settlement, *api.AnswerVerdict) {
		word := api.VerdictInvalid
		if errors.Is(err, ask.ErrWrongDigest) {
			word = api.VerdictWrongDigest
		}
		return nil, verdict(ans.Ask, word, err.Error())
	}
	var offer *ask.Offer
	for i := range req.Offers {
		if o := &req.Offers[i]; ans.Offer != "" && o.ID == ans.Offer {
			offer = o
		}
	}
	widest := who.widest()
	if offer != nil && offer.Scope.Width() > widest {
		plain := *ans
		plain.Offer, plain.OfferDigest = "", nil
		if err := a.Validate(&plain, nil); err != nil {
			return refuse(err)
		}
		return nil, verdict(ans.Ask, api.VerdictScope, "a grant of scope "+string(offer.Scope)+" cannot be given here; use a desk")
	}
	if err := a.Validate(ans, within(req.Offers, widest)); err != nil {
		return refuse(err)
	}
	s := &settlement{outcome: ans.Outcome, answer: ans, reason: ans.Reason, surface: who.Name, how: api.SettledLocally,
		by: ask.By{Session: req.decider(), Surface: who.Name}}
	switch who.Kind {
	case KindSurface:
		s.by.Kind = ask.KindUser
	case KindDevice:
		s.by.Kind, s.how = ask.KindDevice, api.SettledRemotely
	case KindDialog:
		s.by.Kind, s.by.Surface = ask.KindClientDialog, a.Body.From.Client
	}
	if allows(a, ans) {
		s.verdict = ask.Allow
	}
	if offer != nil {
		g, err := grant(a, offer, req.decider(), s.by)
		if err == nil {
			err = edit(g, ans.Grant, req)
		}
		if err != nil {
			return refuse(err)
		}
		s.grant = g
	}
	return s, nil
}

// edit brings in what the person changed of an offer.
func edit(g *ask.Grant, e *ask.GrantEdit, req *Request) error {
	if e == nil {
		return nil
	}
	g.ExpiresMS = e.ExpiresMS
	if e.Rule == nil {
		return nil
	}
	if req.Narrower == nil {
		return errors.New("the rule of this grant cannot be edited here")
	}
	var err error
	if !contained(func() { err = req.Narrower(g.Rule, *e.Rule) }) {
		err = errors.New("the edited rule could not be judged")
	}
	if err != nil {
		return err
	}
	g.Rule = *e.Rule
	return g.Check()
}

// allows reports whether a valid answer lets the agent go on: a permission by
// its option's effect, a question by having been answered.
func allows(a *ask.Ask, ans *ask.Answer) bool {
	if ans.Outcome != ask.Answered {
		return false
	}
	if a.Body.Permission() != nil {
		allow, ok := a.Permission(ans)
		return ok && allow
	}
	return a.Body.Origin != ask.OriginGate
}

// grant is the permission an offer stands for, given by now.
func grant(a *ask.Ask, o *ask.Offer, decider string, by ask.By) (*ask.Grant, error) {
	g := &ask.Grant{ID: uuid.NewString(), Scope: o.Scope, Rule: o.Rule, By: by,
		Given: time.Now().UTC().Format(time.RFC3339)}
	switch o.Scope {
	case ask.ScopeSession:
		g.Session = a.Body.From.Session
	case ask.ScopeTree:
		g.Session = decider
	case ask.ScopeProject:
		if a.Body.Action != nil {
			g.Project = a.Body.Action.Project
		}
	}
	return g, g.Check()
}
