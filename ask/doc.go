// Package ask is the neutral model of a question that needs an answer: what
// an agent wants to do, what a person is shown, what may be answered, and who
// decided. Every surface and every wire of permd speaks it, so that the same
// ask means the same thing everywhere.
//
// It promises values, one canonical encoding, strict decoding, digests and
// safe text. It decides nothing, stores nothing and opens nothing.
//
// An ask is a [Body], immutable from the moment it is sealed, whose bytes
// travel untouched over any number of hops, and a [Header] that changes a hop.
// Every answer repeats the body's [Digest]; the node that releases compares
// it before an allow takes effect.
package ask

// Version is the version of the body format. It is the first byte under every
// digest, so a body of another version never has the same digest.
const Version = 1

// Size caps, checked before anything is allocated or parsed.
const (
	// MaxBody is the most bytes a sealed body may have. A client's largest
	// tool input (a file to be written) must fit.
	MaxBody = 4 << 20
	// MaxMessage is the most bytes of any other encoded value of this package
	// that carries no answer.
	MaxMessage = 64 << 10
	// MaxAnswer is the most bytes of an answer, which may hold an edited tool
	// input, and of a decision, which may hold an answer.
	MaxAnswer = MaxBody
	// MaxText is the most bytes of one text a person types.
	MaxText = 32 << 10
	// MaxHops is the longest path an ask may travel.
	MaxHops = 16
	// MaxItems and MaxOptions bound one ask; no client known needs more than
	// ten questions.
	MaxItems   = 32
	MaxOptions = 256
)
