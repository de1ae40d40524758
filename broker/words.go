package broker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"permd/api"
	"permd/ask"
)

// howToAnswer ends every reason that says nobody can answer.
const howToAnswer = `open a desk with "permd desk" or pair a device with "permd remote pair"`

// atOnce ends an ask that nobody is to be shown, or returns nil.
func (e *entry) atOnce(ctx context.Context, mode wait) *settlement {
	w := e.waiters[0]
	e.clock.mode = mode
	switch {
	case ctx.Err() != nil:
		return e.withdrawn(w, withdrawnReason(ctx))
	case mode == waitNobody:
		return e.denied(ask.Unavailable, ask.KindUnavailable, fmt.Sprintf(
			"nobody can answer at session %s: no desk, dialog or paired device is attached; %s", e.req.decider(), howToAnswer))
	case mode == waitLimit && e.req.Timeout <= 0:
		e.clock.at = time.Now()
		return e.denied(ask.TimedOut, ask.KindTimeout, fmt.Sprintf(
			"nobody sits at session %s and its time to wait for a paired device is set to none, so it denies at once; %s",
			e.req.decider(), howToAnswer))
	}
	return nil
}

func (e *entry) denied(o ask.Outcome, k ask.Kind, reason string) *settlement {
	s := &settlement{outcome: o, by: ask.By{Kind: k, Session: e.req.decider()}, reason: reason, how: api.SettledCancel, why: reason}
	if o == ask.TimedOut {
		s.how = api.SettledTimeout
	}
	return s
}

func (e *entry) timedOut(w *waiter) *settlement {
	return e.denied(ask.TimedOut, ask.KindTimeout, fmt.Sprintf("nobody answered within %s; session %s waited for %s",
		round(w.req.Timeout), e.req.decider(), e.waitedFor()))
}

func (e *entry) leftAlone(grace time.Duration) *settlement {
	return e.denied(ask.Unavailable, ask.KindUnavailable, fmt.Sprintf(
		"nobody can answer any more at session %s: the last one who could left %s ago, after the ask had waited %s; %s",
		e.req.decider(), round(grace), round(time.Since(e.seen)), howToAnswer))
}

func (e *entry) ending() *settlement {
	return e.denied(ask.Unavailable, ask.KindUnavailable, fmt.Sprintf(
		"the node of session %s ended while the ask waited for %s", e.req.decider(), e.waitedFor()))
}

func (e *entry) withdrawn(w *waiter, why string) *settlement {
	s := e.denied(ask.Withdrawn, ask.KindWithdrawn, fmt.Sprintf("the ask was taken back after %s: %s",
		round(time.Since(w.since)), why))
	s.by.Session = w.req.Ask.Body.From.Session
	return s
}

// failed ends an ask whose only answerer broke.
func (e *entry) failed(why string) *settlement {
	return e.denied(ask.Failed, ask.KindGateError, why)
}

// ruled ends an ask by what recorded authority now says.
func (e *entry) ruled(d ask.Decision) *settlement {
	return &settlement{outcome: d.Outcome, verdict: d.Verdict, by: d.By, reason: d.Reason,
		how: api.SettledLocally, why: "decided by a rule or grant that came meanwhile"}
}

func withdrawnReason(ctx context.Context) string {
	if err := context.Cause(ctx); err != nil && err != context.Canceled && err != context.DeadlineExceeded {
		return shorten(err.Error())
	}
	return "the asker stopped waiting"
}

func cannotWrite(err error) string {
	return "the review log cannot be written: " + shorten(err.Error())
}

// unrecorded is d when its record could not be written. An answer does not
// count then; what denied anyway keeps its reason.
func unrecorded(d ask.Decision, err error) ask.Decision {
	if d.Outcome != ask.Answered && d.Answer == nil {
		d.Reason += "; " + cannotWrite(err)
		return d
	}
	return ask.Decision{Ask: d.Ask, Digest: d.Digest, Outcome: ask.Failed,
		By: ask.By{Kind: ask.KindGateError, Session: d.By.Session}, Reason: cannotWrite(err), WaitMS: d.WaitMS}
}

// round makes a duration readable.
func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// shorten makes a text from elsewhere fit for one line of ours.
func shorten(s string) string {
	q := ask.Quote(strings.Join(strings.Fields(s), " "))
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
