package export

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"permd/ask"
	"permd/review"
)

// maxBatch is how many records one request holds. With the largest lines that
// is 8 MiB, under what a collector takes by default.
const maxBatch = 256

// otlp collects records of a request and writes it on a line.
//
// What becomes what (attributes that would be empty are left out):
//
//	time                    timeUnixNano, observedTimeUnixNano
//	event                   eventName "permd." + event
//	what kind of event      severityNumber, severityText
//	event, verdict, decider body
//	ask                     permd.ask; an id that is a UUID is the traceId, too
//	session                 session.id
//	path                    permd.path, the sessions
//	by                      permd.by.*: the one who decided; permd.by.through:
//	                        the sessions over which that came
//	action                  permd.action.*
//	fields                  permd.field.*
//	writer, file, offset    permd.writer, permd.file, permd.offset
//	v, seq, prev, boot_ms   permd.v, permd.seq, permd.prev, permd.boot_ms
type otlp struct {
	enc      *json.Encoder
	resource resource
	records  []logRecord
}

type (
	request struct {
		ResourceLogs []resourceLogs `json:"resourceLogs"`
	}
	resourceLogs struct {
		Resource  resource    `json:"resource"`
		ScopeLogs []scopeLogs `json:"scopeLogs"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeLogs struct {
		Scope      scope       `json:"scope"`
		LogRecords []logRecord `json:"logRecords"`
	}
	scope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	logRecord struct {
		TimeUnixNano         string      `json:"timeUnixNano,omitempty"`
		ObservedTimeUnixNano string      `json:"observedTimeUnixNano,omitempty"`
		SeverityNumber       int         `json:"severityNumber"`
		SeverityText         string      `json:"severityText"`
		EventName            string      `json:"eventName"`
		Body                 value       `json:"body"`
		Attributes           []attribute `json:"attributes"`
		TraceID              string      `json:"traceId,omitempty"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	// value is one of them.
	value struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"` // 64 bits do not fit in a JSON number
		Bool   *bool   `json:"boolValue,omitempty"`
		Array  *array  `json:"arrayValue,omitempty"`
	}
	array struct {
		Values []value `json:"values"`
	}
)

func newOTLP(w *bufio.Writer, o Options) *otlp {
	var a attributes
	a.text("service.name", "permd")
	a.text("service.version", o.Version)
	a.text("host.name", o.Host)
	return &otlp{enc: encoder(w), resource: resource{a}}
}

func (o *otlp) put(r *review.Record) error {
	o.records = append(o.records, toRecord(r))
	if len(o.records) < maxBatch {
		return nil
	}
	return o.end()
}

func (o *otlp) end() error {
	if len(o.records) == 0 {
		return nil
	}
	err := o.enc.Encode(request{[]resourceLogs{{o.resource, []scopeLogs{{scope{Name: "permd/review"}, o.records}}}}})
	o.records = o.records[:0]
	return err
}

// The severities in use, by their numbers.
const (
	info  = 9
	warn  = 13
	fault = 17
)

var severityText = map[int]string{info: "INFO", warn: "WARN", fault: "ERROR"}

// severity says how much a record is worth somebody's attention: what nobody
// let run, and holes in the record, most.
func severity(r *review.Record) int {
	if r.Err != nil {
		return fault
	}
	switch r.Event {
	case review.RanUngated, review.RanOther, review.Gap, review.PolicyRejected, review.ForwardingError:
		return fault
	case review.AnswerForeign, review.AnswerInvalid, review.MailRefused, review.ParentLost, review.ReleaseRefused, review.SurfaceRefused,
		review.HookRefused, review.NoServingSession, review.ForwardingWarning, review.SessionStrict, review.PauseStarted, review.PauseRefused,
		review.ChildNodeAbsent, review.PolicyLoosenPending:
		return warn
	}
	if v, ok := r.Decides(); ok && v != ask.Allow {
		return warn
	}
	return info
}

func toRecord(r *review.Record) logRecord {
	n := severity(r)
	out := logRecord{SeverityNumber: n, SeverityText: severityText[n]}
	if t, err := time.Parse(time.RFC3339Nano, r.Time); err == nil && t.Year() >= 1970 && t.Year() < 2262 {
		out.TimeUnixNano = strconv.FormatInt(t.UnixNano(), 10)
		out.ObservedTimeUnixNano = out.TimeUnixNano
	}
	var a attributes
	a.text("permd.writer", r.Writer)
	a.text("permd.file", r.File)
	a.number("permd.offset", r.Offset)
	if r.Err != nil {
		out.EventName = "permd.unreadable"
		out.Body = text(unreadable(r))
		out.Attributes = a
		return out
	}
	out.EventName = "permd." + string(r.Event)
	out.Body = text(summary(r))
	if id, err := uuid.Parse(r.Ask); err == nil && id != uuid.Nil {
		out.TraceID = hex.EncodeToString(id[:])
	}
	a.number("permd.v", int64(r.V))
	a.number("permd.seq", int64(r.Seq))
	a.text("permd.prev", r.Prev.String())
	a.number("permd.boot_ms", r.BootMS)
	a.text("session.id", r.Session)
	var path []string
	for _, h := range r.Path {
		path = append(path, h.Session)
	}
	a.list("permd.path", path)
	a.text("permd.ask", r.Ask)
	if r.Digest != nil {
		a.text("permd.digest", r.Digest.String())
	}
	if r.ActionDigest != nil {
		a.text("permd.action_digest", r.ActionDigest.String())
	}
	if r.Verdict != nil {
		a.text("permd.verdict", r.Verdict.String())
	}
	a.text("permd.outcome", string(r.Outcome))
	a.by(r.By)
	a.text("permd.reason", r.Reason)
	a.action(r.Action)
	for _, k := range slices.Sorted(maps.Keys(r.Fields)) {
		a.text("permd.field."+k, r.Fields[k])
	}
	out.Attributes = a
	return out
}

// summary is the body: what happened, without what it was about.
func summary(r *review.Record) string {
	t := string(r.Event)
	if r.Verdict != nil {
		t += ": " + r.Verdict.String()
	}
	if r.By != nil {
		t += " by " + string(r.By.Decider().Kind)
	}
	return t
}

type attributes []attribute

func text(s string) value { return value{String: &s} }

func (a *attributes) add(key string, v value) { *a = append(*a, attribute{key, v}) }

func (a *attributes) text(key, s string) {
	if s != "" {
		a.add(key, text(s))
	}
}

func (a *attributes) number(key string, n int64) {
	s := strconv.FormatInt(n, 10)
	a.add(key, value{Int: &s})
}

func (a *attributes) list(key string, list []string) {
	if len(list) == 0 {
		return
	}
	v := array{}
	for _, s := range list {
		v.Values = append(v.Values, text(s))
	}
	a.add(key, value{Array: &v})
}

func (a *attributes) by(b *ask.By) {
	if b == nil {
		return
	}
	d := b.Decider()
	a.text("permd.by.kind", string(d.Kind))
	a.text("permd.by.session", d.Session)
	a.text("permd.by.surface", d.Surface)
	a.text("permd.by.grant", d.Grant)
	if d.Rule != nil {
		a.text("permd.by.rule.layer", d.Rule.Layer)
		a.text("permd.by.rule.file", d.Rule.File)
		a.number("permd.by.rule.line", int64(d.Rule.Line))
	}
	if d.Inferred {
		yes := true
		a.add("permd.by.inferred", value{Bool: &yes})
	}
	var through []string
	for f := b; f != d && f != nil; f = f.Inner {
		through = append(through, f.Session)
	}
	a.list("permd.by.through", through)
}

func (a *attributes) action(x *review.Action) {
	if x == nil {
		return
	}
	for _, p := range []struct{ key, value string }{
		{"client", x.Client}, {"tool", string(x.Tool)}, {"client_tool", x.ClientTool}, {"call", x.Call}, {"cwd", x.Cwd},
		{"command", x.Command}, {"input", x.Input}, {"url", x.URL}, {"query", x.Query}, {"server", x.Server}, {"name", x.Name},
		{"source", x.Source}, {"agent", x.Agent},
	} {
		a.text("permd.action."+p.key, p.value)
	}
	var given, real []string
	for _, p := range x.Paths {
		given, real = append(given, p.Given), append(real, p.Real)
	}
	a.list("permd.action.paths", given)
	a.list("permd.action.real_paths", real)
	if x.MorePaths > 0 {
		a.number("permd.action.more_paths", int64(x.MorePaths))
	}
}
