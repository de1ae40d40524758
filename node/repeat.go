package node

import (
	"fmt"
	"time"

	"permd/ask"
	"permd/policy"
)

// repeatFor is how long a denied action is refused without a prompt when the
// same session asks for it again.
const repeatFor = 5 * time.Minute

// maxRepeats bounds what is remembered of one session.
const maxRepeats = 512

// repeats remembers what people denied in one session and how often it asked
// within the last minute.
type repeats struct {
	denied map[ask.Digest]*denial
	// near counts what was denied or refused by what it is like.
	near  map[ask.Digest]*nearly
	asked []time.Time
}

type nearly struct {
	at    time.Time
	count int
}

// nearFor is how long calls of a kind that were denied are counted.
const nearFor = 30 * time.Minute

// likeness is how a call is known again: key where it means the same, near
// where it is of the same kind.
type likeness struct{ key, near ask.Digest }

func likenessOf(a *ask.Action) likeness {
	same, near := policy.Likeness(a)
	l := likeness{key: a.ActionDigest(), near: ask.BodyDigest([]byte(near))}
	if same != "" {
		l.key = ask.BodyDigest([]byte(a.Client + " " + a.ClientTool + " " + same))
	}
	return l
}

type denial struct {
	by    ask.By
	why   string
	at    time.Time
	count int
}

// deny remembers that a call was denied.
func (r *repeats) deny(l likeness, by ask.By, why string, now time.Time) {
	d := l.key
	r.nearby(l.near, now)
	if r.denied == nil {
		r.denied = map[ask.Digest]*denial{}
	}
	if len(r.denied) >= maxRepeats {
		for k, v := range r.denied {
			if now.Sub(v.at) >= repeatFor || len(r.denied) >= maxRepeats {
				delete(r.denied, k)
			}
		}
	}
	n := 0
	if old := r.denied[d]; old != nil {
		n = old.count
	}
	r.denied[d] = &denial{by: by, why: why, at: now, count: n + 1}
}

// nearby counts one more denial of a kind.
func (r *repeats) nearby(d ask.Digest, now time.Time) {
	k := r.near[d]
	if k == nil || now.Sub(k.at) >= nearFor {
		if r.near == nil || len(r.near) >= maxRepeats {
			r.near = map[ask.Digest]*nearly{}
		}
		k = &nearly{}
		r.near[d] = k
	}
	k.at = now
	k.count++
}

// refused returns why a call is refused again without a prompt, "" if it is
// not.
func (r *repeats) refused(l likeness, now time.Time) (*denial, string) {
	k := r.denied[l.key]
	if k == nil || now.Sub(k.at) >= repeatFor {
		return nil, ""
	}
	r.nearby(l.near, now)
	k.count++
	why := "the same call was denied " + plural(k.count-1, "time") + " in this session"
	if k.why != "" {
		why += " (" + k.why + ")"
	}
	return k, why + "; it is not asked again for a while, do something else"
}

// count is how often a call, or lately one of its kind, was denied or refused.
func (r *repeats) count(l likeness, now time.Time) int {
	n := 0
	if k := r.denied[l.key]; k != nil {
		n = k.count
	}
	if k := r.near[l.near]; k != nil && now.Sub(k.at) < nearFor {
		n = max(n, k.count)
	}
	return n
}

// forget drops what is remembered of a call: a new rule or grant may allow it.
func (r *repeats) forget(l likeness) {
	delete(r.denied, l.key)
	delete(r.near, l.near)
}

// ask counts one ask and reports whether the session asked more than most
// within the last minute.
func (r *repeats) ask(most int, now time.Time) bool {
	keep := r.asked[:0]
	for _, t := range r.asked {
		if now.Sub(t) < time.Minute {
			keep = append(keep, t)
		}
	}
	r.asked = append(keep, now)
	return most > 0 && len(r.asked) > most
}

func plural(n int, word string) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d %ss", n, word)
}
