package node

import "permd/ask"

// maxDecided bounds how many decisions a node remembers for asks that come
// again.
const maxDecided = 512

// decided remembers what was answered here for asks from below. An ask comes
// again, on another way, when a node between died before it had passed the
// answer on: nobody shall be asked twice, and the first answer counts.
type decided struct {
	list []ask.Decision
	// proved is false for a decision on an ask whose way here was only
	// claimed.
	proved []bool
}

// keep remembers d if somebody here answered.
func (k *decided) keep(a *ask.Ask, d ask.Decision) {
	if d.Outcome != ask.Answered || d.By.Kind == ask.KindForwarded {
		return
	}
	if len(k.list) >= maxDecided {
		k.list, k.proved = k.list[1:], k.proved[1:]
	}
	k.list, k.proved = append(k.list, d), append(k.proved, !a.Header.Claimed())
}

// again returns what was answered for a before. What is on record answers only
// for a way that is as good as the first one; a person's word holds for any.
func (k *decided) again(a *ask.Ask) (ask.Decision, bool) {
	for i := len(k.list) - 1; i >= 0; i-- {
		d := k.list[i]
		if d.Ask == a.Body.ID && d.Digest == a.Digest && (d.By.Person() || k.proved[i] == !a.Header.Claimed()) {
			return d, true
		}
	}
	return ask.Decision{}, false
}
