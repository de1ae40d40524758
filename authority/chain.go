package authority

import (
	"context"
	"errors"
	"fmt"
	"time"

	"permd/ask"
)

// Say is what an external decider makes of an ask. The zero value leaves it to
// the next one, and to people in the end.
type Say uint8

// What a decider may say.
const (
	SayDefer Say = iota
	SayDeny
	SayAllow
)

var sayText = [...]string{"defer", "deny", "allow"}

func (s Say) String() string {
	if int(s) < len(sayText) {
		return sayText[s]
	}
	return fmt.Sprintf("say %d", uint8(s))
}

// Decider is one link of the chain. An error, whatever comes with it, is a
// deferral.
type Decider interface {
	Consult(ctx context.Context, a *ask.Ask) (Say, string, error)
}

// ChainLink is a decider with the name under which the record has it.
type ChainLink struct {
	Name    string
	Decider Decider
}

// Consultation is what became of asking one link.
type Consultation struct {
	Link   string
	Say    Say
	Reason string
	// Err is why its word did not count.
	Err  error
	Took time.Duration
}

// Chain asks external deciders, one after the other, between recorded
// authority and people. What none of them decides goes on to Next. That a link
// failed, took too long or said something that is no answer never allows and
// never denies.
type Chain struct {
	// Session is the one at which the chain runs.
	Session string
	Links   []ChainLink
	// Note is told of every consultation before its word takes effect; its
	// error makes an allow no allow.
	Note func(Consultation) error
}

// Consult asks the links. decided is false when none of them decided, and when
// ctx ended meanwhile.
func (c *Chain) Consult(ctx context.Context, a *ask.Ask) (d ask.Decision, decided bool) {
	// Whoever only claims to be above has no chain that could allow.
	if a.Header.Claimed() || a.Body.Action == nil {
		return d, false
	}
	for _, l := range c.Links {
		x := consult(ctx, l, a)
		err := errors.New("nobody records it")
		if c.Note != nil {
			err = contained(func() error { return c.Note(x) })
		}
		switch {
		case ctx.Err() != nil:
			return ask.Decision{}, false
		case x.Say == SayAllow && err == nil, x.Say == SayDeny:
		default:
			continue
		}
		d = deny(a, ask.Answered, ask.By{Kind: ask.KindLink, Session: c.Session, Surface: l.Name}, x.Reason)
		if x.Say == SayAllow {
			d.Verdict = ask.Allow
		}
		if d.Check() != nil {
			continue
		}
		return d, true
	}
	return ask.Decision{}, false
}

func consult(ctx context.Context, l ChainLink, a *ask.Ask) Consultation {
	x := Consultation{Link: l.Name}
	began := time.Now()
	x.Err = contained(func() (err error) {
		if l.Decider == nil {
			return errors.New("it is not there")
		}
		x.Say, x.Reason, err = l.Decider.Consult(ctx, a)
		return err
	})
	x.Took = time.Since(began)
	if x.Err == nil && x.Say > SayAllow {
		x.Err = fmt.Errorf("it says %d", uint8(x.Say))
	}
	if x.Err != nil {
		x.Say, x.Reason = SayDefer, ""
	}
	x.Reason = line(x.Reason)
	return x
}
