package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"permd/ask"
	"permd/review"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files")

// full is a record with everything in it. Each value says where it stands;
// secret marks what does not leave as it is.
func full() review.Record {
	allow := ask.Allow
	by := ask.Forwarded("by-through", ask.By{Kind: ask.KindRule, Session: "by-session", Rule: &ask.RuleRef{Layer: "by-layer", File: "secret-by-file", Line: 7}})
	d1, d2 := ask.Digest{0xd1}, ask.Digest{0xd2}
	r := review.Record{Writer: "n-writer", File: "000001.jsonl", Offset: 123}
	r.Line = review.Line{V: 1, Seq: 1 << 60, Prev: ask.Digest{1}, Time: "2026-11-30T10:00:00.123456789Z", BootMS: 456, Event: review.ForwardedApproved,
		Session: "the-session", Path: []ask.Hop{{Session: "path-one", Node: "n1"}, {Session: "path-two", Node: "n2"}},
		Ask: "01a22f3d-402f-76eb-9c0c-e23322ce93f6", Digest: &d1, ActionDigest: &d2, Verdict: &allow, Outcome: ask.Answered, By: &by,
		Reason: "secret-reason", Action: &review.Action{Client: "a-client", Tool: ask.ToolBash, ClientTool: "secret-ct", Call: "a-call", Cwd: "secret-cwd",
			Command: "secret-command", Input: "secret-input", Paths: []ask.Path{{Given: "secret-given", Real: "secret-real", Access: ask.AccessRead}},
			MorePaths: 3, URL: "secret-url", Query: "secret-query", Server: "secret-server", Name: "secret-name", Source: "secret-source", Agent: "secret-agent"},
		Fields: map[string]string{"waited_ms": "f-waited", "message": "secret-message", "nobody_knows": "secret-unknown", "surface": "f-surface"}}
	return r
}

func written(t testing.TB, o Options, records ...review.Record) string {
	t.Helper()
	var b bytes.Buffer
	e, err := New(&b, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := e.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func formats() []Format { return []Format{JSONL, OTLP, CSV} }

func samples() []review.Record {
	bad := review.Record{Writer: "n-writer", File: "000002.jsonl", Offset: 9, Err: review.ErrLine}
	bad.Time = "2026-11-30T10:00:01.000000000Z"
	effect := review.Record{Writer: "n1", File: "000001.jsonl", Offset: 0}
	effect.Line = review.Line{V: 1, Seq: 2, Time: "2026-11-30T10:00:02.000000000Z", Event: review.Effect, Session: "s", Ask: "no uuid",
		By: &ask.By{Kind: ask.KindClientDialog, Surface: "=cmd|' /C calc'!A0", Inferred: true}, Fields: map[string]string{"effect": "ran"}}
	ungated := review.Record{Writer: "n1", File: "000001.jsonl", Offset: 10}
	ungated.Line = review.Line{V: 1, Seq: 3, Time: "2026-11-30T10:00:03.000000000Z", Event: review.RanUngated, Session: "s",
		Action: &review.Action{Client: "claude", Tool: ask.ToolMCP, Server: "db", Name: "connect"}}
	return []review.Record{full(), bad, effect, ungated}
}

// What is written is fixed. After a change on purpose: go test -update.
func TestGolden(t *testing.T) {
	for _, f := range formats() {
		name := filepath.Join("testdata", "golden."+string(f))
		got := written(t, Options{Format: f, Version: "1.2.3", Host: "host"}, samples()...)
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", f, got, want)
		}
	}
}

// Everything that a record says is in each format, and with a mask nothing of
// what must not leave.
func TestNothingIsLostAndNothingLeaks(t *testing.T) {
	all := []string{"n-writer", "000001.jsonl", "123", "1152921504606846976", "the-session", "path-one", "path-two", "01a22f3d-402f-76eb-9c0c-e23322ce93f6",
		"allow", "answered", "by-session", "rule", "a-client", "bash", "f-waited", "f-surface", ask.Digest{0xd2}.String()}
	secret := []string{"secret-by-file", "secret-reason", "secret-cwd", "secret-command", "secret-message", "secret-unknown"}
	more := []string{"a-call", "by-through", "by-layer", "456", ask.Digest{0xd1}.String()}
	moreSecret := []string{"secret-ct", "secret-input", "secret-given", "secret-real", "secret-url", "secret-query", "secret-server", "secret-name",
		"secret-source", "secret-agent"}
	for _, f := range formats() {
		want := slices.Concat(all, secret)
		open := all
		if f != CSV {
			want, open = slices.Concat(want, more, moreSecret), slices.Concat(all, more)
		}
		out := written(t, Options{Format: f}, full())
		for _, s := range want {
			if !strings.Contains(out, s) {
				t.Errorf("%s lacks %s: %s", f, s, out)
			}
		}
		out = written(t, Options{Format: f, Mask: &review.Masker{}}, full())
		if strings.Contains(out, "secret") || !strings.Contains(out, "[masked]") {
			t.Errorf("%s leaks: %s", f, out)
		}
		for _, s := range open {
			if !strings.Contains(out, s) {
				t.Errorf("%s, masked, lacks %s: %s", f, s, out)
			}
		}
	}
	r := full()
	if r.Reason != "secret-reason" || r.Action.Command != "secret-command" || r.By.Inner.Rule.File != "secret-by-file" {
		t.Error("masking changed the record")
	}
}

// Every key that is not public is masked.
func TestMaskByClass(t *testing.T) {
	var m review.Masker
	for _, k := range append(review.Keys(), "nobody_knows") {
		l := review.Line{Fields: map[string]string{string(k): "value"}}
		out := m.Line(&l)
		if got := out.Fields[string(k)]; (got == "value") != (review.ClassOf(k) == review.Public) {
			t.Errorf("%s is written as %s", k, got)
		}
	}
}

// A reader of JSON lines gets each record's own fields back.
func TestJSONLines(t *testing.T) {
	r := full()
	var got struct {
		Writer string `json:"writer"`
		Offset int64  `json:"offset"`
		review.Line
	}
	if err := json.Unmarshal([]byte(written(t, Options{Format: JSONL}, r)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Writer != r.Writer || got.Offset != r.Offset || got.Seq != r.Seq || got.Action.Command != r.Action.Command || *got.Verdict != ask.Allow {
		t.Errorf("%+v", got)
	}
}

// Requests are of a bounded size, none is empty and no record is lost between
// two.
func TestBatches(t *testing.T) {
	for _, n := range []int{0, 1, maxBatch - 1, maxBatch, maxBatch + 1, 3*maxBatch + 5} {
		list := make([]review.Record, n)
		for i := range list {
			list[i] = full()
			list[i].Seq = uint64(i + 1)
		}
		out := written(t, Options{Format: OTLP}, list...)
		seen := 0
		for line := range strings.Lines(out) {
			var req request
			if err := json.Unmarshal([]byte(line), &req); err != nil {
				t.Fatal(err)
			}
			list := req.ResourceLogs[0].ScopeLogs[0].LogRecords
			if len(list) == 0 || len(list) > maxBatch {
				t.Errorf("%d records: a request of %d", n, len(list))
			}
			for _, x := range list {
				seen++
				if !slices.ContainsFunc(x.Attributes, func(a attribute) bool {
					return a.Key == "permd.seq" && *a.Value.Int == fmt.Sprint(seen)
				}) {
					t.Errorf("%d records: number %d is out of place", n, seen)
				}
			}
		}
		if seen != n {
			t.Errorf("%d of %d records", seen, n)
		}
	}
}

// Every table has as many cells in each row, and no cell is a formula, is seen
// to be something else, or is more than a line.
func TestTableIsHarmless(t *testing.T) {
	evil := []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "a\u202eb", "\"quoted\",\nmore", "\x1b[2J"}
	var list []review.Record
	for _, s := range evil {
		r := full()
		r.Session, r.Reason, r.Action.Command, r.Action.Cwd, r.Ask = s, s, s, s, s
		r.Fields = map[string]string{s: s}
		list = append(list, r)
	}
	rows, err := csv.NewReader(strings.NewReader(written(t, Options{Format: CSV}, list...))).ReadAll()
	if err != nil || len(rows) != len(evil)+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows {
		for _, c := range row {
			if c != "" && strings.ContainsRune("=+-@\t\r\n", rune(c[0])) || strings.ContainsAny(c, "\n\r\x1b\u202e") {
				t.Errorf("cell %q", c)
			}
		}
	}
	if out := written(t, Options{Format: CSV}); strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "time,writer,") {
		t.Errorf("an empty table: %q", out)
	}
}

func TestSeverity(t *testing.T) {
	for n, want := range map[review.Name]int{review.AskAutoApproved: info, review.AskDenied: warn, review.AskExpired: warn, review.RanUngated: fault,
		review.Gap: fault, review.AnswerForeign: warn, review.SessionStarted: info} {
		r := review.Record{Line: review.Line{Event: n, By: &ask.By{Kind: ask.KindRule}}}
		if got := severity(&r); got != want {
			t.Errorf("%s: %d, want %d", n, got, want)
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	if _, err := New(nil, Options{Format: "xml"}); err == nil || !strings.Contains(err.Error(), "want jsonl, otlp or csv") {
		t.Errorf("%v", err)
	}
}
