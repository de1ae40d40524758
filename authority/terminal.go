package authority

import (
	"context"
	"fmt"

	"permd/ask"
	"permd/broker"
)

// Asker puts an ask to people and waits for the answer.
type Asker interface {
	Put(ctx context.Context, r broker.Request) (ask.Decision, error)
}

var _ Asker = (*broker.Broker)(nil)

// LocalUser is the terminal that asks the people at this node.
type LocalUser struct {
	// Session is the one at which they decide.
	Session string
	Broker  Asker
	// Prepare adds what this node knows of the ask: offers, the client's
	// dialog, the timeout. It may be nil.
	Prepare func(ctx context.Context, a *ask.Ask) (broker.Request, error)
}

var _ Authorizer = (*LocalUser)(nil)

// Authorize puts a to the people. An ask that came over a claimed parent is
// put without offers: what that parent remembers allows nothing.
func (l *LocalUser) Authorize(ctx context.Context, a *ask.Ask) (ask.Decision, error) {
	r := broker.Request{Timeout: broker.DefaultTimeout}
	if l.Prepare != nil {
		var err error
		if r, err = l.Prepare(ctx, a); err != nil {
			return ask.Decision{}, fmt.Errorf("prepare the ask: %w", err)
		}
	}
	r.Ask, r.Decider = a, l.Session
	if a.Header.Claimed() {
		r.Offers = nil
	}
	return l.Broker.Put(ctx, r)
}

// Denying is the terminal of a session where nobody can answer and that
// names no parent that could.
type Denying struct {
	Session string
	// Waited says which sessions were named and not taken, and why; it may be
	// empty.
	Waited string
}

var _ Authorizer = Denying{}

// Authorize denies as unavailable and says how to get an answer.
func (n Denying) Authorize(_ context.Context, a *ask.Ask) (ask.Decision, error) {
	parent := "it names no parent session"
	if n.Waited != "" {
		parent = "no session it names as parent can be asked: " + line(n.Waited)
	}
	return Unavailable(a, n.Session, fmt.Sprintf("nobody can answer for session %s: no desk, paired device or dialog is "+
		`attached, and %s; open a desk with "permd desk", start the agent with "permd run -- CMD" `+
		"below the session that shall answer, or name that session in PERMD_PARENT_SESSION", n.Session, parent)), nil
}
