package policy

import (
	"fmt"
	"slices"
	"strings"

	"permd/ask"
	"permd/policy/paths"
)

// Text is a rule file as it is written.
type Text struct {
	Name  string
	Data  []byte
	Layer Layer
}

// Lack is a kind of [Warning].
type Lack string

// What a rule may do that its writer hardly means.
const (
	LackShadowed  Lack = "shadowed"  // a stricter rule holds of all that it matches
	LackRepeated  Lack = "repeated"  // another rule says the same of all that it matches
	LackWide      Lack = "wide"      // it allows more than it looks
	LackSwallowed Lack = "swallowed" // its exceptions leave nothing of it
	LackDead      Lack = "dead"      // it never has an effect
	LackNarrow    Lack = "narrow"    // it forbids less than it looks
)

// Warning is about a rule without a fault that does not do what it looks like.
// Its text ends with the remedy.
type Warning struct {
	Problem
	Kind Lack
}

// Examine decodes texts and judges the examples in them. It returns all faults,
// nil when there are none, and how many examples there are.
func Examine(texts ...Text) (faults Problems, examples int) {
	for _, t := range texts {
		d := read(t)
		faults = append(faults, d.problems...)
		for _, r := range d.drafts {
			examples += len(r.examples)
		}
	}
	return faults, examples
}

// Lint is Examine with warnings. They are about rules of files without a
// fault, held against the rules of all those files, in the order of the files.
// It says nothing of what it is not sure of: no warning is no proof.
func Lint(texts ...Text) (faults Problems, warnings []Warning) {
	l := &linter{}
	for _, t := range texts {
		d := read(t)
		if len(d.problems) > 0 {
			faults = append(faults, d.problems...)
			continue
		}
		for i, r := range d.file.rules {
			l.rules = append(l.rules, linted{r, d.drafts[i]})
		}
		if v := d.file.Default; v != nil && *v == ask.Allow {
			at := d.keyLine("default")
			l.warn(LackWide, d.file.Name, at, `everything that no rule names is allowed; write default = "ask" and name what you allow`)
		}
	}
	for i := range l.rules {
		l.alone(&l.rules[i])
	}
	l.together()
	slices.SortStableFunc(l.warnings, func(a, b Warning) int {
		if a.File != b.File {
			return 0
		}
		return (a.Line-b.Line)*1000 + a.Col - b.Col
	})
	return faults, l.warnings
}

func read(t Text) *decoder {
	d := &decoder{file: &File{Name: t.Name, Layer: t.Layer}, data: t.Data}
	d.all()
	return d
}

// keyLine is where a top-level key stands.
func (d *decoder) keyLine(key string) position {
	line := 1
	for s := range strings.Lines(string(d.data)) {
		rest := strings.TrimLeft(s, " \t")
		if strings.HasPrefix(rest, key) {
			return position{line, len(s) - len(rest) + 1}
		}
		line++
	}
	return position{1, 1}
}

type linted struct {
	*rule
	draft *draft
}

// at is where key stands, or else the rule.
func (r *linted) at(keys ...string) position {
	for _, k := range keys {
		if p, ok := r.draft.keys[k]; ok {
			return p
		}
	}
	return r.draft.at
}

type linter struct {
	rules    []linted
	warnings []Warning
}

func (l *linter) warn(kind Lack, file string, at position, format string, a ...any) {
	l.warnings = append(l.warnings, Warning{Problem{file, at.line, at.col, fmt.Sprintf(format, a...)}, kind})
}

// alone is what a rule says by itself.
func (l *linter) alone(r *linted) {
	if r.Action == ask.Allow {
		if key, why := widerThanMeant(r.rule); why != "" {
			l.warn(LackWide, r.ref.File, r.at(key), "%s", why)
		}
		if why := never(r.rule); why != "" {
			l.warn(LackDead, r.ref.File, r.at("path"), "%s", why)
		}
	}
	if why := narrowerThanMeant(r.rule); why != "" {
		l.warn(LackNarrow, r.ref.File, r.at("command"), "%s", why)
	}
	if len(r.except) > 0 && r.kind == kindAll {
		return
	}
	bare := *r.rule
	bare.except, bare.Except = nil, nil
	for i, e := range r.except {
		at := r.draft.except[i].at
		switch {
		case e.kind == kindAll:
		case e.covers(&bare):
			l.warn(LackSwallowed, r.ref.File, at, "the exception is as wide as its rule: nothing is left of the rule; narrow the exception or remove the rule")
		case apart(e, &bare):
			l.warn(LackDead, r.ref.File, at, "the exception never matches what its rule matches; remove it, or write what the rule is to leave out")
		}
	}
}

// together holds every rule against every other one that could make it idle.
// Rules are compared within their group only: of several thousand, few are
// about the same program.
func (l *linter) together() {
	groups := map[string][]int{}
	for i := range l.rules {
		for _, key := range []string{l.rules[i].group(), ""} {
			groups[key] = append(groups[key], i)
		}
	}
	wideOnes := slices.DeleteFunc(slices.Clone(groups[""]), func(i int) bool { return l.rules[i].group() != l.rules[i].anyGroup() })
	for i := range l.rules {
		y := &l.rules[i]
		if best := l.idle(i, append(slices.Clone(groups[y.group()]), wideOnes...)); best >= 0 {
			l.idleWarning(y, &l.rules[best])
		}
	}
}

// group is what two rules share that are about the same thing.
func (r *linted) group() string {
	switch {
	case r.kind == kindCommand && r.program() != "":
		return r.anyGroup() + " " + r.program()
	case r.kind == kindMCP && !r.server.star:
		return r.anyGroup() + " " + r.Server
	case r.kind == kindPath && r.path != nil:
		lit, _, _ := strings.Cut(r.Path, "*")
		first, _, _ := strings.Cut(lit, "/")
		return r.anyGroup() + " " + first
	}
	return r.anyGroup()
}

func (r *linted) anyGroup() string { return fmt.Sprint(r.kind) + "/" }

// idle finds the rule because of which rule i has no effect, -1 for none.
func (l *linter) idle(i int, among []int) int {
	y := &l.rules[i]
	for _, k := range among {
		x := &l.rules[k]
		if k == i || !x.holdsOf(y.rule) {
			continue
		}
		same := y.covers(x.rule)
		switch {
		case x.Action < y.Action: // deny < ask < allow
			return k
		case x.Action == y.Action && (!same || k < i) && x.saysAs(y.rule):
			return k
		}
	}
	return -1
}

// saysAs reports whether y adds no words and no risk to what x says.
func (x *linted) saysAs(y *rule) bool {
	return (y.Reason == "" || y.Reason == x.Reason) && (y.Risk == "" || y.Risk == x.Risk)
}

// holdsOf reports whether x certainly holds of all that y matches. A rule that
// forbids with a star at the end also holds of the words without it.
func (x *linted) holdsOf(y *rule) bool {
	if x.layer == LayerProject && x.Action == ask.Allow {
		return false // it counts only where the file is trusted
	}
	if x.covers(y) {
		return true
	}
	if !x.prove && x.path != nil && x.path.Literal() && strings.HasPrefix(y.Path, x.Path+"/") {
		c := *x.rule // a directory and all in it
		c.Path, c.path = y.Path, y.path
		return c.covers(y)
	}
	if x.prove || x.argv == nil || y.argv == nil || !x.argv.rest || y.argv.rest || len(x.argv.words) != len(y.argv.words) {
		return false
	}
	for i := range x.argv.words {
		a, b := &x.argv.words[i], &y.argv.words[i]
		if !a.literal() || !b.literal() || a.text != b.text {
			return false
		}
	}
	c := *x.rule
	c.Command, c.argv = y.Command, y.argv
	return c.covers(y)
}

func (l *linter) idleWarning(y, x *linted) {
	where := fmt.Sprintf("line %d", x.ref.Line)
	if x.ref.File != y.ref.File {
		where = x.ref.File + " line " + fmt.Sprint(x.ref.Line)
	}
	if x.Action == y.Action {
		l.warn(LackRepeated, y.ref.File, y.draft.at, "the rule at %s says %s of all that this one matches; remove one of them", where, x.Action)
		return
	}
	l.warn(LackShadowed, y.ref.File, y.draft.at, "it never has an effect: the rule at %s says %s of all that it matches, and the strictest verdict wins; "+
		"remove this one, or write it as an exception of that rule", where, x.Action)
}

// apart reports whether e certainly never matches what r matches.
func apart(e, r *rule) bool {
	switch {
	case e.argv != nil && r.argv != nil:
		for i := range min(len(e.argv.words), len(r.argv.words)) {
			a, b := &e.argv.words[i], &r.argv.words[i]
			if a.star || b.star {
				return false
			}
			if a.literal() && b.literal() && a.text != b.text && (i == 0 || !strings.HasPrefix(a.text, "-") && !strings.HasPrefix(b.text, "-")) {
				return true
			}
		}
	case e.path != nil && r.path != nil:
		if e.path.Anchor() != r.path.Anchor() || e.path.Anchor() == paths.AnchorAny {
			return false
		}
		a, b := literalPart(e.Path), literalPart(r.Path)
		return !paths.Under("/"+a, "/"+b) && !paths.Under("/"+b, "/"+a)
	case e.kind == kindMCP && r.kind == kindMCP:
		return e.server.literal() && r.server.literal() && e.Server != r.Server
	}
	return false
}

// literalPart are the segments of a pattern before the first that is none.
func literalPart(s string) string {
	s = strings.TrimPrefix(s, "<project>/")
	var out []string
	for seg := range strings.SplitSeq(s, "/") {
		if strings.ContainsAny(seg, `*?[{\`) {
			break
		}
		if seg != "" {
			out = append(out, seg)
		}
	}
	return strings.Join(out, "/")
}

// never says why an allow rule can have no effect.
func never(r *rule) string {
	if r.path == nil || !r.path.Literal() || r.Tool == "read" {
		return ""
	}
	name := r.Path
	switch r.path.Anchor() {
	case paths.AnchorHome:
		name = exampleHome + "/" + strings.TrimPrefix(strings.TrimPrefix(name, "~/"), "<home>/")
	case paths.AnchorProject:
		name = exampleProject + "/" + strings.TrimPrefix(name, "<project>/")
	}
	why := clientFile(name, exampleHome, false)
	if why == "" && strings.Contains(name+"/", "/.permd/") {
		why = "a project's rules, which only a person changes"
	}
	if why == "" {
		return ""
	}
	return "it never allows a change: the file is " + why + ", and self-protection stands above every rule; remove the rule and change the file yourself"
}
