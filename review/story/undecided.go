package story

import (
	"permd/ask"
	"permd/review"
)

// Undecided finds what was run though nobody had allowed it. Its zero value is
// ready. It keeps one entry for each call that has not ended, and none for those
// that have.
type Undecided struct {
	allowed map[writersAsk]bool
	left    map[writersAsk]*review.Action // left to the client: what it was
}

type writersAsk struct{ writer, ask string }

// UndecidedEvents are the events that it takes.
func UndecidedEvents() []string {
	var out []string
	for _, n := range []review.Name{review.Effect, review.RanUngated, review.RanOther, review.AskAutoApproved, review.AskApproved,
		review.AskSessionApproved, review.ResponseReceived, review.Released, review.AskWaiting, review.AskObserved, review.HandedToClientDialog,
		review.ForwardedApproved, review.ForwardedAutoApproved} {
		out = append(out, string(n))
	}
	return out
}

// Add takes a record, in the order of [review.Scan], and says whether it tells
// of something that was run without an allow before: at the asker's node, or of
// one above it for that node, whose own record of it may have died with it. What
// was left to the client counts as decided when the record names the client's
// dialog, or an answer of ours that it took; not while permd was paused, and not
// in a session that it only observes. r gets the action if its own record lacks it.
func (u *Undecided) Add(r *review.Record) bool {
	k := writersAsk{r.Writer, r.Ask}
	switch r.Event {
	case review.RanUngated, review.RanOther:
		return true
	case review.Effect:
		let := r.Ask != "" && u.allowed[k] || r.By != nil
		if r.Action == nil {
			r.Action = u.left[k]
		}
		delete(u.allowed, k)
		delete(u.left, k)
		return r.Ran() && !let
	case review.AskWaiting, review.AskObserved, review.HandedToClientDialog:
		if r.Ask != "" && (r.Event != review.AskWaiting || r.Field(review.KeyMode) == "paused") {
			if u.left == nil {
				u.left = map[writersAsk]*review.Action{}
			}
			u.left[k] = r.Action
		}
		return false
	case review.ResponseReceived:
		if r.Verdict == nil || *r.Verdict != ask.Allow {
			return false
		}
	case review.AskAutoApproved, review.AskApproved, review.AskSessionApproved, review.Released,
		review.ForwardedApproved, review.ForwardedAutoApproved:
	default:
		return false
	}
	if len(r.Path) > 0 {
		if r.Event == review.ResponseReceived || r.Event == review.Released {
			return false // of a node between
		}
		k.writer = r.Path[0].Node
	}
	if r.Ask != "" {
		if u.allowed == nil {
			u.allowed = map[writersAsk]bool{}
		}
		u.allowed[k] = true
	}
	return false
}
