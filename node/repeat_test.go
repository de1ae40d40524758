package node

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"permd/ask"
)

func TestADeniedCallIsNotAskedAgainForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r repeats
		d := likenessOf(act("a", "", "/w"))
		if _, why := r.refused(d, time.Now()); why != "" {
			t.Fatalf("refused before it was denied: %s", why)
		}
		r.deny(d, ask.By{Kind: ask.KindUser}, "not now", time.Now())
		time.Sleep(repeatFor - time.Nanosecond)
		if _, why := r.refused(d, time.Now()); !strings.Contains(why, "denied once") || !strings.Contains(why, "not now") {
			t.Errorf("just before the limit: %q", why)
		}
		if _, why := r.refused(d, time.Now()); !strings.Contains(why, "denied 2 times") {
			t.Errorf("a third try: %q", why)
		}
		time.Sleep(time.Nanosecond)
		if _, why := r.refused(d, time.Now()); why != "" {
			t.Errorf("at the limit: %q", why)
		}
		if r.count(d, time.Now()) != 3 {
			t.Errorf("count %d", r.count(d, time.Now()))
		}
		if _, why := r.refused(likenessOf(act("b", "", "/w")), time.Now()); why != "" {
			t.Error("another call is refused")
		}
		r.forget(d)
		if r.count(d, time.Now()) != 0 {
			t.Error("forgotten, and still counted")
		}
	})
}

func TestTooManyAsksAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r repeats
		for i := range 5 {
			if r.ask(5, time.Now()) {
				t.Errorf("ask %d of 5 is too many", i+1)
			}
		}
		if !r.ask(5, time.Now()) {
			t.Error("the sixth ask is not too many")
		}
		time.Sleep(time.Minute)
		if r.ask(5, time.Now()) {
			t.Error("a minute later it still counts")
		}
		for range 100 {
			if r.ask(0, time.Now()) {
				t.Fatal("no limit is a limit")
			}
		}
	})
}

func TestRepeatsAreBounded(t *testing.T) {
	var r repeats
	for i := range 3 * maxRepeats {
		r.deny(likeness{key: ask.Digest{byte(i), byte(i >> 8)}, near: ask.Digest{byte(i), byte(i >> 8)}}, ask.By{}, "", time.Now())
	}
	if len(r.denied) > maxRepeats {
		t.Errorf("%d denials are remembered", len(r.denied))
	}
}

// The same call in other blanks and quotes is the same call; one of the same
// kind is asked about, and the person is told how often the kind was denied.
func TestADeniedCallInOtherWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r repeats
		r.deny(likenessOf(act("git push origin a", "", "/w")), ask.By{Kind: ask.KindUser}, "", time.Now())
		for i, cmd := range []string{"git  push origin a", "git push 'origin' a", "git push origin \"a\" # please"} {
			if _, why := r.refused(likenessOf(act(cmd, "", "/w")), time.Now()); why == "" {
				t.Errorf("%s is asked again", cmd)
			}
			if n := r.count(likenessOf(act("git push fork b", "", "/w")), time.Now()); n != i+2 {
				t.Errorf("another push: denied %d times, want %d", n, i+2)
			}
		}
		for _, cmd := range []string{"git push fork b", "git push origin a --force"} {
			if _, why := r.refused(likenessOf(act(cmd, "", "/w")), time.Now()); why != "" {
				t.Errorf("%s is refused: %s", cmd, why)
			}
		}
		if n := r.count(likenessOf(act("git pull", "", "/w")), time.Now()); n != 0 {
			t.Errorf("a pull: denied %d times", n)
		}
		time.Sleep(nearFor)
		if n := r.count(likenessOf(act("git push fork b", "", "/w")), time.Now()); n != 0 {
			t.Errorf("half an hour later: denied %d times", n)
		}
	})
}
