package review

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"permd/ask"
)

var testKeys = keys("0123456789abcdef0123456789abcdef")

// lineOf is the slow way to the same line: the struct, encoded by ask.Encode.
func lineOf(k keys, ev *Event, m mark, at stamp, lim *limits) Line {
	id := func(s string) string { return k.clean(s, lim.id) }
	l := Line{
		V: Format, Seq: m.seq + 1, Prev: m.hash, Time: at.wall.UTC().Format(timeLayout), BootMS: at.boot.Milliseconds(),
		Event: ev.Name, Session: id(ev.Session), Ask: id(ev.Ask),
		Digest: ev.Digest, ActionDigest: ev.ActionDigest, Verdict: ev.Verdict,
		Outcome: ev.Outcome, Reason: k.clean(ev.Reason, lim.reason),
	}
	for _, h := range ev.Path {
		l.Path = append(l.Path, ask.Hop{Session: id(h.Session), Node: id(h.Node), Claimed: h.Claimed})
	}
	l.By = byOf(k, ev.By, lim)
	if a := ev.Action; a != nil {
		text := func(s string) string { return k.clean(s, lim.text) }
		b := Action{
			Client: text(a.Client), Tool: ask.Tool(k.clean(string(a.Tool), lim.word)), ClientTool: text(a.ClientTool), Call: text(a.Call),
			Cwd: k.clean(a.Cwd, lim.path), Command: k.clean(a.Command, lim.command), Input: k.clean(a.Input, lim.input),
			MorePaths: a.MorePaths, URL: k.clean(a.URL, lim.url), Query: k.clean(a.Query, lim.url),
			Server: text(a.Server), Name: text(a.Name), Source: text(a.Source), Agent: text(a.Agent),
		}
		for i, p := range a.Paths {
			if i >= lim.paths {
				b.MorePaths++
				continue
			}
			b.Paths = append(b.Paths, ask.Path{Given: k.clean(p.Given, lim.path), Real: k.clean(p.Real, lim.path),
				Access: ask.Access(k.clean(string(p.Access), lim.word))})
		}
		l.Action = &b
	}
	for _, f := range ev.Fields {
		if l.Fields == nil {
			l.Fields = map[string]string{}
		}
		v := f.Value
		if ClassOf(f.Key) == Secret {
			v = k.redacted(v)
		}
		l.Fields[string(f.Key)] = k.clean(v, lim.value)
	}
	return l
}

func byOf(k keys, by *ask.By, lim *limits) *ask.By {
	if by == nil {
		return nil
	}
	out := ask.By{
		Kind: ask.Kind(k.clean(string(by.Kind), lim.word)), Session: k.clean(by.Session, lim.id),
		Surface: k.clean(by.Surface, lim.id), Grant: k.clean(by.Grant, lim.id),
		Inferred: by.Inferred, Inner: byOf(k, by.Inner, lim),
	}
	if r := by.Rule; r != nil {
		out.Rule = &ask.RuleRef{Layer: k.clean(r.Layer, lim.word), File: k.clean(r.File, lim.text), Line: r.Line}
	}
	return &out
}

// text draws what agents may send: plain, hostile and broken.
func text(t *rapid.T, what string) string {
	switch rapid.IntRange(0, 9).Draw(t, what+" kind") {
	case 0:
		return ""
	case 1:
		return string(rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, what))
	case 2:
		return strings.Repeat(rapid.SampledFrom([]string{"x", "\"", "\n", "\u202e", "é", "\x00", "<&>", "\u2028", "🙂"}).Draw(t, what), rapid.IntRange(1, 9000).Draw(t, what+" n"))
	case 3:
		return rapid.SampledFrom([]string{"\u2028\u2029", "a\u200bb", "\x7f\x1b[31m", "\xff\xfe", "<script>&amp;", "tab\tnl\nq\"b\\", "\U000e0041", "\ufffd"}).Draw(t, what)
	default:
		return rapid.StringN(0, 40, 200).Draw(t, what)
	}
}

func drawEvent(t *rapid.T) *Event {
	ev := &Event{Name: rapid.SampledFrom(Names()).Draw(t, "name"), Session: text(t, "session"), Ask: text(t, "ask"), Reason: text(t, "reason")}
	for range rapid.IntRange(0, 3).Draw(t, "hops") {
		ev.Path = append(ev.Path, ask.Hop{Session: text(t, "hop"), Node: text(t, "node"), Claimed: rapid.Bool().Draw(t, "claimed")})
	}
	if rapid.Bool().Draw(t, "digest") {
		ev.Digest, ev.ActionDigest = digestOf(ev.Ask), digestOf(ev.Reason)
	}
	if rapid.Bool().Draw(t, "verdict") {
		ev.Verdict = verdict(rapid.SampledFrom([]ask.Verdict{ask.Deny, ask.Prompt, ask.Allow}).Draw(t, "v"))
		ev.Outcome = rapid.SampledFrom([]ask.Outcome{"", ask.Answered, ask.TimedOut}).Draw(t, "outcome")
	}
	for range rapid.IntRange(0, 3).Draw(t, "frames") {
		by := ask.By{Kind: ask.Kind(text(t, "kind")), Session: text(t, "by session"), Surface: text(t, "surface"),
			Grant: text(t, "grant"), Inferred: rapid.Bool().Draw(t, "inferred"), Inner: ev.By}
		if rapid.Bool().Draw(t, "rule") {
			by.Rule = &ask.RuleRef{Layer: text(t, "layer"), File: text(t, "file"), Line: rapid.IntRange(-1, 5).Draw(t, "line")}
		}
		ev.By = &by
	}
	if rapid.Bool().Draw(t, "action") {
		ev.Action = &Action{Client: text(t, "client"), Tool: ask.Tool(text(t, "tool")), ClientTool: text(t, "ct"), Call: text(t, "call"),
			Cwd: text(t, "cwd"), Command: text(t, "command"), Input: text(t, "input"), URL: text(t, "url"), Query: text(t, "query"),
			Server: text(t, "server"), Name: text(t, "mcp"), Source: text(t, "source"), Agent: text(t, "agent"),
			MorePaths: rapid.IntRange(0, 2).Draw(t, "more")}
		for range rapid.IntRange(0, 20).Draw(t, "paths") {
			ev.Action.Paths = append(ev.Action.Paths, ask.Path{Given: text(t, "given"), Real: text(t, "real"), Access: ask.AccessRead})
		}
	}
	for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom(append(Keys(), "unknown", "aaa")), 0, 6, rapid.ID[Key]).Draw(t, "keys") {
		ev.Fields = append(ev.Fields, Field{k, text(t, "value")})
	}
	return ev
}

// The hand-written encoder writes what ask.Encode writes, in at most a line,
// and the strict decoder takes it.
func TestEncoderWritesCanonicalLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ev := drawEvent(t)
		at := now()
		m := mark{seq: rapid.Uint64Range(0, 1<<60).Draw(t, "seq"), hash: *digestOf("p")}
		got := encodeLine(t, ev, m, at)
		lim := &wide
		want, err := ask.Encode(lineOf(testKeys, ev, m, at, lim))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(want, '\n') >= 0 {
			t.Fatal("two lines")
		}
		if !bytes.Equal(got, want) {
			if want, err = ask.Encode(lineOf(testKeys, ev, m, at, &narrow)); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
		}
		l, err := ParseLine(got)
		if err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		if l.Event != ev.Name || l.Seq != m.seq+1 {
			t.Fatalf("decoded %+v", l)
		}
	})
}

func encodeLine(t interface{ Fatalf(string, ...any) }, ev *Event, m mark, at stamp) []byte {
	end := m
	out := appendLine(nil, &end, at, testKeys.body(nil, ev))
	if len(out) > MaxLine {
		t.Fatalf("a line of %d bytes", len(out))
	}
	if end.seq != m.seq+1 || end.end != m.end+int64(len(out)) || out[len(out)-1] != '\n' {
		t.Fatalf("mark %+v after %+v", end, m)
	}
	return out[:len(out)-1]
}

// The largest event that is let in fits in a line.
func TestTheLargestEventFits(t *testing.T) {
	for _, fill := range []string{"x", "\"", "\u202e", "é", "\x00", "🙂"} {
		long := strings.Repeat(fill, 20000)
		deep := &ask.By{Kind: ask.Kind(long), Session: long, Surface: long, Grant: long, Rule: &ask.RuleRef{Layer: long, File: long, Line: 1 << 40}}
		for deep.Depth() < ask.MaxFrames {
			deep = &ask.By{Kind: ask.Kind(long), Session: long, Surface: long, Grant: long, Inferred: true,
				Rule: &ask.RuleRef{Layer: long, File: long, Line: -1 << 40}, Inner: deep}
		}
		ev := &Event{Name: NoServingSession, Session: long, Ask: long, Digest: digestOf("a"), ActionDigest: digestOf("b"),
			Verdict: verdict(ask.Allow), Outcome: ask.Unavailable, By: deep, Reason: long,
			Action: &Action{Client: long, Tool: ask.Tool(long), ClientTool: long, Call: long, Cwd: long, Command: long, Input: long,
				MorePaths: 1 << 40, URL: long, Query: long, Server: long, Name: long, Source: long, Agent: long}}
		for range ask.MaxHops {
			ev.Path = append(ev.Path, ask.Hop{Session: long, Node: long, Claimed: true})
		}
		for range 100 {
			ev.Action.Paths = append(ev.Action.Paths, ask.Path{Given: long, Real: long, Access: ask.Access(long)})
		}
		for i := range maxFields {
			ev.Fields = append(ev.Fields, Field{Key(fmt.Sprintf("%s%02d", strings.Repeat("k", maxKey-2), i)), long})
		}
		if err := ev.check(false); err != nil {
			t.Fatal(err)
		}
		line := encodeLine(t, ev, mark{seq: 1<<64 - 2}, now())
		if _, err := ParseLine(line); err != nil {
			t.Errorf("%q: %v", fill, err)
		}
		t.Logf("%q: %d bytes", fill, len(line))
	}
}

func TestCleanText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := text(t, "s")
		most := rapid.SampledFrom([]int{24, 64, 128, 1024}).Draw(t, "most")
		got := testKeys.clean(s, most)
		if n := escaped(got); n > most || !utf8.ValidString(got) {
			t.Fatalf("%d bytes of %d: %q", n, most, got)
		}
		if ask.Visible(got) != got {
			t.Fatalf("%q hides something", got)
		}
		if v := ask.Visible(s); escaped(v) <= most && len(s) <= 8*most && got != v {
			t.Fatalf("%q, want %q", got, v)
		}
	})
	long := strings.Repeat("a", 5000) + "THE END"
	got := testKeys.clean(long, 1024)
	if !strings.HasSuffix(got, "THE END") || !strings.Contains(got, "…[cut, 5007 bytes in all, hmac:"+testKeys.sum(long)+"]…") {
		t.Errorf("cut: %s", got)
	}
}

func TestStringsAreEscapedAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := text(t, "s")
		if utf8.ValidString(s) {
			want, err := ask.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			if got := appendString(nil, s); !bytes.Equal(got, want) {
				t.Fatalf("%s, want %s", got, want)
			}
		}
	})
}
