package review

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"permd/ask"
)

// Line is one line of a log, in the order of its fields. Prev is the SHA-256
// of the line before it without its newline, zero for a log's first.
type Line struct {
	V    int        `json:"v"`
	Seq  uint64     `json:"seq"`
	Prev ask.Digest `json:"prev"`
	// Time is the wall clock, RFC 3339 in UTC with nine digits of a second.
	// It is for people and for merging logs; it proves no order.
	Time string `json:"time"`
	// BootMS is milliseconds since boot; the boot id is in the header or the
	// resumption before.
	BootMS       int64             `json:"boot_ms"`
	Event        Name              `json:"event"`
	Session      string            `json:"session,omitempty"`
	Path         []ask.Hop         `json:"path,omitempty"`
	Ask          string            `json:"ask,omitempty"`
	Digest       *ask.Digest       `json:"digest,omitempty"`
	ActionDigest *ask.Digest       `json:"action_digest,omitempty"`
	Verdict      *ask.Verdict      `json:"verdict,omitempty"`
	Outcome      ask.Outcome       `json:"outcome,omitempty"`
	By           *ask.By           `json:"by,omitempty"`
	Reason       string            `json:"reason,omitempty"`
	Action       *Action           `json:"action,omitempty"`
	Fields       map[string]string `json:"fields,omitempty"`
}

// Field returns the value of a field, "" if it is not there.
func (l *Line) Field(k Key) string { return l.Fields[string(k)] }

// Check refuses a line that decodes but was never written by a log.
func (l *Line) Check() error {
	if l.V != Format {
		return lineError("format %d, this permd reads %d", l.V, Format)
	}
	if l.Seq == 0 {
		return lineError("seq 0")
	}
	if t, err := time.Parse(timeLayout, l.Time); err != nil || t.Format(timeLayout) != l.Time {
		return lineError("time %s", ask.Quote(l.Time))
	}
	if !l.Event.shaped() {
		return lineError("event %s", ask.Quote(string(l.Event)))
	}
	if l.Outcome != "" && !l.Outcome.Valid() {
		return lineError("outcome %s", ask.Quote(string(l.Outcome)))
	}
	return nil
}

// ErrLine is wrapped by the error about a line that no log wrote.
var ErrLine = fmt.Errorf("%w: line of a review log", ask.ErrInvalid)

func lineError(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrLine}, a...)...)
}

// ParseLine reads a line without its newline, strictly: what it accepts
// encodes to the same bytes.
func ParseLine(b []byte) (Line, error) {
	if l, ok := quickParse(b); ok && len(b) < MaxLine {
		if err := l.Check(); err != nil {
			return Line{}, err
		}
		return l, nil
	}
	return slowParse(b)
}

// slowParse is ParseLine by the strict decoder alone.
func slowParse(b []byte) (Line, error) {
	var l Line
	if err := ask.Decode(b, MaxLine-1, &l); err != nil {
		return Line{}, err
	}
	return l, nil
}

const timeLayout = "2006-01-02T15:04:05.000000000Z"

// stamp is when something was handed in.
type stamp struct {
	wall time.Time
	boot time.Duration
}

// mark is a place in a file: after which record, and at which byte.
type mark struct {
	seq  uint64
	hash ask.Digest
	end  int64
}

// prefixMax is the most bytes that appendLine puts before a body.
const prefixMax = 192

// appendLine writes the line that follows m and moves m behind it. body is
// what [keys.body] made.
func appendLine(out []byte, m *mark, at stamp, body []byte) []byte {
	start := len(out)
	out = append(out, `{"v":1,"seq":`...)
	out = strconv.AppendUint(out, m.seq+1, 10)
	out = append(out, `,"prev":"`...)
	out = hex.AppendEncode(out, m.hash[:])
	out = append(out, `","time":"`...)
	out = appendTime(out, at.wall)
	out = append(out, `","boot_ms":`...)
	out = strconv.AppendInt(out, at.boot.Milliseconds(), 10)
	out = append(out, body...)
	m.hash = sha256.Sum256(out[start:])
	m.seq++
	out = append(out, '\n')
	m.end += int64(len(out) - start)
	return out
}

// appendTime is time.AppendFormat with timeLayout, at a third of its price.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = append(digits(b, year, 4), '-')
	b = append(digits(b, int(month), 2), '-')
	b = append(digits(b, day, 2), 'T')
	b = append(digits(b, hour, 2), ':')
	b = append(digits(b, minute, 2), ':')
	b = append(digits(b, second, 2), '.')
	return append(digits(b, t.Nanosecond(), 9), 'Z')
}

func digits(b []byte, n, width int) []byte {
	at := len(b)
	for range width {
		b = append(b, '0')
	}
	for i := at + width - 1; i >= at; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}
