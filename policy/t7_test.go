package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"permd/ask"
	"permd/policy/paths"
)

// T7: the laws of the decision hold over random sets of rules. The laws that
// rapid checks are few and shrink well; these are many, drawn by a plain
// generator from a fixed seed, and a failure is shown with the fewest rules.

var (
	someCommands = []string{"cat", "cat *", "cat a *", "cat a", "echo *", "tool", "tool *", "tool a b", "tool a *", "echo hi"}
	somePaths    = []string{"a", "b/**", "/etc/**", "/etc/x", "b/c", "a/**"}
	verdicts     = []ask.Verdict{ask.Deny, ask.Prompt, ask.Allow}
	layers       = []Layer{LayerManaged, LayerUser, LayerProject}
)

// lawRules draws rules and keeps them compiled: few of them differ.
type lawRules struct {
	r        *rand.Rand
	compiled map[string]*rule
}

func (g *lawRules) rule() ask.Rule {
	r := ask.Rule{Action: pick(g.r, verdicts)}
	switch g.r.IntN(7) {
	case 0, 1:
		r.Command = pick(g.r, someCommands)
		if e := pick(g.r, someCommands); g.r.IntN(2) == 0 && e != r.Command {
			r.Except = []ask.Rule{{Command: e}}
		}
	case 2:
		r.Path, r.Tool = pick(g.r, somePaths), pick(g.r, []string{"", "read", "write"})
		if e := pick(g.r, somePaths); g.r.IntN(2) == 0 && e != r.Path {
			r.Except = []ask.Rule{{Path: e}}
		}
	case 3:
		r.Class = "read-only"
	case 4:
		r.Tool = "bash"
	case 5:
		r.Server, r.Name = pick(g.r, []string{"db", "web"}), pick(g.r, []string{"", "get", "get*"})
	case 6:
		r.Tool = "read"
		if g.r.IntN(2) == 0 {
			r.Client = pick(g.r, []string{"claude", "codex"})
		}
	}
	return r
}

func (g *lawRules) set() *drawn {
	d := &drawn{}
	for i := range g.r.IntN(7) {
		d.world.rules = append(d.world.rules, g.rule())
		d.world.layer = append(d.world.layer, pick(g.r, layers))
		d.lines = append(d.lines, i+1)
	}
	if g.r.IntN(4) == 0 {
		v := pick(g.r, verdicts)
		d.world.def = &v
	}
	return d
}

// policy is drawn.policy with rules that are compiled once.
func (g *lawRules) policy(t *testing.T, d *drawn, order []int) *Policy {
	p := &Policy{def: d.world.def}
	for _, i := range order {
		text := string(Format(nil, d.world.rules[i:i+1]))
		key := string(d.world.layer[i]) + text
		if g.compiled[key] == nil {
			f, err := Decode("f.toml", []byte(text), d.world.layer[i])
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			g.compiled[key] = f.rules[0]
		}
		r := *g.compiled[key]
		r.ref.Line = d.lines[i]
		p.add([]*rule{&r}, nil)
	}
	p.index(p.rules)
	return p
}

// harmlessPrefixes change nothing about the command behind them; what is to
// stand behind it is given too.
var harmlessPrefixes = [][2]string{
	{"true; "}, {"cd . && "}, {"env "}, {"env A=1 "}, {"A=1 "}, {"nice "}, {"nice -n 5 "}, {"timeout 5 "}, {"time "}, {"command "}, {"exec "}, {"sudo -n "}, {"nohup "}, {"stdbuf -oL "}, {"! "}, {"( ", " )"}, {"{ ", "; }"}, {"\\"},
	{"if true; then ", "; fi"}, {"sh -c '", "'"}, {"eval '", "'"}, {"# x\n"}, {""}, {" "}, {"setsid "}, {"/usr/bin/env "}, {"echo hi | "}, {"for i in 1; do ", "; done"}, {"f() { ", "; }; f"}, {"echo \"$(", ")\""}, {"", " 2>&1"}, {"", " | cat"}, {"", " # x"}, {"while ", "; do break; done"},
}

// law checks one set of rules by every law and says which one does not hold.
func (g *lawRules) law(t *testing.T, d *drawn, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 7))
	some := actions{r}
	p := g.policy(t, d, d.inOrder())
	order := d.inOrder()
	order = append(order, order...)
	r.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	shuffled := g.policy(t, d, order)
	extra := g.rule()
	extraLayer := pick(r, layers)
	more := d.with(extra, extraLayer)
	with := g.policy(t, more, more.inOrder())
	for range 3 {
		a := some.next()
		show := fmt.Sprintf("%s %s %+v %+v", a.Tool, a.Command, a.Paths, a.MCP)
		got := decide(p, a)
		if want := d.world.decide(a); got.Verdict != want {
			return fmt.Sprintf("%s: %s, the reference says %s", show, got.Verdict, want)
		}
		if got.Verdict == ask.Allow && d.world.def == nil && (got.By.Kind != ask.KindRule || got.By.Rule == nil) {
			return fmt.Sprintf("%s is allowed by %+v", show, got.By)
		}
		if x := decide(shuffled, a); x.Verdict != got.Verdict || x.Reason != got.Reason || x.Grantable != got.Grantable {
			return fmt.Sprintf("%s: %s, %q; in another order %s, %q", show, got.Verdict, got.Reason, x.Verdict, x.Reason)
		}
		after := decide(with, a).Verdict
		switch {
		case extra.Action == ask.Deny && after > got.Verdict:
			return fmt.Sprintf("%s: adding the deny %s turned %s into %s", show, Line(&extra), got.Verdict, after)
		case got.Verdict == ask.Deny && after != ask.Deny && d.world.def == nil:
			return fmt.Sprintf("%s: adding %s turned a deny into %s", show, Line(&extra), after)
		case extra.Action == ask.Allow && after < got.Verdict && (extra.Class == "" || after == ask.Deny):
			return fmt.Sprintf("%s: adding the allow %s turned %s into %s", show, Line(&extra), got.Verdict, after)
		case extra.Action == ask.Allow && extraLayer == LayerProject && after != got.Verdict:
			return fmt.Sprintf("%s: a project's allow %s turned %s into %s", show, Line(&extra), got.Verdict, after)
		}
	}
	cmd, pre := some.command(), pick(r, harmlessPrefixes)
	wrapped := pre[0] + cmd + pre[1]
	if plain, w := decide(p, bash(cmd)), decide(p, bash(wrapped)); w.Verdict > plain.Verdict {
		return fmt.Sprintf("%q is %s, %q is %s", cmd, plain.Verdict, wrapped, w.Verdict)
	}
	return erring(p, r)
}

// erring makes one rule of p fail whenever it is looked at.
func erring(p *Policy, r *rand.Rand) string {
	if len(p.rules) == 0 {
		return ""
	}
	i := r.IntN(len(p.rules))
	action, a := p.rules[i].Action, bash(actions{r}.command())
	bad := &Policy{def: p.def}
	for k, old := range p.rules {
		c := *old
		if k == i {
			c.kind, c.argv, c.path, c.Tool, c.Client, c.Class, c.except = kindCommand, &argv{words: []wild{{parts: []string{}}}, rest: strings.Contains(a.Command, " ")}, nil, "", "", "", nil
		}
		bad.rules = append(bad.rules, &c)
	}
	bad.index(bad.rules)
	switch got := decide(bad, a); {
	case action == ask.Deny && got.Verdict != ask.Deny, got.Verdict == ask.Allow:
		return fmt.Sprintf("%q with an erring %s: %s", a.Command, action, got.Verdict)
	}
	return ""
}

// fewest takes rules out of a set as long as a law does not hold of it.
func (g *lawRules) fewest(t *testing.T, d *drawn, seed uint64) (*drawn, string) {
	why := g.law(t, d, seed)
	for i := 0; i < len(d.lines); {
		less := &drawn{world: refWorld{rules: slices.Delete(slices.Clone(d.world.rules), i, i+1), layer: slices.Delete(slices.Clone(d.world.layer), i, i+1), def: d.world.def}, lines: slices.Delete(slices.Clone(d.lines), i, i+1)}
		if w := g.law(t, less, seed); w != "" {
			d, why = less, w
		} else {
			i++
		}
	}
	return d, why
}

func TestT7Laws(t *testing.T) {
	sets := 2000
	switch {
	case inCI() && !raceOn:
		sets = 100_000
	case inCI():
		sets = 10_000 // the others run beside this, without the race detector
	}
	seed := rand.New(rand.NewPCG(7, 2026))
	for i := range sets {
		s := seed.Uint64()
		g := &lawRules{r: rand.New(rand.NewPCG(s, 1)), compiled: compiledLaws}
		d := g.set()
		if why := g.law(t, d, s); why != "" {
			d, why := g.fewest(t, d, s)
			t.Fatalf("set %d: %s\n%s", i, why, d)
		}
	}
	t.Logf("%d sets of rules, 8 laws, 0 differences", sets)
}

var compiledLaws = map[string]*rule{}

// A rule that fails is at least an ask, one that denies a deny, whatever the
// others say and whatever it is about.
func TestErringRules(t *testing.T) {
	for _, c := range []struct {
		rules string
		want  ask.Verdict
	}{
		{"[[rule]]\naction = \"allow\"\npath = \"b/**\"\n", ask.Prompt}, {"[[rule]]\naction = \"ask\"\npath = \"b/**\"\n", ask.Prompt}, {"[[rule]]\naction = \"deny\"\npath = \"b/**\"\n", ask.Deny},
	} {
		p := rules(t, "default = \"allow\"\n[[rule]]\naction = \"allow\"\ntool = \"read\"\n"+c.rules)
		at := paths.NewResolver(paths.Fixed{}, proj, home)
		p.bound = p.bind(at, paths.Anchors{Project: at.Dir(proj), Home: at.Dir(home), Cwd: at.Dir(proj)})
		for _, r := range p.rules {
			if r.path != nil {
				r.seq = 1 << 20 // nothing is bound there
			}
		}
		r := decide(p, onFile(ask.ToolRead, "b/c"))
		if r.Verdict != c.want || r.Grantable && !strings.Contains(c.rules, "ask") || r.Reason == "" && c.want != ask.Deny {
			t.Errorf("%s: %s, grantable %v: %s", c.rules, r.Verdict, r.Grantable, r.Reason)
		}
		in := input(p, onFile(ask.ToolRead, "z"))
		in.View = paths.Fixed{}
		if r := Decide(in); r.Verdict != ask.Allow {
			t.Errorf("%s: another file: %s", c.rules, r.Verdict)
		}
	}
}
