package story

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"permd/ask"
	"permd/review"
)

// Who decided, what came of it: one case a way in which an ask can end.
func TestWhoDecided(t *testing.T) {
	const own = "session=s"
	dialog := &ask.By{Kind: ask.KindClientDialog, Session: "s", Surface: "claude", Inferred: true}
	rule := &ask.By{Kind: ask.KindRule, Rule: &ask.RuleRef{Layer: "user", File: "policy.toml", Line: 7}}
	desk := user("s", "desk")
	waits := func(l *logs) { l.add(0, "n", review.AskWaiting, nil, own, "ask=a", "cmd=make") }
	for _, c := range []struct {
		name string
		say  func(l *logs)
		want string
	}{
		{"a rule allows", func(l *logs) {
			l.add(0, "n", review.AskAutoApproved, rule, own, "ask=a", "verdict=allow", "cmd=ls")
			l.add(5, "n", review.Effect, nil, own, "ask=a", "effect=ran")
		}, "s@n: allow by rule policy.toml:7; released ran"},
		{"a rule denies", func(l *logs) {
			l.add(0, "n", review.AskDenied, rule, own, "ask=a", "verdict=deny", "outcome=answered", "cmd=rm")
		}, "s@n: deny by rule policy.toml:7; denied"},
		{"a person here allows", func(l *logs) {
			waits(l)
			l.add(5, "n", review.AskApproved, desk, own, "ask=a", "verdict=allow", "outcome=answered")
			l.add(6, "n", review.Released, nil, own, "ask=a")
			l.add(9, "n", review.Effect, nil, own, "ask=a", "effect=failed")
		}, `s@n: allow by user "desk"; released failed`},
		{"a person here denies", func(l *logs) {
			waits(l)
			l.add(5, "n", review.AskDenied, desk, own, "ask=a", "verdict=deny", "outcome=answered")
		}, `s@n: deny by user "desk"; denied`},
		{"two hops up", func(l *logs) { l.twoHops(0, "a", "allow", user("lead", "desk")) },
			`leaf@nleaf: allow by user "desk" at lead, via mid; released ran`},
		{"denied two hops up", func(l *logs) { l.twoHops(0, "a", "deny", user("lead", "desk")) },
			`leaf@nleaf: deny by user "desk" at lead, via mid; denied`},
		{"nobody answers", func(l *logs) {
			waits(l)
			l.add(600, "n", review.AskExpired, &ask.By{Kind: ask.KindTimeout, Session: "s"}, own, "ask=a", "verdict=deny", "outcome=timed_out")
		}, "s@n: deny by timeout, timed_out; denied"},
		{"nobody can answer", func(l *logs) {
			l.add(0, "n", review.AskUnavailable, &ask.By{Kind: ask.KindUnavailable, Session: "s"}, own, "ask=a", "verdict=deny", "outcome=unavailable")
		}, "s@n: deny by unavailable, unavailable; denied"},
		{"the client takes it back", func(l *logs) {
			waits(l)
			l.add(5, "n", review.WithdrawnByClient, nil, own, "ask=a")
		}, "s@n: nobody; withdrawn"},
		{"no longer allowed at release", func(l *logs) {
			waits(l)
			l.add(5, "n", review.AskApproved, desk, own, "ask=a", "verdict=allow", "outcome=answered")
			l.add(6, "n", review.ReleaseRefused, nil, own, "ask=a", "message=the path moved")
		}, `s@n: allow by user "desk"; refused`},
		{"the client's own dialog alone", func(l *logs) {
			l.add(0, "n", review.HandedToClientDialog, nil, own, "ask=a")
			l.add(9, "n", review.Effect, dialog, own, "ask=a", "effect=ran")
		}, `s@n: allow by client_dialog "claude" (inferred); handed_to_client ran`},
		{"the client's own dialog, and nothing ran", func(l *logs) {
			l.add(0, "n", review.HandedToClientDialog, nil, own, "ask=a")
			l.add(9, "n", review.Effect, nil, own, "ask=a", "effect=not_seen")
		}, "s@n: nobody; handed_to_client not_seen"},
		{"a desk beats the client's own dialog", func(l *logs) {
			l.add(0, "n", review.HandedToClientDialog, nil, own, "ask=a")
			l.add(1, "n", review.AskWaiting, nil, own, "ask=a")
			l.add(5, "n", review.AskApproved, desk, own, "ask=a", "verdict=allow", "outcome=answered")
			l.add(9, "n", review.Effect, nil, own, "ask=a", "effect=ran")
		}, `s@n: allow by user "desk"; handed_to_client ran`},
		{"the client's own dialog overtakes a no", func(l *logs) {
			l.add(0, "n", review.HandedToClientDialog, nil, own, "ask=a")
			l.add(1, "n", review.AskWaiting, nil, own, "ask=a")
			l.add(5, "n", review.AskDenied, desk, own, "ask=a", "verdict=deny", "outcome=answered")
			l.add(9, "n", review.Effect, dialog, own, "ask=a", "effect=ran")
		}, `s@n: allow by client_dialog "claude" (inferred); overtaken_by_human ran`},
		{"paused", func(l *logs) {
			l.add(0, "n", review.AskWaiting, nil, own, "ask=a", "mode=paused")
			l.add(9, "n", review.Effect, nil, own, "ask=a", "effect=ran")
		}, "s@n: nobody; paused ran"},
		{"only observed", func(l *logs) {
			l.add(0, "n", review.AskObserved, rule, own, "ask=a", "verdict=allow", "cmd=make")
			l.add(9, "n", review.Effect, nil, own, "ask=a", "effect=ran", "mode=observed")
		}, "s@n: nobody; observed ran"},
		{"the parent dies, a person here decides", func(l *logs) {
			l.add(0, "n", review.RequestCreated, nil, own, "ask=a", "targetSessionId=lead")
			l.add(1, "nlead", review.ForwardedPrompted, nil, own, "ask=a", "via=s@n", "responderSessionId=lead")
			l.add(9, "nlead", review.ForwardedEnded, &ask.By{Kind: ask.KindUnavailable, Session: "lead"}, own, "ask=a", "via=s@n", "verdict=deny", "outcome=unavailable")
			l.add(10, "n", review.ParentLost, nil, own, "ask=a", "targetSessionId=lead")
			l.add(11, "n", review.AskWaiting, nil, own, "ask=a")
			l.add(12, "n", review.AskApproved, desk, own, "ask=a", "verdict=allow", "outcome=answered")
			l.add(13, "n", review.Released, nil, own, "ask=a")
		}, `s@n: allow by user "desk"; released`},
		{"the answer of a lost parent does not count", func(l *logs) {
			l.add(0, "n", review.RequestCreated, nil, own, "ask=a", "targetSessionId=lead")
			l.add(2, "nlead", review.ForwardedDenied, user("lead", "desk"), own, "ask=a", "via=s@n", "verdict=deny", "outcome=answered", "responderSessionId=lead")
			l.add(3, "n", review.ParentLost, nil, own, "ask=a", "targetSessionId=lead")
			l.add(4, "n", review.AskApproved, user("s", "phone"), own, "ask=a", "verdict=allow", "outcome=answered")
			l.add(5, "n", review.Released, nil, own, "ask=a")
		}, `s@n: allow by user "phone"; released`},
		{"the asker was killed before it heard", func(l *logs) {
			l.add(0, "n", review.RequestCreated, nil, own, "ask=a", "targetSessionId=lead")
			l.add(2, "nlead", review.ForwardedApproved, user("lead", "desk"), own, "ask=a", "via=s@n", "verdict=allow", "outcome=answered", "responderSessionId=lead")
		}, `s@n: allow by user "desk", hearsay;`},
		{"the asker's record is gone", func(l *logs) {
			l.add(1, "nlead", review.ForwardedPrompted, nil, own, "ask=a", "via=s@n", "responderSessionId=lead")
			l.add(2, "nlead", review.ForwardedApproved, user("lead", "desk"), own, "ask=a", "via=s@n", "verdict=allow", "outcome=answered", "responderSessionId=lead")
		}, `s@n: allow by user "desk", hearsay;`},
		{"inside one process", func(l *logs) {
			l.add(0, "n", review.RequestCreated, nil, "session=root.ab", "ask=a", "targetSessionId=root", "channel=registry")
			l.add(1, "n", review.ForwardedPrompted, nil, "session=root.ab", "ask=a", "via=root.ab@n", "responderSessionId=root")
			l.add(2, "n", review.AskApproved, user("root", "desk"), "session=root.ab", "ask=a", "via=root.ab@n", "verdict=allow", "outcome=answered", "responderSessionId=root")
			l.add(3, "n", review.ResponseReceived, through(user("root", "desk"), "root"), "session=root.ab", "ask=a", "verdict=allow", "outcome=answered", "targetSessionId=root")
			l.add(4, "n", review.Released, nil, "session=root.ab", "ask=a")
		}, `root.ab@n: allow by user "desk" at root; released`},
		{"only answers are left", func(l *logs) {
			l.add(0, "n", review.AnswerLate, nil, "ask=a", "surface=desk")
		}, "@: nobody;"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l logs
			c.say(&l)
			list := Asks(l.all)
			if len(list) != 1 {
				t.Fatalf("%d asks", len(list))
			}
			if got := told(list[0]); got != c.want {
				t.Errorf("told %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestTheOvertakenDecisionIsKept(t *testing.T) {
	var l logs
	l.add(0, "n", review.HandedToClientDialog, nil, "session=s", "ask=a")
	l.add(5, "n", review.AskDenied, user("s", "desk"), "session=s", "ask=a", "verdict=deny", "outcome=answered", "reason=no")
	l.add(9, "n", review.Effect, &ask.By{Kind: ask.KindClientDialog, Inferred: true}, "session=s", "ask=a", "effect=ran")
	a := Asks(l.all)[0]
	if a.Before == nil || a.Before.By.Surface != "desk" || a.Before.Reason != "no" || a.Before.Verdict != ask.Deny {
		t.Errorf("before: %+v", a.Before)
	}
}

// The whole story of an ask over two hops, step by step.
func TestSteps(t *testing.T) {
	var l logs
	l.add(-20, "nlead", review.SurfaceAttached, nil, "surface=desk", "count=1")
	l.add(-15, "nlead", review.SurfaceAttached, nil, "surface=page", "count=1")
	l.add(-10, "nlead", review.SurfaceDetached, nil, "surface=page", "count=1")
	l.twoHops(0, "a", "allow", user("lead", "desk"))
	l.add(40, "nlead", review.SurfaceAttached, nil, "surface=phone", "count=1")
	l.add(50, "nlead", review.AnswerLate, nil, "ask=a", "surface=phone\u202e", "winner=desk")
	a := Asks(l.all)[0]
	var got []string
	for _, s := range a.Steps {
		line := s.After.String() + " " + s.Who + " " + s.Text
		if len(s.Surfaces) > 0 {
			line += " [" + strings.Join(s.Surfaces, " ") + "]"
		}
		got = append(got, line)
	}
	want := []string{
		"0s leaf relays it to mid",
		"1ms mid relays it to lead",
		"2ms lead puts it to whoever can answer here [desk]",
		`10ms lead allowed by user "desk"`,
		`11ms mid hears from lead: allowed by user "desk" at lead`,
		`12ms leaf hears from mid: allowed by user "desk" at lead, via mid`,
		"13ms leaf judges it again and lets it run",
		"14ms node nmid learns that the asker acted on it",
		"30ms leaf sees that it ran with exit code 0",
		`50ms node nlead hears a late answer from "phone⟨U+202E⟩", after "desk"; it changes nothing`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if p := strings.Join(a.Path, " "); p != "leaf mid lead" {
		t.Errorf("path %s", p)
	}
	if d := a.Decision.At.Sub(moment(0)).Milliseconds(); d != 10 {
		t.Errorf("decided after %d ms, want when the lead recorded it", d)
	}
}

// A wall clock that is set does not turn the story around.
func TestStepsFollowTheClockOfTheBoot(t *testing.T) {
	var l logs
	l.twoHops(0, "a", "allow", user("lead", "desk"))
	want := texts(Asks(l.all)[0])
	for i := range l.all {
		if l.all[i].Writer == "nlead" {
			l.all[i].Time = moment(-3_600_000).Format("2006-01-02T15:04:05.000000000Z")
		}
	}
	slices.SortStableFunc(l.all, func(a, b review.Record) int { return strings.Compare(a.Time, b.Time) })
	if got := texts(Asks(l.all)[0]); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func texts(a *Ask) (out []string) {
	for _, s := range a.Steps {
		out = append(out, s.Text)
	}
	return out
}

// Every event that may name an ask has a sentence, and no text of another
// hides in it.
func TestEverySentenceIsVisible(t *testing.T) {
	evil := "a\u202eb\x1b[2J\nc"
	for _, n := range append(review.Names(), "something.new") {
		r := review.Record{Writer: "n"}
		r.Event, r.Ask, r.Session, r.Reason, r.Time, r.Outcome = n, "a", evil, evil, evil, ask.Outcome(evil)
		r.By = &ask.By{Kind: ask.Kind(evil), Surface: evil, Session: evil, Inner: &ask.By{Kind: ask.KindRule, Rule: &ask.RuleRef{Layer: evil, File: evil}}}
		r.Action = &review.Action{ClientTool: evil, Command: evil}
		r.Fields = map[string]string{}
		for _, k := range review.Keys() {
			r.Fields[string(k)] = evil
		}
		if n == review.SurfaceAttached || n == review.SurfaceDetached {
			continue // no part of one ask's story
		}
		for _, by := range []*ask.By{nil, r.By, r.By.Inner} {
			r.By = by
			a := Asks([]review.Record{r})[0]
			text := a.Steps[0].Text + a.Steps[0].Who + By(by) + What(a.Action)
			if strings.ContainsAny(text, "\u202e\x1b\n") || a.Steps[0].Text == "" {
				t.Errorf("%s: %q", n, text)
			}
		}
	}
}

// Every beginning of the record gives a story, and once the asker has acted
// the decision stays.
func TestAnyBeginningIsAStory(t *testing.T) {
	var l logs
	l.add(0, "nlead", review.SurfaceAttached, nil, "surface=desk")
	l.twoHops(1, "a", "allow", user("lead", "desk"))
	l.twoHops(50, "b", "deny", user("lead", "desk"))
	final := map[string]string{}
	for n := range len(l.all) + 1 {
		for _, a := range Asks(l.all[:n]) {
			if a.Decision == nil || !a.Decision.Confirmed {
				continue
			}
			by := By(&a.Decision.By)
			if old := final[a.ID]; old != "" && old != by {
				t.Errorf("after %d records %s was decided by %s, before by %s", n, a.ID, by, old)
			}
			final[a.ID] = by
		}
	}
	if len(final) != 2 {
		t.Errorf("decided: %v", final)
	}
}

// Late answers, records that come twice, and records of nodes that the ask
// never passed change nothing in who decided.
func TestNoiseChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l logs
		verdict := rapid.SampledFrom([]string{"allow", "deny"}).Draw(t, "verdict")
		l.twoHops(0, "a", verdict, user("lead", "desk"))
		want := told(Asks(l.all)[0])
		cut := rapid.IntRange(0, 1).Draw(t, "cut") == 1
		if cut { // the asker's own record is lost
			l.all = slices.DeleteFunc(l.all, func(r review.Record) bool { return r.Writer == "nleaf" && r.Event != review.RequestCreated })
			want = told(Asks(l.all)[0])
		}
		for range rapid.IntRange(1, 6).Draw(t, "n") {
			ms := rapid.Int64Range(0, 60).Draw(t, "ms")
			other := user("elsewhere", "intruder")
			v := rapid.SampledFrom([]string{"verdict=allow", "verdict=deny"}).Draw(t, "v")
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0:
				l.add(ms, "nlead", review.AnswerLate, other, "ask=a", "surface=phone")
			case 1:
				l.add(ms, "nlead", review.AnswerForeign, other, "ask=a", v)
			case 2:
				l.add(ms, "nmid", review.AnswerInvalid, nil, "ask=a")
			case 3: // the same record once more
				l.all = append(l.all, rapid.SampledFrom(l.all).Draw(t, "copy"))
			case 4: // a copy of a log under another name
				r := rapid.SampledFrom(l.all).Draw(t, "copy")
				r.Writer = "ncopy"
				l.all = append(l.all, r)
			case 5:
				l.add(ms, "nelse", review.ForwardedApproved, other, "session=leaf", "ask=a", "via=leaf@nleaf", v, "outcome=answered", "responderSessionId=elsewhere")
			case 6:
				l.add(ms+1, "nelse", review.AskApproved, other, "session=leaf", "ask=a", v, "outcome=answered")
			}
		}
		for _, a := range Asks(l.all) {
			if a.ID == "a" && told(a) != want {
				t.Fatalf("told %s, want %s", told(a), want)
			}
		}
	})
}

// The order in which the logs are read does not matter, as long as each one
// keeps its own.
func TestOrderOfLogsDoesNotMatter(t *testing.T) {
	var l logs
	l.twoHops(0, "a", "allow", user("lead", "desk"))
	want := texts(Asks(l.all)[0])
	for range 50 {
		lists := map[string][]review.Record{}
		for _, r := range l.all {
			lists[r.Writer] = append(lists[r.Writer], r)
		}
		var mixed []review.Record
		for len(mixed) < len(l.all) {
			w := []string{"nleaf", "nmid", "nlead"}[rand.IntN(3)]
			if len(lists[w]) > 0 {
				mixed, lists[w] = append(mixed, lists[w][0]), lists[w][1:]
			}
		}
		if got := texts(Asks(mixed)[0]); !slices.Equal(got, want) {
			t.Fatalf("told %q, want %q", got, want)
		}
	}
}
