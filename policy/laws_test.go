package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"permd/ask"
)

// checks is how many actions each drawn set of rules is asked about.
const checks = 40

var (
	drawVerdict = rapid.SampledFrom([]ask.Verdict{ask.Deny, ask.Prompt, ask.Allow})
	drawCommand = rapid.SampledFrom([]string{"cat", "cat *", "cat a *", "cat a", "echo *", "tool", "tool *", "tool a b", "tool a *", "echo hi"})
	drawPath    = rapid.SampledFrom([]string{"a", "b/**", "/etc/**", "/etc/x", "b/c", "a/**"})
)

// drawRule draws a rule that a rule file could hold.
func drawRule(t *rapid.T) ask.Rule {
	r := ask.Rule{Action: drawVerdict.Draw(t, "action")}
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0, 1:
		r.Command = drawCommand.Draw(t, "command")
		if rapid.Bool().Draw(t, "but") {
			if e := drawCommand.Draw(t, "except"); e != r.Command {
				r.Except = []ask.Rule{{Command: e}}
			}
		}
	case 2:
		r.Path, r.Tool = drawPath.Draw(t, "path"), rapid.SampledFrom([]string{"", "read", "write"}).Draw(t, "tool")
		if rapid.Bool().Draw(t, "but") {
			if e := drawPath.Draw(t, "except"); e != r.Path {
				r.Except = []ask.Rule{{Path: e}}
			}
		}
	case 3:
		r.Class = "read-only"
	case 4:
		r.Tool = "bash"
	case 5:
		r.Server, r.Name = rapid.SampledFrom([]string{"db", "web"}).Draw(t, "server"), rapid.SampledFrom([]string{"", "get", "get*"}).Draw(t, "name")
	case 6:
		r.Tool = "read"
		if rapid.Bool().Draw(t, "of one client") {
			r.Client = rapid.SampledFrom([]string{"claude", "codex"}).Draw(t, "client")
		}
	}
	return r
}

type drawn struct {
	world refWorld
	lines []int
}

func drawRules(t *rapid.T) *drawn {
	d := &drawn{}
	for i := range rapid.IntRange(0, 6).Draw(t, "rules") {
		d.world.rules = append(d.world.rules, drawRule(t))
		d.world.layer = append(d.world.layer, rapid.SampledFrom([]Layer{LayerManaged, LayerUser, LayerProject}).Draw(t, "layer"))
		d.lines = append(d.lines, i+1)
	}
	if rapid.IntRange(0, 3).Draw(t, "default") == 0 {
		v := drawVerdict.Draw(t, "default is")
		d.world.def = &v
	}
	return d
}

func (d *drawn) with(r ask.Rule, l Layer) *drawn {
	c := &drawn{world: refWorld{rules: append([]ask.Rule{}, d.world.rules...), layer: append([]Layer{}, d.world.layer...), def: d.world.def}, lines: append([]int{}, d.lines...)}
	c.world.rules, c.world.layer, c.lines = append(c.world.rules, r), append(c.world.layer, l), append(c.lines, 100+len(d.lines))
	return c
}

// policy makes the policy of the rules in the given order; indexes may repeat.
func (d *drawn) policy(t interface{ Fatalf(string, ...any) }, order []int) *Policy {
	p := &Policy{def: d.world.def}
	for _, i := range order {
		f, err := Decode("f.toml", Format(nil, d.world.rules[i:i+1]), d.world.layer[i])
		if err != nil {
			t.Fatalf("%v\n%s", err, Format(nil, d.world.rules[i:i+1]))
		}
		r := f.rules[0]
		r.ref.Line = d.lines[i]
		p.add([]*rule{r}, nil)
	}
	p.index(p.rules)
	return p
}

func (d *drawn) inOrder() []int {
	order := make([]int, len(d.lines))
	for i := range order {
		order[i] = i
	}
	return order
}

func (d *drawn) String() string {
	var b strings.Builder
	for i := range d.world.rules {
		fmt.Fprintf(&b, "%s %s\n", d.world.layer[i], Line(&d.world.rules[i]))
	}
	if d.world.def != nil {
		fmt.Fprintf(&b, "default %s\n", d.world.def)
	}
	return b.String()
}

// actions gives random actions of the small world; drawing them with rapid
// would be slower than judging them.
type actions struct{ r *rand.Rand }

func drawActions(t *rapid.T) actions {
	return actions{rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "actions"), 1))}
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func (g actions) command() string {
	words := []string{pick(g.r, []string{"cat", "echo", "tool"})}
	for range g.r.IntN(3) {
		words = append(words, pick(g.r, []string{"a", "b", "b/c", "/etc/x", "/etc", "hi", "b/d/e"}))
	}
	return strings.Join(words, " ")
}

func (g actions) next() *ask.Action {
	switch g.r.IntN(6) {
	case 0:
		return onFile(ask.ToolRead, pick(g.r, []string{"a", "b/c", "/etc/x", "b/d", "a/z"}))
	case 1:
		return onFile(pick(g.r, []ask.Tool{ask.ToolWrite, ask.ToolEdit}), pick(g.r, []string{"a", "b/c", "/etc/x", "b/d", "a/z"}))
	case 2:
		return mcp(pick(g.r, []string{"db", "web", "DB"}), pick(g.r, []string{"get", "getX", "put"}))
	case 3:
		return bash(g.command() + pick(g.r, []string{"; ", " && ", " || ", " | "}) + g.command())
	}
	return bash(g.command())
}

func TestLawDecidesAsTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawRules(t)
		p, g := d.policy(t, d.inOrder()), drawActions(t)
		for range checks {
			a := g.next()
			r, want := decide(p, a), d.world.decide(a)
			if r.Verdict != want {
				t.Fatalf("%s %s %+v %+v: %s, the reference says %s\n%s%+v", a.Tool, a.Command, a.Paths, a.MCP, r.Verdict, want, d, r.Reasons)
			}
		}
	})
}

func TestLawOrderAndRepetitionNeverMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawRules(t)
		g := drawActions(t)
		order := d.inOrder()
		other := rapid.Permutation(append(append([]int{}, order...), order...)).Draw(t, "order")
		p, q := d.policy(t, order), d.policy(t, other)
		for range checks {
			a := g.next()
			x, y := decide(p, a), decide(q, a)
			if x.Verdict != y.Verdict || x.Reason != y.Reason || x.By.Kind != y.By.Kind || x.Grantable != y.Grantable ||
				(x.By.Rule == nil) != (y.By.Rule == nil) || x.By.Rule != nil && *x.By.Rule != *y.By.Rule {
				t.Fatalf("%s %s %+v: %+v in one order, %+v in another\n%s", a.Tool, a.Command, a.Paths, x, y, d)
			}
		}
	})
}

func TestLawAddingARule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawRules(t)
		r := drawRule(t)
		more := d.with(r, rapid.SampledFrom([]Layer{LayerManaged, LayerUser, LayerProject}).Draw(t, "its layer"))
		p, q, g := d.policy(t, d.inOrder()), more.policy(t, more.inOrder()), drawActions(t)
		for range checks {
			a := g.next()
			before, after := decide(p, a).Verdict, decide(q, a).Verdict
			switch {
			case r.Action == ask.Deny && after > before:
				t.Fatalf("adding a deny turned %s into %s", before, after)
			case before == ask.Deny && after != ask.Deny && d.world.def == nil:
				t.Fatalf("adding %s turned a deny into %s", r.Action, after)
			case r.Action == ask.Allow && after < before && (r.Class == "" || after == ask.Deny):
				t.Fatalf("adding an allow turned %s into %s for %q\n%s", before, after, a.Command, more)
			case r.Action == ask.Allow && more.world.layer[len(more.world.layer)-1] == LayerProject && after != before:
				t.Fatalf("a project's allow turned %s into %s", before, after)
			}
		}
	})
}

func TestLawAllowedOnlyIfARuleAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawRules(t)
		d.world.def = nil
		p, g := d.policy(t, d.inOrder()), drawActions(t)
		empty := CompileAlone()
		for range checks {
			a := g.next()
			r := decide(p, a)
			if r.Verdict == ask.Allow && (r.By.Kind != ask.KindRule || r.By.Rule == nil) {
				t.Fatalf("%s %s is allowed by %+v", a.Tool, a.Command, r.By)
			}
			if r := decide(empty, a); r.Verdict != ask.Prompt || r.By.Kind != ask.KindDefault {
				t.Fatalf("%s %s without rules: %s by %s", a.Tool, a.Command, r.Verdict, r.By.Kind)
			}
		}
	})
}

// Whatever stands before a command that changes nothing about it, the verdict
// is never weaker.
func TestLawAHarmlessPrefixNeverWeakens(t *testing.T) {
	prefixes := []string{"true; ", "cd . && ", "env ", "env A=1 ", "A=1 ", "nice ", "nice -n 5 ", "timeout 5 ", "time ", "command ", "exec ", "sudo -n ", "nohup ", "stdbuf -oL ",
		"! ", "( ", "{ ", "\\", "if true; then ", "sh -c '", "eval '", "# x\n", "", " ", "setsid ", "/usr/bin/env ", "echo hi | ", "for i in 1; do ", "f() { "}
	suffixes := map[string]string{"( ": " )", "{ ": "; }", "if true; then ": "; fi", "sh -c '": "'", "eval '": "'", "for i in 1; do ": "; done", "f() { ": "; }; f"}
	rapid.Check(t, func(t *rapid.T) {
		d := drawRules(t)
		p, g := d.policy(t, d.inOrder()), drawActions(t)
		for range checks {
			cmd, pre := g.command(), pick(g.r, prefixes)
			plain, wrapped := decide(p, bash(cmd)), decide(p, bash(pre+cmd+suffixes[pre]))
			if wrapped.Verdict > plain.Verdict {
				t.Fatalf("%q is %s, %q is %s\n%s%+v", cmd, plain.Verdict, pre+cmd, wrapped.Verdict, d, wrapped.Reasons)
			}
		}
	})
}

// A grant lifts ask, never deny, and never makes anything stricter.
func TestLawAGrantLiftsAskAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawRules(t)
		p, g := d.policy(t, d.inOrder()), drawActions(t)
		for range checks / 20 {
			a := g.next()
			in := input(p, a)
			before := Decide(in)
			offers := Offers(in, before)
			if before.Verdict != ask.Prompt && len(offers) > 0 {
				t.Fatalf("offers for %s", before.Verdict)
			}
			grants := randomGrants(t, g)
			for _, o := range offers {
				grants = append(grants, keep(t, o, a))
			}
			in.Grants = grants
			after := Decide(in)
			switch {
			case before.Verdict == ask.Deny && after.Verdict != ask.Deny:
				t.Fatalf("%s %s: a grant lifted a deny\n%s", a.Tool, a.Command, d)
			case after.Verdict < before.Verdict:
				t.Fatalf("%s %s: a grant turned %s into %s", a.Tool, a.Command, before.Verdict, after.Verdict)
			case len(offers) > 0 && after.Verdict != ask.Allow:
				t.Fatalf("%s %s %+v: what was offered does not help: %s, %s\n%s", a.Tool, a.Command, a.Paths, after.Verdict, after.Reason, d)
			}
			if len(offers) > 0 {
				o := offers[g.r.IntN(len(offers))]
				in.Grants = []Kept{keep(t, o, a)}
				if r := Decide(in); r.Verdict != ask.Allow {
					t.Fatalf("%s %s: the offer %s alone does not help: %s, %s\n%s", a.Tool, a.Command, o.ID, r.Verdict, r.Reason, d)
				}
				in.Grants = grants
			}
			Complete(a, in.View)
			in.Node = Claimed
			if v := Decide(in).Verdict; v == ask.Allow || v > before.Verdict && before.Verdict == ask.Deny {
				t.Fatalf("%s %s %+v: %s, then %s for a session that only claims to be below\n%s%+v", a.Tool, a.Command, a.Paths, before.Verdict, v, d, before.Reasons)
			}
		}
	})
}

func keep(t interface{ Fatalf(string, ...any) }, o ask.Offer, a *ask.Action) Kept {
	g := ask.Grant{ID: o.ID + "-x", Scope: o.Scope, Rule: o.Rule, By: ask.By{Kind: ask.KindUser, Surface: "terminal"}, Given: "2026-01-02T03:04:05Z"}
	switch o.Scope {
	case ask.ScopeSession, ask.ScopeTree:
		g.Session = "s1"
	case ask.ScopeProject:
		g.Project = a.Project
	}
	k, err := Keep(g, a, input(CompileAlone(), a).View, Clock{Boot: "boot"})
	if err != nil {
		t.Fatalf("%+v: %v", o.Rule, err)
	}
	return k
}

func randomGrants(t *rapid.T, g actions) []Kept {
	var out []Kept
	for range g.r.IntN(3) {
		a := g.next()
		in := input(CompileAlone(), a)
		for _, o := range Offers(in, Decide(in)) {
			out = append(out, keep(t, o, a))
		}
	}
	return out
}
