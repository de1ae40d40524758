package forwarding

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"permd/ask"
)

// Version is the version of the letter format.
const Version = 1

// MaxLetter is the most bytes of a letter: a whole body and its envelope.
const MaxLetter = firstLine + maxEnvelope + maxLetterBody

const maxLetterBody = ask.MaxBody + ask.MaxMessage

// Kind is what a letter is for.
type Kind string

// The kinds. Asks, cancels and delivereds go up, decisions go down.
const (
	KindAsk       Kind = "ask"
	KindCancel    Kind = "cancel"
	KindDecision  Kind = "decision"
	KindDelivered Kind = "delivered"
)

func (k Kind) valid() bool {
	switch k {
	case KindAsk, KindCancel, KindDecision, KindDelivered:
		return true
	}
	return false
}

// Errors of letters. Every letter that is refused wraps one of them.
var (
	// ErrPartial means that less is there than was announced: somebody may
	// still be writing, against the rules.
	ErrPartial = errors.New("letter is not complete")
	// ErrMalformed means that it is no letter of this version.
	ErrMalformed = errors.New("malformed letter")
	// ErrForged means that the MAC is not that of the registration.
	ErrForged = errors.New("letter was not written under the key of this registration")
)

// Address is one end of a letter. Instance tells lives of one node apart.
type Address struct {
	Node     string
	Instance string
	Session  string
}

// Envelope is everything of a letter but its body.
type Envelope struct {
	Kind Kind
	// ID and Origin name the ask; ids are unique for their origin session only.
	ID     string
	Origin string
	Digest ask.Digest
	// From and To name the two sessions of this hop.
	From Address
	To   Address
	// Counter is never used twice by a sender under one key.
	Counter uint64
}

// Letter is one message between two nodes.
//
// Its bytes:
//
//	permd-mail 1 <MAC: 64 hex digits>\n
//	<kind> <id> <origin> <digest> <node> <instance> <session> <node> <instance> <session> <counter> <size>\n
//	<body, size bytes>
//
// Nothing in the second line holds a space; its numbers are decimal without
// leading zeros. The MAC is HMAC-SHA-256 under the registration's key over the
// first line without the digits and everything after the first line.
type Letter struct {
	Envelope
	Body []byte
}

const (
	mailPrefix  = "permd-mail 1 " // the version is in it
	maxEnvelope = 1 << 10
	firstLine   = len(mailPrefix) + 2*sha256.Size + 1
	fields      = 12
)

// Check refuses an envelope that must not be used.
func (e *Envelope) Check() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, a...)...)
	}
	switch {
	case !e.Kind.valid():
		return bad("kind %s", ask.Quote(string(e.Kind)))
	case !ask.ValidID(e.ID):
		return bad("ask id %s", ask.Quote(e.ID))
	case !ask.ValidID(e.Origin):
		return bad("origin %s", ask.Quote(e.Origin))
	case e.Digest.IsZero():
		return bad("no digest")
	case e.Counter == 0:
		return bad("counter 0")
	case e.From.Node == e.To.Node:
		return bad("from a node to itself")
	}
	for _, a := range []Address{e.From, e.To} {
		if !ask.ValidID(a.Node) || !ask.ValidID(a.Instance) || !ask.ValidID(a.Session) {
			return bad("address %s", ask.Quote(a.Node+" "+a.Instance+" "+a.Session))
		}
	}
	return nil
}

// Name is the name of l in a mailbox.
func (l *Letter) Name() Name {
	return Name{Node: l.From.Node, Instance: l.From.Instance, Counter: l.Counter, Kind: l.Kind, ID: l.ID}
}

// appendTo appends the envelope's line.
func (e *Envelope) appendTo(b []byte, size int) []byte {
	for _, s := range []string{string(e.Kind), e.ID, e.Origin} {
		b = append(append(b, s...), ' ')
	}
	b = hex.AppendEncode(b, e.Digest[:])
	for _, a := range []*Address{&e.From, &e.To} {
		for _, s := range []string{a.Node, a.Instance, a.Session} {
			b = append(append(b, ' '), s...)
		}
	}
	b = strconv.AppendUint(append(b, ' '), e.Counter, 10)
	return append(strconv.AppendUint(append(b, ' '), uint64(size), 10), '\n')
}

// Seal returns the bytes of l under key.
func (l *Letter) Seal(key []byte) ([]byte, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if len(l.Body) > maxLetterBody {
		return nil, fmt.Errorf("%w: body of %d bytes", ErrMalformed, len(l.Body))
	}
	out := make([]byte, firstLine, firstLine+maxEnvelope/2+len(l.Body))
	copy(out, mailPrefix)
	out = append(l.appendTo(out, len(l.Body)), l.Body...)
	hex.Encode(out[len(mailPrefix):], mac(out, key))
	out[firstLine-1] = '\n'
	return out, nil
}

// mac is the MAC of a sealed letter's bytes.
func mac(raw, key []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(mailPrefix))
	h.Write(raw[firstLine:])
	return h.Sum(nil)
}

// Open reads the bytes of a letter that was sealed under key, strictly. The
// letter's body is a part of raw.
func Open(raw, key []byte) (*Letter, error) {
	l, err := read(raw)
	if err != nil {
		return nil, err
	}
	var given [sha256.Size]byte
	if !unhex(given[:], raw[len(mailPrefix):firstLine-1]) {
		return nil, fmt.Errorf("%w: the MAC is not lower-case hex", ErrMalformed)
	}
	if !hmac.Equal(given[:], mac(raw, key)) {
		return nil, ErrForged
	}
	return l, nil
}

// read parses a letter without believing it.
func read(raw []byte) (*Letter, error) {
	if len(raw) > MaxLetter {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrMalformed, len(raw), MaxLetter)
	}
	head := min(len(raw), len(mailPrefix))
	if string(raw[:head]) != mailPrefix[:head] {
		return nil, fmt.Errorf("%w: starts with %s, this permd reads version %d", ErrMalformed, ask.Quote(string(raw[:head])), Version)
	}
	if len(raw) < firstLine {
		return nil, ErrPartial
	}
	if raw[firstLine-1] != '\n' {
		return nil, fmt.Errorf("%w: its first line has another length", ErrMalformed)
	}
	rest := raw[firstLine:]
	n := bytes.IndexByte(rest[:min(len(rest), maxEnvelope)], '\n')
	if n < 0 {
		if len(rest) < maxEnvelope {
			return nil, ErrPartial
		}
		return nil, fmt.Errorf("%w: envelope is too long", ErrMalformed)
	}
	l, size, err := parseEnvelope(rest[:n+1])
	if err != nil {
		return nil, err
	}
	switch body := rest[n+1:]; {
	case len(body) < size:
		return nil, fmt.Errorf("%w: %d of %d bytes", ErrPartial, len(body), size)
	case len(body) > size:
		return nil, fmt.Errorf("%w: %d bytes after the body", ErrMalformed, len(body)-size)
	default:
		l.Body = body
	}
	return l, nil
}

// parseEnvelope reads what appendTo wrote, and nothing else.
func parseEnvelope(line []byte) (*Letter, int, error) {
	f := strings.Split(string(line[:len(line)-1]), " ")
	if len(f) != fields {
		return nil, 0, fmt.Errorf("%w: envelope of %d fields, want %d", ErrMalformed, len(f), fields)
	}
	l := &Letter{Envelope: Envelope{Kind: Kind(f[0]), ID: f[1], Origin: f[2],
		From: Address{f[4], f[5], f[6]}, To: Address{f[7], f[8], f[9]}}}
	if err := l.Digest.UnmarshalText([]byte(f[3])); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	counter, err := strconv.ParseUint(f[10], 10, 64)
	size, err2 := strconv.ParseUint(f[11], 10, 32)
	if err != nil || err2 != nil || size > maxLetterBody {
		return nil, 0, fmt.Errorf("%w: counter %s, size %s", ErrMalformed, ask.Quote(f[10]), ask.Quote(f[11]))
	}
	l.Counter = counter
	if err := l.Check(); err != nil {
		return nil, 0, err
	}
	if !bytes.Equal(l.appendTo(nil, int(size)), line) {
		return nil, 0, fmt.Errorf("%w: envelope is not in its one form", ErrMalformed)
	}
	return l, int(size), nil
}

func unhex(dst, src []byte) bool {
	for _, c := range src {
		if 'A' <= c && c <= 'F' {
			return false
		}
	}
	n, err := hex.Decode(dst, src)
	return err == nil && n == len(dst)
}

// Name names a letter in a mailbox. It repeats what is inside, so that a
// sender that is not known is refused unread, and one sender's letters sort in
// the order of their counters.
type Name struct {
	Node     string
	Instance string
	Counter  uint64
	Kind     Kind
	ID       string
}

const nameSep = "~" // not in any id

// String is the file name: no id can hold the separator or leave a directory.
func (n Name) String() string {
	const digits = "0000000000000000"
	c := strconv.FormatUint(n.Counter, 16)
	return n.Node + nameSep + n.Instance + nameSep + digits[len(c):] + c + nameSep + string(n.Kind) + nameSep + n.ID
}

// ParseName reads what String wrote, and nothing else.
func ParseName(s string) (Name, bool) {
	p := strings.SplitN(s, nameSep, 6)
	if len(p) != 5 || !ask.ValidID(p[0]) || !ask.ValidID(p[1]) || !Kind(p[3]).valid() || !ask.ValidID(p[4]) {
		return Name{}, false
	}
	c, err := strconv.ParseUint(p[2], 16, 64)
	if err != nil || c == 0 {
		return Name{}, false
	}
	n := Name{Node: p[0], Instance: p[1], Counter: c, Kind: Kind(p[3]), ID: p[4]}
	return n, n.String() == s
}
