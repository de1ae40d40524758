package story

import (
	"permd/ask"
	"permd/review"
)

// Undecided finds what was run though nobody had allowed it. Its zero value is
// ready. It keeps one entry for each allowed call that has not ended, and none
// for those that have.
type Undecided struct {
	allowed map[writersAsk]bool
}

type writersAsk struct{ writer, ask string }

// UndecidedEvents are the events that it takes.
func UndecidedEvents() []string {
	var out []string
	for _, n := range []review.Name{review.Effect, review.RanUngated, review.RanOther, review.AskAutoApproved, review.AskApproved,
		review.AskSessionApproved, review.ResponseReceived, review.Released} {
		out = append(out, string(n))
	}
	return out
}

// Add takes a record, in the order of [review.Scan], and says whether it tells
// of something that was run without an allow at the asker's node before. What
// was left to the client counts when the record names the client's dialog, or
// an answer of ours that it took; not while permd was paused.
func (u *Undecided) Add(r *review.Record) bool {
	k := writersAsk{r.Writer, r.Ask}
	switch r.Event {
	case review.RanUngated, review.RanOther:
		return true
	case review.Effect:
		let := r.Ask != "" && u.allowed[k] || r.By != nil
		delete(u.allowed, k)
		return r.Ran() && !let
	case review.ResponseReceived:
		if r.Verdict == nil || *r.Verdict != ask.Allow {
			return false
		}
	case review.AskAutoApproved, review.AskApproved, review.AskSessionApproved, review.Released:
	default:
		return false
	}
	if r.Ask != "" && len(r.Path) == 0 {
		if u.allowed == nil {
			u.allowed = map[writersAsk]bool{}
		}
		u.allowed[k] = true
	}
	return false
}
