package authority

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"permd/ask"
)

// saying is a decider that always says the same.
type saying struct {
	say    Say
	reason string
	err    error
	boom   bool
	calls  *[]string
	name   string
}

func (s saying) Consult(context.Context, *ask.Ask) (Say, string, error) {
	*s.calls = append(*s.calls, s.name)
	if s.boom {
		panic("boom")
	}
	return s.say, s.reason, s.err
}

// TestChain: the first word that counts decides; what fails, panics, defers or
// says something else is passed over; nothing allows that nobody recorded.
func TestChain(t *testing.T) {
	allows, denies, defers := saying{say: SayAllow, reason: "it is a test"}, saying{say: SayDeny, reason: "no"}, saying{}
	for _, c := range []struct {
		name    string
		links   []saying
		claimed bool
		note    error
		noNote  bool
		want    string // the verdict, "" for undecided
		asked   int
	}{
		{"no link", nil, false, nil, false, "", 0},
		{"allow", []saying{allows, denies}, false, nil, false, "allow", 1},
		{"deny", []saying{denies, allows}, false, nil, false, "deny", 1},
		{"defer, then allow", []saying{defers, allows}, false, nil, false, "allow", 2},
		{"all defer", []saying{defers, defers}, false, nil, false, "", 2},
		{"an error with an allow", []saying{{say: SayAllow, err: errDisk}}, false, nil, false, "", 1},
		{"an error with a deny", []saying{{say: SayDeny, err: errDisk}, allows}, false, nil, false, "allow", 2},
		{"a panic", []saying{{boom: true}}, false, nil, false, "", 1},
		{"an unknown word", []saying{{say: 7}}, false, nil, false, "", 1},
		{"an allow that is not recorded", []saying{allows, denies}, false, errDisk, false, "deny", 2},
		{"nobody records", []saying{allows}, false, nil, true, "", 1},
		{"a claimed way", []saying{allows, denies}, true, nil, false, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls []string
			var notes []Consultation
			chain := Chain{Session: "lead", Note: func(x Consultation) error { notes = append(notes, x); return c.note }}
			if c.noNote {
				chain.Note = nil
			}
			for i, l := range c.links {
				l.name, l.calls = fmt.Sprint("link", i), &calls
				chain.Links = append(chain.Links, ChainLink{Name: l.name, Decider: l})
			}
			a := newAsk(t, c.claimed)
			d, decided := chain.Consult(t.Context(), a)
			if decided != (c.want != "") || len(calls) != c.asked || !c.noNote && len(notes) != c.asked {
				t.Fatalf("decided %t, asked %q, %d notes", decided, calls, len(notes))
			}
			if !decided {
				if d.Allows("a", a.Digest) {
					t.Error("the undecided decision allows")
				}
				return
			}
			if d.Verdict.String() != c.want || d.By.Kind != ask.KindLink || d.By.Surface != calls[len(calls)-1] || d.By.Session != "lead" || d.Check() != nil || d.By.Person() {
				t.Errorf("%+v", d)
			}
			if c.want == "deny" && strings.Contains(Sentence(d), "user") {
				t.Errorf("a person is blamed: %s", Sentence(d))
			}
		})
	}
	var calls []string
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	chain := Chain{Session: "lead", Links: []ChainLink{{"x", saying{say: SayAllow, calls: &calls}}, {"none", nil}}, Note: func(Consultation) error { return nil }}
	if _, decided := chain.Consult(ctx, newAsk(t, false)); decided {
		t.Error("decided for one who went away")
	}
	chain.Links = chain.Links[1:]
	if _, decided := chain.Consult(t.Context(), newAsk(t, false)); decided {
		t.Error("a link that is not there decided")
	}
	chain.Links = []ChainLink{{"x", saying{say: SayAllow, calls: &calls}}}
	chain.Note = func(Consultation) error { panic("boom") }
	if _, decided := chain.Consult(t.Context(), newAsk(t, false)); decided {
		t.Error("an allow whose record panicked")
	}
	if d, decided := chain.Consult(t.Context(), question(t)); decided {
		t.Errorf("a question of the agent's was answered: %+v", d)
	}
}

func TestSaid(t *testing.T) {
	for raw, want := range map[string]Say{
		`{"decision":"allow"}`: SayAllow, " {\n \"reason\" : \"x\", \"decision\": \"deny\" }\n": SayDeny, `{"decision":"defer","reason":""}`: SayDefer,
	} {
		if got, _, err := parseSaid([]byte(raw)); err != nil || got != want {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
	for _, raw := range []string{
		``, `allow`, `"allow"`, `{}`, `{"reason":"x"}`, `{"decision":"Allow"}`, `{"decision":"ALLOW"}`, `{"Decision":"allow"}`, `{"decision":true}`, `{"decision":null}`,
		`{"decision":"allow","decision":"deny"}`, `{"decision":"deny","decision":"allow"}`, `{"decision":"allow","x":1}`, `{"decision":"allow"} {"decision":"deny"}`,
		`{"decision":"allow"}x`, `{"decision":"allow"`, `[{"decision":"allow"}]`, `{"decision":{"decision":"allow"}}`, `{"decision":"allow","reason":1}`, "\xff", `{"decision":"yes"}`, `{"decision":""}`,
	} {
		if got, _, err := parseSaid([]byte(raw)); err == nil || got != SayDefer {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
}

func FuzzSaid(f *testing.F) {
	f.Add([]byte(`{"decision":"allow","reason":"x"}`))
	f.Add([]byte(`{"decision":"deny"}{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, _, err := parseSaid(raw)
		if err != nil && got != SayDefer {
			t.Errorf("%q: %s with %v", raw, got, err)
		}
		if got == SayAllow && !strings.Contains(string(raw), "allow") && !strings.Contains(string(raw), `\u`) {
			t.Errorf("%q allows", raw)
		}
		if errors.Is(err, errDisk) {
			t.Error("impossible")
		}
	})
}
