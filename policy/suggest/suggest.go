// Package suggest reads from the review log what people allowed again and
// again, and says which narrow rules would have spared the questions, and
// which rules never spoke.
//
// It promises narrow rules: exactly the command, or its subcommand when
// several such commands were allowed; exactly the file, the tool of the
// server, the host, the kind of agent. Never the first word alone, never a
// wrapper, an interpreter or a directory, never what a person denied even
// once, what a rule asks about on purpose, or what runs later. A suggestion is
// only made when with it the very calls on the record would be allowed.
//
// It does not promise that a rule is a good one: a person reads it and decides.
// Commands are on the record without their secrets; such ones are left out.
package suggest

import (
	"cmp"
	"slices"
	"strings"

	"permd/ask"
	"permd/policy"
	"permd/policy/paths"
	"permd/policy/shell"
)

// Call is a call on the record and what became of it.
type Call struct {
	Action  ask.Action
	Session string
	// Time is RFC 3339 in UTC.
	Time string
	// Allowed and Denied say that a person did.
	Allowed, Denied bool
}

// Suggestion is a rule that would have spared questions.
type Suggestion struct {
	Rule ask.Rule `json:"rule"`
	// Times is how often a person allowed what it covers, in how many
	// sessions, and when last.
	Times    int    `json:"times"`
	Sessions int    `json:"sessions"`
	Last     string `json:"last"`
}

// Idle is a rule of the user's that spoke of no call on the record.
type Idle struct {
	Rule ask.Rule    `json:"rule"`
	Ref  ask.RuleRef `json:"ref"`
}

// Study is what the record says of the rules.
type Study struct {
	// Calls is how many calls were looked at, Asked how many of them a person
	// was asked about.
	Calls       int          `json:"calls"`
	Asked       int          `json:"asked"`
	Suggestions []Suggestion `json:"suggestions"`
	Idle        []Idle       `json:"idle"`
}

// candidate is a rule and the calls that speak for it.
type candidate struct {
	rule     ask.Rule
	calls    []int
	sessions map[string]bool
	distinct map[string]bool
	denied   bool
}

// From studies calls by the rules in force. A suggestion has at least least
// calls that a person allowed.
func From(calls []Call, rules *policy.Policy, least int) Study {
	s := study{calls: calls, rules: rules, found: map[string]*candidate{}, spoke: map[ask.RuleRef]bool{}}
	out := Study{Calls: len(calls), Suggestions: []Suggestion{}, Idle: []Idle{}}
	for i := range calls {
		if calls[i].Allowed || calls[i].Denied {
			out.Asked++
		}
		s.look(i)
	}
	s.spared(least)
	for _, key := range s.order {
		if c := s.found[key]; good(c, least) {
			last := ""
			for _, i := range c.calls {
				last = max(last, calls[i].Time)
			}
			out.Suggestions = append(out.Suggestions, Suggestion{c.rule, len(c.calls), len(c.sessions), last})
		}
	}
	out.Suggestions = withoutCovered(out.Suggestions)
	list, refs := rules.Rules()
	for i := range list {
		// A deny that never spoke may be why nobody tried.
		if refs[i].Layer == string(policy.LayerUser) && list[i].Action != ask.Deny && !s.spoke[refs[i]] {
			out.Idle = append(out.Idle, Idle{list[i], refs[i]})
		}
	}
	return out
}

type study struct {
	calls []Call
	rules *policy.Policy
	found map[string]*candidate
	order []string
	spoke map[ask.RuleRef]bool
}

func (s *study) judge(c *Call, rules *policy.Policy) policy.Result {
	a := c.Action
	if a.Project == "" {
		a.Project = a.Cwd
	}
	return policy.Decide(policy.Input{Action: &a, Origin: c.Session, Here: c.Session, Node: policy.Origin, Policy: rules, View: paths.Disk{}})
}

// look judges a call again and counts it for the rules that would cover it.
func (s *study) look(i int) {
	c := &s.calls[i]
	r := s.judge(c, s.rules)
	for _, x := range r.Reasons {
		if x.Rule != nil {
			s.spoke[*x.Rule] = true
		}
	}
	if !c.Allowed && !c.Denied || secret(&c.Action) {
		return
	}
	if c.Allowed && (r.Verdict != ask.Prompt || !grantable(r)) {
		return // allowed by now, or asked on purpose
	}
	for _, rule := range s.rulesFor(c, r) {
		key := policy.Line(&rule)
		k := s.found[key]
		if k == nil {
			k = &candidate{rule: rule, sessions: map[string]bool{}, distinct: map[string]bool{}}
			s.found[key] = k
			s.order = append(s.order, key)
		}
		if c.Denied {
			k.denied = true
			continue
		}
		k.calls = append(k.calls, i)
		k.sessions[c.Session] = true
		k.distinct[c.Action.Command] = true
	}
}

// secret reports whether something was taken out of the action before it was
// recorded.
func secret(a *ask.Action) bool {
	return strings.Contains(a.Command+a.URL, shell.Redacted) || strings.Contains(a.Command, "sha256:") || strings.Contains(a.Command, " … ")
}

// grantable reports whether nothing but the lack of a rule made it ask.
func grantable(r policy.Result) bool {
	for _, x := range r.Reasons {
		if x.Verdict == ask.Prompt && (x.Rule != nil || x.Kind == ask.KindBaseline && x.Unit != "" && x.Path == "" && !strings.HasPrefix(x.Text, "no rule")) {
			return false
		}
	}
	return true
}

// rulesFor are the narrow rules for the parts of a call that asked.
func (s *study) rulesFor(c *Call, r policy.Result) (out []ask.Rule) {
	a := &c.Action
	add := func(rule ask.Rule) {
		rule.Action = ask.Allow
		if len(policyProblems(rule)) == 0 {
			out = append(out, rule)
		}
	}
	switch a.Tool {
	case ask.ToolBash:
		asked := map[string]bool{}
		for _, x := range r.Reasons {
			asked[x.Unit] = asked[x.Unit] || x.Verdict == ask.Prompt
		}
		script := shell.Read(a.Command, shell.Env{Cwd: a.Cwd, Home: a.Home})
		starts := map[int]bool{}
		for i := range script.Units {
			starts[script.Units[i].Outer] = true
		}
		for i := range script.Units {
			u := &script.Units[i]
			argv, ok := u.Argv()
			if !ok || u.Guess || u.Remote || starts[i] || u.Inner != "" || shell.IsWrapper(u.Name()) || shell.IsShell(u.Name()) || !asked[u.Text] && !c.Denied {
				continue
			}
			add(ask.Rule{Tool: "bash", Command: policy.Pattern(argv)})
			if p, ok := policy.Subcommand(argv); ok {
				add(ask.Rule{Tool: "bash", Command: p})
			}
		}
	case ask.ToolRead, ask.ToolWrite, ask.ToolEdit:
		for _, p := range a.Paths {
			if p.Real == p.Given {
				add(ask.Rule{Tool: string(a.Tool), Path: paths.Escape(p.Given)})
			}
		}
	case ask.ToolMCP:
		if a.MCP != nil && a.MCP.Source != "project" {
			add(ask.Rule{Tool: "mcp", Server: a.MCP.Server, Name: a.MCP.Name})
		}
	case ask.ToolWebFetch:
		_, rest, _ := strings.Cut(a.URL, "://")
		host, _, _ := strings.Cut(rest, "/")
		host, _, _ = strings.Cut(host, "?")
		if host != "" && !strings.ContainsAny(host, "@*") {
			add(ask.Rule{Tool: "webfetch", Domain: host})
		}
	case ask.ToolTask:
		if a.Agent != "" {
			add(ask.Rule{Tool: "task", Agent: a.Agent})
		}
	}
	return out
}

func policyProblems(r ask.Rule) policy.Problems {
	faults, _ := policy.Examine(policy.Text{Name: "suggestion", Data: policy.Format(nil, []ask.Rule{r}), Layer: policy.LayerUser})
	return faults
}

// good reports whether a candidate is worth a word: often enough, never
// denied, several commands where it covers several, and not wider than it
// looks.
func good(c *candidate, least int) bool {
	several := strings.HasSuffix(c.rule.Command, " *")
	if c.denied || len(c.calls) < least || several && len(c.distinct) < 2 {
		return false
	}
	_, warnings := policy.Lint(policy.Text{Name: "suggestion", Data: policy.Format(nil, []ask.Rule{c.rule}), Layer: policy.LayerUser})
	return len(warnings) == 0
}

// spared leaves each candidate the calls that would not ask if all good ones
// were in force: a part that a rule covers spares nothing while another asks.
func (s *study) spared(least int) {
	list, _ := s.rules.Rules()
	for _, key := range s.order {
		if c := s.found[key]; good(c, least) {
			list = append(list, c.rule)
		}
	}
	f, err := policy.Decode("rules", policy.Format(nil, list), policy.LayerUser)
	if err != nil {
		s.order = nil // what is in force cannot be written down: nothing is sure
		return
	}
	with := policy.Compile(f)
	asks := map[int]bool{}
	for _, key := range s.order {
		c := s.found[key]
		c.calls = slices.DeleteFunc(c.calls, func(i int) bool {
			if _, known := asks[i]; !known {
				asks[i] = s.judge(&s.calls[i], with).Verdict != ask.Allow
			}
			return asks[i]
		})
	}
}

// withoutCovered leaves out what another suggestion covers, and puts those
// that spare the most first.
func withoutCovered(list []Suggestion) []Suggestion {
	slices.SortStableFunc(list, func(a, b Suggestion) int { return cmp.Compare(b.Times, a.Times) })
	return slices.DeleteFunc(slices.Clone(list), func(s Suggestion) bool {
		for _, o := range list {
			if base, ok := strings.CutSuffix(o.Rule.Command, "*"); ok && o.Rule.Command != s.Rule.Command && strings.HasPrefix(s.Rule.Command, base) {
				return true
			}
		}
		return false
	})
}
