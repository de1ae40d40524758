// Package story tells from the review log what happened: of one ask over all
// its hops, [Ask], and who was there and who relayed to whom at a moment,
// [Tree].
//
// It promises to be pure, and to work on whatever part of the record there is:
// every beginning of a log gives a story, without a panic, and says of what is
// missing that it is not known. Who decided is what the asker's own node acted
// on; records that come late, twice, or from a node that the ask never passed
// change nothing in it. Only what says so itself is told as the deed of a
// person. All text is made visible before it is returned in a sentence.
//
// It does not promise that the record is true: it verifies nothing, that is
// [permd/review.Verify]. Times of different nodes are compared by the clock of
// this machine's boot within one ask, which does not outlive a boot, and by
// wall clock in the tree.
package story

import (
	"time"

	"permd/review"
)

// at gives the wall clock time of a record, zero when it cannot be read.
func at(r *review.Record) time.Time {
	t, err := time.Parse(time.RFC3339Nano, r.Time)
	if err != nil {
		return time.Time{}
	}
	return t
}

// acting is the session that acts in a record about an ask: the origin, or the
// one that a record of another node names; "" when it names none.
func acting(r *review.Record) string {
	if s := r.Field(review.KeyResponderSession); s != "" {
		return s
	}
	if len(r.Path) == 0 {
		return r.Session
	}
	if r.By != nil {
		return r.By.Session
	}
	return ""
}
