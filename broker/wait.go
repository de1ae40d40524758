package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// wait is how long an ask may wait as things are.
type wait uint8

const (
	waitNobody wait = iota // nobody can answer: the grace
	waitLimit              // the ask's timeout runs
	waitOpen               // no limit
)

// waitFor is the rule: attended means that a person's surface or the client's
// own dialog can answer, reachable that a paired device can, shown that
// somebody had the ask on screen.
func waitFor(attended, reachable, shown bool) wait {
	switch {
	case attended, reachable && shown:
		return waitOpen
	case reachable:
		return waitLimit
	}
	return waitNobody
}

// clock measures how long an entry has waited under a limit. It stands still
// while there is none.
type clock struct {
	mode  wait
	used  time.Duration // limited time until at
	at    time.Time
	empty time.Time // since when nobody can answer, zero while somebody can
	timer *time.Timer
}

// advance brings the clock to now and switches it to mode.
func (c *clock) advance(mode wait, now time.Time) {
	if c.mode != waitOpen && !c.at.IsZero() {
		c.used += now.Sub(c.at)
	}
	c.at = now
	switch {
	case mode != waitNobody:
		c.empty = time.Time{}
	case c.empty.IsZero():
		c.empty = now
	}
	c.mode = mode
}

// left is the time until the first of the waiters is due; false while no
// limit runs.
func (c *clock) left(waiters []*waiter, now time.Time) (time.Duration, bool) {
	if c.mode == waitOpen || len(waiters) == 0 {
		return 0, false
	}
	first := slices.MinFunc(waiters, func(a, b *waiter) int { return int(sign(a.due - b.due)) })
	used := c.used
	if !c.at.IsZero() {
		used += now.Sub(c.at)
	}
	return first.due - used, true
}

func sign(d time.Duration) time.Duration {
	switch {
	case d < 0:
		return -1
	case d > 0:
		return 1
	}
	return 0
}

// mode asks the rule for e. b.mu is held.
func (e *entry) mode() wait {
	attended := e.req.ClientDialog || e.dialog != nil && e.dialog.open
	reachable := false
	for r := range e.held {
		switch {
		case !r.able():
		case r.id.Kind == KindDevice:
			reachable = true
		default:
			attended = true
		}
	}
	return waitFor(attended, reachable, e.shown)
}

// arrange brings e's clock up to date after anything about it changed, and
// sets its timer. b.mu is held.
func (b *Broker) arrange(e *entry) {
	c := &e.clock
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if e.won {
		return
	}
	now := time.Now()
	c.advance(e.mode(), now)
	next, ok := c.left(e.waiters, now)
	if c.mode == waitNobody {
		if g := b.grace - now.Sub(c.empty); !ok || g < next {
			next, ok = g, true
		}
	}
	if ok {
		c.timer = time.AfterFunc(max(next, 0), func() { b.tick(e) })
	}
}

// tick ends what is due in e.
func (b *Broker) tick(e *entry) {
	b.mu.Lock()
	if e.won {
		b.mu.Unlock()
		return
	}
	now := time.Now()
	c := &e.clock
	c.advance(e.mode(), now)
	if c.mode == waitNobody && now.Sub(c.empty) >= b.grace {
		s := e.leftAlone(b.grace)
		f := b.settle(e, s)
		b.mu.Unlock()
		f()
		return
	}
	var due []*waiter
	if c.mode != waitOpen {
		for _, w := range e.waiters {
			if w.due <= c.used {
				due = append(due, w)
			}
		}
	}
	var ends []func()
	switch {
	case len(due) == 0:
	case len(due) == len(e.waiters):
		ends = append(ends, b.settle(e, e.timedOut(due[0])))
	default:
		for _, w := range due {
			ends = append(ends, b.leave(w, e.timedOut(w)))
		}
	}
	b.arrange(e)
	b.mu.Unlock()
	for _, f := range ends {
		f()
	}
}

// waitedFor names in words who could have answered e. b.mu is held.
func (e *entry) waitedFor() string {
	var names []string
	devices := 0
	for r := range e.held {
		switch {
		case !r.able():
		case r.id.Kind == KindDevice:
			devices++
		default:
			names = append(names, r.id.Name)
		}
	}
	slices.Sort(names)
	switch {
	case devices == 1:
		names = append(names, "a paired device")
	case devices > 1:
		names = append(names, fmt.Sprintf("%d paired devices", devices))
	}
	if e.dialog != nil && e.dialog.open || e.req.ClientDialog {
		names = append(names, "the client's own dialog")
	}
	if len(names) == 0 {
		return "a surface to come back"
	}
	return strings.Join(names, ", ")
}
