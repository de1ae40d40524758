// Package authority says who decides an ask, and makes sure that a decision
// is worth what it says.
//
// It promises: recorded authority (rules and grants) speaks before any
// person; an allow is returned only after its record is durable; an error, a
// panic or a decision for another ask never allows; a parent that is only
// claimed may deny but its rules allow nothing; before an action runs, the
// digest is compared and the action judged again; and every denial has one
// true sentence, which says "the user" only when a person decided.
//
// It does not choose which authority is the right one now (package
// selection), put asks to people (package broker) or carry them to another
// node (package forwarding).
package authority

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"permd/ask"
)

// Authorizer decides asks. It returns when the ask has ended; a cancelled ctx
// withdraws it. An error never allows, whatever decision comes with it: use
// [Decide], which makes a denial of it.
type Authorizer interface {
	Authorize(ctx context.Context, a *ask.Ask) (ask.Decision, error)
}

// Decide asks z and returns a decision that can be believed: for exactly this
// ask, free of contradictions, and a denial if z failed in any way. Session is
// where the decision is made.
func Decide(ctx context.Context, z Authorizer, session string, a *ask.Ask) ask.Decision {
	var d ask.Decision
	err := contained(func() (err error) {
		d, err = z.Authorize(ctx, a)
		return err
	})
	if err == nil {
		err = believable(&d, a)
	}
	if err != nil {
		return GateError(a, session, err)
	}
	return d
}

// believable reports why d does not end a.
func believable(d *ask.Decision, a *ask.Ask) error {
	if d.Ask != a.Body.ID || d.Digest != a.Digest {
		return errors.New("the decision is for another ask")
	}
	return d.Check()
}

// GateError is the denial of a when permd itself failed with err.
func GateError(a *ask.Ask, session string, err error) ask.Decision {
	return deny(a, ask.Failed, ask.By{Kind: ask.KindGateError, Session: session}, line(err.Error()))
}

// Unavailable is the denial of a when nobody can answer. Reason names which
// path failed, who was waited for and how long, and the remedy.
func Unavailable(a *ask.Ask, session, reason string) ask.Decision {
	return deny(a, ask.Unavailable, ask.By{Kind: ask.KindUnavailable, Session: session}, reason)
}

func deny(a *ask.Ask, o ask.Outcome, by ask.By, reason string) ask.Decision {
	return ask.Decision{Ask: a.Body.ID, Digest: a.Digest, Verdict: ask.Deny, Outcome: o, By: by, Reason: reason}
}

// Relayed is d as the session that asked passes it on: one frame more says
// that from answered. A decision that travelled too far becomes a denial.
func Relayed(from string, d ask.Decision) ask.Decision {
	by := ask.Forwarded(from, d.By)
	if err := by.Check(); err != nil {
		return ask.Decision{Ask: d.Ask, Digest: d.Digest, Verdict: ask.Deny, Outcome: ask.Failed,
			By: ask.By{Kind: ask.KindGateError}, Reason: "a parent answered with a decider that cannot be: " + line(err.Error())}
	}
	d.By = by
	return d
}

// contained calls f and makes an error of a panic.
func contained(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f()
}

// line makes a text from elsewhere fit for one line of ours.
func line(s string) string {
	const most = 400
	v := strings.Join(strings.Fields(ask.Visible(s)), " ")
	if r := []rune(v); len(r) > most {
		v = string(r[:most]) + "…"
	}
	return v
}
