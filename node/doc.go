// Package node is one node's runtime: the permd process that decides for the
// sessions of one agent process.
//
// It promises that a call is let go only after its record is durable (or, at
// an origin whose parent decided, after that parent's record is), that it was
// judged again right before, that every wait ends when its caller goes away,
// and that the node ends with its agent.
//
// It wires what other packages decide: policy says allow, ask or deny,
// selection says who answers, the broker puts asks to surfaces, forwarding
// carries them to a parent. It has no rules, no wire format and no screen of
// its own.
package node
