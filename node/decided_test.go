package node

import (
	"fmt"
	"testing"

	"permd/ask"
)

func TestAnAskThatComesAgainHasOneAnswer(t *testing.T) {
	user := ask.By{Kind: ask.KindUser, Session: "lead", Surface: "desk"}
	rule := ask.By{Kind: ask.KindRule, Session: "lead"}
	body := ask.Body{ID: "a1"}
	body.From.Session = "sub"
	on := func(claimed bool, digest byte) *ask.Ask {
		return &ask.Ask{Body: body, Digest: ask.Digest{digest}, Header: ask.Header{Path: []ask.Hop{{Session: "sub", Node: "n", Claimed: claimed}}}}
	}
	for _, c := range []struct {
		name    string
		first   *ask.Ask
		by      ask.By
		outcome ask.Outcome
		then    *ask.Ask
		want    bool
	}{
		{"the same way", on(false, 1), user, ask.Answered, on(false, 1), true},
		{"a person, by a way that is only claimed", on(false, 1), user, ask.Answered, on(true, 1), true},
		{"a person, after a claimed way", on(true, 1), user, ask.Answered, on(false, 1), true},
		{"a rule, by the same kind of way", on(false, 1), rule, ask.Answered, on(false, 1), true},
		{"a rule, by a way that is only claimed", on(false, 1), rule, ask.Answered, on(true, 1), false},
		{"another body", on(false, 1), user, ask.Answered, on(false, 2), false},
		{"nobody had answered", on(false, 1), ask.By{Kind: ask.KindWithdrawn}, ask.Withdrawn, on(false, 1), false},
		{"it was answered above", on(false, 1), ask.Forwarded("top", user), ask.Answered, on(false, 1), false},
	} {
		var k decided
		d := ask.Decision{Ask: "a1", Digest: c.first.Digest, Verdict: ask.Allow, Outcome: c.outcome, By: c.by}
		k.keep(c.first, d)
		got, again := k.again(c.then)
		if again != c.want || again && (got.Verdict != ask.Allow || got.Ask != "a1") {
			t.Errorf("%s: %+v, %v", c.name, got, again)
		}
	}
}

func TestWhatWasAnsweredIsBounded(t *testing.T) {
	var k decided
	for i := range 3 * maxDecided {
		a := &ask.Ask{Body: ask.Body{ID: fmt.Sprint("a", i)}}
		k.keep(a, ask.Decision{Ask: a.Body.ID, Outcome: ask.Answered, By: ask.By{Kind: ask.KindUser}})
	}
	if len(k.list) != maxDecided || len(k.proved) != maxDecided {
		t.Errorf("%d and %d are kept", len(k.list), len(k.proved))
	}
	if _, again := k.again(&ask.Ask{Body: ask.Body{ID: fmt.Sprint("a", 3*maxDecided-1)}}); !again {
		t.Error("the last one is forgotten")
	}
}
