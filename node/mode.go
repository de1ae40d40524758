package node

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"permd/api"
	"permd/ask"
	"permd/policy"
	"permd/review"
)

// maxMode is the longest that a mode other than normal lasts.
const maxMode = 8 * time.Hour

// modes are what a person switched on at this node: for one session with its
// subagents, or under "" for all. They live in memory only and end with the
// node. Guarded by Node.mu.
type modes struct {
	of map[string]activeMode
	// changed wakes the loop that ends them.
	changed chan struct{}
}

type activeMode struct {
	mode  policy.Mode
	until policy.Clock
}

// left is how long the mode holds yet on the boot-time clock.
func (m activeMode) left(now policy.Clock) time.Duration {
	if now.Boot == "" || now.Boot != m.until.Boot {
		return 0
	}
	return max(0, m.until.Up-now.Up)
}

// modeOf is the mode of a session now and how long it holds.
func (n *Node) modeOf(s *sess) (policy.Mode, time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.modeOfLocked(s)
}

// modeOfLocked is modeOf. n.mu is held.
func (n *Node) modeOfLocked(s *sess) (policy.Mode, time.Duration) {
	if len(n.modes.of) == 0 {
		return policy.ModeNormal, 0
	}
	now := n.law.clock()
	for _, id := range []string{s.id, s.root, ""} {
		if m, ok := n.modes.of[id]; ok {
			if left := m.left(now); left > 0 {
				return m.mode, left
			}
		}
	}
	return policy.ModeNormal, 0
}

// setMode switches a mode on or off, for a person.
func (n *Node) setMode(a api.ModeArgs) (any, *api.Refused) {
	bad := func(text string) (any, *api.Refused) { return nil, &api.Refused{Code: api.CodeBad, Text: text} }
	mode, err := policy.ParseMode(a.Mode)
	if err != nil {
		return bad(err.Error())
	}
	d := time.Duration(a.ForMS) * time.Millisecond
	if mode != policy.ModeNormal && (a.ForMS <= 0 || a.ForMS > maxMode.Milliseconds()) {
		return bad("mode " + string(mode) + " lasts at most " + maxMode.String() + "; say how long with --for")
	}
	now := n.law.clock()
	if mode != policy.ModeNormal && now.Boot == "" {
		return nil, &api.Refused{Code: api.CodeUnavailable, Text: "how long a mode lasts cannot be measured here"}
	}
	if a.Session != "" && !n.hosts(a.Session) {
		return bad("session " + ask.Quote(a.Session) + " is not hosted here")
	}
	// The record first: what loosens without one is what an agent would do.
	if err := n.log.Commit(n.ctx, modeEvent(a.Session, mode, d, &ask.By{Kind: ask.KindUser, Surface: "terminal"}, "")); err != nil {
		return nil, &api.Refused{Code: api.CodeUnavailable, Text: unrecorded(err)}
	}
	n.mu.Lock()
	if n.modes.of == nil {
		n.modes.of = map[string]activeMode{}
	}
	if mode == policy.ModeNormal {
		if a.Session == "" {
			clear(n.modes.of)
		} else {
			// A mode of all sessions is off for this one, too.
			n.modes.of[a.Session] = activeMode{policy.ModeNormal, policy.Clock{Boot: now.Boot, Up: now.Up + maxMode}}
		}
	} else {
		n.modes.of[a.Session] = activeMode{mode, policy.Clock{Boot: now.Boot, Up: now.Up + d}}
	}
	n.mu.Unlock()
	select {
	case n.modes.changed <- struct{}{}:
	default:
	}
	whose := "every session of node " + n.id
	if a.Session != "" {
		whose = "session " + a.Session
	}
	text := whose + " is in mode " + string(mode)
	switch mode {
	case policy.ModeYolo:
		text += " for " + d.String() + ": what would be asked is allowed, but for what runs later and what an administrator wants asked; deny rules hold"
	case policy.ModeAcceptEdits:
		text += " for " + d.String() + ": edits inside the project are allowed; all else is asked as before"
	}
	n.notice(api.Notice{Kind: "mode", Session: a.Session, Text: text})
	n.recheckSoon()
	n.changed()
	return n.status(), nil
}

func modeEvent(session string, m policy.Mode, d time.Duration, by *ask.By, reason string) review.Event {
	e := review.Event{Name: review.PolicyMode, Session: session, By: by, Reason: reason, Fields: []review.Field{{Key: review.KeyMode, Value: string(m)}}}
	if d > 0 {
		e.Fields = append(e.Fields, review.Field{Key: review.KeyExpiresMS, Value: strconv.FormatInt(d.Milliseconds(), 10)})
	}
	return e
}

// endModes says that a mode is over when its time is. That it is over needs
// nobody to say so: every decision looks at the clock.
func (n *Node) endModes(ctx context.Context) error {
	for {
		n.mu.Lock()
		now := n.law.clock()
		var over []string
		var first time.Duration
		for id, m := range n.modes.of {
			left := m.left(now)
			if left == 0 {
				if m.mode != policy.ModeNormal {
					over = append(over, id)
				}
				delete(n.modes.of, id)
			} else if first == 0 || left < first {
				first = left
			}
		}
		n.mu.Unlock()
		for _, id := range over {
			n.record(modeEvent(id, policy.ModeNormal, 0, nil, "the time of the mode is over"))
			n.notice(api.Notice{Kind: "mode", Session: id, Text: "a mode is over; everything is asked as before"})
		}
		if len(over) > 0 {
			n.changed()
		}
		wake := make(chan struct{}, 1)
		timer := time.AfterFunc(cmp.Or(first, 24*time.Hour), func() { wake <- struct{}{} })
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-n.modes.changed:
		case <-wake:
		}
		timer.Stop()
	}
}
