package selection

import (
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"permd/liveness"
	"permd/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func named(name string, a liveness.Answer, above ...string) Candidate {
	return Candidate{session.Candidate{Session: name, Channel: session.ChannelEnv, FoundBy: "flag"}, a, above}
}

// TestTable: one row a cell of the table, and of every rule beside it.
func TestTable(t *testing.T) {
	const yes, no, unknown = liveness.Yes, liveness.No, liveness.Unknown
	type cs = []Candidate
	for _, c := range []struct {
		name   string
		here   bool
		named  cs
		want   Authority
		target string
	}{
		{"here, no parent", true, nil, Local, ""},
		{"here, only itself", true, cs{named("me", yes)}, Local, ""},
		{"here, only itself, twice", true, cs{named("me", yes), named("me", unknown)}, Local, ""},
		{"here, blank", true, cs{named("", yes), named("  ", yes)}, Local, ""},
		{"here, unknown by name", true, cs{named("unknown", yes), named("UNKNOWN", yes)}, Local, ""},
		{"here, parent serves", true, cs{named("lead", yes)}, Relay, "lead"},
		{"here, parent does not", true, cs{named("lead", no)}, Local, ""},
		{"here, parent unknown", true, cs{named("lead", unknown)}, Local, ""},
		{"here, itself first", true, cs{named("me", yes), named("lead", yes)}, Relay, "lead"},
		{"here, dead first", true, cs{named("dead", no), named("lead", yes)}, Relay, "lead"},
		{"here, unknown first", true, cs{named("who", unknown), named("lead", yes)}, Relay, "lead"},
		{"here, two that serve", true, cs{named("lead", yes), named("top", yes)}, Relay, "lead"},
		{"here, none serves", true, cs{named("dead", no), named("who", unknown)}, Local, ""},
		{"here, a circle", true, cs{named("lead", yes, "top", "me")}, Local, ""},
		{"here, a circle first", true, cs{named("lead", yes, "me"), named("top", yes, "root")}, Relay, "top"},

		{"alone, no parent", false, nil, Deny, ""},
		{"alone, only itself", false, cs{named("me", yes)}, Deny, ""},
		{"alone, blank", false, cs{named("", unknown), named("Unknown", yes)}, Deny, ""},
		{"alone, a circle", false, cs{named("lead", yes, "me")}, Deny, ""},
		{"alone, parent serves", false, cs{named("lead", yes)}, Relay, "lead"},
		{"alone, parent unknown", false, cs{named("lead", unknown)}, Relay, "lead"},
		{"alone, parent does not", false, cs{named("lead", no)}, Relay, "lead"},
		{"alone, yes behind unknown", false, cs{named("who", unknown), named("lead", yes)}, Relay, "lead"},
		{"alone, yes behind no", false, cs{named("dead", no), named("lead", yes)}, Relay, "lead"},
		{"alone, unknown behind no", false, cs{named("dead", no), named("who", unknown)}, Relay, "who"},
		{"alone, two unknown", false, cs{named("who", unknown), named("what", unknown)}, Relay, "who"},
		{"alone, all dead", false, cs{named("dead", no), named("gone", no)}, Relay, "dead"},
		{"alone, itself first", false, cs{named("me", yes), named("who", unknown)}, Relay, "who"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Select(Input{Self: "me", Here: c.here, Candidates: c.named})
			if got.Authority != c.want || got.Target.Session != c.target || got.Here != c.here {
				t.Errorf("%s to %q, want %s to %q", got.Authority, got.Target.Session, c.want, c.target)
			}
			if got.Adjudicates() != (c.want != Relay) {
				t.Errorf("adjudicates: %t", got.Adjudicates())
			}
			if c.target != "" && (got.Target.FoundBy != "flag" || got.Target.Channel != session.ChannelEnv) {
				t.Errorf("target %+v", got.Target)
			}
		})
	}
}

// TestTried: who was named and not taken is said, with the reason.
func TestTried(t *testing.T) {
	got := Select(Input{Self: "me", Here: true, Candidates: []Candidate{named("me", liveness.Yes), named("ring", liveness.Yes, "me"),
		named("dead", liveness.No), named("who", liveness.Unknown)}})
	want := "me (this session itself), ring (it relays to this session), dead (not serving), who (not known to serve)"
	if got.Tried != want {
		t.Errorf("%q, want %q", got.Tried, want)
	}
	if got := Select(Input{Self: "me"}); got.Tried != "" || got != (Choice{}) {
		t.Errorf("%+v", got)
	}
	if a := Authority(9).String() + Local.String() + Relay.String(); a != "denylocalrelay" {
		t.Errorf("%q", a)
	}
}

// TestLaws: what holds for every input.
func TestLaws(t *testing.T) {
	names := []string{"me", "a", "b", "c", "", "unknown"}
	rapid.Check(t, func(t *rapid.T) {
		in := Input{Self: "me", Here: rapid.Bool().Draw(t, "here")}
		answers := map[string]liveness.Answer{}
		for range rapid.IntRange(0, 5).Draw(t, "candidates") {
			c := named(rapid.SampledFrom(names).Draw(t, "name"), liveness.Answer(rapid.IntRange(0, 2).Draw(t, "answer")),
				rapid.SliceOfN(rapid.SampledFrom(names), 0, 2).Draw(t, "above")...)
			in.Candidates = append(in.Candidates, c)
			answers[c.Session] = max(answers[c.Session], c.Serving)
		}
		got := Select(in)
		switch {
		case got.Authority == Relay && (got.Target.Session == "me" || session.Blank(got.Target.Session)):
			t.Fatalf("relays to %q", got.Target.Session)
		case got.Authority == Relay && in.Here && got.Serving != liveness.Yes:
			t.Fatalf("with a person present it relays on %s", got.Serving)
		case got.Authority != Relay && got.Target != session.Candidate{}:
			t.Fatalf("%s with a target", got.Authority)
		case in.Here && got.Authority == Deny:
			t.Fatal("denied with a person present")
		case !in.Here && got.Authority == Local:
			t.Fatal("local with nobody there")
		}
		if got != Select(in) {
			t.Fatal("not a function of its input")
		}
	})
}
