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
		d := act("a", "", "/w").ActionDigest()
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
		if r.count(d) != 3 {
			t.Errorf("count %d", r.count(d))
		}
		if _, why := r.refused(act("b", "", "/w").ActionDigest(), time.Now()); why != "" {
			t.Error("another call is refused")
		}
		r.forget(d)
		if r.count(d) != 0 {
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
		r.deny(ask.Digest{byte(i), byte(i >> 8)}, ask.By{}, "", time.Now())
	}
	if len(r.denied) > maxRepeats {
		t.Errorf("%d denials are remembered", len(r.denied))
	}
}
