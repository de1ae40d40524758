package story

import (
	"strings"
	"testing"

	"permd/ask"
	"permd/review"
)

func TestUndecided(t *testing.T) {
	const own, a, yes = "session=s", "ask=a", "verdict=allow"
	desk := user("s", "desk")
	ran := func(l *logs) { l.add(9, "n", review.Effect, nil, own, a, "effect=ran") }
	for _, c := range []struct {
		name string
		say  func(l *logs)
		want int
	}{
		{"a rule allowed it", func(l *logs) { l.add(0, "n", review.AskAutoApproved, desk, own, a, yes); ran(l) }, 0},
		{"a person allowed it", func(l *logs) { l.add(0, "n", review.AskApproved, desk, own, a, yes); ran(l) }, 0},
		{"and for the session", func(l *logs) { l.add(0, "n", review.AskSessionApproved, desk, own, a, yes); ran(l) }, 0},
		{"the parent allowed it", func(l *logs) { l.add(0, "n", review.ResponseReceived, through(desk, "lead"), own, a, yes); ran(l) }, 0},
		{"the parent denied it", func(l *logs) {
			l.add(0, "n", review.ResponseReceived, through(desk, "lead"), own, a, "verdict=deny")
			ran(l)
		}, 1},
		{"the client's own dialog let it run", func(l *logs) {
			l.add(0, "n", review.HandedToClientDialog, nil, own, a)
			l.add(9, "n", review.Effect, &ask.By{Kind: ask.KindClientDialog, Inferred: true}, own, a, "effect=failed")
		}, 0},
		{"left to the client and nobody named", func(l *logs) { l.add(0, "n", review.HandedToClientDialog, nil, own, a); ran(l) }, 1},
		{"while paused", func(l *logs) { l.add(0, "n", review.AskWaiting, nil, own, a, "mode=paused"); ran(l) }, 1},
		{"while only observed", func(l *logs) { l.add(0, "n", review.AskObserved, desk, own, a, yes); ran(l) }, 1},
		{"nothing", ran, 1},
		{"it only may have run", func(l *logs) { l.add(0, "n", review.Effect, nil, own, a, "effect=not_seen") }, 0},
		{"past permd", func(l *logs) { l.add(0, "n", review.RanUngated, nil, own) }, 1},
		{"something else", func(l *logs) { l.add(0, "n", review.RanOther, nil, own, a) }, 1},
		{"an allow of another node", func(l *logs) { l.add(0, "m", review.AskApproved, desk, own, a, yes); ran(l) }, 1},
		{"an allow that the asker never heard", func(l *logs) {
			l.add(0, "n", review.AskApproved, desk, own, a, yes, "via=s@x")
			ran(l)
		}, 1},
		{"an allow of the parent that its node had no time to record", func(l *logs) {
			l.add(0, "m", review.ForwardedApproved, desk, own, a, yes, "via=s@n")
			ran(l)
		}, 0},
		{"inside one process", func(l *logs) { l.add(0, "n", review.AskApproved, desk, own, a, yes, "via=s@n"); ran(l) }, 0},
		{"passed on by a node between", func(l *logs) {
			l.add(0, "m", review.ResponseReceived, through(desk, "lead"), own, a, yes, "via=s@n")
			ran(l)
		}, 1},
		{"twice on one allow", func(l *logs) { l.add(0, "n", review.AskApproved, desk, own, a, yes); ran(l); ran(l) }, 1},
		{"an effect of no ask", func(l *logs) { l.add(9, "n", review.Effect, nil, own, "effect=ran") }, 1},
	} {
		var l logs
		c.say(&l)
		var u Undecided
		n := 0
		for i := range l.all {
			r := &l.all[i]
			announced := strings.Contains(" "+strings.Join(UndecidedEvents(), " ")+" ", " "+string(r.Event)+" ")
			if u.Add(r) {
				n++
				if !announced {
					t.Errorf("%s: %s is not announced", c.name, r.Event)
				}
			}
		}
		if n != c.want {
			t.Errorf("%s: %d, want %d", c.name, n, c.want)
		}
	}
}

// What has ended is not kept, however long the record.
func TestUndecidedKeepsWhatIsOpen(t *testing.T) {
	var u Undecided
	for range 1000 {
		var l logs
		l.twoHops(0, "a", "allow", user("lead", "desk"))
		for i := range l.all {
			if u.Add(&l.all[i]) {
				t.Fatal("decided, and not found so")
			}
		}
	}
	if len(u.allowed)+len(u.left) != 0 {
		t.Errorf("%d and %d entries are left", len(u.allowed), len(u.left))
	}
}

// What ran is named, though its own record does not name it.
func TestUndecidedNamesTheCall(t *testing.T) {
	var l logs
	l.add(0, "n", review.AskWaiting, nil, "session=s", "ask=a", "cmd=make", "mode=paused")
	l.add(9, "n", review.Effect, nil, "session=s", "ask=a", "effect=ran")
	var u Undecided
	u.Add(&l.all[0])
	if !u.Add(&l.all[1]) || l.all[1].Action == nil || l.all[1].Action.Command != "make" || len(u.left) != 0 {
		t.Errorf("%+v", l.all[1].Action)
	}
}
