// Package desk is the desk process: one detached process a user, like the
// server of a terminal multiplexer, that brings what waits at every node to
// every terminal, page and popup a person has open, its faces.
//
// It promises: asks of all nodes in one list, oldest first; an answer goes by
// its id to the node that asked and nowhere else, and the face that gave it
// gets that node's own verdict; what is settled anywhere vanishes from every
// face; an ask never changes its text on a screen; a process below a governed
// agent is refused as a face; each new face is announced to all others and
// recorded; a stuck node or face holds up no other. It keeps nothing: a desk
// that is killed and started again gets everything anew from the nodes.
//
// It does not decide, judge, remember or time anything out, and it is no
// parent of sessions. Without a face it watches and is no surface.
//
// The desk is an answerer of every node, and speaks the same protocol (package
// api) to its faces on a socket of its own:
//
//	<run>/desk/lock        held for the desk's life
//	<run>/desk/sock        where faces attach and commands call
//	<run>/desk/start.lock  held while a desk is being started
//	<run>/desk/log         what it has to say before it has a face
package desk
