// Package api is permd's local socket protocol and its client: what hooks,
// the desk, child nodes, commands and Go programs say to a node or to the
// desk process over a unix socket.
//
// It promises framing, versions, strict decoding and size caps. It is a leaf:
// it decides nothing and knows neither node nor desk.
//
// A connection begins with the caller's [Hello] in a frame of type "hello"
// and the server's "welcome" or "refused". What follows depends on the role:
//
//	answerer  attach → snapshot, then ask / settled / delivered / sessions /
//	          notice from the server, answer / faces / shown / hide from the
//	          caller, verdict for every answer. A desk is an answerer of every
//	          node; a terminal or page is an answerer of the desk process.
//	child     register → registered, then held: its end is death, both ways.
//	          wake, serving, shown and children travel on it.
//	control   call → result or error, any number, in order.
//	probe     hello alone; the welcome says which sessions serve.
//
// A hook speaks a smaller dialect of its own (package api/hookwire), so that
// it needs no JSON. The first byte tells the two apart.
//
// Frames of unknown type are answered with "unknown" and otherwise ignored,
// so that a newer side may say more than an older one understands.
package api
