package node

import (
	"context"

	"permd/ask"
	"permd/authority"
	"permd/broker"
	"permd/review"
)

// servingJudge is recorded authority for an ask from below, at session s.
type servingJudge struct {
	n *Node
	s *sess
}

var _ authority.Judge = servingJudge{}

// Judge says what is on record at this session. A path that was only claimed
// lets nothing on record here allow.
func (j servingJudge) Judge(_ context.Context, a *ask.Ask) (ask.Verdict, ask.By, string, error) {
	r := roleVerified
	if a.Header.Claimed() {
		r = roleClaimed
	}
	x := j.n.law.judge(j.s, a, r)
	if x.Verdict == ask.Allow && (j.n.isTripped(j.s) || j.n.pausedFor() > 0) {
		x.Verdict = ask.Prompt
	}
	return x.Verdict, x.By, x.Reason, nil
}

// forwardedRecorder records what recorded authority decided for an ask from
// below.
type forwardedRecorder struct {
	n *Node
	s *sess
}

var _ authority.Recorder = forwardedRecorder{}

// Commit makes the decisions durable.
func (r forwardedRecorder) Commit(ctx context.Context, records []broker.Record) error {
	events := make([]review.Event, 0, len(records))
	for _, rec := range records {
		name := review.ForwardedAutoDenied
		if rec.Decision.Verdict == ask.Allow {
			name = review.ForwardedAutoApproved
		}
		e := r.n.askEvent(name, r.s, rec.Ask)
		by := rec.Decision.By
		fillDecision(&e, &by, rec.Decision, rec.Decision.Reason)
		events = append(events, e)
	}
	return r.n.log.CommitAll(ctx, events)
}
