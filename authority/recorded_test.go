package authority

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"permd/ask"
)

// TestRecorded: deny ends, allow ends, ask passes on, an error denies; a
// claimed parent's allow passes on as well.
func TestRecorded(t *testing.T) {
	grant := ask.By{Kind: ask.KindGrant, Grant: "g1"}
	for _, c := range []struct {
		name    string
		j       Judge
		claimed bool
		next    bool // Next is asked
		want    ask.Kind
		allowed bool
	}{
		{"deny", ruling{v: ask.Deny, by: ruleBy(), reason: "use make"}, false, false, ask.KindRule, false},
		{"deny, claimed", ruling{v: ask.Deny, by: ruleBy()}, true, false, ask.KindRule, false},
		{"allow by rule", ruling{v: ask.Allow, by: ruleBy()}, false, false, ask.KindRule, true},
		{"allow by grant", ruling{v: ask.Allow, by: grant}, false, false, ask.KindGrant, true},
		{"allow by grant, claimed", ruling{v: ask.Allow, by: grant}, true, true, ask.KindUser, true},
		{"allow by mode, claimed", ruling{v: ask.Allow, by: ask.By{Kind: ask.KindMode}}, true, true, ask.KindUser, true},
		{"ask", ruling{v: ask.Prompt, by: ruleBy()}, false, true, ask.KindUser, true},
		{"ask, claimed", ruling{v: ask.Prompt}, true, true, ask.KindUser, true},
		{"error", ruling{v: ask.Allow, by: ruleBy(), err: errDisk}, false, false, ask.KindGateError, false},
		{"error with ask", ruling{v: ask.Prompt, err: errDisk}, false, false, ask.KindGateError, false},
		{"panic", ruling{boom: true}, false, false, ask.KindGateError, false},
		{"unknown verdict", ruling{v: 9, by: ruleBy()}, false, false, ask.KindGateError, false},
		{"allow by nobody", ruling{v: ask.Allow}, false, false, ask.KindGateError, false},
		{"allow by what cannot allow", ruling{v: ask.Allow, by: ask.By{Kind: ask.KindProtection}}, false, false, ask.KindGateError, false},
		{"no judge", nil, false, false, ask.KindGateError, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAsk(t, c.claimed)
			next := &fixed{d: allow(a, user())}
			log := &journal{}
			d := Decide(t.Context(), &Recorded{Session: "lead", Judge: c.j, Recorder: log, Next: next}, "lead", a)
			if (next.calls == 1) != c.next {
				t.Errorf("next was asked %d times", next.calls)
			}
			if !c.allowed {
				denied(t, d, a, c.want)
			} else if !d.Allows("a", a.Digest) || d.By.Kind != c.want {
				t.Errorf("%+v", d)
			}
			if !c.next && (len(log.records) != 1 || log.records[0].Decision.Verdict != d.Verdict || log.records[0].Ask != a) {
				t.Errorf("records %+v", log.records)
			}
			if c.next && len(log.records) != 0 {
				t.Error("recorded what another decided")
			}
			if d.By.Kind == ask.KindRule && d.By.Session != "lead" {
				t.Errorf("decided at %q", d.By.Session)
			}
			if strings.Contains(d.Reason, "hunter2") {
				t.Errorf("the reason echoes the command: %q", d.Reason)
			}
		})
	}
	a := newAsk(t, false)
	denied(t, Decide(t.Context(), &Recorded{Session: "lead", Judge: ruling{v: ask.Prompt}, Recorder: &journal{}}, "lead", a), a, ask.KindUnavailable)
}

// TestNoRecordNoAllow: an allow without a durable record is a denial, by rule
// or by anybody; a denial stands.
func TestNoRecordNoAllow(t *testing.T) {
	a := newAsk(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the asker is gone; what was decided is recorded all the same
	for name, rec := range map[string]Recorder{"error": &journal{err: errDisk}, "panic": &journal{boom: true}, "none": nil} {
		for what, z := range map[string]func(ask.Decision) Authorizer{
			"durable": func(d ask.Decision) Authorizer { return &Durable{Session: "lead", Recorder: rec, Next: &fixed{d: d}} },
			"recorded": func(d ask.Decision) Authorizer {
				return &Recorded{Session: "lead", Recorder: rec, Judge: ruling{v: d.Verdict, by: d.By}}
			},
		} {
			t.Run(what+" "+name, func(t *testing.T) {
				d := Decide(ctx, z(allow(a, ruleBy())), "lead", a)
				denied(t, d, a, ask.KindGateError)
				if !strings.Contains(d.Reason, "the review log cannot be written: ") {
					t.Errorf("reason %q", d.Reason)
				}
				no := allow(a, ruleBy())
				no.Verdict = ask.Deny
				denied(t, Decide(ctx, z(no), "lead", a), a, ask.KindRule)
			})
		}
	}
	for _, z := range []Authorizer{
		&Durable{Session: "lead", Recorder: &journal{}, Next: &fixed{d: allow(a, user())}},
		&Recorded{Session: "lead", Recorder: &journal{}, Judge: ruling{v: ask.Allow, by: ruleBy()}},
	} {
		if d := Decide(ctx, z, "lead", a); !d.Allows("a", a.Digest) {
			t.Errorf("%+v", d)
		}
		var log *journal
		switch z := z.(type) {
		case *Durable:
			log = z.Recorder.(*journal)
		case *Recorded:
			log = z.Recorder.(*journal)
		}
		if log.ctx.Err() != nil || log.ctx.Done() != nil || len(log.records) != 1 {
			t.Errorf("the record hung on the asker's context: %v, %d records", log.ctx.Err(), len(log.records))
		}
	}
	denied(t, Decide(ctx, &Durable{Session: "lead", Recorder: &journal{}, Next: &fixed{err: errDisk}}, "lead", a), a, ask.KindGateError)
}

// TestRecheck: what the broker is told after the policy changed.
func TestRecheck(t *testing.T) {
	for _, c := range []struct {
		name    string
		j       Judge
		claimed bool
		decided bool
		v       ask.Verdict
	}{
		{"allow", ruling{v: ask.Allow, by: ruleBy()}, false, true, ask.Allow},
		{"allow, claimed", ruling{v: ask.Allow, by: ruleBy()}, true, false, ask.Deny},
		{"deny, claimed", ruling{v: ask.Deny, by: ruleBy()}, true, true, ask.Deny},
		{"ask", ruling{v: ask.Prompt}, false, false, ask.Deny},
		{"error", ruling{err: errDisk}, false, false, ask.Deny},
		{"panic", ruling{boom: true}, false, false, ask.Deny},
	} {
		a := newAsk(t, c.claimed)
		d, decided := Recheck(t.Context(), c.j, "lead")(a)
		if decided != c.decided || d.Verdict != c.v {
			t.Errorf("%s: %s, %t", c.name, d.Verdict, decided)
		}
	}
}

// TestRelease: an allow takes effect only for the text that was answered and
// only if recorded authority does not deny now.
func TestRelease(t *testing.T) {
	a := newAsk(t, false)
	other := a.WithHop(ask.Hop{Session: "x", Node: "y"})
	other.Digest[5] ^= 1
	edited := allow(a, user())
	ans := ask.AllowAnswer(a)
	ans.Edited = json.RawMessage(`{"command":"rm -rf /"}`)
	edited.Answer = &ans
	no := allow(a, user())
	no.Verdict = ask.Deny
	bad := allow(a, user())
	bad.Outcome = ask.TimedOut
	for _, c := range []struct {
		name string
		d    ask.Decision
		a    *ask.Ask
		j    Judge
		want ask.Kind // of a denial; "" allows
	}{
		{"still asks", allow(a, user()), a, ruling{v: ask.Prompt}, ""},
		{"now allows", allow(a, user()), a, ruling{v: ask.Allow, by: ruleBy()}, ""},
		{"now denies", allow(a, user()), a, ruling{v: ask.Deny, by: ruleBy(), reason: "no network"}, ask.KindRelease},
		{"judge fails", allow(a, user()), a, ruling{v: ask.Allow, err: errDisk}, ask.KindGateError},
		{"judge panics", allow(a, user()), a, ruling{boom: true}, ask.KindGateError},
		{"no judge", allow(a, user()), a, nil, ask.KindGateError},
		{"another text", allow(a, user()), other, ruling{v: ask.Allow, by: ruleBy()}, ask.KindRelease},
		{"contradiction", bad, a, ruling{v: ask.Prompt}, ask.KindGateError},
		{"a denial stands", no, a, ruling{v: ask.Allow, by: ruleBy()}, ask.KindUser},
		{"edited, cannot be judged", edited, a, ruling{v: ask.Allow, by: ruleBy()}, ask.KindRelease},
		{"edited, allowed", edited, a, editor{ruling{v: ask.Deny, by: ruleBy()}, ask.Prompt}, ""},
		{"edited, denied", edited, a, editor{ruling{v: ask.Allow, by: ruleBy()}, ask.Deny}, ask.KindRelease},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Release(t.Context(), c.d, c.a, "child", c.j)
			if c.want == "" {
				if !d.Allows("a", a.Digest) {
					t.Errorf("%+v", d)
				}
				return
			}
			denied(t, d, c.a, c.want)
			if c.name == "now denies" {
				s := Sentence(d)
				for _, part := range []string{"refused before it ran", "/etc/p.toml line 12", "no network"} {
					if !strings.Contains(s, part) {
						t.Errorf("%q does not say %q", s, part)
					}
				}
			}
		})
	}
	q := question(t)
	if d := Release(t.Context(), allow(q, user()), q, "child", nil); !d.Allows("a", q.Digest) {
		t.Errorf("a question has no action to judge: %+v", d)
	}
}

type editor struct {
	ruling
	v ask.Verdict
}

func (e editor) JudgeEdited(_ context.Context, _ *ask.Ask, input json.RawMessage) (ask.Verdict, ask.By, string, error) {
	if string(input) != `{"command":"rm -rf /"}` {
		return ask.Allow, ruleBy(), "", nil
	}
	return e.v, ruleBy(), "", nil
}

// TestFromClaimed: a parent by claim may deny and carry a person's answer.
func TestFromClaimed(t *testing.T) {
	a := newAsk(t, true)
	person := allow(a, user())
	person.Grant = &ask.Grant{}
	if d := FromClaimed(Relayed("lead", person), a, "child"); !d.Allows("a", a.Digest) || d.Grant != nil {
		t.Errorf("%+v", d)
	}
	for _, by := range []ask.By{ruleBy(), {Kind: ask.KindGrant, Grant: "g"}, {Kind: ask.KindMode}, {Kind: ask.KindLink},
		{Kind: ask.KindClientDialog, Surface: "pi"}} {
		d := FromClaimed(Relayed("lead", allow(a, by)), a, "child")
		denied(t, d, a, ask.KindRelease)
	}
	no := deny(a, ask.Answered, ruleBy(), "no")
	if d := FromClaimed(no, a, "child"); d.By.Kind != ask.KindRule {
		t.Errorf("%+v", d)
	}
}
