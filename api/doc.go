// Package api is permd's local socket protocol and its client: what hooks,
// the desk, child nodes, commands and Go programs say to a node or to the
// desk process over a unix socket.
//
// It promises framing, versions, strict decoding and size caps; that memory
// grows with what arrives and never with what is announced; that a peer which
// does not read is given up and holds up nobody; and that every goroutine it
// starts has ended when the call that started it returns. It is a leaf: it
// decides nothing and knows neither node nor desk.
//
// A frame is a length of four bytes, big endian, and that many bytes of JSON,
// a [Frame], at most [MaxFrame]. A connection begins with the caller's
// [Hello] in a frame of type "hello" and the server's "welcome" or "refused".
// What follows depends on the role:
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
// "refused" may also stand in the place of the first reply of a role, and
// then ends the connection. "error" with the number of a frame says that its
// body could not be used; the connection goes on.
//
// A hook speaks a smaller dialect of its own (package api/hookwire), so that
// it needs no JSON. The first byte tells the two apart: zero here.
//
// Versions: hello lists what the caller speaks, the server takes the highest
// it speaks too and names it in its welcome; with none it refuses in words.
// Every later message is in the form of that version and read strictly. Only
// hello, refused and error are read leniently, because they may come from a
// version that shares none with ours. Frames of unknown type are answered
// with "unknown" and otherwise ignored, so that a newer side may say more
// than an older one understands.
package api
