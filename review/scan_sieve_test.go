package review

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"permd/ask"
)

// judge is what a scan makes of one line: whether it is parsed, and taken.
func judge(f Filter, raw []byte) (parsed, taken bool) {
	s := &stream{writer: "n1"}
	s.line.set(raw, 0)
	r := s.record()
	return f.sieve().passes(&s.line), f.Match(&r)
}

// drawFilter makes a filter out of what a record holds, so that many match,
// and out of other things.
func drawFilter(t *rapid.T, r *Record) Filter {
	var f Filter
	pick := func(what string, from ...string) string {
		if !rapid.Bool().Draw(t, what+"?") {
			return ""
		}
		return rapid.SampledFrom(append(from, "other", `a"b`, "é\u2028\x01")).Draw(t, what)
	}
	f.Ask = pick("ask", r.Ask)
	if n := len(r.Ask); n > 0 && rapid.Bool().Draw(t, "ask end?") {
		f.AskEnd = r.Ask[rapid.IntRange(0, n-1).Draw(t, "ask end"):]
	}
	sessions := []string{r.Session}
	for _, h := range r.Path {
		sessions = append(sessions, h.Session)
	}
	f.Session = pick("session", sessions...)
	if rapid.Bool().Draw(t, "among?") {
		f.Among = []string{"x", rapid.SampledFrom(sessions).Draw(t, "among")}
	}
	f.Event = pick("event", string(r.Event), "permission_request.", "forwarded_permission.relay_", "eff", "log_")
	if rapid.Bool().Draw(t, "events?") {
		f.Events = []string{"log.", rapid.SampledFrom([]string{string(r.Event), "other", "permission_"}).Draw(t, "events")}
	}
	f.Decision = pick("decision", "allow", "deny", string(r.Outcome), "timed_out")
	kinds := []string{PersonDecider, "user", "rule"}
	if r.By != nil {
		d := r.By.Decider()
		kinds = append(kinds, string(d.Kind), string(d.Kind)+":"+d.Surface, string(d.Kind)+":"+d.Grant)
		if d.Rule != nil {
			kinds = append(kinds, "rule:"+d.Rule.File, "rule:"+d.Rule.File+":"+strconv.Itoa(d.Rule.Line))
		}
	}
	f.Decider = pick("decider", kinds...)
	texts := []string{r.Reason}
	for _, v := range r.Fields {
		texts = append(texts, v)
	}
	slices.Sort(texts)
	if a := r.Action; a != nil {
		f.Tool = pick("tool", string(a.Tool), a.ClientTool)
		texts = append(texts, a.Command, a.Input, a.URL, a.Agent)
	}
	if f.Text = pick("text", texts...); len(f.Text) > 3 { // any part of it, also half a character
		i := rapid.IntRange(0, len(f.Text)-2).Draw(t, "from")
		f.Text = f.Text[i:rapid.IntRange(i+1, len(f.Text)).Draw(t, "to")]
	}
	moment, err := time.Parse(timeLayout, r.Time)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "since?") {
		f.Since = moment.Add(time.Duration(rapid.Int64Range(-2, 2).Draw(t, "since")))
	}
	if rapid.Bool().Draw(t, "until?") {
		f.Until = moment.Add(time.Duration(rapid.Int64Range(-2, 2).Draw(t, "until")))
	}
	return f
}

// The sieve says no to nothing that the filter takes.
func TestSieveOnlyOvermatches(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		ev := drawEvent(t)
		m := mark{seq: rapid.Uint64Range(0, 1<<40).Draw(t, "seq")}
		raw := bytes.TrimSuffix(encodeLine(t, ev, m, stampAt(rapid.Int64Range(0, 4e18).Draw(t, "ns"), rapid.Int64Range(-5, 1e9).Draw(t, "boot"))), []byte("\n"))
		l, err := ParseLine(raw)
		if err != nil {
			t.Fatal(err)
		}
		r := Record{Line: l, Writer: "n1"}
		// A condition at a time, and all of them.
		all := drawFilter(t, &r)
		for _, f := range append(single(all), all) {
			parsed, match := judge(f, raw)
			if match && !parsed {
				t.Fatalf("%+v takes %s, and the sieve does not", f, raw)
			}
			if match {
				taken++
			}
		}
	})
	if taken < 200 {
		t.Errorf("only %d matches: the test is blind", taken)
	}
}

func single(f Filter) []Filter {
	return []Filter{{Ask: f.Ask}, {Session: f.Session}, {Among: f.Among}, {Event: f.Event}, {Events: f.Events}, {AskEnd: f.AskEnd}, {Tool: f.Tool}, {Decision: f.Decision},
		{Decider: f.Decider}, {Text: f.Text}, {Since: f.Since}, {Until: f.Until}}
}

// Whatever bytes there are: what parses and matches passes, and nothing panics.
func FuzzSieve(f *testing.F) {
	names, err := filepath.Glob("testdata/lines/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.TrimSuffix(raw, []byte("\n")), "s")
	}
	f.Fuzz(func(t *testing.T, raw []byte, s string) {
		if len(raw) == 0 || len(raw) >= MaxLine || bytes.IndexByte(raw, '\n') >= 0 {
			return
		}
		for _, x := range []Filter{{}, {Text: s}, {Ask: s}, {Session: s}, {Among: []string{s}}, {Event: s}, {Tool: s}, {Decision: s}, {Decider: s},
			{Decision: "allow"}, {Decision: "deny", Text: s}, {Decider: PersonDecider}, {Since: time.Unix(0, 0)}, {Until: time.Unix(1e9, 0)}} {
			if parsed, match := judge(x, raw); match && !parsed {
				t.Errorf("%+v takes %q, and the sieve does not", x, raw)
			}
		}
	})
}

// The sieve is of use: lines that hold nothing of what is asked for are not
// parsed.
func TestSieveNarrows(t *testing.T) {
	raw := goodLine(t)
	l, err := ParseLine(raw)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(timeLayout, l.Time)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range []Filter{{Ask: "nobody's"}, {AskEnd: "nobody's"}, {Events: []string{"log.", "gap"}}, {Session: "nobody"}, {Among: []string{"nobody", "none"}}, {Event: "grant."}, {Event: "effect"},
		{Tool: "mcp"}, {Decision: "timed_out"}, {Decider: "link"}, {Text: "no such text"}, {Since: at.Add(1)}, {Until: at}} {
		if parsed, match := judge(f, raw); parsed || match {
			t.Errorf("%d: %+v: parsed %v, taken %v", i, f, parsed, match)
		}
	}
	if parsed, match := judge(Filter{Since: at, Until: at.Add(1), Ask: l.Ask, Session: l.Session}, raw); !parsed || !match {
		t.Errorf("its own: parsed %v, taken %v", parsed, match)
	}
}

func TestFilterOfDecisions(t *testing.T) {
	record := func(n Name, by *ask.By, outcome ask.Outcome, fields ...string) *Record {
		r := &Record{Line: Line{Time: "2026-11-30T10:00:00.000000000Z", Event: n, By: by, Outcome: outcome, Fields: map[string]string{}}}
		for i := 0; i < len(fields); i += 2 {
			r.Fields[fields[i]] = fields[i+1]
		}
		return r
	}
	desk := &ask.By{Kind: ask.KindUser, Session: "lead", Surface: "desk"}
	passed := ask.Forwarded("lead", *desk)
	rule := &ask.By{Kind: ask.KindRule, Rule: &ask.RuleRef{Layer: "user", File: "p.toml", Line: 7}}
	grant := &ask.By{Kind: ask.KindGrant, Grant: "g1"}
	dialog := &ask.By{Kind: ask.KindClientDialog, Surface: "claude", Inferred: true}
	for _, c := range []struct {
		what string
		r    *Record
		yes  []string // of the filters below
	}{
		{"a person's yes", record(AskApproved, desk, ask.Answered), []string{"allow", "answered", "person", "user", "user:desk"}},
		{"the same, passed on", record(ResponseReceived, &passed, ask.Answered), nil},
		{"a no, passed on", record(AskDenied, &passed, ask.Answered), nil},
		{"a person's no for a child", record(ForwardedDenied, desk, ask.Answered), []string{"deny", "answered", "person", "user", "user:desk"}},
		{"a rule's yes", record(AskAutoApproved, rule, ""), []string{"allow", "rule", "rule:p.toml", "rule:p.toml:7"}},
		{"a grant's yes", record(ForwardedAutoApproved, grant, ask.Answered), []string{"allow", "answered", "grant", "grant:g1"}},
		{"nobody's", record(AskExpired, &ask.By{Kind: ask.KindTimeout}, ask.TimedOut), []string{"deny", "timed_out", "timeout"}},
		{"it waits", record(AskWaiting, nil, ""), nil},
		{"a late one", record(AnswerLate, desk, ""), nil},
		{"the client's dialog", record(Effect, dialog, "", "effect", "ran"), []string{"allow", "client_dialog", "client_dialog:claude"}},
		{"which let nothing run", record(Effect, dialog, "", "effect", "not_seen"), nil},
		{"a run", record(Effect, nil, "", "effect", "ran"), nil},
	} {
		var got []string
		for _, f := range []Filter{{Decision: "allow"}, {Decision: "deny"}, {Decision: "answered"}, {Decision: "timed_out"}} {
			if f.Match(c.r) {
				got = append(got, f.Decision)
			}
		}
		for _, who := range []string{"person", "user", "user:desk", "user:", "user:page", "rule", "rule:p.toml", "rule:p.toml:7", "rule:p.toml:8", "rule:",
			"grant", "grant:g1", "grant:", "timeout", "client_dialog", "client_dialog:claude", "device", "forwarded"} {
			if f := (Filter{Decider: who}); f.Match(c.r) {
				got = append(got, who)
			}
		}
		if !slices.Equal(got, c.yes) {
			t.Errorf("%s: %q, want %q", c.what, got, c.yes)
		}
	}
}

func TestFilterOfText(t *testing.T) {
	r := &Record{Line: Line{Event: AskApproved, Session: "session", Reason: "because", Fields: map[string]string{"message": "said"},
		Action: &Action{Tool: ask.ToolBash, ClientTool: "Bash", Command: "git push", Paths: []ask.Path{{Given: "given/x", Real: "/real/x"}},
			Input: "in", URL: "http://u", Query: "q?", Server: "srv", Name: "nm", Agent: "agent", Cwd: "/cwd"}}}
	for _, s := range []string{"because", "aid", "git push", "t p", "given/", "/real", "in", "http:", "q?", "srv", "nm", "agent", "/cwd", "bash", "Bash"} {
		if f := (Filter{Text: s}); !f.Match(r) {
			t.Errorf("%s is not found", s)
		}
	}
	for _, s := range []string{"Because", "git  push", "session", "permission_request", "message"} {
		if f := (Filter{Text: s}); f.Match(r) {
			t.Errorf("%s is found", s)
		}
	}
	if f := (Filter{Tool: "Bash"}); !f.Match(r) || !strings.EqualFold(f.Tool, string(ask.ToolBash)) {
		t.Error("the client's own name of the tool")
	}
}
