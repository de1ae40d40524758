// Package heartbeat writes and reads one beat: the proof that the loop that
// serves a node's children still turns, and which sessions it serves.
//
// It promises that a beat is written in place by whoever calls [Writer.Beat],
// so a node calls it from its serving loop and from nowhere else; that a torn
// read is noticed and tried again; that what parses re-serialises to the same
// bytes; and that with the node's beat key a beat of somebody else is refused.
// It starts no goroutine and knows no period of its own but the constant.
//
// It does not judge: how old a beat may be, and what an old one means, is the
// business of package liveness. A beat carries a counter, a boot id and that
// boot's clock, never a point in wall-clock time.
//
// The file, numbers big endian:
//
//	offset  size
//	     0     8  "permdHB1"
//	     8     4  length of the body
//	    12     4  CRC-32C of what follows up to the end of the body
//	    16    32  HMAC-SHA-256 with the beat key over the first 12 bytes and
//	              the body; zero when the writer has no key
//	    48     n  body: one canonical JSON object
//	  48+n     …  zeros: the rest of a longer beat that stood here before
package heartbeat

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"permd/ask"
)

// Version is the version of the beat.
const Version = 1

// Period is how often a beat is written while somebody wants it.
const Period = 2 * time.Second

// MaxSize is the most bytes of a beat file: some 4,000 serving sessions.
const MaxSize = 256 << 10

// Name is the file's name in its node's directory.
const Name = "beat"

// Errors of reading. Each is wrapped with what was wrong.
var (
	// ErrTorn means the checksum does not fit: a write was seen half done, or
	// the file was damaged.
	ErrTorn = errors.New("torn beat")
	// ErrInvalid means the file is no beat of this version and node.
	ErrInvalid = errors.New("invalid beat")
	// ErrForeign means the beat was not written by the node whose key the
	// reader holds.
	ErrForeign = errors.New("beat of somebody else")
)

// Beat is one beat. The zero value is no beat and serves nobody.
type Beat struct {
	V        int    `json:"v"`
	Node     string `json:"node"`
	Instance string `json:"instance"`
	// Counter grows by one a beat, from 1, for as long as the instance lives.
	Counter uint64 `json:"counter"`
	// Boot is the boot id of the writer's machine, "" where there is none.
	Boot string `json:"boot"`
	// UptimeNS is the writer's boot-time clock, nanoseconds with time asleep.
	UptimeNS int64 `json:"uptime_ns"`
	// Resting says that the writer stops beating until a child registers, so
	// that the age of this beat means nothing.
	Resting bool `json:"resting,omitempty"`
	// Cut says that more sessions serve than fitted.
	Cut bool `json:"cut,omitempty"`
	// Serving are the sessions that serve, ascending.
	Serving []string `json:"serving"`
}

// Serves reports whether session is among those that serve.
func (b *Beat) Serves(session string) bool {
	_, ok := slices.BinarySearch(b.Serving, session)
	return ok
}

// Uptime is UptimeNS as a duration.
func (b *Beat) Uptime() time.Duration { return time.Duration(b.UptimeNS) }

// Check is what [ask.Decode] asks after decoding.
func (b *Beat) Check() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, a...)...)
	}
	switch {
	case b.V != Version:
		return bad("version %d, this permd reads %d; update the older side", b.V, Version)
	case !ask.ValidID(b.Node):
		return bad("node id %s", ask.Quote(b.Node))
	case !ask.ValidID(b.Instance):
		return bad("instance %s", ask.Quote(b.Instance))
	case b.Counter == 0:
		return bad("counter 0")
	case b.Boot != "" && !ask.ValidID(b.Boot):
		return bad("boot id %s", ask.Quote(b.Boot))
	case b.UptimeNS < 0:
		return bad("clock before boot")
	case b.Serving == nil:
		return bad("no list of sessions")
	}
	for i, s := range b.Serving {
		if !ask.ValidID(s) {
			return bad("session id %s", ask.Quote(s))
		}
		if i > 0 && b.Serving[i-1] >= s {
			return bad("sessions are not in ascending order")
		}
	}
	return nil
}

const (
	magic     = "permdHB1"
	crcAt     = len(magic) + 4
	macAt     = crcAt + 4
	bodyAt    = macAt + sha256.Size
	maxBody   = MaxSize - bodyAt
	idRoom    = 64 + len(`"",`)
	fixedRoom = 1024 // everything in a body but the sessions
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the file's bytes, without padding. key may be nil.
func Encode(b Beat, key []byte) ([]byte, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	body, err := ask.Encode(b)
	if err != nil {
		return nil, err
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrInvalid, len(body), maxBody)
	}
	out := make([]byte, bodyAt+len(body))
	copy(out, magic)
	binary.BigEndian.PutUint32(out[len(magic):], uint32(len(body)))
	copy(out[bodyAt:], body)
	if key != nil {
		copy(out[macAt:], seal(out, key))
	}
	binary.BigEndian.PutUint32(out[crcAt:], crc32.Checksum(out[macAt:], castagnoli))
	return out, nil
}

// seal is the MAC of an encoded beat without padding.
func seal(file, key []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(file[:crcAt])
	h.Write(file[bodyAt:])
	return h.Sum(nil)
}

// Decode reads a beat file's bytes, strictly. With a key the MAC must be that
// of the key; without one it is not looked at.
func Decode(file, key []byte) (Beat, error) {
	if len(file) > MaxSize {
		return Beat{}, fmt.Errorf("%w: %d bytes, at most %d", ErrInvalid, len(file), MaxSize)
	}
	if len(file) < bodyAt || string(file[:len(magic)]) != magic {
		return Beat{}, fmt.Errorf("%w: no beat of this version", ErrInvalid)
	}
	n := int(binary.BigEndian.Uint32(file[len(magic):]))
	if n > len(file)-bodyAt {
		return Beat{}, fmt.Errorf("%w: %d bytes of %d", ErrTorn, len(file)-bodyAt, n)
	}
	rec, pad := file[:bodyAt+n], file[bodyAt+n:]
	if crc32.Checksum(rec[macAt:], castagnoli) != binary.BigEndian.Uint32(rec[crcAt:]) {
		return Beat{}, fmt.Errorf("%w: checksum differs", ErrTorn)
	}
	for _, c := range pad {
		if c != 0 {
			return Beat{}, fmt.Errorf("%w: text after the beat", ErrTorn)
		}
	}
	if key != nil && !hmac.Equal(rec[macAt:bodyAt], seal(rec, key)) {
		return Beat{}, ErrForeign
	}
	var b Beat
	if err := ask.Decode(rec[bodyAt:], maxBody, &b); err != nil {
		return Beat{}, errors.Join(ErrInvalid, err)
	}
	return b, nil
}
