package tui

import "time"

const (
	// armDelay is how long an ask must have been on the screen before keys or
	// lines decide it. What was typed for something else comes sooner.
	armDelay = 400 * time.Millisecond
	// confirmDelay is the least time between choosing to allow and saying so.
	confirmDelay = 200 * time.Millisecond
	// pasteDelay is the least time between a character and an Enter that sends:
	// terminals without bracketed paste give the end of a pasted line as Enter.
	pasteDelay = 40 * time.Millisecond
	// verdictPatience is how long an answer may be on its way before the
	// person may give another one.
	verdictPatience = 10 * time.Second
	// lingerFor is how long a terminal that detaches waits for the verdicts of
	// what it has answered.
	lingerFor = 2 * time.Second
)
