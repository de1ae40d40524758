package main

import (
	"errors"
	"io/fs"

	"permd/policy"
	"permd/review"
	"permd/session"
)

// places are where rules lie for a command. What it lets stand it records, and
// it believes of what it reads only what is on the record.
func (a *app) places(d session.Dirs) policy.Places {
	return policy.Places{Managed: d.Managed, Config: d.Config, State: d.State, Home: d.Home,
		Applied: func(digest string) (these, any bool) { return appliedOnRecord(d, digest) },
		Applying: func(digest, why string) error {
			return a.note(d, review.Event{Name: review.PolicyLoaded, Reason: why, Fields: []review.Field{
				{Key: review.KeyLayer, Value: string(policy.LayerUser)}, {Key: review.KeyPolicyDigest, Value: digest}}})
		}}
}

// appliedOnRecord looks whether the record holds that the user's rules with
// this digest were let stand, and whether it holds so of any.
func appliedOnRecord(d session.Dirs, digest string) (these, any bool) {
	err := review.Scan(d.Review(), review.Filter{Event: string(review.PolicyLoaded)}, func(r review.Record) error {
		if sum := r.Field(review.KeyPolicyDigest); r.Err == nil && sum != "" {
			any = true
			these = these || sum == digest
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, true // nothing holds that is not known
	}
	return these, any
}
