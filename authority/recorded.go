package authority

import (
	"context"
	"errors"
	"fmt"

	"permd/ask"
)

// Judge is recorded authority: what rules and grants say of an ask's action.
// It returns who decided and a reason, and must not wait for a person. An
// error means that it could not judge.
type Judge interface {
	Judge(ctx context.Context, a *ask.Ask) (v ask.Verdict, by ask.By, reason string, err error)
}

// Recorded lets recorded authority speak ahead of a terminal. Every node that
// serves an ask does so with its own rules and grants: deny ends it, allow
// ends it, ask passes it on.
type Recorded struct {
	// Session is the one whose rules and grants these are.
	Session  string
	Judge    Judge
	Recorder Recorder
	// Next gets what recorded authority leaves open; nil denies it.
	Next Authorizer
}

var _ Authorizer = (*Recorded)(nil)

// Authorize judges, records and ends a, or hands it to Next. A judge that
// fails denies.
func (r *Recorded) Authorize(ctx context.Context, a *ask.Ask) (ask.Decision, error) {
	d, decided, err := rule(ctx, r.Judge, r.Session, a)
	if err != nil {
		d, decided = GateError(a, r.Session, err), true
	}
	if decided {
		return durable(ctx, r.Recorder, r.Session, a, d), nil
	}
	if r.Next == nil {
		return Denying{Session: r.Session}.Authorize(ctx, a)
	}
	return r.Next.Authorize(ctx, a)
}

// Recheck returns what [broker.Broker.Recheck] asks after a grant was given or
// the policy changed: the decision of recorded authority, if it has one now. A
// judge that fails leaves the ask to the person who has it on screen.
func Recheck(ctx context.Context, j Judge, session string) func(*ask.Ask) (ask.Decision, bool) {
	return func(a *ask.Ask) (ask.Decision, bool) {
		d, decided, err := rule(ctx, j, session, a)
		return d, decided && err == nil
	}
}

// rule is what j decides of a, or decided = false for "ask".
func rule(ctx context.Context, j Judge, session string, a *ask.Ask) (d ask.Decision, decided bool, err error) {
	v, by, reason, err := judge(ctx, j, a)
	if err != nil {
		return d, false, err
	}
	// A claim is not authority: what a parent that is not verified has on
	// record may deny, and allows nothing.
	if v == ask.Prompt || v == ask.Allow && a.Header.Claimed() {
		return d, false, nil
	}
	if by.Session == "" {
		by.Session = session
	}
	d = deny(a, ask.Answered, by, reason)
	d.Verdict = v
	if err := d.Check(); err != nil {
		return d, false, fmt.Errorf("recorded authority contradicts itself: %w", err)
	}
	return d, true, nil
}

// judge calls j and makes an error of everything that is no verdict.
func judge(ctx context.Context, j Judge, a *ask.Ask) (v ask.Verdict, by ask.By, reason string, err error) {
	if j == nil {
		return ask.Deny, by, "", errors.New("there is no policy to judge by")
	}
	err = contained(func() (err error) {
		v, by, reason, err = j.Judge(ctx, a)
		return err
	})
	if err == nil && v != ask.Deny && v != ask.Prompt && v != ask.Allow {
		err = fmt.Errorf("verdict %d is not known", uint8(v))
	}
	if err != nil {
		return ask.Deny, ask.By{}, "", fmt.Errorf("the action could not be judged: %w", err)
	}
	return v, by, reason, nil
}
