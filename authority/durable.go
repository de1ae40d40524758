package authority

import (
	"context"
	"errors"

	"permd/ask"
	"permd/broker"
)

// Recorder makes decisions durable. Commit returns nil only when they are;
// ctx has neither a deadline nor an end.
type Recorder interface {
	Commit(ctx context.Context, records []broker.Record) error
}

// Durable lets no allow through without a record. It is for authorizers that
// do not record what they decide: a chain, an external decider. The broker and
// [Recorded] do.
type Durable struct {
	Session  string
	Next     Authorizer
	Recorder Recorder
}

var _ Authorizer = (*Durable)(nil)

// Authorize returns what Next decides, recorded. An allow whose record fails
// becomes a denial; a denial stands without one.
func (u *Durable) Authorize(ctx context.Context, a *ask.Ask) (ask.Decision, error) {
	return durable(ctx, u.Recorder, u.Session, a, Decide(ctx, u.Next, u.Session, a)), nil
}

// durable commits d and returns it, or the denial that takes its place. The
// asker's end does not reach the log: what was decided is recorded.
func durable(ctx context.Context, rec Recorder, session string, a *ask.Ask, d ask.Decision) ask.Decision {
	err := errors.New("there is none")
	if rec != nil {
		err = contained(func() error {
			return rec.Commit(context.WithoutCancel(ctx), []broker.Record{{Ask: a, Decision: d}})
		})
	}
	if err != nil && d.Verdict != ask.Deny {
		return GateError(a, session, errors.New("the review log cannot be written: "+err.Error()))
	}
	return d
}
