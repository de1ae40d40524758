package liveness

import (
	"slices"
	"time"

	"permd/heartbeat"
)

// Lock is what a look at a node's lock told.
type Lock uint8

// The looks. The zero value tells nothing.
const (
	LockUnknown Lock = iota // the file system has no locks, or another host holds it
	LockNone                // no lock file, or one that may not be used
	LockFree
	LockHeld
)

// HelloResult is what asking the node's socket told.
type HelloResult uint8

// The results. The zero value was not asked or could not be asked: no socket,
// or nobody listens on it.
const (
	HelloNone     HelloResult = iota
	HelloSilent               // connected, no answer in time
	HelloAnswered             // answered by the loop that serves
)

// Hello is the answer of a node's serving loop.
type Hello struct {
	Result   HelloResult
	Instance string
	Serving  []string
}

// Observation is one look at a node.
type Observation struct {
	Lock Lock
	// Instance is the lock holder's instance as its facts say, "" if unknown.
	// A beat of another instance is an earlier holder's and not looked at.
	Instance string
	// Beat is nil when there is none, or none that may be used.
	Beat  *heartbeat.Beat
	Hello Hello
	// Now and Mono are the judge's boot-time and monotonic clocks, read after
	// everything else; Boot is the judge's boot id.
	Now, Mono time.Duration
	Boot      string
	// Late is how late the judge itself came to look: under load it stretches
	// how old a beat may be.
	Late time.Duration
}

// Track is what a judge remembers of one node between looks. The zero value
// has seen nothing.
type Track struct {
	seen bool
	skew time.Duration // Now - Mono at the last look

	// awaiting is true after a resume until the counter moves.
	awaiting     bool
	awaitCounter uint64
	awaitSince   time.Duration // Mono

	// The counter as last seen, for beats whose age cannot be compared.
	instance string
	counter  uint64
	moved    bool          // since since
	since    time.Duration // Mono: last move, or first look
	judged   bool          // instance, counter and since are set

	silentAt time.Duration // Mono of the last silent hello
	silent   bool
}

// step judges session on one node from what was seen before and now. The last
// result says that a hello could still change the verdict.
//
//	lock     beat                              hello      answer   state
//	free     –                                 –          no       dead
//	none     –                                 –          no       absent
//	held     none, unreadable, resting,        answered   yes/no   alive/not_serving
//	         of another instance               silent     no       stuck
//	                                           none       no       absent
//	held     same boot, age ≤ 5 s              –          yes/no   alive/not_serving
//	held     same boot, age > 5 s              –          no       stuck
//	held     same boot, age ≤ 5 s, list cut    answered   yes/no   alive/not_serving
//	         and session not in it             else       unknown  unknown
//	held     just resumed, counter not moved   answered   yes/no   alive/not_serving
//	                                           else       unknown  unknown (for 5 s)
//	unknown  none, unreadable, resting         as held
//	unknown, or held with another boot id or
//	a clock ahead of ours:
//	         counter moved within 5 s          –          yes/no   alive/not_serving
//	         not moved yet, looking ≤ 5 s      answered   yes/no   alive/not_serving
//	                                           else       unknown  unknown
//	         not moved for > 5 s               –          no       stuck
//
// "5 s" is [Fresh], stretched by the judge's own lateness.
func step(t Track, o Observation, session string) (Track, Verdict, bool) {
	resumed := t.seen && (o.Now-o.Mono)-t.skew > resumeGap
	t.seen, t.skew = true, o.Now-o.Mono
	limit := Fresh + min(max(o.Late, 0), MaxStretch)
	if o.Hello.Result == HelloSilent {
		t.silent, t.silentAt = true, o.Mono
	}
	switch o.Lock {
	case LockFree:
		return Track{seen: true, skew: t.skew}, Verdict{Answer: No, Channel: ChannelHeartbeat, State: Dead}, false
	case LockNone:
		return Track{seen: true, skew: t.skew}, Verdict{Answer: No, Channel: ChannelNone, State: Absent}, false
	}
	if o.Hello.Result == HelloAnswered {
		// The loop that serves has spoken this moment: no beat says more.
		t.awaiting, t.silent = false, false
		if b := current(o); b != nil {
			t.look(b, o.Mono)
		}
		return t, byList(o.Hello.Serving, session, ChannelHello, o.Hello.Instance, 0), false
	}
	b := current(o)
	if b == nil || b.Resting {
		t.judged = false
		switch {
		case t.silent && o.Mono-t.silentAt <= Fresh:
			return t, Verdict{Answer: No, Channel: ChannelHello, State: Stuck, Age: o.Mono - t.silentAt}, false
		default:
			return t, Verdict{Answer: No, Channel: ChannelNone, State: Absent}, true
		}
	}
	if resumed {
		t.awaiting, t.awaitCounter, t.awaitSince = true, b.Counter, o.Mono
		t.judged = false
	}
	moved := t.look(b, o.Mono)
	if t.awaiting {
		if b.Counter == t.awaitCounter && o.Mono-t.awaitSince <= limit {
			return t, Verdict{State: Unjudged, Channel: ChannelHeartbeat, Instance: b.Instance,
				Age: o.Mono - t.awaitSince, Serving: b.Serving}, !t.recentlySilent(o.Mono)
		}
		t.awaiting = false
	}
	if moved {
		t.silent = false
	}
	if o.Lock == LockHeld && o.Boot != "" && b.Boot == o.Boot && b.Uptime() <= o.Now {
		age := o.Now - b.Uptime()
		if age > limit {
			return t, Verdict{Answer: No, Channel: ChannelHeartbeat, State: Stuck, Instance: b.Instance, Age: age, Serving: b.Serving}, false
		}
		return t.byBeat(b, session, age, o.Mono)
	}
	age := o.Mono - t.since
	switch {
	case t.moved && age <= limit:
		return t.byBeat(b, session, age, o.Mono)
	case age <= limit:
		return t, Verdict{State: Unjudged, Channel: ChannelHeartbeat, Instance: b.Instance, Age: age, Serving: b.Serving},
			!t.recentlySilent(o.Mono)
	}
	return t, Verdict{Answer: No, Channel: ChannelHeartbeat, State: Stuck, Instance: b.Instance, Age: age, Serving: b.Serving}, false
}

// current is the beat of the lock's present holder, if there is one.
func current(o Observation) *heartbeat.Beat {
	if o.Beat == nil || o.Instance != "" && o.Beat.Instance != o.Instance {
		return nil
	}
	return o.Beat
}

// look remembers the counter and reports whether it moved since the last look.
func (t *Track) look(b *heartbeat.Beat, mono time.Duration) bool {
	switch {
	case !t.judged || t.instance != b.Instance:
		// Another instance is not a move: its first beat may be an old file.
		t.judged, t.instance, t.counter, t.moved, t.since = true, b.Instance, b.Counter, false, mono
		return false
	case b.Counter > t.counter:
		t.counter, t.moved, t.since = b.Counter, true, mono
		return true
	}
	return false
}

func (t *Track) recentlySilent(mono time.Duration) bool {
	return t.silent && mono-t.silentAt <= Fresh
}

// byBeat judges by a fresh beat's list.
func (t Track) byBeat(b *heartbeat.Beat, session string, age, mono time.Duration) (Track, Verdict, bool) {
	if b.Cut && !b.Serves(session) {
		return t, Verdict{State: Unjudged, Channel: ChannelHeartbeat, Instance: b.Instance, Age: age, Serving: b.Serving},
			!t.recentlySilent(mono)
	}
	return t, byList(b.Serving, session, ChannelHeartbeat, b.Instance, age), false
}

func byList(serving []string, session string, ch Channel, instance string, age time.Duration) Verdict {
	v := Verdict{Answer: No, Channel: ch, State: NotServing, Instance: instance, Age: age, Serving: serving}
	if slices.Contains(serving, session) {
		v.Answer, v.State = Yes, Alive
	}
	return v
}
