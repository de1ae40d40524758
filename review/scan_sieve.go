package review

import (
	"bytes"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"permd/ask"
)

// sieve says of a line's bytes whether it could be what a filter takes. It
// never says no to a line that is: a line holds each of its values in exactly
// one spelling. It may say yes to others, which are then parsed and judged by
// [Filter.Match].
type sieve struct {
	since, until string // bounds of the time as it is written, "" for none
	event        func(name []byte) bool
	// needles: a line that is taken holds one of each group.
	needles [][][]byte
	among   map[string]bool // sessions as they are written, nil for any
}

func (f *Filter) sieve() *sieve {
	s := &sieve{}
	if !f.Since.IsZero() {
		s.since = writtenTime(f.Since)
	}
	if !f.Until.IsZero() {
		s.until = writtenTime(f.Until)
	}
	s.events(f)
	if f.Text != "" && utf8.ValidString(f.Text) {
		s.add(unquoted(f.Text))
	}
	if f.Ask != "" {
		s.add(quoted(`"ask":`, f.Ask))
	}
	if f.AskEnd != "" && utf8.ValidString(f.AskEnd) {
		s.add(append(unquoted(f.AskEnd), '"'))
	}
	if f.Session != "" {
		s.add(quoted(`"session":`, f.Session))
	}
	if f.Tool != "" {
		s.add(quoted(`tool":`, f.Tool))
	}
	if ask.Outcome(f.Decision).Valid() {
		s.add(quoted(`"outcome":`, f.Decision))
	}
	switch kind, _, _ := strings.Cut(f.Decider, ":"); {
	case f.Decider == PersonDecider:
		s.add(quoted(`"kind":`, string(ask.KindUser)), quoted(`"kind":`, string(ask.KindDevice)))
	case f.Decider != "":
		s.add(quoted(`"kind":`, kind))
	}
	if f.Decision != "" || f.Decider != "" {
		s.add([]byte(`"by":{`))
	}
	if len(f.Among) > 0 && !slices.Contains(f.Among, "") { // no session stands nowhere
		s.among = map[string]bool{}
		for _, id := range f.Among {
			s.among[string(unquoted(id))] = true
		}
	}
	return s
}

// writtenTime is t as lines have it; the earliest and the latest time that can
// be written for what lies outside.
func writtenTime(t time.Time) string {
	t = t.UTC()
	switch y := t.Year(); {
	case y < 0:
		return strings.Repeat("0", timeLen)
	case y > 9999:
		return strings.Repeat("9", timeLen)
	}
	return t.Format(timeLayout)
}

func (s *sieve) add(group ...[]byte) { s.needles = append(s.needles, group) }

// events narrows by the name, which stands at the beginning of every line.
func (s *sieve) events(f *Filter) {
	var checks []func(name []byte) bool
	one := func(want string, name []byte) bool {
		return string(name) == want || opensNames(want) && bytes.HasPrefix(name, []byte(want))
	}
	if want := f.Event; want != "" {
		checks = append(checks, func(name []byte) bool { return one(want, name) })
	}
	if want := f.Events; len(want) > 0 {
		checks = append(checks, func(name []byte) bool {
			return slices.ContainsFunc(want, func(w string) bool { return one(w, name) })
		})
	}
	if f.Decision != "" || f.Decider != "" {
		allow, deny := f.Decision != "deny", f.Decision != "allow"
		checks = append(checks, func(name []byte) bool {
			v, known := deciding(Name(name))
			return known && (v == ask.Allow && allow || v != ask.Allow && deny)
		})
	}
	if len(checks) > 0 {
		s.event = func(name []byte) bool {
			for _, c := range checks {
				if !c(name) {
					return false
				}
			}
			return true
		}
	}
}

func quoted(key, value string) []byte { return appendString([]byte(key), value) }

// unquoted is how a part of a text stands within its quotes.
func unquoted(s string) []byte {
	b := appendString(nil, s)
	return b[1 : len(b)-1]
}

// passes judges a line. What is no line is for the filter to judge.
func (s *sieve) passes(l *rawLine) bool {
	if l.err != nil {
		return true
	}
	if l.event == nil { // no log wrote it so
		return true
	}
	if s.since != "" && string(l.time[:]) < s.since || s.until != "" && string(l.time[:]) >= s.until {
		return false
	}
	if s.event != nil && !s.event(l.event) {
		return false
	}
	for _, group := range s.needles {
		if !holdsOne(l.raw, group) {
			return false
		}
	}
	return s.among == nil || namesOne(l.raw, s.among)
}

func holdsOne(raw []byte, group [][]byte) bool {
	for _, n := range group {
		if bytes.Contains(raw, n) {
			return true
		}
	}
	return false
}

var sessionKey = []byte(`"session":"`)

// namesOne reports whether a session of the set stands anywhere in the line.
func namesOne(raw []byte, set map[string]bool) bool {
	for {
		i := bytes.Index(raw, sessionKey)
		if i < 0 {
			return false
		}
		raw = raw[i+len(sessionKey):]
		end := stringEnd(raw)
		if set[string(raw[:end])] {
			return true
		}
		raw = raw[end:]
	}
}

// stringEnd is where the string ends in whose middle b begins.
func stringEnd(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(b)
}
