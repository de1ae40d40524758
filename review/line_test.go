package review

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"permd/ask"
)

// The golden lines: testdata/lines/good-*.json is accepted and written again
// with the same bytes; bad-*.json is refused. There are four bad ones and more
// to each good one.
func TestGoldenLines(t *testing.T) {
	files, err := filepath.Glob("testdata/lines/*.json")
	if err != nil {
		t.Fatal(err)
	}
	good, bad := 0, 0
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		raw = bytes.TrimSuffix(raw, []byte("\n"))
		l, err := ParseLine(raw)
		if strings.HasPrefix(filepath.Base(name), "good-") {
			good++
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			again, err := ask.Encode(l)
			if err != nil || !bytes.Equal(again, raw) {
				t.Errorf("%s: written again: %s, %v", name, again, err)
			}
			continue
		}
		bad++
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
		if l.Event != "" {
			t.Errorf("%s: refused, and gave a line", name)
		}
	}
	if good < 6 || bad < 4*good {
		t.Errorf("%d good and %d bad lines", good, bad)
	}
}

// What this version writes for a fixed event is fixed: a change of the format
// has to change Format.
func TestGoldenEncoding(t *testing.T) {
	raw, err := os.ReadFile("testdata/lines/good-decision.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := ParseLine(bytes.TrimSuffix(raw, []byte("\n")))
	if err != nil {
		t.Fatal(err)
	}
	ev := &Event{Name: want.Event, Session: want.Session, Path: want.Path, Ask: want.Ask, Digest: want.Digest,
		ActionDigest: want.ActionDigest, Verdict: want.Verdict, Outcome: want.Outcome, By: want.By,
		Reason: want.Reason, Action: want.Action}
	for k, v := range want.Fields {
		ev.Fields = append(ev.Fields, Field{Key(k), v})
	}
	at := stampOf(t, want)
	m := mark{seq: want.Seq - 1, hash: want.Prev}
	if got := appendLine(nil, &m, at, testKeys.body(nil, ev)); !bytes.Equal(got, raw) {
		t.Errorf("got  %s\nwant %s", got, raw)
	}
}

func TestBadLines(t *testing.T) {
	good := goodLine(t)
	if _, err := ParseLine(good); err != nil {
		t.Fatal(err)
	}
	edit := func(old, new string) []byte {
		b := bytes.Replace(good, []byte(old), []byte(new), 1)
		if bytes.Equal(b, good) {
			t.Fatalf("nothing to replace: %s", old)
		}
		return b
	}
	for what, raw := range map[string][]byte{
		"empty":               nil,
		"null":                []byte("null"),
		"array":               []byte("[]"),
		"space before":        append([]byte(" "), good...),
		"space after":         append(bytes.Clone(good), ' '),
		"newline":             append(bytes.Clone(good), '\n'),
		"two":                 append(bytes.Clone(good), good...),
		"duplicate key":       edit(`"verdict":"deny"`, `"verdict":"deny","verdict":"allow"`),
		"case variant":        edit(`"verdict"`, `"Verdict"`),
		"case variant beside": edit(`"verdict":"deny"`, `"verdict":"deny","VERDICT":"allow"`),
		"unknown field":       edit(`"verdict"`, `"extra":1,"verdict"`),
		"order":               edit(`{"v":1,"seq":5`, `{"seq":5,"v":1`),
		"space within":        edit(`"seq":5`, `"seq": 5`),
		"version":             edit(`{"v":1`, `{"v":2`),
		"seq zero":            edit(`"seq":5`, `"seq":0`),
		"seq negative":        edit(`"seq":5`, `"seq":-5`),
		"seq float":           edit(`"seq":5`, `"seq":5.0`),
		"seq exponent":        edit(`"seq":5`, `"seq":5e0`),
		"seq string":          edit(`"seq":5`, `"seq":"5"`),
		"seq huge":            edit(`"seq":5`, `"seq":18446744073709551616`),
		"short hash":          edit(`"prev":"`, `"prev":"a`),
		"upper-case hash":     bytes.ToUpper(good[:60]),
		"time zone":           edit(`000Z"`, `000+00:00"`),
		"short time":          edit(`000Z"`, `Z"`),
		"no time":             edit(`"2026-11-30T`, `"2026-13-30T`),
		"verdict":             edit(`"deny"`, `"denied"`),
		"verdict number":      edit(`"deny"`, `0`),
		"outcome":             edit(`"outcome":"answered"`, `"outcome":"granted"`),
		"event":               edit(`"permission_request.denied"`, `"Permission request"`),
		"no event":            edit(`"event":"permission_request.denied"`, `"event":""`),
		"escape":              edit(`make test`, `make\u0020test`),
		"slash escape":        edit(`/home`, `\/home`),
		"raw control":         edit(`make test`, "make\ttest"),
		"broken utf-8":        edit(`make test`, "make \xff"),
		"surrogate":           edit(`make test`, `make \ud800`),
		"html escape":         edit(`make test`, `make \u003c`),
		"null member":         edit(`"verdict":"deny"`, `"verdict":null`),
		"empty member":        edit(`"verdict":"deny"`, `"session":"","verdict":"deny"`),
		"empty fields":        edit(`"fields":{"waited_ms":"1200"}`, `"fields":{}`),
		"field twice":         edit(`"fields":{"waited_ms":"1200"}`, `"fields":{"waited_ms":"1200","waited_ms":"1"}`),
		"fields unsorted":     edit(`"fields":{"waited_ms":"1200"}`, `"fields":{"z":"1","a":"1"}`),
		"field number":        edit(`"fields":{"waited_ms":"1200"}`, `"fields":{"waited_ms":1200}`),
		"cut":                 good[:len(good)-1],
		"too long":            bytes.Replace(good, []byte("make test"), bytes.Repeat([]byte("x"), MaxLine), 1),
		"nested":              edit(`"fields":{"waited_ms":"1200"}`, `"fields":{"a":`+strings.Repeat("[", 500)+`}`),
	} {
		if l, err := ParseLine(raw); err == nil {
			t.Errorf("%s: accepted as %+v", what, l)
		} else if l.V != 0 {
			t.Errorf("%s: refused, and gave %+v", what, l)
		}
	}
	if _, err := ParseLine(edit(`"seq":5`, `"seq":0`)); !errors.Is(err, ErrLine) {
		t.Errorf("error %v", err)
	}
}

func goodLine(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/lines/good-decision.json")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(raw, []byte("\n"))
}

// What parses is written again with the same bytes, and a log of it alone is
// judged without a crash.
func FuzzParseLine(f *testing.F) {
	files, _ := filepath.Glob("testdata/lines/*.json")
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.TrimSuffix(raw, []byte("\n")))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := ParseLine(raw)
		if err != nil {
			return
		}
		again, err := ask.Encode(l)
		if err != nil || !bytes.Equal(again, raw) {
			t.Errorf("%q, %v", again, err)
		}
		if bytes.ContainsAny(raw, "\n\r\x00") {
			t.Errorf("%q is more than a line", raw)
		}
		if err := l.Check(); err != nil {
			t.Error(err)
		}
	})
}

// The hand-written prefix and time are what ParseLine expects, for any place
// and time.
func FuzzPrefix(f *testing.F) {
	f.Add(uint64(1), int64(0), int64(0))
	f.Add(uint64(1<<63), int64(1), int64(1<<40))
	f.Fuzz(func(t *testing.T, seq uint64, ns, boot int64) {
		if seq == 1<<64-1 {
			return
		}
		at := stampAt(ns, boot)
		if y := at.wall.Year(); y < 0 || y > 9999 {
			return
		}
		m := mark{seq: seq, hash: *digestOf(fmt.Sprint(seq))}
		before := m
		line := appendLine(nil, &m, at, testKeys.body(nil, &Event{Name: Effect}))
		l, err := ParseLine(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil || l.Seq != before.seq+1 || l.Prev != before.hash || len(line) > prefixMax+100 {
			t.Errorf("%s: %v", line, err)
		}
	})
}

func stampAt(ns, boot int64) stamp {
	return stamp{time.Unix(0, ns), time.Duration(boot)}
}

func stampOf(t *testing.T, l Line) stamp {
	t.Helper()
	at, err := time.Parse(timeLayout, l.Time)
	if err != nil {
		t.Fatal(err)
	}
	return stamp{at, time.Duration(l.BootMS) * time.Millisecond}
}
