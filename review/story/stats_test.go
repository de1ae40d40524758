package story

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"permd/ask"
	"permd/review"
)

func statsOf(records []review.Record) *Stats {
	s := &Stats{Kind: func(a *review.Action) string { return a.Command }}
	for i := range records {
		s.Add(&records[i])
	}
	return s
}

func howText(m map[How]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s=%d", k, m[k]))
	}
	return strings.Join(out, " ")
}

// Each ask counts once, however many records and nodes it has.
func TestStatsCountAnAskOnce(t *testing.T) {
	const own, a, cmd = "session=s", "ask=a", "cmd=make"
	desk := user("s", "desk")
	dialog := &ask.By{Kind: ask.KindClientDialog, Inferred: true}
	for _, c := range []struct {
		name string
		say  func(l *logs)
		want string
	}{
		{"by a rule", func(l *logs) {
			l.add(0, "n", review.AskAutoApproved, &ask.By{Kind: ask.KindRule}, own, a, cmd, "verdict=allow")
			l.add(1, "n", review.Effect, nil, own, a, "effect=ran")
		}, "allowed_unasked=1"},
		{"two hops up", func(l *logs) { l.twoHops(0, "a", "allow", user("lead", "desk")) }, "allowed_by_human=1"},
		{"denied two hops up", func(l *logs) { l.twoHops(0, "a", "deny", user("lead", "desk")) }, "denied_by_human=1"},
		{"a grant two hops up", func(l *logs) { l.twoHops(0, "a", "allow", &ask.By{Kind: ask.KindGrant, Grant: "g"}) }, "allowed_unasked=1"},
		{"denied here", func(l *logs) {
			l.add(0, "n", review.AskWaiting, nil, own, a, cmd)
			l.add(1, "n", review.AskDenied, desk, own, a, cmd, "verdict=deny", "outcome=answered")
		}, "denied_by_human=1"},
		{"nobody", func(l *logs) {
			l.add(1, "n", review.AskExpired, &ask.By{Kind: ask.KindTimeout}, own, a, cmd, "verdict=deny", "outcome=timed_out")
		}, "unanswered=1"},
		{"protected", func(l *logs) {
			l.add(1, "n", review.AskBlocked, &ask.By{Kind: ask.KindProtection}, own, a, cmd, "verdict=deny")
		}, "denied_unasked=1"},
		{"taken back", func(l *logs) {
			l.add(1, "n", review.AskWithdrawn, &ask.By{Kind: ask.KindWithdrawn}, own, a, cmd, "verdict=deny", "outcome=withdrawn")
			l.add(1, "n", review.WithdrawnByClient, nil, own, a, cmd)
		}, "withdrawn=1"},
		{"the client's dialog", func(l *logs) {
			l.add(0, "n", review.HandedToClientDialog, nil, own, a, cmd)
			l.add(1, "n", review.Effect, dialog, own, a, "effect=ran")
		}, "allowed_by_human=1"},
		{"the client's dialog, raced", func(l *logs) {
			l.add(0, "n", review.HandedToClientDialog, nil, own, a, cmd)
			l.add(1, "n", review.AskApproved, dialog, own, a, cmd, "verdict=allow", "outcome=answered")
			l.add(2, "n", review.Effect, dialog, own, a, "effect=ran")
		}, "allowed_by_human=1"},
		{"the parent is lost first", func(l *logs) {
			l.add(0, "n", review.RequestCreated, nil, own, a, cmd)
			l.add(1, "p", review.ForwardedEnded, &ask.By{Kind: ask.KindUnavailable}, own, a, cmd, "via=s@n", "verdict=deny", "outcome=unavailable")
			l.add(2, "n", review.ParentLost, nil, own, a, cmd)
			l.add(3, "n", review.AskApproved, desk, own, a, cmd, "verdict=allow", "outcome=answered")
		}, "allowed_by_human=1"},
		{"only observed", func(l *logs) {
			l.add(0, "n", review.AskObserved, &ask.By{Kind: ask.KindRule}, own, a, cmd, "verdict=allow")
			l.add(1, "n", review.Effect, nil, own, a, "effect=ran", "mode=observed")
		}, "observed=1"},
		{"answers that count for nothing", func(l *logs) {
			l.add(0, "n", review.AnswerLate, desk, own, a)
			l.add(0, "n", review.AnswerForeign, desk, own, a)
		}, ""},
	} {
		var l logs
		c.say(&l)
		s := statsOf(l.all)
		if got := howText(s.How); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if kinds := s.Kinds(func(*Count) int { return 1 }); c.want != "" && c.want != "observed=1" && (len(kinds) != 1 || kinds[0].Kind != "make" || s.OtherKinds != 0) {
			t.Errorf("%s: kinds %+v, %d others", c.name, kinds, s.OtherKinds)
		}
		if len(s.handed)+len(s.settled) != 0 {
			t.Errorf("%s: %d and %d are left", c.name, len(s.handed), len(s.settled))
		}
	}
}

func TestStatsOfKinds(t *testing.T) {
	var l logs
	yes := func(id, cmd string, by *ask.By) {
		l.add(0, "n", review.AskApproved, by, "session=s"+id[:1], "ask="+id, "cmd="+cmd, "verdict=allow", "outcome=answered")
	}
	no := func(id, cmd string, by *ask.By) {
		l.add(0, "n", review.AskDenied, by, "session=s"+id[:1], "ask="+id, "cmd="+cmd, "verdict=deny", "outcome=answered")
	}
	desk := user("s", "desk")
	for i := range 3 {
		yes(fmt.Sprint("1", i), "git push", desk)
		yes(fmt.Sprint("2", i), "make", desk)
	}
	no("29", "make", desk)
	no("18", "rm x", &ask.By{Kind: ask.KindRule, Rule: &ask.RuleRef{File: "p.toml", Line: 3}})
	s := statsOf(l.all)
	names := func(of func(*Count) int) string {
		var out []string
		for _, c := range s.Kinds(of) {
			out = append(out, fmt.Sprint(c.Kind, " ", of(c)))
		}
		return strings.Join(out, ", ")
	}
	if got := names((*Count).Questions); got != "make 4, git push 3" {
		t.Errorf("asks most: %s", got)
	}
	if got := names((*Count).Denied); got != "make 1, rm x 1" {
		t.Errorf("denied: %s", got)
	}
	if got := names(Saved); got != "git push 3" {
		t.Errorf("a rule would have saved: %s", got)
	}
	if s.Asks != 8 || s.Sessions != 2 || s.By[ask.KindUser] != 7 || s.By[ask.KindRule] != 1 {
		t.Errorf("%+v", s)
	}
	if d := s.Kinds((*Count).Denied)[1].Deniers; d["rule p.toml:3"] != 1 {
		t.Errorf("who denied: %v", d)
	}
}

// However many kinds there are, memory has an end, and no ask is lost.
func TestStatsAreBounded(t *testing.T) {
	s := &Stats{Kind: func(a *review.Action) string { return a.Command }}
	var l logs
	l.add(0, "n", review.AskAutoApproved, &ask.By{Kind: ask.KindRule}, "session=s", "ask=a", "verdict=allow", "cmd=x")
	for i := range maxKinds + 7 {
		r := l.all[0]
		r.Session = fmt.Sprint(i)
		r.Action = &review.Action{Command: fmt.Sprint(i)}
		s.Add(&r)
	}
	if s.Asks != maxKinds+7 || len(s.kinds) != maxKinds || s.OtherKinds != 7 || len(s.sessions) > maxKinds {
		t.Errorf("%d asks, %d kinds, %d others", s.Asks, len(s.kinds), s.OtherKinds)
	}
}
