// Package export writes the records of a review log for other programs: JSON
// lines, the logs of the OpenTelemetry protocol, comma-separated values.
//
// It promises that every record that it is given is there, also one that
// cannot be read, with where it stands; that with a mask nothing that names the
// content of the user's work leaves as it is; that memory does not grow with
// the number of records. It does not promise that what it writes can be
// verified: that is for the files of the log.
package export

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"permd/review"
)

// Format names a format.
type Format string

// The formats.
const (
	// JSONL is one JSON object a record: the line's own fields after writer,
	// file and offset.
	JSONL Format = "jsonl"
	// OTLP is one ExportLogsServiceRequest of OTLP/JSON a line, as collectors
	// take it over HTTP and from files.
	OTLP Format = "otlp"
	// CSV is a table after RFC 4180 with a header.
	CSV Format = "csv"
)

// Options say how records are written.
type Options struct {
	Format Format
	// Version is permd's, Host the name of the machine, "" to leave it out.
	Version, Host string
	// Mask masks what is not public; nil writes records as they are.
	Mask *review.Masker
}

// Encoder writes records. Close it, or its last records are missing.
type Encoder struct {
	w    *bufio.Writer
	mask *review.Masker
	to   interface {
		put(r *review.Record) error
		end() error
	}
}

// New gives an encoder that writes to w; an error for a format that is not
// known.
func New(w io.Writer, o Options) (*Encoder, error) {
	e := &Encoder{w: bufio.NewWriter(w), mask: o.Mask}
	switch o.Format {
	case JSONL:
		e.to = &jsonl{enc: encoder(e.w)}
	case OTLP:
		e.to = newOTLP(e.w, o)
	case CSV:
		e.to = newCSV(e.w)
	default:
		return nil, fmt.Errorf("format %q is not known; want %s, %s or %s", string(o.Format), JSONL, OTLP, CSV)
	}
	return e, nil
}

// Encode writes one record. It keeps nothing of r.
func (e *Encoder) Encode(r review.Record) error {
	if e.mask != nil && r.Err == nil {
		r.Line = e.mask.Line(&r.Line)
	}
	return e.to.put(&r)
}

// Close writes what is still to be written.
func (e *Encoder) Close() error {
	if err := e.to.end(); err != nil {
		return err
	}
	return e.w.Flush()
}

func encoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

type jsonl struct{ enc *json.Encoder }

// place is where a record stands.
type place struct {
	Writer string `json:"writer"`
	File   string `json:"file"`
	Offset int64  `json:"offset"`
}

func (j *jsonl) put(r *review.Record) error {
	at := place{r.Writer, r.File, r.Offset}
	if r.Err != nil {
		return j.enc.Encode(struct {
			place
			Time  string `json:"time,omitempty"`
			Error string `json:"error"`
		}{at, r.Time, unreadable(r)})
	}
	return j.enc.Encode(struct {
		place
		*review.Line
	}{at, &r.Line})
}

func (j *jsonl) end() error { return nil }

// unreadable says why a record cannot be read. The reason may quote the line,
// of which nobody knows what it names.
func unreadable(*review.Record) string { return "the line cannot be read; see permd review verify" }
