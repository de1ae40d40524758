package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"permd/ask"
	"permd/review"
)

func TestMoments(t *testing.T) {
	zone := time.FixedZone("here", 3600)
	now := time.Date(2026, 12, 2, 15, 30, 0, 0, zone) // a Wednesday
	for s, want := range map[string]string{
		"2026-11-30T10:00:00Z":          "2026-11-30T11:00:00+01:00",
		"2026-11-30T10:00:00.25+02:00":  "2026-11-30T09:00:00.25+01:00",
		"2026-11-30":                    "2026-11-30T00:00:00+01:00",
		"2026-11-30 10:05":              "2026-11-30T10:05:00+01:00",
		"2026-11-30 10:05:07.5":         "2026-11-30T10:05:07.5+01:00",
		"2026-11-30T10:05":              "2026-11-30T10:05:00+01:00",
		"09:15":                         "2026-12-02T09:15:00+01:00",
		"09:15:30":                      "2026-12-02T09:15:30+01:00",
		"now":                           "2026-12-02T15:30:00+01:00",
		"today":                         "2026-12-02T00:00:00+01:00",
		"Yesterday":                     "2026-12-01T00:00:00+01:00",
		"wednesday":                     "2026-12-02T00:00:00+01:00",
		"Tuesday":                       "2026-12-01T00:00:00+01:00",
		"thu":                           "2026-11-26T00:00:00+01:00",
		"2h":                            "2026-12-02T13:30:00+01:00",
		"1h30m":                         "2026-12-02T14:00:00+01:00",
		"3d":                            "2026-11-29T15:30:00+01:00",
		"":                              "0001-01-01T00:00:00Z",
		"next tuesday":                  "error",
		"-2h":                           "error",
		"-1d":                           "error",
		"2026-13-01":                    "error",
		"25:00":                         "error",
		"d":                             "error",
		"1000000d":                      "error",
		"\u202e":                        "error",
		"2026-11-30T10:00:00Z and more": "error",
	} {
		got, err := moment("--since", s, now)
		switch {
		case want == "error":
			if err == nil || !strings.Contains(err.Error(), "--since") || strings.Contains(err.Error(), "\u202e") {
				t.Errorf("%q: %v, %v", s, got, err)
			}
		case err != nil:
			t.Errorf("%q: %v", s, err)
		default:
			w, _ := time.Parse(time.RFC3339Nano, want)
			if !got.Equal(w) {
				t.Errorf("%q: %s, want %s", s, got, want)
			}
		}
	}
}

// What is escaped for a screen is the same value for a program.
func TestHiddenCharactersAreEscaped(t *testing.T) {
	want := map[string]string{"a": "x\u202ey\u200b\U000e0041é漢\u00a0"}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	line := escapeHidden(string(raw))
	if ask.HiddenCount(line) != 0 {
		t.Errorf("hidden characters in %q", line)
	}
	got := map[string]string{}
	if err := json.Unmarshal([]byte(line), &got); err != nil || got["a"] != want["a"] {
		t.Errorf("%q, %v", got, err)
	}
}

// No text of a record reaches the screen as it is.
func TestRowsAreVisible(t *testing.T) {
	evil := "a\u202eb\x1b[2J\nc"
	for _, n := range append(review.Names(), "something.new") {
		r := review.Record{Writer: "n"}
		r.Event, r.Ask, r.Session, r.Reason, r.Time, r.Outcome = n, evil, evil, evil, evil, ask.Outcome(evil)
		r.Path = []ask.Hop{{Session: evil, Node: evil}}
		r.By = &ask.By{Kind: ask.KindUser, Surface: evil, Session: evil}
		r.Fields = map[string]string{evil: evil}
		for _, k := range review.Keys() {
			r.Fields[string(k)] = evil
		}
		var b strings.Builder
		tab := table{app: &app{out: &b}}
		for _, x := range []*review.Action{nil, {ClientTool: evil, Command: evil}} {
			r.Action = x
			if err := tab.row(r); err != nil {
				t.Fatal(err)
			}
			b.WriteString(recordLine(r) + "\n")
		}
		if out := b.String(); strings.ContainsAny(out, "\u202e\x1b") || strings.Count(out, "\n") != 5 {
			t.Errorf("%s: %q", n, out)
		}
	}
}
