package node

import (
	"time"

	"permd/ask"
)

// How a call was let go.
type letGo string

const (
	letReleased letGo = "released" // permd allowed it
	letHanded   letGo = "handed"   // the client's own dialog decides
	letPaused   letGo = "paused"   // permd was paused
)

// call is one tool call that may run.
type call struct {
	ask    string // ask id
	id     string // the client's own call id, "" when it has none
	digest ask.Digest
	cwd    string // where it was let go: the report may name another one
	how    letGo
	tool   string
	at     time.Time
	// sent is what we answered while the client's dialog was open, "" before.
	sent string
	done bool
}

// Effects of a call, as a client reports them.
const (
	effectRan        = "ran"
	effectFailed     = "failed"
	effectNotSeen    = "not_seen"
	effectRanUngated = "ran_ungated"
	effectRanOther   = "ran_other"
)

// maxCalls bounds what is remembered of one session. The oldest finished
// call goes first; an unfinished one is forgotten only after all finished.
const maxCalls = 4096

// calls is the tripwire of one session: what a client reports as run must
// match the action digest of a call that was let go.
type calls struct {
	list []*call
}

// let remembers a call that may run now.
func (c *calls) let(k call) *call {
	if len(c.list) >= maxCalls {
		c.drop()
	}
	p := &k
	c.list = append(c.list, p)
	return p
}

func (c *calls) drop() {
	at := 0
	for i, k := range c.list {
		if k.done {
			at = i
			break
		}
	}
	c.list = append(c.list[:at], c.list[at+1:]...)
}

// ran matches a reported effect. The report's own call id may be missing, and
// its working directory is the one after the call: a "cd" in it moves the
// client, so the digest is taken with the directory the call was let go in.
// The call is nil when nothing matches.
//
//	id known,   digest equal   → ran or failed
//	id known,   digest differs → ran_other
//	id unknown, digest equal to an unfinished call without report → ran or failed
//	else → ran_ungated
func (c *calls) ran(a *ask.Action, failed bool) (*call, string) {
	id := a.Call
	same := func(k *call) bool {
		at := *a
		at.Cwd = k.cwd
		return at.ActionDigest() == k.digest
	}
	effect := effectRan
	if failed {
		effect = effectFailed
	}
	if id != "" {
		for _, k := range c.list {
			if k.id != id {
				continue
			}
			k.done = true
			if !same(k) {
				return k, effectRanOther
			}
			return k, effect
		}
	}
	for _, k := range c.list {
		if !k.done && (id == "" || k.id == "") && same(k) {
			k.done = true
			return k, effect
		}
	}
	return nil, effectRanUngated
}

// handed returns the newest unfinished call that was handed to the client's
// dialog for this digest, nil if there is none.
func (c *calls) handed(d ask.Digest) *call {
	for i := len(c.list) - 1; i >= 0; i-- {
		if k := c.list[i]; !k.done && k.how == letHanded && k.digest == d {
			return k
		}
	}
	return nil
}

// known reports whether any unfinished call was let go for this digest, and
// how the newest was.
func (c *calls) known(d ask.Digest) (letGo, bool) {
	for i := len(c.list) - 1; i >= 0; i-- {
		if k := c.list[i]; !k.done && k.digest == d {
			return k.how, true
		}
	}
	return "", false
}

// unfinished returns the calls nobody reported an effect of.
func (c *calls) unfinished() []*call {
	var out []*call
	for _, k := range c.list {
		if !k.done {
			out = append(out, k)
		}
	}
	return out
}
