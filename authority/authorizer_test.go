package authority

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"permd/ask"
	"permd/broker"
)

// TestDecide: whatever an authorizer returns, only a sound decision for this
// very ask counts.
func TestDecide(t *testing.T) {
	a := newAsk(t, false)
	good := allow(a, user())
	with := func(f func(*ask.Decision)) ask.Decision {
		d := good
		f(&d)
		return d
	}
	for _, c := range []struct {
		name string
		z    *fixed
		ok   bool
	}{
		{"allow", &fixed{d: good}, true},
		{"nothing", &fixed{}, false},
		{"allow with an error", &fixed{d: good, err: errors.New("pipe")}, false},
		{"panic", &fixed{boom: true}, false},
		{"another ask", &fixed{d: with(func(d *ask.Decision) { d.Ask = "b" })}, false},
		{"another digest", &fixed{d: with(func(d *ask.Decision) { d.Digest[0] ^= 1 })}, false},
		{"prompt", &fixed{d: with(func(d *ask.Decision) { d.Verdict = ask.Prompt })}, false},
		{"unknown verdict", &fixed{d: with(func(d *ask.Decision) { d.Verdict = 77 })}, false},
		{"allowed by a timeout", &fixed{d: with(func(d *ask.Decision) { d.By = ask.By{Kind: ask.KindTimeout} })}, false},
		{"allowed, not answered", &fixed{d: with(func(d *ask.Decision) { d.Outcome = ask.TimedOut })}, false},
		{"no outcome", &fixed{d: with(func(d *ask.Decision) { d.Outcome = "" })}, false},
		{"nobody", &fixed{d: with(func(d *ask.Decision) { d.By = ask.By{} })}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Decide(t.Context(), c.z, "lead", a)
			if c.ok {
				if !d.Allows("a", a.Digest) {
					t.Errorf("%+v", d)
				}
				return
			}
			denied(t, d, a, ask.KindGateError)
		})
	}
	denied(t, Decide(t.Context(), nil, "lead", a), a, ask.KindGateError)
}

// TestLocalUser: the ask that is put is the one that was given, whatever
// Prepare says; an error of it denies.
func TestLocalUser(t *testing.T) {
	a, other := newAsk(t, false), question(t)
	p := &putter{}
	l := &LocalUser{Session: "lead", Broker: p}
	if _, err := l.Authorize(t.Context(), a); err != nil || p.r.Ask != a || p.r.Decider != "lead" || p.r.Timeout != broker.DefaultTimeout {
		t.Errorf("%+v, %v", p.r, err)
	}
	offers := []ask.Offer{{ID: "s"}}
	l.Prepare = func(context.Context, *ask.Ask) (broker.Request, error) {
		return broker.Request{Ask: other, Decider: "me", Offers: offers, Timeout: time.Second}, nil
	}
	if _, err := l.Authorize(t.Context(), a); err != nil || p.r.Ask != a || p.r.Decider != "lead" || len(p.r.Offers) != 1 || p.r.Timeout != time.Second {
		t.Errorf("%+v, %v", p.r, err)
	}
	if _, err := l.Authorize(t.Context(), newAsk(t, true)); err != nil || p.r.Offers != nil {
		t.Errorf("a claimed parent offers %v, %v", p.r.Offers, err)
	}
	l.Prepare = func(context.Context, *ask.Ask) (broker.Request, error) { return broker.Request{}, errDisk }
	p.calls = 0
	denied(t, Decide(t.Context(), l, "lead", a), a, ask.KindGateError)
	if p.calls != 0 {
		t.Error("put an ask that could not be prepared")
	}
}

type putter struct {
	r     broker.Request
	calls int
}

func (p *putter) Put(_ context.Context, r broker.Request) (ask.Decision, error) {
	p.r = r
	p.calls++
	return ask.Decision{}, nil
}

// TestDenying: unavailable, no person blamed, and every way out named.
func TestDenying(t *testing.T) {
	a := newAsk(t, false)
	d := Decide(t.Context(), Denying{Session: "lone"}, "lone", a)
	denied(t, d, a, ask.KindUnavailable)
	if d.Outcome != ask.Unavailable || d.By.Person() {
		t.Errorf("%+v", d)
	}
	if d := Decide(t.Context(), Denying{"lone", "lead (not serving)"}, "lone", a); !strings.Contains(d.Reason, "lead (not serving)") {
		t.Errorf("the reason does not say who was looked at: %q", d.Reason)
	}
	for _, part := range []string{"lone", "permd desk", "permd run", "PERMD_PARENT_SESSION"} {
		if !strings.Contains(d.Reason, part) {
			t.Errorf("the reason does not name %s: %q", part, d.Reason)
		}
	}
}

// TestRelayed: one frame a hop, the decider stays innermost, and a path that
// is too long denies.
func TestRelayed(t *testing.T) {
	a := newAsk(t, false)
	d := allow(a, user())
	for i := range ask.MaxHops {
		d = Relayed(fmt.Sprint("hop", i), d)
		if !d.Allows("a", a.Digest) || d.By.Decider().Surface != "terminal" || d.By.Depth() != i+2 || !d.By.Person() ||
			d.By.Session != fmt.Sprint("hop", i) {
			t.Fatalf("hop %d: %+v", i, d)
		}
		if err := d.Check(); err != nil {
			t.Fatal(err)
		}
	}
	denied(t, Relayed("one more", d), a, ask.KindGateError)
	denied(t, Relayed("hop", ask.Decision{Ask: "a", Digest: a.Digest, Verdict: ask.Allow, Outcome: ask.Answered}), a, ask.KindGateError)
	denied(t, Relayed("../up", allow(a, user())), a, ask.KindGateError)
}

// TestGateErrorText: an error from elsewhere is one visible, short line.
func TestGateErrorText(t *testing.T) {
	a := newAsk(t, false)
	d := GateError(a, "lead", fmt.Errorf("bad\x1b[2J\n%s", strings.Repeat("x", 5000)))
	denied(t, d, a, ask.KindGateError)
	if strings.ContainsAny(d.Reason, "\x1b\n") || len(d.Reason) > 600 {
		t.Errorf("%d bytes: %.80q", len(d.Reason), d.Reason)
	}
}
