// Package hookwire is what a hook and its node say to each other over the
// node's unix socket: one request, then frames until there is a result.
//
// It promises that what it reads, it writes again byte for byte; that a size
// is checked before it is allocated; that nothing malformed is half read; and
// that a hook carries no variable of its environment that is not in [Names].
// It decides nothing, knows no client's dialect, and keeps no deadlines: both
// sides set their own.
//
// It is apart from package api so that the hook, which starts at every tool
// call, needs no JSON, no fmt and no net. A server tells the two
// dialects apart by the first byte, which is [First] here and never there.
//
// All numbers are unsigned and big-endian. The hook says
//
//	"permd-hook/1\n"
//	u32   length of the head, at most MaxHead
//	u32   length of the hook's own standard input, at most MaxStdin
//	head:
//	  u8 n, n bytes    client: a lower case letter, then of [a-z0-9-], at most 32
//	  u8               flags: 1 = this call is a gate; the others are zero
//	  u32, u32         the hook's process id and its parent's
//	  u8 n, n times    argument: u16 n, n bytes
//	  u8 n, n times    variable: u8 n, n bytes of [A-Z0-9_]; u16 n, n bytes;
//	                   ascending by name, each name once
//	  u16 n, n bytes   working directory, "" if the hook has none
//	standard input, as it came
//
// and nothing more: its closing the connection withdraws the call. The node
// answers with frames, each a u8 kind, a u32 length and that many bytes:
//
//	W   still at it; no body. Sent at least every KeepAlive. A hook that has
//	    heard no whole frame for Silence gives the node up.
//	R   the result: u8 exit code, u32 n, n bytes standard output, and the rest
//	    is standard error. The last frame.
//	V   refused, with a text for people that names the remedy. The hook makes a
//	    failure of it, so a gate stays shut. The last frame.
//
// A node that does not speak the version named in the first line answers V
// and its text says so; the line and the frames stay as they are in every
// version. A version has to change when a hook that does not know of a change
// would do something else than was meant; a new variable or argument is none.
package hookwire

import "time"

// Version is the version that this package speaks.
const Version = 1

// First is the first byte of every request.
const First = 'p'

const (
	prefix = "permd-hook/"
	magic  = prefix + "1\n"
	// fixed is the part of a request before the head.
	fixed = len(magic) + 4 + 4
)

// Limits of a request. Texts are arguments and values of variables.
const (
	MaxClient = 32
	MaxArgs   = 64
	MaxVars   = 64
	MaxName   = 64
	MaxText   = 8 << 10
	MaxCwd    = 4 << 10
	MaxHead   = 128 << 10
	MaxStdin  = 6 << 20
)

// Limits of an answer. An output is at most an input rewritten.
const (
	MaxStdout  = 8 << 20
	MaxStderr  = 64 << 10
	MaxRefusal = 4 << 10
)

const (
	// KeepAlive is the longest that a node may stay silent.
	KeepAlive = 2 * time.Second
	// Silence is how long a hook waits for the next frame.
	Silence = 5 * time.Second
)
