package broker

import (
	"context"
	"time"

	"permd/api"
	"permd/ask"
)

// Times of an ask.
const (
	// DefaultTimeout is how long an ask waits for paired devices alone when
	// nothing else is configured.
	DefaultTimeout = 10 * time.Minute
	// DefaultGrace is how long an ask waits after the last answerer left:
	// long enough for a desk that is restarted.
	DefaultGrace = 2 * time.Second
)

// Request is one ask with what the deciding node adds to it.
type Request struct {
	Ask *ask.Ask
	// Decider is the session at which the decision is made. It owns a tree
	// grant and is named in the decision. Empty means the origin session.
	Decider string
	// Offers are the grants that may be chosen with an allow. Each answerer
	// is shown those within its cap.
	Offers []ask.Offer
	// Narrower returns why an edited rule must not be kept in the place of an
	// offered one. Without it, which is nil, no rule is edited.
	Narrower func(offered, edited ask.Rule) error
	// Timeout is how long the ask waits for paired devices alone. At zero or
	// less it is then denied at once; see [DefaultTimeout].
	Timeout time.Duration
	// ClientDialog is true when the client shows a dialog of its own beside
	// this ask, which is not ours to call: somebody can answer there.
	ClientDialog bool
	// Dialog is the client's dialog when we call it, nil otherwise.
	Dialog Dialog
	// Elsewhere says where else the ask is open, for the surfaces.
	Elsewhere []string
	// Denied is how often the session was denied an equal action, or one of the
	// same kind, before.
	Denied int
	// OnShown is called once, on a goroutine of the broker's, when a person
	// has the ask on screen. It may be nil.
	OnShown func()
}

func (r *Request) decider() string {
	if r.Decider != "" {
		return r.Decider
	}
	return r.Ask.Body.From.Session
}

// Dialog is a client's own dialog, called for one ask. Its answer passes the
// same checks as any other, and gives "once" at most. When it is the only
// answerer it is called with the asker's context as it is; otherwise the
// context ends when somebody else settles the ask. An error, or an answer that
// is not valid, takes the dialog out of this ask.
//
// A dialog may also have the methods
//
//	Settled(api.Settled)        // somebody else settled it: close
//	Verdict(api.AnswerVerdict)  // what became of the answer it gave
//
// each called at most once an ask, on a goroutine of its own.
type Dialog interface {
	Ask(ctx context.Context, s api.Shown) (ask.Answer, error)
}

// Record is one decision to be made durable.
type Record struct {
	Ask      *ask.Ask
	Decision ask.Decision
	// Waited is how long the ask waited.
	Waited time.Duration
}

// Recorder writes decisions. Commit returns nil only when all of them are
// durable; it must return, and ctx has no deadline and no end. An error turns
// an answer into a denial.
//
// A recorder may also have the method
//
//	Refused(Refusal)  // an answer that changed nothing; need not be durable
//
// called without a lock held, on the goroutine of the one who answered.
type Recorder interface {
	Commit(ctx context.Context, records []Record) error
}

// Refusal is an answer that changed nothing.
type Refusal struct {
	Surface string
	Kind    Kind
	Verdict api.AnswerVerdict
}
