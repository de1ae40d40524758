package ask

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"time"
)

// Origin says what raised an ask.
type Origin string

// The four origins.
const (
	OriginGate   Origin = "gate"   // an action
	OriginPlan   Origin = "plan"   // a plan to be approved
	OriginAsk    Origin = "ask"    // the agent's own question
	OriginMemory Origin = "memory" // a memory to be picked
)

// Risk is how much a surface should ask of the person.
type Risk string

// The risks; the empty risk is medium.
const (
	RiskLow    Risk = "low"
	RiskMedium Risk = "medium"
	RiskHigh   Risk = "high"
)

// Who is the session an ask comes from, as its own node knows it.
type Who struct {
	Session string `json:"session"`
	Client  string `json:"client"`
	// Agent is the client's label of the subagent; untrusted text.
	Agent string `json:"agent,omitempty"`
}

// Body is what is asked. It is immutable once sealed; all text in it but the
// session id comes from agents and is hostile until shown through [Visible].
type Body struct {
	V      int    `json:"v"`
	ID     string `json:"id"`
	Origin Origin `json:"origin"`
	From   Who    `json:"from"`
	// Title is the least a surface must show.
	Title string `json:"title"`
	// Preface is the agent's own words on why; untrusted.
	Preface string `json:"preface,omitempty"`
	// Cause is permd's reason for asking: the rule or what was not understood.
	Cause  string  `json:"cause,omitempty"`
	Risk   Risk    `json:"risk,omitempty"`
	Action *Action `json:"action,omitempty"`
	Items  []Item  `json:"items"`
	Verbs  Verbs   `json:"verbs"`
	URL    *URL    `json:"url,omitempty"`
	// Raw is the client's request, kept whole for relay and record.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// Hop is one node an ask passed, nearest the origin first.
type Hop struct {
	Session string `json:"session"`
	Node    string `json:"node"`
	// Claimed is true when the parent of this hop was named but not verified.
	Claimed bool `json:"claimed,omitempty"`
}

// Header is the part of an ask that changes a hop.
type Header struct {
	Path []Hop `json:"path"`
	// RemainingMS is the time left to answer, nil when there is no limit and
	// never negative, see [RemainingMS]. Wires carry remaining time, never a
	// point in time.
	RemainingMS *int64 `json:"remaining_ms,omitempty"`
}

// Claimed reports whether any hop of the path was not verified.
func (h *Header) Claimed() bool {
	for _, p := range h.Path {
		if p.Claimed {
			return true
		}
	}
	return false
}

// RemainingMS is d for [Header], in whole milliseconds; time that is over is 0.
func RemainingMS(d time.Duration) *int64 {
	ms := max(0, d.Milliseconds())
	return &ms
}

// Ask is a sealed body with its header. Raw is what travels and what the
// digest covers; Body is its decoded view. Neither may be changed.
type Ask struct {
	Header Header
	Raw    []byte
	Body   Body
	Digest Digest
}

// Seal checks b, encodes it and returns the ask with an empty path. The ask
// shares no memory with b. Raw JSON in b is compacted. Text that is not UTF-8
// (a file name) cannot be sealed: what is digested must be what is judged.
func Seal(b Body) (*Ask, error) {
	b.V = Version
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("seal ask: %w", err)
	}
	raw, err := Encode(b)
	if err != nil {
		return nil, fmt.Errorf("seal ask: %w", err)
	}
	return Open(raw)
}

// Open decodes the bytes of a sealed body strictly, checks it and computes
// its digest. The ask keeps raw, which must not change afterwards.
func Open(raw []byte) (*Ask, error) {
	a := &Ask{Raw: raw}
	if err := Decode(raw, MaxBody, &a.Body); err != nil {
		return nil, fmt.Errorf("ask body: %w", err)
	}
	a.Digest = BodyDigest(raw)
	return a, nil
}

// BodyDigest is SHA-256(version ‖ body).
func BodyDigest(raw []byte) Digest {
	h := sha256.New()
	h.Write([]byte{Version})
	h.Write(raw)
	return Digest(h.Sum(nil))
}

// wire is the one encoding of an ask: header and body side by side.
type wire struct {
	Header Header          `json:"header"`
	Body   json.RawMessage `json:"body"`
}

// MarshalJSON writes {"header":…,"body":…}; the body's bytes are untouched.
func (a Ask) MarshalJSON() ([]byte, error) {
	return Encode(wire{a.Header, a.Raw})
}

// UnmarshalJSON reads what MarshalJSON wrote, strictly.
func (a *Ask) UnmarshalJSON(b []byte) error {
	var w wire
	if err := Decode(b, MaxBody+MaxMessage, &w); err != nil {
		return err
	}
	if err := w.Header.Check(); err != nil {
		return err
	}
	o, err := Open([]byte(w.Body))
	if err != nil {
		return err
	}
	o.Header = w.Header
	*a = *o
	return nil
}

// WithHop returns a copy of a whose path is one hop longer. A path past
// [MaxHops] is refused by whoever reads it.
func (a *Ask) WithHop(h Hop) *Ask {
	c := *a
	c.Header.Path = append(append([]Hop(nil), a.Header.Path...), h)
	return &c
}

func writePart(h hash.Hash, b []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(b)))
	h.Write(n[:])
	h.Write(b)
}
