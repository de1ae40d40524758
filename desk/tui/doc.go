// Package tui is the desk in a terminal: a full screen on a terminal that can,
// and a line mode for screen readers, dumb terminals and pipes.
//
// It promises: no key or line that was typed before an ask could be read
// decides anything; nothing is allowed by Enter alone, by the end of input, by
// a paste, by a held key or by anything but the words for it; nothing can be
// allowed before its whole text was on the screen, or whose grant was not
// shown as the exact rule; an ask that arrives takes neither the screen nor
// the focus; what was settled elsewhere vanishes with its winner named; every
// text of an agent is made visible and marked as the agent's; losing the
// terminal answers nothing and leaves it as it was found.
//
// It judges nothing and keeps nothing: what waits is the nodes' to say.
package tui
