// Package forwarding carries asks from a child's node to its parent's node,
// and decisions back, between processes of one machine.
//
// It promises:
//
//   - a letter (ask, cancel, decision, delivered) is visible whole or not at
//     all, and is taken once: a SIGKILL at any moment loses nothing that Put
//     acknowledged and doubles nothing;
//   - an allow reaches a child only if the parent's Serve callback gave it, for
//     exactly the body that was asked, over the living registration: every
//     letter carries a counter, the digest, the sender and a MAC under a key
//     that never touches a disk;
//   - any error ends in no allow, and no wait outlives what it waits for: the
//     end of the registration's connection is death, both ways;
//   - what is malformed, forged, replayed, stale or foreign has no effect, is
//     set aside and reported.
//
// It does not decide, keep rules or show anything; it does not choose parents
// (package selection) and does not record (it reports [Event]s). It is no wall
// between processes of one user, see the README: it bears with their files, it
// cannot keep them from deleting ours.
//
// The way of an ask:
//
//	child                                   parent
//	Uplinks ── register (socket) ─────────▶ Server.Child: uid, process, proofs
//	        ◀─ registered: key ───────────
//	Parent.Authorize ── ask (mail) ───────▶ Server.Run: drains, checks, calls Serve
//	        ◀─ shown (socket) ──────────── Incoming.Shown
//	        ◀─ decision (mail) ───────────
//	Parent.Delivered ── delivered (mail) ─▶ Server: Delivered callback
//
// A node has one [Server]. It drains its one mailbox for both roles, writes the
// beat and answers hellos in turns, so that each of the three proves the
// others. Letters travel over a [Transport]; [Disk] is the one in use.
package forwarding
