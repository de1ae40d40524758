package liveness

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"permd/heartbeat"
)

const (
	bootA = "01234567-89ab-cdef-0123-456789abcdef"
	bootB = "fedcba98-89ab-cdef-0123-456789abcdef"
)

// at is an observation at a time on clocks that started together.
func at(now time.Duration, lock Lock, b *heartbeat.Beat) Observation {
	return Observation{Lock: lock, Beat: b, Now: now, Mono: now, Boot: bootA}
}

func beatAt(n uint64, up time.Duration, serving ...string) *heartbeat.Beat {
	return &heartbeat.Beat{V: 1, Node: "n", Instance: "i1", Counter: n, Boot: bootA, UptimeNS: int64(up), Serving: serving}
}

func with(o Observation, change func(*Observation)) Observation {
	change(&o)
	return o
}

func resting(b *heartbeat.Beat) *heartbeat.Beat { b.Resting = true; return b }
func cut(b *heartbeat.Beat) *heartbeat.Beat     { b.Cut = true; return b }

func foreign(b *heartbeat.Beat) *heartbeat.Beat { b.Boot = bootB; return b }

func hello(o Observation, r HelloResult, serving ...string) Observation {
	o.Hello = Hello{Result: r, Instance: "i1", Serving: serving}
	return o
}

const s = time.Second

// Every cell of the table at step, and each boundary at, just before and just
// after (T15).
func TestStep(t *testing.T) {
	type want struct {
		answer Answer
		state  State
		ch     Channel
		more   bool
	}
	yes := want{Yes, Alive, ChannelHeartbeat, false}
	notServing := want{No, NotServing, ChannelHeartbeat, false}
	stuck := want{No, Stuck, ChannelHeartbeat, false}
	helloYes := want{Yes, Alive, ChannelHello, false}
	helloNo := want{No, NotServing, ChannelHello, false}
	helloStuck := want{No, Stuck, ChannelHello, false}
	absent := want{No, Absent, ChannelNone, true}
	unknown := want{Unknown, Unjudged, ChannelHeartbeat, true}
	type look struct {
		o    Observation
		want want
	}
	for _, c := range []struct {
		name  string
		looks []look
	}{
		{"lock free, whatever the beat", []look{
			{at(10*s, LockFree, beatAt(1, 10*s, "a")), want{No, Dead, ChannelHeartbeat, false}}}},
		{"lock free, hello answered by nobody's loop", []look{
			{hello(at(10*s, LockFree, nil), HelloAnswered, "a"), want{No, Dead, ChannelHeartbeat, false}}}},
		{"nothing there", []look{
			{at(10*s, LockNone, nil), want{No, Absent, ChannelNone, false}}}},
		{"no lock but a beat", []look{
			{at(10*s, LockNone, beatAt(1, 10*s, "a")), want{No, Absent, ChannelNone, false}}}},

		{"held, no beat, nobody to ask", []look{{at(10*s, LockHeld, nil), absent}}},
		{"held, no beat, hello serves", []look{{hello(at(10*s, LockHeld, nil), HelloAnswered, "a"), helloYes}}},
		{"held, no beat, hello serves others", []look{{hello(at(10*s, LockHeld, nil), HelloAnswered, "b"), helloNo}}},
		{"held, no beat, hello silent", []look{{hello(at(10*s, LockHeld, nil), HelloSilent), helloStuck}}},
		{"held, no beat, a silent hello is not repeated for 5 s", []look{
			{hello(at(10*s, LockHeld, nil), HelloSilent), helloStuck},
			{at(15*s-1, LockHeld, nil), helloStuck},
			{at(15*s, LockHeld, nil), helloStuck},
			{at(15*s+1, LockHeld, nil), absent}}},
		{"silent hello, then a beat", []look{
			{hello(at(10*s, LockHeld, nil), HelloSilent), helloStuck},
			{at(11*s, LockHeld, beatAt(1, 11*s, "a")), yes}}},
		{"held, resting beat, however fresh", []look{{at(10*s, LockHeld, resting(beatAt(1, 10*s, "a"))), absent}}},
		{"held, resting, hello serves", []look{{hello(at(90*s, LockHeld, resting(beatAt(1, 10*s, "a"))), HelloAnswered, "a"), helloYes}}},
		{"held, resting, hello silent", []look{{hello(at(90*s, LockHeld, resting(beatAt(1, 10*s, "a"))), HelloSilent), helloStuck}}},
		{"held, fresh beat of an earlier holder", []look{
			{with(at(10*s, LockHeld, beatAt(1, 10*s, "a")), func(o *Observation) { o.Instance = "i2" }), absent}}},
		{"held, beat of the holder", []look{
			{with(at(10*s, LockHeld, beatAt(1, 10*s, "a")), func(o *Observation) { o.Instance = "i1" }), yes}}},

		{"held, fresh, serves", []look{{at(10*s, LockHeld, beatAt(1, 9*s, "a")), yes}}},
		{"held, fresh, serves others", []look{{at(10*s, LockHeld, beatAt(1, 9*s, "b")), notServing}}},
		{"held, fresh, serves nobody", []look{{at(10*s, LockHeld, beatAt(1, 9*s)), notServing}}},
		{"held, fresh, ids are compared whole", []look{{at(10*s, LockHeld, beatAt(1, 9*s, "aa", "ab")), notServing}}},
		{"age just below 5 s", []look{{at(10*s, LockHeld, beatAt(1, 5*s+1, "a")), yes}}},
		{"age exactly 5 s", []look{{at(10*s, LockHeld, beatAt(1, 5*s, "a")), yes}}},
		{"age just above 5 s", []look{{at(10*s, LockHeld, beatAt(1, 5*s-1, "a")), stuck}}},
		{"stuck also when it would not serve", []look{{at(10*s, LockHeld, beatAt(1, 1*s, "b")), stuck}}},
		{"stuck, then beats again", []look{
			{at(10*s, LockHeld, beatAt(1, 1*s, "a")), stuck},
			{at(11*s, LockHeld, beatAt(2, 11*s, "a")), yes}}},
		{"age 0", []look{{at(10*s, LockHeld, beatAt(1, 10*s, "a")), yes}}},
		{"judge was late: age may be older by as much", []look{
			{with(at(10*s, LockHeld, beatAt(1, 3*s, "a")), func(o *Observation) { o.Late = 2 * s }), yes}}},
		{"judge was late, but not that late", []look{
			{with(at(10*s, LockHeld, beatAt(1, 3*s-1, "a")), func(o *Observation) { o.Late = 2 * s }), stuck}}},
		{"lateness stretches by 5 s at most", []look{
			{with(at(30*s, LockHeld, beatAt(1, 20*s, "a")), func(o *Observation) { o.Late = time.Hour }), yes},
			{with(at(30*s, LockHeld, beatAt(1, 20*s-1, "a")), func(o *Observation) { o.Late = time.Hour }), stuck}}},
		{"early is not late", []look{
			{with(at(10*s, LockHeld, beatAt(1, 5*s, "a")), func(o *Observation) { o.Late = -3 * s }), yes}}},
		{"cut list, session in it", []look{{at(10*s, LockHeld, cut(beatAt(1, 9*s, "a"))), yes}}},
		{"cut list, session not in it", []look{{at(10*s, LockHeld, cut(beatAt(1, 9*s, "b"))), unknown}}},
		{"cut list, hello knows", []look{{hello(at(10*s, LockHeld, cut(beatAt(1, 9*s, "b"))), HelloAnswered, "a"), helloYes}}},
		{"cut list, hello silent", []look{{hello(at(10*s, LockHeld, cut(beatAt(1, 9*s, "b"))), HelloSilent),
			want{Unknown, Unjudged, ChannelHeartbeat, false}}}},

		{"clock ahead of ours is not fresh", []look{{at(10*s, LockHeld, beatAt(1, 10*s+1, "a")), unknown}}},
		{"clock ahead of ours, counter moves", []look{
			{at(10*s, LockHeld, beatAt(1, 99*s, "a")), unknown},
			{at(12*s, LockHeld, beatAt(2, 101*s, "a")), yes}}},

		{"other host: unknown, moves, rests, moves", []look{
			{at(10*s, LockUnknown, foreign(beatAt(7, 1*s, "a"))), unknown},
			{at(15*s, LockUnknown, foreign(beatAt(7, 1*s, "a"))), unknown},
			{at(15*s, LockUnknown, foreign(beatAt(8, 6*s, "a"))), yes},
			{at(20*s, LockUnknown, foreign(beatAt(8, 6*s, "a"))), yes},
			{at(20*s+1, LockUnknown, foreign(beatAt(8, 6*s, "a"))), stuck},
			{at(21*s, LockUnknown, foreign(beatAt(9, 6*s, "b"))), notServing}}},
		{"other host: no after 5 s without a move", []look{
			{at(10*s, LockUnknown, foreign(beatAt(7, 1*s, "a"))), unknown},
			{at(15*s, LockUnknown, foreign(beatAt(7, 1*s, "a"))), unknown},
			{at(15*s+1, LockUnknown, foreign(beatAt(7, 1*s, "a"))), stuck}}},
		{"other host: a counter that goes back does not move", []look{
			{at(10*s, LockUnknown, foreign(beatAt(7, 1*s, "a"))), unknown},
			{at(11*s, LockUnknown, foreign(beatAt(6, 1*s, "a"))), unknown},
			{at(16*s, LockUnknown, foreign(beatAt(5, 1*s, "a"))), stuck}}},
		{"other host: another instance starts over", []look{
			{at(10*s, LockUnknown, foreign(beatAt(7, 1*s, "a"))), unknown},
			{at(11*s, LockUnknown, foreign(beatAt(8, 2*s, "a"))), yes},
			{at(12*s, LockUnknown, func() *heartbeat.Beat { b := foreign(beatAt(9, 2*s, "a")); b.Instance = "i2"; return b }()), unknown}}},
		{"lock held, other boot id", []look{
			{at(10*s, LockHeld, foreign(beatAt(7, 10*s, "a"))), unknown},
			{at(12*s, LockHeld, foreign(beatAt(8, 12*s, "a"))), yes}}},
		{"no lock semantics on this very host: the age alone proves nothing", []look{
			{at(10*s, LockUnknown, beatAt(7, 10*s, "a")), unknown},
			{at(12*s, LockUnknown, beatAt(8, 12*s, "a")), yes}}},
		{"judge without a boot id", []look{
			{with(at(10*s, LockHeld, beatAt(7, 10*s, "a")), func(o *Observation) { o.Boot = "" }), unknown}}},
		{"neither has a boot id", []look{
			{with(at(10*s, LockHeld, func() *heartbeat.Beat { b := beatAt(7, 10*s, "a"); b.Boot = ""; return b }()),
				func(o *Observation) { o.Boot = "" }), unknown}}},
		{"no lock semantics, nothing readable", []look{{at(10*s, LockUnknown, nil), absent}}},
		{"no lock semantics, resting", []look{{at(10*s, LockUnknown, resting(beatAt(1, 10*s, "a"))), absent}}},
		{"no lock semantics, hello", []look{{hello(at(10*s, LockUnknown, nil), HelloAnswered, "a"), helloYes}}},
		{"other host, hello answered", []look{{hello(at(10*s, LockUnknown, foreign(beatAt(7, 1*s))), HelloAnswered, "a"), helloYes}}},
		{"other host, hello silent", []look{{hello(at(10*s, LockUnknown, foreign(beatAt(7, 1*s))), HelloSilent),
			want{Unknown, Unjudged, ChannelHeartbeat, false}}}},

		{"resume: a beat is awaited, then believed", []look{
			{at(10*s, LockHeld, beatAt(1, 9*s, "a")), yes},
			{with(at(11*s, LockHeld, beatAt(1, 9*s, "a")), slept(time.Hour)), unknown},
			{with(at(12*s, LockHeld, beatAt(2, time.Hour+12*s, "a")), slept(time.Hour)), yes}}},
		{"resume: even a fresh beat is not enough", []look{
			{at(10*s, LockHeld, beatAt(1, 9*s, "a")), yes},
			{with(at(11*s, LockHeld, beatAt(1, 9*s, "a")), slept(2*s)), unknown}}},
		{"resume: awaited for 5 s and no longer", []look{
			{at(10*s, LockHeld, beatAt(1, 9*s, "a")), yes},
			{with(at(11*s, LockHeld, beatAt(1, 9*s, "a")), slept(time.Hour)), unknown},
			{with(at(16*s, LockHeld, beatAt(1, 9*s, "a")), slept(time.Hour)), unknown},
			{with(at(16*s+1, LockHeld, beatAt(1, 9*s, "a")), slept(time.Hour)), stuck}}},
		{"resume: a hello says it at once", []look{
			{at(10*s, LockHeld, beatAt(1, 9*s, "a")), yes},
			{hello(with(at(11*s, LockHeld, beatAt(1, 9*s, "a")), slept(time.Hour)), HelloAnswered, "a"), helloYes},
			{with(at(11*s+1, LockHeld, beatAt(1, time.Hour+10*s, "a")), slept(time.Hour)), yes}}},
		{"resume: a silent hello leaves it unknown", []look{
			{at(10*s, LockHeld, beatAt(1, 9*s, "a")), yes},
			{hello(with(at(11*s, LockHeld, beatAt(1, 9*s, "a")), slept(time.Hour)), HelloSilent),
				want{Unknown, Unjudged, ChannelHeartbeat, false}}}},
		{"resume: dead is dead", []look{
			{at(10*s, LockHeld, beatAt(1, 9*s, "a")), yes},
			{with(at(11*s, LockFree, beatAt(1, 9*s, "a")), slept(time.Hour)), want{No, Dead, ChannelHeartbeat, false}}}},
		{"resume of a counter judge starts over", []look{
			{at(10*s, LockUnknown, foreign(beatAt(1, 9*s, "a"))), unknown},
			{at(11*s, LockUnknown, foreign(beatAt(2, 9*s, "a"))), yes},
			{with(at(12*s, LockUnknown, foreign(beatAt(3, 9*s, "a"))), slept(time.Hour)), unknown},
			{with(at(14*s, LockUnknown, foreign(beatAt(4, 9*s, "a"))), slept(time.Hour)), yes}}},
		{"drift below the gap is no resume", []look{
			{at(10*s, LockHeld, beatAt(1, 9*s, "a")), yes},
			{with(at(11*s, LockHeld, beatAt(1, 9*s, "a")), slept(500*time.Millisecond)), yes}}},
		{"first look ever does not take an old drift for a resume", []look{
			{with(at(11*s, LockHeld, beatAt(1, time.Hour+10*s, "a")), slept(time.Hour)), yes}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tr Track
			for i, l := range c.looks {
				var v Verdict
				var more bool
				tr, v, more = step(tr, l.o, "a")
				if got := (want{v.Answer, v.State, v.Channel, more}); got != l.want {
					t.Fatalf("look %d: %+v, want %+v (%+v)", i+1, got, l.want, v)
				}
				v.Session = "a"
				if v.Reason() == "" {
					t.Fatal("no reason")
				}
			}
		})
	}
}

// slept puts the boot-time clock ahead of the monotonic one.
func slept(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Now += d }
}

// Laws that hold whatever is seen.
func TestStepLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr Track
		var now, mono time.Duration = 10 * s, 10 * s
		for range rapid.IntRange(1, 12).Draw(t, "looks") {
			d := time.Duration(rapid.Int64Range(0, int64(8*s)).Draw(t, "passed"))
			now, mono = now+d, mono+d
			if rapid.Bool().Draw(t, "sleeps") {
				now += time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "sleep"))
			}
			o := Observation{Lock: Lock(rapid.IntRange(0, 3).Draw(t, "lock")), Now: now, Mono: mono, Boot: bootA,
				Hello: Hello{Result: HelloResult(rapid.IntRange(0, 2).Draw(t, "hello"))},
				Late:  time.Duration(rapid.Int64Range(-int64(s), int64(20*s)).Draw(t, "late"))}
			if rapid.Bool().Draw(t, "hello serves") {
				o.Hello.Serving = []string{"a"}
			}
			if rapid.Bool().Draw(t, "beat") {
				o.Beat = beatAt(uint64(rapid.IntRange(1, 5).Draw(t, "counter")),
					now-time.Duration(rapid.Int64Range(-int64(2*s), int64(15*s)).Draw(t, "age")))
				if rapid.Bool().Draw(t, "beat serves") {
					o.Beat.Serving = []string{"a"}
				}
				o.Beat.Resting = rapid.Bool().Draw(t, "resting")
			}
			var v Verdict
			tr, v, _ = step(tr, o, "a")
			saysYes := o.Hello.Result == HelloAnswered && o.Hello.Serving != nil ||
				o.Beat != nil && !o.Beat.Resting && o.Beat.Serving != nil
			if v.Answer == Yes {
				if !saysYes {
					t.Fatalf("yes, and nobody said that a serves: %+v", o)
				}
				if o.Lock == LockFree || o.Lock == LockNone {
					t.Fatalf("yes, though the node is dead or absent: %+v", o)
				}
				if v.Channel == ChannelHeartbeat && v.Age > Fresh+MaxStretch {
					t.Fatalf("yes from a beat %s old", v.Age)
				}
			}
			if o.Lock == LockFree && v.State != Dead {
				t.Fatalf("lock is free, state %s", v.State)
			}
			if (v.Answer == Yes) != (v.State == Alive) || (v.Answer == Unknown) != (v.State == Unjudged) {
				t.Fatalf("answer %s with state %s", v.Answer, v.State)
			}
		}
	})
}
