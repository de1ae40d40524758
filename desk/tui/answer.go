package tui

import (
	"fmt"
	"strings"

	"permd/api"
	"permd/ask"
)

// option finds the option of a permission with that effect; the plain one
// first.
func option(s api.Shown, e ask.Effect) (item, option string, ok bool) {
	it := s.Ask.Body.Permission()
	if it == nil {
		return "", "", false
	}
	plain := ask.OptionDeny
	if e == ask.EffectAllow {
		plain = ask.OptionAllow
	}
	for i := range it.Options {
		o := &it.Options[i]
		if o.Effect == e && (option == "" || o.ID == plain) {
			option = o.ID
		}
	}
	return it.ID, option, option != ""
}

func permission(s api.Shown, e ask.Effect) (ask.Answer, error) {
	item, pick, ok := option(s, e)
	if !ok {
		return ask.Answer{}, fmt.Errorf("this question cannot be answered here with %s; answer it at the agent", e)
	}
	return ask.Answer{Ask: s.Ask.Body.ID, Digest: s.Ask.Digest, Outcome: ask.Answered,
		Items: []ask.ItemAnswer{{Item: item, Picks: []string{pick}}}}, nil
}

// allow is an allow of s, once, or with a grant that was offered.
func allow(s api.Shown, o *ask.Offer) (ask.Answer, error) {
	if why := unanswerable(s); why != "" {
		return ask.Answer{}, fmt.Errorf("it cannot be allowed: %s", why)
	}
	a, err := permission(s, ask.EffectAllow)
	if err != nil || o == nil {
		return a, err
	}
	d, err := ask.OffersDigest(s.Offers)
	if err != nil {
		return ask.Answer{}, err
	}
	a.Offer, a.OfferDigest = o.ID, &d
	return a, s.Ask.Validate(&a, s.Offers)
}

// deny is a deny of s. A question that is no permission is declined, if that
// is legal.
func deny(s api.Shown, reason string) (ask.Answer, error) {
	if len(reason) > ask.MaxText {
		return ask.Answer{}, fmt.Errorf("the reason has %d bytes, at most %d are allowed", len(reason), ask.MaxText)
	}
	a, err := permission(s, ask.EffectDeny)
	if err != nil {
		if !s.Ask.Body.Verbs.Decline {
			return a, err
		}
		a = ask.Answer{Ask: s.Ask.Body.ID, Digest: s.Ask.Digest, Outcome: ask.Declined}
	}
	a.Reason = reason
	return a, s.Ask.Validate(&a, nil)
}

// unanswerable says why nobody should allow s, "" if it may be.
func unanswerable(s api.Shown) string {
	b := &s.Ask.Body
	if b.Origin == ask.OriginGate && b.Action == nil {
		return "it does not say what would be done"
	}
	if b.Action != nil && b.Action.Tool == ask.ToolBash && strings.TrimSpace(b.Action.Command) == "" {
		return "its command is empty"
	}
	if _, _, ok := option(s, ask.EffectAllow); !ok {
		return "it is a question, and this desk answers permissions; answer it at the agent"
	}
	return ""
}

// offers are the grants of a scope that may be chosen with an allow, the
// narrowest first, as the node ordered them.
func offers(s api.Shown, scope ask.Scope) []*ask.Offer {
	var out []*ask.Offer
	for i := range s.Offers {
		if s.Offers[i].Scope == scope {
			out = append(out, &s.Offers[i])
		}
	}
	return out
}

// verdictText is what the person is told of an answer that did not count, or
// did.
func verdictText(v api.AnswerVerdict) string {
	text := ask.ExcerptLine(v.Text, 300)
	switch v.Verdict {
	case api.VerdictAccepted:
		return "accepted"
	case api.VerdictTooLate:
		if v.Winner != "" {
			return "too late: answered at " + ask.ExcerptLine(v.Winner, 80)
		}
		return join("too late", text)
	case api.VerdictUnknownAsk:
		return join("too late: it no longer waits", text)
	case api.VerdictNotOffered:
		return join("not taken: it is not open at this desk", text)
	case api.VerdictWrongDigest:
		return join("not taken: its text has changed; read it again", text)
	case api.VerdictInvalid:
		return join("not taken", text)
	case api.VerdictScope:
		return join("not taken: that grant cannot be given here", text)
	case api.VerdictNotTrusted:
		return join("not taken: this surface is not trusted", text)
	case api.VerdictNotRecorded:
		return join("it did not count and the ask is denied", text)
	}
	return join("not taken", ask.Quote(v.Verdict)+" "+text)
}

// settles reports whether after the verdict v the ask waits no more.
func settles(v api.AnswerVerdict) bool {
	switch v.Verdict {
	case api.VerdictAccepted, api.VerdictTooLate, api.VerdictUnknownAsk, api.VerdictNotRecorded:
		return true
	}
	return false
}

// settledText says how an ask ended elsewhere.
func settledText(s api.Settled) string {
	why := ask.ExcerptLine(s.Why, 200)
	what := "denied"
	if s.Allowed {
		what = "allowed"
	}
	switch s.How {
	case api.SettledLocally, api.SettledRemotely:
		where := ask.ExcerptLine(s.Surface, 80)
		if where == "" {
			return join("settled: "+what, why)
		}
		if s.How == api.SettledRemotely {
			where = "a paired device (" + where + ")"
		}
		return what + " at " + where
	case api.SettledTimeout:
		return join("nobody answered in time", why)
	case api.SettledCancel:
		return join("no longer waits", why)
	}
	return join("ended", why)
}

func deliveredText(d api.Delivered) string {
	why := ask.ExcerptLine(d.Why, 200)
	switch d.How {
	case "released":
		return "done: the answer reached its agent"
	case "too_late":
		return join("the answer came too late for its agent", why)
	case "refused":
		return join("not let through after all", why)
	}
	return join(ask.ExcerptLine(d.How, 40), why)
}

func join(a, b string) string {
	if b = strings.TrimSpace(b); b == "" {
		return a
	}
	return a + ": " + b
}
