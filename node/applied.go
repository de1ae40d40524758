package node

import (
	"permd/review"
)

// wasApplied looks on the record whether the user's rules with this digest
// were let stand, and whether any were.
func (l *law) wasApplied(digest string) (these, any bool) {
	err := review.Scan(l.dirs.Review(), review.Filter{Event: string(review.PolicyLoaded)}, func(r review.Record) error {
		if d := r.Field(review.KeyPolicyDigest); r.Err == nil && d != "" {
			any = true
			these = these || d == digest
		}
		return nil
	})
	if err != nil {
		l.problemSaid("the rules cannot be looked up on the record: " + err.Error())
		return false, true // nothing holds that is not known
	}
	return these, any
}

// applying records that the user's rules stand as they have this digest.
func (l *law) applying(digest, why string) error {
	return l.n.log.Commit(l.n.ctx, review.Event{Name: review.PolicyLoaded, Reason: why, Fields: []review.Field{
		{Key: review.KeyLayer, Value: "user"}, {Key: review.KeyPolicyDigest, Value: digest}}})
}
