package review

import (
	"fmt"
	"strings"
)

// Status is what a verification found. The zero status is no result.
type Status uint8

// The results, better first.
const (
	// Unverified: nothing was looked at.
	Unverified Status = iota
	// Intact: every record follows the one before it and the ledger agrees.
	Intact
	// Incomplete: something is missing that an accident explains: a torn end,
	// a gap that the log itself recorded, an end without a closing head.
	Incomplete
	// Tampered: something was changed, cut, exchanged or deleted.
	Tampered
)

var statusText = [...]string{"unverified", "intact", "incomplete", "tampered"}

// String returns "intact", "incomplete", "tampered" or "unverified".
func (s Status) String() string {
	if int(s) < len(statusText) {
		return statusText[s]
	}
	return statusText[Unverified]
}

// MarshalText writes the word.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Problem is one thing that is wrong, and where.
type Problem struct {
	Status Status `json:"status"`
	Writer string `json:"writer"`
	File   string `json:"file,omitempty"`
	// Offset is the byte in File where the first bad record begins.
	Offset int64 `json:"offset"`
	// Seq is the number that this record has or should have, 0 if no record
	// is meant.
	Seq  uint64 `json:"seq,omitempty"`
	What string `json:"what"`
}

// String names the place and what is wrong there.
func (p Problem) String() string {
	where := p.Writer
	if p.File != "" {
		where += "/" + p.File
		if p.Seq > 0 {
			where += fmt.Sprintf(" record %d at byte %d", p.Seq, p.Offset)
		}
	}
	return p.Status.String() + ": " + where + ": " + p.What
}

// LogReport is what was seen of one writer's log.
type LogReport struct {
	Writer  string `json:"writer"`
	Files   int    `json:"files"`
	Records uint64 `json:"records"`
	// Head is the last record that could be verified.
	Head Head `json:"head"`
	// Closed says that the writer ended properly, Live that it is at work.
	Closed bool `json:"closed"`
	Live   bool `json:"live"`
	// First and Last are the times in the first and last verified record.
	First string `json:"first,omitempty"`
	Last  string `json:"last,omitempty"`
	end   int64  // of Head's record, in its file
}

// Report is the result of [Verify].
type Report struct {
	Status   Status      `json:"status"`
	Ledger   LogReport   `json:"ledger"`
	Logs     []LogReport `json:"logs"`
	Problems []Problem   `json:"problems,omitempty"`
}

func (r *Report) add(p Problem) {
	r.Problems = append(r.Problems, p)
	r.Status = max(r.Status, p.Status)
}

// String is a line for each problem, or one that says there is none.
func (r *Report) String() string {
	if len(r.Problems) == 0 {
		return r.Status.String()
	}
	var b strings.Builder
	for i, p := range r.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	return b.String()
}
