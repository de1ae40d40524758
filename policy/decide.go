package policy

import (
	"cmp"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"permd/ask"
	"permd/policy/paths"
	"permd/policy/shell"
)

// judge is one decision being made.
type judge struct {
	in       *Input
	input    Input
	fold     bool
	resolver *paths.Resolver
	places   []paths.Place // room for known
	argvs    []string      // room for the words of subjects
	reader   shell.Reader
	anchors  paths.Anchors
	bounds   []*paths.Bound
	binding  *binding
	script   *shell.Script
	subjects []subject
	recorded map[string][]paths.Place // nil at the origin
	units    []unitState
	lookups  []int // units that name permd, nil before they are looked for
	patterns map[string]*regexp.Regexp
	crowded  bool            // some subjects are light
	listed   int             // names looked at for patterns of the shell
	named    map[named]bool  // files of very many that are looked at
	made     map[string]int  // files that the text makes, nil before they are looked for
	strange  map[string]bool // directories, and whether git would take them for a repository
	result   Result
	// holds is true when some ask is one that no grant lifts, firm when no mode
	// and no external decider does.
	holds, firm bool
}

// judges keep the memory of decisions for the next ones: nothing of it is in
// their results.
var judges = sync.Pool{New: func() any { return &judge{resolver: paths.NewResolver(nil, "", "")} }}

func (j *judge) put() {
	const most = 128
	if cap(j.subjects) > most || cap(j.units) > most {
		return
	}
	kept := judge{subjects: j.subjects[:0], units: j.units[:0], resolver: j.resolver, argvs: j.argvs[:0], places: j.places[:0]}
	kept.reader, j.reader = j.reader, shell.Reader{}
	kept.resolver.Reset(nil, "", "")
	*j = kept
	judges.Put(j)
}

// Decide says what recorded authority says of an action. It is a function of
// in alone: it changes nothing and waits for nothing.
func Decide(in Input) Result {
	if in.Action == nil || in.Policy == nil {
		return Result{By: ask.By{Kind: ask.KindDefault}, Reason: "there is no action or no policy to judge by"}
	}
	j := judges.Get().(*judge)
	defer j.put()
	j.input, j.in, j.fold = in, &j.input, in.Fold || runtime.GOOS == "darwin"
	j.prepare()
	j.split()
	j.protect()
	verdict := ask.Allow
	if len(j.subjects) == 0 {
		verdict = j.ask(Reason{Kind: ask.KindDefault, Text: "nothing in it could be understood"}, true)
	}
	for i := range j.subjects {
		if s := &j.subjects[i]; s.light {
			verdict = verdict.Stricter(j.lightly(s))
		} else {
			verdict = verdict.Stricter(j.verdict(s))
		}
	}
	verdict = verdict.Stricter(j.floors())
	for i := range j.result.Reasons {
		if j.result.Reasons[i].Verdict == ask.Deny {
			verdict = ask.Deny
		}
	}
	if verdict == ask.Allow && !slices.ContainsFunc(j.result.Reasons, func(r Reason) bool { return r.Verdict == ask.Allow }) {
		verdict = j.ask(Reason{Kind: ask.KindDefault, Text: "no rule allows it"}, false)
	}
	j.conclude(verdict)
	return j.result
}

func (j *judge) prepare() {
	a := j.in.Action
	view := j.in.View
	if j.in.Node != Origin {
		view = nil // another's file system: only what it recorded is known
	}
	if f, ok := view.(paths.Folder); ok && !j.fold {
		j.fold = a.Project != "" && f.Folds(a.Project) || a.Home != "" && f.Folds(a.Home)
	}
	j.resolver.Reset(view, a.Cwd, a.Home)
	if view == nil {
		j.recorded = map[string][]paths.Place{}
		for _, p := range a.Paths {
			pl := paths.Place{Given: p.Given, Real: p.Real, Trusted: p.Real}
			if !slices.Contains(j.recorded[p.Given], pl) {
				j.recorded[p.Given] = append(j.recorded[p.Given], pl)
			}
		}
	}
	if b := j.in.Policy.bound; b != nil && view != nil && a.Project == b.project.Given && a.Home == b.home.Given {
		// The anchors were put in place a moment ago. Should they have moved
		// since, what lies in them no longer does.
		j.binding, j.anchors.Project, j.anchors.Home = b, b.project, b.home
		j.resolver.Know(b.home)
		j.resolver.Know(b.project)
		if a.Cwd == b.project.Given {
			j.anchors.Cwd = b.project
		} else {
			j.anchors.Cwd = j.dir(a.Cwd)
		}
		j.bounds = b.bounds
		return
	}
	j.anchors.Cwd = j.dir(a.Cwd)
	if a.Home != "" {
		j.anchors.Home = j.dir(a.Home)
	}
	if view != nil {
		if p, err := j.resolver.Project(a.Project); err == nil {
			j.anchors.Project = p
		}
	} else {
		j.anchors.Project = recordedProject(a, j.dir(a.Project))
	}
	j.binding = j.in.Policy.bind(j.resolver, j.anchors)
	j.bounds = j.binding.bounds
}

// recordedProject applies what paths.Project does to a project that another
// node has found.
func recordedProject(a *ask.Action, p paths.Place) paths.Place {
	if a.Project == "" || a.Project == "/" || a.Home != "" && (paths.Under(p.Given, a.Home) || paths.Under(p.Real, a.Home)) {
		return paths.Place{}
	}
	return p
}

// dir is the place of one of the action's own directories. What the origin
// says of them is taken as it is: were it a link, its files would be found to
// lie elsewhere.
func (j *judge) dir(name string) paths.Place {
	if j.recorded == nil {
		return j.resolver.Dir(name)
	}
	p := j.known(name, "")[0]
	if p.Given == name {
		p.Doubt = ""
	}
	return p
}

// known returns the places of a name, from the file system or from the record
// of the origin.
//
// What it returns is valid until it is called again.
func (j *judge) known(name, dir string) []paths.Place {
	pls := j.resolver.AppendPlaces(j.places[:0], name, dir)
	j.places = pls
	if j.recorded == nil {
		return pls
	}
	if known := j.recorded[pls[0].Given]; known != nil {
		return known
	}
	return pls
}

// rulesFor calls f with every rule that may speak of s.
func (j *judge) rulesFor(s *subject, f func(*rule)) {
	p := j.in.Policy
	for _, r := range p.others {
		f(r)
	}
	switch s.kind {
	case kindCommand:
		u := j.unit(s)
		name := u.Name()
		if strings.ContainsAny(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			name = strings.ToLower(name)
		}
		for _, r := range p.commands[name] {
			f(r)
		}
		for _, r := range p.anywhere {
			f(r)
		}
	case kindPath:
		j.binding.pathRules(s.place, f)
	case kindMCP:
		for _, r := range p.servers[strings.ToLower(s.mcp.Server)] {
			f(r)
		}
	}
}

func (j *judge) ask(r Reason, hold bool) ask.Verdict {
	r.Verdict = ask.Prompt
	j.holds = j.holds || hold
	j.reason(r)
	return ask.Prompt
}

const maxReasons = 64

func (j *judge) reason(r Reason) {
	if len(j.result.Reasons) < maxReasons || r.Verdict == ask.Deny && len(j.result.Reasons) < 4*maxReasons {
		if j.result.Reasons == nil {
			j.result.Reasons = make([]Reason, 0, min(max(len(j.subjects), 1), 16))
		}
		j.result.Reasons = append(j.result.Reasons, r)
	}
}

func (j *judge) ruleReason(r *rule, s *subject) Reason {
	ref := r.ref
	out := Reason{Verdict: r.Action, Kind: ask.KindRule, Rule: &ref, Unit: j.unitText(s), Path: s.place.Given, Text: r.Reason, layer: r.layer.rank(), risk: r.Risk}
	if r.held {
		out.Text = strings.TrimSpace(r.Reason + " (an edit takes this rule out; it holds until the edit is applied)")
	}
	return out
}

const notUnderstood = "not understood: "

// floors are asks about the action as a whole.
func (j *judge) floors() ask.Verdict {
	v := ask.Allow
	if j.in.Policy.broken != "" {
		j.firm = true
		v = j.ask(Reason{Kind: ask.KindDefault, Text: j.in.Policy.broken}, true)
	}
	if j.crowded {
		v = v.Stricter(j.ask(Reason{Kind: ask.KindDefault, Text: tooManyText}, true))
	}
	if j.script != nil && j.script.Doubt != "" {
		v = v.Stricter(j.ask(Reason{Kind: ask.KindDefault, Text: notUnderstood + j.script.Doubt}, true))
	}
	return v
}

// conclude picks the one reason that is named, in an order of its own: rules
// in another order name the same one.
func (j *judge) conclude(v ask.Verdict) {
	r := &j.result
	if len(r.Reasons) > 1 {
		slices.SortStableFunc(r.Reasons, compareReasons)
	}
	r.Verdict = v
	r.Grantable = v == ask.Prompt && !j.holds
	r.Firm = v == ask.Prompt && j.firm
	r.By = ask.By{Kind: ask.KindDefault}
	for i := range r.Reasons {
		x := &r.Reasons[i]
		if x.Verdict != v {
			continue
		}
		r.By = ask.By{Kind: x.Kind, Rule: x.Rule, Grant: x.Grant}
		r.Reason = x.Text
		if v == ask.Prompt && x.Rule != nil {
			r.Reason = "the rule at " + place(x.Rule) + " asks"
			if x.Text != "" {
				r.Reason += ": " + x.Text
			}
		}
		break
	}
	for i := range r.Reasons {
		x := &r.Reasons[i]
		if x.Verdict == v && riskier(x.risk, r.Risk) {
			r.Risk = x.risk
		}
	}
	if j.script != nil {
		r.Units = make([]string, min(len(j.script.Units), maxFull))
		for i := range r.Units {
			r.Units[i] = j.script.Units[i].Text
		}
	}
	for i := range j.subjects {
		if s := &j.subjects[i]; s.kind == kindPath && len(r.Paths) < maxShown {
			p := ask.Path{Given: s.place.Given, Real: s.place.Real, Access: ask.AccessRead}
			if s.how&accessWrite != 0 {
				p.Access = ask.AccessWrite
			}
			if !slices.Contains(r.Paths, p) {
				if r.Paths == nil {
					r.Paths = make([]ask.Path, 0, len(j.subjects)-i)
				}
				r.Paths = append(r.Paths, p)
			}
		}
	}
}

func kindOrder(k ask.Kind) int {
	switch k {
	case ask.KindProtection:
		return 0
	case ask.KindRule:
		return 1
	case ask.KindGrant:
		return 2
	case ask.KindBaseline:
		return 3
	}
	return 4
}

func compareReasons(a, b Reason) int {
	return cmp.Or(int(a.Verdict)-int(b.Verdict), kindOrder(a.Kind)-kindOrder(b.Kind), a.layer-b.layer,
		compareRefs(a.Rule, b.Rule), strings.Compare(a.Grant, b.Grant), strings.Compare(a.Text, b.Text),
		strings.Compare(a.Unit, b.Unit), strings.Compare(a.Path, b.Path))
}

func compareRefs(a, b *ask.RuleRef) int {
	switch {
	case a == nil || b == nil:
		return 0
	case a.File != b.File:
		return strings.Compare(a.File, b.File)
	}
	return a.Line - b.Line
}

func place(r *ask.RuleRef) string {
	if r.Line == 0 {
		return r.File
	}
	return r.File + " line " + strconv.Itoa(r.Line)
}

func riskier(a, b ask.Risk) bool { return riskOrder(a) > riskOrder(b) }

func riskOrder(r ask.Risk) int {
	switch r {
	case ask.RiskLow:
		return 1
	case ask.RiskMedium:
		return 2
	case ask.RiskHigh:
		return 3
	}
	return 0
}
