package review

import "bytes"

// timeLen is the length of every time in a line.
const timeLen = len(timeLayout)

// rawLine is a line of which only the beginning was looked at. Every line that
// a log wrote begins alike, with its fields in order; one that does not is
// parsed, and found bad, by whoever needs it.
type rawLine struct {
	raw []byte // without its newline, valid until the next one; nil for a bad one
	at  int64
	err error // why there is no line
	// time is the line's, or that of the line before it if it shows none; all
	// zero before the first.
	time  [timeLen]byte
	event []byte // its name, nil if it shows none
}

// The parts of the beginning of a line, between its changing ones.
const (
	lineSeq   = `{"v":1,"seq":`
	linePrev  = `,"prev":"`
	lineTime  = `","time":"`
	lineBoot  = `","boot_ms":`
	lineEvent = `,"event":"`
)

func (l *rawLine) set(raw []byte, at int64) {
	l.raw, l.at, l.err, l.event = raw, at, nil, nil
	rest, ok := bytes.CutPrefix(raw, []byte(lineSeq))
	if !ok {
		return
	}
	if rest, ok = bytes.CutPrefix(afterDigits(rest), []byte(linePrev)); !ok || len(rest) < 64 {
		return
	}
	if rest, ok = bytes.CutPrefix(rest[64:], []byte(lineTime)); !ok || len(rest) < timeLen || rest[timeLen-1] != 'Z' {
		return
	}
	at0 := rest[:timeLen]
	if rest, ok = bytes.CutPrefix(rest[timeLen:], []byte(lineBoot)); !ok {
		return
	}
	copy(l.time[:], at0)
	if rest, ok = bytes.CutPrefix(afterDigits(rest), []byte(lineEvent)); !ok {
		return
	}
	if end := bytes.IndexByte(rest, '"'); end >= 0 {
		l.event = rest[:end]
	}
}

// bad stands for what is no line at all.
func (l *rawLine) bad(at int64, err error) { l.raw, l.at, l.err, l.event = nil, at, err, nil }

// lastTime is time as text, "" before the first line that shows one.
func (l *rawLine) lastTime() string {
	if l.time[0] == 0 {
		return ""
	}
	return string(l.time[:])
}

func afterDigits(b []byte) []byte {
	i := 0
	for i < len(b) && (b[i] >= '0' && b[i] <= '9' || b[i] == '-') {
		i++
	}
	return b[i:]
}
