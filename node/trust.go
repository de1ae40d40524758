package node

import (
	"fmt"
	"strconv"

	"permd/api"
	"permd/ask"
	"permd/policy"
	"permd/review"
)

// trustGiven reports whether the record holds that a person trusted exactly
// this content of a project's file, and did not take it back.
func (l *law) trustGiven(t policy.Trusted) bool {
	trusted := false
	err := review.Scan(l.dirs.Review(), review.Filter{Event: "project_trust."}, func(r review.Record) error {
		if r.Err != nil || r.Field(review.KeyRuleFile) != t.File {
			return nil
		}
		switch r.Event {
		case review.TrustGiven:
			trusted = r.Field(review.KeyPolicyDigest) == t.SHA256
		case review.TrustRevoked:
			trusted = false
		}
		return nil
	})
	if err != nil {
		l.problemSaid("the trust in " + ask.Quote(t.File) + " cannot be looked up on the record: " + err.Error())
		return false
	}
	return trusted
}

// skipped says once for each content of a project's file that its allow rules
// count for nothing, and what to do about it.
func (l *law) skipped(s *sess, u *policy.Untrusted) {
	l.mu.Lock()
	said := l.left[u.File+u.SHA256]
	if len(l.left) >= maxRecalled {
		clear(l.left)
	}
	l.left[u.File+u.SHA256] = true
	l.mu.Unlock()
	if said {
		return
	}
	why := "nobody trusted it"
	if u.Changed {
		why = "it changed since it was trusted"
	}
	l.n.record(review.Event{Name: review.ProjectSkipped, Session: s.id, Reason: why, Fields: []review.Field{
		{Key: review.KeyProject, Value: s.project}, {Key: review.KeyRuleFile, Value: u.File},
		{Key: review.KeyPolicyDigest, Value: u.SHA256}, {Key: review.KeyCount, Value: strconv.Itoa(u.Rules)}}})
	l.n.notice(api.Notice{Kind: "trust", Session: s.id, Text: fmt.Sprintf("%d allow rules of %s count for nothing: %s; its other rules hold. To let them count: permd trust %s",
		u.Rules, ask.Quote(u.File), why, ask.Quote(u.File))})
}
