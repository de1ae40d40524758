package ask

import (
	"errors"
	"strings"
	"testing"
)

func TestByCheck(t *testing.T) {
	for _, b := range []By{
		ruleBy(),
		{Kind: KindDefault}, {Kind: KindBaseline}, {Kind: KindBaseline, Rule: &RuleRef{Layer: "baseline"}}, {Kind: KindProtection},
		{Kind: KindGrant, Grant: "g-1"}, {Kind: KindUser, Surface: "terminal"}, {Kind: KindDevice, Surface: "SHA256:ab/cd+e"},
		{Kind: KindClientDialog, Surface: "claude", Inferred: true}, {Kind: KindTimeout}, {Kind: KindGateError},
		Forwarded("claude-lead", Forwarded("claude-top", ruleBy())),
	} {
		if err := b.Check(); err != nil {
			t.Errorf("%+v: %v", b, err)
		}
	}
	for name, b := range map[string]By{
		"zero":                    {},
		"unknown kind":            {Kind: "admin"},
		"case variant":            {Kind: "User"},
		"frame below a user":      {Kind: KindUser, Inner: &By{Kind: KindDefault}},
		"forwarded by nobody":     {Kind: KindForwarded, Session: "s"},
		"forwarded by no session": {Kind: KindForwarded, Inner: &By{Kind: KindUser}},
		"session":                 {Kind: KindUser, Session: "../x"},
		"surface with escapes":    {Kind: KindUser, Surface: "term\x1b[2J"},
		"surface on two lines":    {Kind: KindUser, Surface: "a\nb"},
		"endless surface":         {Kind: KindUser, Surface: strings.Repeat("a", MaxName+1)},
		"rule without place":      {Kind: KindRule},
		"rule without layer":      {Kind: KindRule, Rule: &RuleRef{File: "f", Line: 1}},
		"rule at a negative line": {Kind: KindRule, Rule: &RuleRef{Layer: "user", Line: -1}},
		"user by a rule":          {Kind: KindUser, Rule: &RuleRef{Layer: "user"}},
		"grant without id":        {Kind: KindGrant},
		"user by a grant":         {Kind: KindUser, Grant: "g-1"},
		"bad innermost frame":     Forwarded("a", Forwarded("b", By{Kind: "root"})),
		"bad frame in the middle": Forwarded("a", By{Kind: KindTimeout, Inner: &By{Kind: KindUser}}),
	} {
		if err := b.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestByDepth(t *testing.T) {
	b := By{Kind: KindUser}
	for n := 1; n <= MaxFrames; n++ {
		if err := b.Check(); err != nil || b.Depth() != n || !b.Person() {
			t.Fatalf("%d frames: %v, depth %d", n, err, b.Depth())
		}
		b = Forwarded("s", b)
	}
	if err := b.Check(); err == nil {
		t.Fatal("one frame too many")
	}
	loop := By{Kind: KindForwarded, Session: "s"}
	loop.Inner = &loop
	if loop.Check() == nil || loop.Person() || loop.Depth() > MaxFrames+1 {
		t.Fatal("a loop is no decider")
	}
}

// Only a person makes "the user denied", whatever the frames around say.
func TestOnlyPersonsAreUsers(t *testing.T) {
	for k := range decides {
		b := Forwarded("s", By{Kind: k})
		if got, want := b.Person(), k == KindUser || k == KindDevice; got != want {
			t.Errorf("%s: %v", k, got)
		}
	}
	var zero By
	if zero.Person() {
		t.Error("zero")
	}
}

func TestDecisionCheck(t *testing.T) {
	a := seal(t, gateBody())
	for _, tc := range []struct {
		name   string
		change func(*Decision)
		ok     bool
	}{
		{"allow by a person", func(*Decision) {}, true},
		{"deny by a person", func(d *Decision) { d.Verdict, d.Grant = Deny, nil }, true},
		{"deny, nobody could answer", func(d *Decision) {
			*d = Decision{Ask: "a-1", Outcome: Unavailable, By: By{Kind: KindUnavailable}}
		}, true},
		{"deny by protection", func(d *Decision) {
			*d = Decision{Ask: "a-1", Outcome: Answered, By: By{Kind: KindProtection}}
		}, true},

		{"zero", func(d *Decision) { *d = Decision{} }, false},
		{"no ask", func(d *Decision) { d.Ask = "" }, false},
		{"verdict ask", func(d *Decision) { d.Verdict = Prompt }, false},
		{"verdict of no word", func(d *Decision) { d.Verdict = 3 }, false},
		{"no outcome", func(d *Decision) { d.Outcome = "" }, false},
		{"allow without digest", func(d *Decision) { d.Digest, d.Answer = Digest{}, nil }, false},
		{"allow that timed out", func(d *Decision) { d.Outcome, d.Answer = TimedOut, nil }, false},
		{"allow by nobody", func(d *Decision) { d.By = By{} }, false},
		{"allow by timeout", func(d *Decision) { d.By = By{Kind: KindTimeout} }, false},
		{"allow by an error", func(d *Decision) { d.By = By{Kind: KindGateError} }, false},
		{"allow by protection", func(d *Decision) { d.By = By{Kind: KindProtection} }, false},
		{"allow by repetition", func(d *Decision) { d.By = By{Kind: KindRepeat} }, false},
		{"allow by a refused release", func(d *Decision) { d.By = Forwarded("s", By{Kind: KindRelease}) }, false},
		{"a timeout that answers", func(d *Decision) { *d = Decision{Ask: "a-1", Outcome: Answered, By: By{Kind: KindTimeout}} }, false},
		{"a person who timed out", func(d *Decision) { *d = Decision{Ask: "a-1", Outcome: TimedOut, By: By{Kind: KindUser}} }, false},
		{"a person far away who was unavailable", func(d *Decision) {
			*d = Decision{Ask: "a-1", Outcome: Unavailable, By: Forwarded("s", By{Kind: KindDevice})}
		}, false},
		{"grant with a deny", func(d *Decision) { d.Verdict = Deny }, false},
		{"malformed grant", func(d *Decision) { d.Grant.Scope = ScopeOnce }, false},
		{"answer for another ask", func(d *Decision) { d.Answer.Ask = "a-2" }, false},
		{"answer for another digest", func(d *Decision) { d.Answer.Digest[0]++ }, false},
		{"answer of another outcome", func(d *Decision) { d.Answer.Outcome, d.Answer.Items = Stopped, nil }, false},
		{"negative wait", func(d *Decision) { *d.WaitMS = -1 }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := sampleDecision(a)
			tc.change(&d)
			if err := d.Check(); (err == nil) != tc.ok {
				t.Fatalf("%v", err)
			}
		})
	}
}

// Allows is false for every single change of a decision that allows.
func TestAllows(t *testing.T) {
	a := seal(t, gateBody())
	d := sampleDecision(a)
	if !d.Allows(a.Body.ID, a.Digest) {
		t.Fatal("the sample allows")
	}
	other := a.Digest
	other[0] ^= 1
	if d.Allows(a.Body.ID, other) || d.Allows("a-9", a.Digest) || (*Decision)(nil).Allows(a.Body.ID, a.Digest) {
		t.Error("another body")
	}
	for _, v := range []Verdict{Deny, Prompt, Allow + 1, 255} {
		c := d
		if c.Verdict = v; c.Allows(a.Body.ID, a.Digest) {
			t.Errorf("verdict %d", v)
		}
	}
	for _, o := range []Outcome{"", Declined, Dismissed, Stopped, TimedOut, Withdrawn, Unavailable, Failed, "Answered"} {
		c := d
		if c.Outcome = o; c.Allows(a.Body.ID, a.Digest) {
			t.Errorf("outcome %q", o)
		}
	}
	var zero Decision
	if zero.Allows("", Digest{}) || zero.Verdict != Deny {
		t.Error("the zero decision allows")
	}
}

func TestGrantCheck(t *testing.T) {
	for name, change := range map[string]func(*Grant){
		"no id":                 func(g *Grant) { g.ID = "" },
		"once":                  func(g *Grant) { g.Scope = ScopeOnce },
		"no scope":              func(g *Grant) { g.Scope = "" },
		"unknown scope":         func(g *Grant) { g.Scope = "world" },
		"session scope, none":   func(g *Grant) { g.Session = "" },
		"user scope, a session": func(g *Grant) { g.Scope = ScopeUser },
		"project scope, none":   func(g *Grant) { g.Scope, g.Session = ScopeProject, "" },
		"relative project":      func(g *Grant) { g.Scope, g.Session, g.Project = ScopeProject, "", "proj" },
		"session and project":   func(g *Grant) { g.Project = "/home/dev/proj" },
		"denies":                func(g *Grant) { g.Rule.Action = Deny },
		"asks":                  func(g *Grant) { g.Rule.Action = Prompt },
		"empty digest":          func(g *Grant) { g.Rule.Digest = &Digest{} },
		"deep exceptions": func(g *Grant) {
			r := Rule{}
			for range MaxExceptDepth {
				r = Rule{Except: []Rule{r}}
			}
			g.Rule.Except = []Rule{r}
		},
		"many exceptions": func(g *Grant) { g.Rule.Except = make([]Rule, MaxExcept+1) },
		"endless command": func(g *Grant) { g.Rule.Command = strings.Repeat("x", MaxText+1) },
		"unknown risk":    func(g *Grant) { g.Rule.Risk = "huge" },
		"given by nobody": func(g *Grant) { g.By = By{} },
		"no time":         func(g *Grant) { g.Given = "" },
		"local time":      func(g *Grant) { g.Given = "2026-01-02T03:04:05+01:00" },
		"negative life":   func(g *Grant) { g.ExpiresMS = -1 },
	} {
		g := sampleGrant()
		change(&g)
		if err := g.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, ok := range []Grant{sampleGrant(), func() Grant {
		g := sampleGrant()
		g.Scope, g.Session, g.Project = ScopeProject, "", "/home/dev/proj"
		return g
	}(), func() Grant {
		g := sampleGrant()
		g.Scope, g.Session = ScopeUser, ""
		return g
	}()} {
		if err := ok.Check(); err != nil {
			t.Errorf("%+v: %v", ok, err)
		}
	}
}

func TestOfferCheck(t *testing.T) {
	ok := sessionOffer()
	if err := ok.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Offer){
		"id": func(o *Offer) { o.ID = "" }, "scope": func(o *Offer) { o.Scope = ScopeOnce }, "label": func(o *Offer) { o.Label = " " },
		"verdict": func(o *Offer) { o.Rule.Action = Deny }, "rule": func(o *Offer) { o.Rule.Digest = &Digest{} },
	} {
		o := sessionOffer()
		change(&o)
		if o.Check() == nil {
			t.Errorf("%s", name)
		}
	}
}

func TestVerdictAndScope(t *testing.T) {
	for v, want := range map[Verdict]string{Deny: "deny", Prompt: "ask", Allow: "allow", 3: "deny", 255: "deny"} {
		if v.String() != want {
			t.Errorf("%d is %s", v, v)
		}
		var back Verdict
		if text, err := v.MarshalText(); v > Allow && err == nil {
			t.Errorf("%d is written as %s", v, text)
		} else if v <= Allow && (back.UnmarshalText(text) != nil || back != v) {
			t.Errorf("%s does not come back", text)
		}
	}
	for _, bad := range []string{"", "Allow", "allow ", "prompt", "2", "\x00"} {
		v := Allow
		if v.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is a verdict", bad)
		}
	}
	all := []Verdict{Deny, Prompt, Allow}
	for _, a := range all {
		for _, b := range all {
			if a.Stricter(b) != min(a, b) {
				t.Errorf("%s, %s", a, b)
			}
		}
	}
	last := -1
	for _, s := range []Scope{ScopeOnce, ScopeSession, ScopeTree, ScopeProject, ScopeUser, "unknown"} {
		if s.Width() <= last {
			t.Errorf("%s is not wider than the scope before", s)
		}
		last = s.Width()
	}
}
