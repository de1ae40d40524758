// Package broker puts one ask to everybody who can answer it, and ends it
// exactly once.
//
// It promises: the first valid answer wins by one compare-and-set; the winner
// is told that it counts only after the record is durable; every other
// answerer that holds the ask is told once how it ended; an invalid, late or
// foreign answer gets a verdict and changes nothing; silence is never consent.
// A loser's value is never read: who settled decides, not what the others say.
//
// It does not judge actions, keep grants, choose an authority or speak on a
// wire. It keeps no ask over a restart: what was open then is unknown, and an
// answer to it has no effect.
//
// Who may answer, and how long an ask waits:
//
//	who can answer this ask                       it waits
//	a surface with a face, or the client's dialog no limit
//	only paired devices (reachable or wakeable)   the ask's timeout; none once
//	                                              one of them has it on screen
//	nobody, when it is put                        denied at once
//	nobody any more                               the grace, then denied
//
// The row can change while the ask waits: a terminal that attaches stops the
// clock, and it goes on when the terminal leaves. A device adds an answerer,
// not a deadline.
package broker
