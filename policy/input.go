package policy

import (
	"time"

	"permd/ask"
	"permd/policy/paths"
)

// Node is where a decision is made, which says how far this node's rules and
// grants may reach.
type Node uint8

const (
	// Claimed serves a session that only claims to be below this one: deny
	// and ask hold, nothing allows. It is the zero value.
	Claimed Node = iota
	// Verified serves a session that is known to be below this one: rules
	// and grants allow, the built-in rules do not, since the origin has
	// already asked in spite of its own.
	Verified
	// Origin judges its own session's action.
	Origin
)

// Input is everything that a decision rests on.
type Input struct {
	Action *ask.Action
	// Origin is the session that wants the action, Agent what its client
	// calls the subagent (untrusted).
	Origin string
	Agent  string
	// Here is the session whose node decides, Above the sessions above
	// Origin as far as they are known, nearest first.
	Here  string
	Above []string
	Node  Node
	// Policy may not be nil; without rules it is Compile().
	Policy *Policy
	Grants []Kept
	Now    Clock
	// View is the file system of the origin. A serving node looks at files
	// through it only to see whether what a grant pins has changed: where names
	// lead is what the origin found, which travels in the action. It is nil
	// when the origin is on another host.
	View paths.View
	Self *Self
	// Fold compares names without regard to case, where rules forbid. It is
	// always on for macOS.
	Fold bool
}

// Clock is a point in time on the boot-time clock, which no one can set.
type Clock struct {
	Boot string // the boot id
	Up   time.Duration
}

// Self is what permd protects: itself.
type Self struct {
	// Config, State, Run, Managed and Root are its directories, "" for none.
	Config, State, Run, Managed, Root string
	// Binaries are the paths of permd and permd-hook, PIDs its processes.
	Binaries []string
	PIDs     []int
	// Panes are the tmux panes in which a desk runs, as tmux names them.
	Panes []string

	real []string // real places of the above, where they differ
}

// Result is a decision. Its zero value denies.
type Result struct {
	Verdict ask.Verdict
	// By is who decided, for the record.
	By ask.By
	// Reason is a plain sentence: why it is denied or asked, "" for an allow
	// without one. It never repeats the command.
	Reason string
	// Risk is the highest risk that a matching rule names.
	Risk ask.Risk
	// Reasons are all rules, grants and built-in rules that spoke, strictest
	// first.
	Reasons []Reason
	// Units are the commands that were found, as written, for explaining.
	Units []string
	// Paths are the files and directories that the action names, and where
	// they really are.
	Paths []ask.Path
	// Grantable reports whether a person's yes may be remembered. What runs
	// later, what an administrator wants asked each time and what was not
	// understood is asked again.
	Grantable bool
	// Firm is true for an ask that only a person answers: no mode turns it
	// into an allow and no external decider is asked. It is so of what runs
	// later, of what an administrator wants asked, and while rules cannot be
	// read.
	Firm bool
}

// Reason is one thing that spoke for a verdict.
type Reason struct {
	Verdict ask.Verdict
	Kind    ask.Kind
	Rule    *ask.RuleRef
	Grant   string
	// Unit is the command it is about, as written; Path the file. Both are
	// raw: show them through ask.Visible.
	Unit string
	Path string
	Text string
	// layer orders reasons of one verdict.
	layer int
	risk  ask.Risk
}
