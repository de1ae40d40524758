package suggest

import (
	"testing"
	"time"

	"permd/ask"
	"permd/policy"
	"permd/review"
)

// The calls of the record, and which of them a person allowed or denied.
func TestRecord(t *testing.T) {
	dir := t.TempDir() + "/review"
	l, err := review.Open(review.Options{Dir: dir, Writer: "n1", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	user, rule, dialog := &ask.By{Kind: ask.KindUser}, &ask.By{Kind: ask.KindRule}, &ask.By{Kind: ask.KindClientDialog, Inferred: true}
	act := func(command string) *review.Action {
		return &review.Action{Client: "claude", Tool: ask.ToolBash, ClientTool: "Bash", Cwd: "/w", Command: command}
	}
	ran := []review.Field{{Key: review.KeyEffect, Value: "ran"}}
	notSeen := []review.Field{{Key: review.KeyEffect, Value: "not_seen"}}
	for _, ev := range []review.Event{
		{Name: review.AskWaiting, Session: "s1", Ask: "a1", Action: act("make a")},
		{Name: review.AskApproved, Session: "s1", Ask: "a1", By: user},
		{Name: review.AskWaiting, Session: "s1", Ask: "a2", Action: act("make b")},
		{Name: review.AskDenied, Session: "s1", Ask: "a2", By: user},
		{Name: review.AskAutoApproved, Session: "s1", Ask: "a3", Action: act("make c"), By: rule},
		{Name: review.AskDenied, Session: "s1", Ask: "a4", Action: act("make d"), By: rule},
		{Name: review.HandedToClientDialog, Session: "s2", Ask: "a5", Action: act("make e")},
		{Name: review.Effect, Session: "s2", Ask: "a5", By: dialog, Fields: ran},
		{Name: review.HandedToClientDialog, Session: "s2", Ask: "a6", Action: act("make f")},
		{Name: review.Effect, Session: "s2", Ask: "a6", By: dialog, Fields: notSeen},
		{Name: review.AskApproved, Session: "s1", Ask: "a7", By: user}, // of a call that is not on the record
		{Name: review.AskWaiting, Session: "s3", Ask: "a1", Action: act("make a")},
		{Name: review.AskApproved, Session: "s3", Ask: "a1", By: &ask.By{Kind: ask.KindForwarded, Session: "s0", Inner: user}},
	} {
		if err := l.Commit(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	calls, err := Record(dir, "/home/u", time.Time{})
	if err != nil || len(calls) != 7 {
		t.Fatalf("%d calls: %+v, %v", len(calls), calls, err)
	}
	for i, want := range []struct {
		command         string
		allowed, denied bool
	}{{"make a", true, false}, {"make b", false, true}, {"make c", false, false}, {"make d", false, false}, {"make e", true, false}, {"make f", false, false}, {"make a", true, false}} {
		if c := calls[i]; c.Action.Command != want.command || c.Allowed != want.allowed || c.Denied != want.denied || c.Action.Home != "/home/u" || c.Time == "" {
			t.Errorf("%d: %+v, want %+v", i, c, want)
		}
	}
	if later, err := Record(dir, "", time.Now().Add(time.Hour)); err != nil || len(later) != 0 {
		t.Errorf("%v, %v", later, err)
	}
	s := From(calls, policy.Compile(), 2)
	if len(s.Suggestions) != 1 || s.Suggestions[0].Rule.Command != "make a" || s.Suggestions[0].Sessions != 2 {
		t.Errorf("%+v", s)
	}
}
