package node

import (
	"fmt"
	"time"

	"permd/ask"
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
	asked  []time.Time
}

type denial struct {
	by    ask.By
	why   string
	at    time.Time
	count int
}

// deny remembers that a person denied d.
func (r *repeats) deny(d ask.Digest, by ask.By, why string, now time.Time) {
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

// refused returns why d is refused again without a prompt, "" if it is not.
func (r *repeats) refused(d ask.Digest, now time.Time) (*denial, string) {
	k := r.denied[d]
	if k == nil || now.Sub(k.at) >= repeatFor {
		return nil, ""
	}
	k.count++
	why := "the same call was denied " + plural(k.count-1, "time") + " in this session"
	if k.why != "" {
		why += " (" + k.why + ")"
	}
	return k, why + "; it is not asked again for a while, do something else"
}

// count is how often d was denied or refused.
func (r *repeats) count(d ask.Digest) int {
	if k := r.denied[d]; k != nil {
		return k.count
	}
	return 0
}

// forget drops what is remembered of d: a new rule or grant may allow it.
func (r *repeats) forget(d ask.Digest) { delete(r.denied, d) }

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
