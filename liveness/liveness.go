// Package liveness judges whether a session is being served: whether somebody
// drains the mailbox of its node and passes asks on to an answer.
//
// It promises yes, no or unknown, and what was seen, from observations alone:
// the node's lock, its beat, a hello, and the judge's own clocks. It keeps
// apart "no" (dead, stuck, absent, not serving) and "unknown", because the two
// carry opposite burdens: with a person present only a definite yes relays,
// without one only a definite no gives up (package selection).
//
// It does not promise that a node judged alive answers: a beat proves that the
// serving loop turned a moment ago. It authenticates a beat only as far as the
// caller holds the node's beat key.
//
// Ages are taken on the boot-time clock of one boot id, by the judge alone.
// Wall clock, its steps, and times of files decide nothing.
package liveness

import (
	"fmt"
	"time"
)

// Limits of a verdict.
const (
	// Fresh is the oldest a beat may be. A beat of exactly this age is fresh.
	Fresh = 5 * time.Second
	// MaxStretch is the most that a judge's own lateness adds to Fresh.
	MaxStretch = 5 * time.Second
	// resumeGap is how far boot-time and monotonic clock must drift apart
	// between two looks to count as a machine that slept.
	resumeGap = 500 * time.Millisecond
)

// Answer says whether a target serves. The zero value is unknown.
type Answer uint8

// The answers.
const (
	Unknown Answer = iota
	Yes
	No
)

// String returns "unknown", "yes" or "no".
func (a Answer) String() string {
	switch a {
	case Yes:
		return "yes"
	case No:
		return "no"
	}
	return "unknown"
}

// Channel says what answered.
type Channel string

// The channels.
const (
	ChannelNone      Channel = "none"
	ChannelRegistry  Channel = "registry"
	ChannelHeartbeat Channel = "heartbeat"
	ChannelHello     Channel = "hello"
)

// State is what was seen behind an answer.
type State string

// The states.
const (
	Alive      State = "alive"       // yes
	NotServing State = "not_serving" // no: alive, but this session serves nobody
	Stuck      State = "stuck"       // no: the loop that serves does not turn
	Dead       State = "dead"        // no: the node's lock is free
	Absent     State = "absent"      // no: nothing there, or nothing readable
	Unjudged   State = "unknown"     // unknown: nothing yet tells
)

// Verdict is a judgement and what it rests on.
type Verdict struct {
	Answer  Answer
	Channel Channel
	State   State
	// Session and Node are the target.
	Session string
	Node    string
	// Instance is the instance that was seen, "" if none.
	Instance string
	// Age is how old the beat was, or how long its counter has not moved.
	Age time.Duration
	// Serving are the sessions seen to serve; nil when none was seen.
	Serving []string
	// Why is what stands behind State when it is not plain, as the error that
	// made a beat unreadable. Untrusted text is quoted.
	Why string
}

// Reason is the verdict as a sentence for a person.
func (v Verdict) Reason() string {
	who := "session " + v.Session
	switch v.State {
	case Alive:
		return who + " is serving"
	case NotServing:
		return who + " is running but serves nobody: no desk, device or parent of its own is attached"
	case Stuck:
		if v.Channel == ChannelHello {
			return who + " is running but its node does not answer"
		}
		return fmt.Sprintf("%s is running but its node is stuck: last beat %s ago", who, v.Age.Round(100*time.Millisecond))
	case Dead:
		return who + " is dead: its node has ended"
	case Absent:
		return who + " has no node on this machine"
	}
	return who + " cannot be judged yet"
}
