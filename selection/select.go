// Package selection chooses who decides the asks of a session now: the people
// here, another session, or nobody.
//
// It promises one pure table, remade at every sign of life from the client;
// that with a person present only a definite yes relays, and without one only
// a definite no gives up; that a session never relays to itself or in a
// circle; and one line in the log whenever a session starts or stops relaying
// or serving, so that a misdirected relay is a difference of one line between
// two sessions' logs.
//
// It does not find parents (package session), judge whether they serve
// (package liveness), prove that they are parents (forwarding) or decide
// anything itself. Whom it names as parent is a claim.
package selection

import (
	"slices"
	"strings"

	"permd/liveness"
	"permd/session"
)

// Authority is who decides the asks of a session.
type Authority uint8

// The authorities. The zero value denies.
const (
	Deny  Authority = iota // nobody can answer
	Local                  // the people at this node
	Relay                  // another session
)

// String returns "deny", "local" or "relay".
func (a Authority) String() string {
	switch a {
	case Local:
		return "local"
	case Relay:
		return "relay"
	}
	return "deny"
}

// Candidate is a session named as parent with what is known of it.
type Candidate struct {
	session.Candidate
	Serving liveness.Answer
	// Above are the sessions it relays to itself, as far as known.
	Above []string
}

// Input is what a choice depends on.
type Input struct {
	Self string
	// Here means that somebody can answer at this session: the client has a
	// dialog for its calls, a surface is attached, or a device is reachable or
	// can be woken.
	Here bool
	// Candidates are the sessions named as parent, first choice first.
	Candidates []Candidate
}

// Choice is the authority of a session until the next activation. It can be
// compared.
type Choice struct {
	Authority Authority
	// Target is whom the session relays to; only for Relay.
	Target session.Candidate
	// Serving is what was known of the target.
	Serving liveness.Answer
	// Here repeats the input: without it the relay is the headless one, which
	// waits for a target that is unknown and gives up on one that does not
	// serve.
	Here bool
	// Tried says in words which sessions were named and not taken, and why;
	// "" for none.
	Tried string
}

// Adjudicates reports whether chains and dialogs run at this session: the one
// that decides runs them, one that relays does not.
func (c Choice) Adjudicates() bool { return c.Authority != Relay }

// Select is the table:
//
//	here  names another session  that serves         authority  adjudicates
//	yes   no                     –                   local      yes
//	yes   yes                    yes                 relay      no
//	yes   yes                    no or unknown       local      yes
//	no    yes                    yes or unknown      relay      no
//	no    yes                    no                  relay      no, and gives up
//	no    no                     –                   deny       yes
//
// Of several named sessions the first definite yes is taken. Where nobody can
// answer and none is a yes, the first is kept that is not a definite no, else
// the first. Blank names, "unknown", the session itself and whoever would lead
// back to it name nobody.
func Select(in Input) Choice {
	var named []Candidate
	var tried []string
	for _, c := range in.Candidates {
		switch {
		case session.Blank(c.Session):
		case c.Session == in.Self:
			tried = append(tried, c.Session+" (this session itself)")
		case slices.Contains(c.Above, in.Self):
			tried = append(tried, c.Session+" (it relays to this session)")
		default:
			named = append(named, c)
		}
	}
	take := slices.IndexFunc(named, func(c Candidate) bool { return c.Serving == liveness.Yes })
	if take < 0 && !in.Here {
		take = slices.IndexFunc(named, func(c Candidate) bool { return c.Serving != liveness.No })
		if take < 0 && len(named) > 0 {
			take = 0
		}
	}
	choice := Choice{Here: in.Here}
	for i, c := range named {
		if i != take && (take < 0 || i < take) {
			tried = append(tried, c.Session+" ("+words(c.Serving)+")")
		}
	}
	choice.Tried = strings.Join(tried, ", ")
	switch {
	case take >= 0:
		choice.Authority, choice.Target, choice.Serving = Relay, named[take].Candidate, named[take].Serving
	case in.Here:
		choice.Authority = Local
	}
	return choice
}

func words(a liveness.Answer) string {
	switch a {
	case liveness.Yes:
		return "serving"
	case liveness.No:
		return "not serving"
	}
	return "not known to serve"
}
