package policy

import (
	"slices"
	"strings"

	"permd/ask"
	"permd/policy/paths"
)

// Policy is a set of rules ready to decide by. It never changes; it may be
// used by many goroutines.
type Policy struct {
	rules    []*rule
	def      *ask.Verdict
	baseline bool
	// broken says why everything asks, "" when all files could be read.
	broken string
	links  []Link
	// project is the directory whose own rules are among these, untrusted what
	// of them counts for nothing.
	project   string
	untrusted *Untrusted

	commands map[string][]*rule // by program, lower case
	anywhere []*rule            // commands whose program is a pattern
	servers  map[string][]*rule // by server, lower case
	others   []*rule            // kindWeb, kindSearch, kindTask, kindTool, kindAll, any server
	paths    []*rule
	numbered int
	bound    *binding
}

// Compile returns the policy that files make together, with the built-in
// rules.
func Compile(files ...*File) *Policy { return compile(true, files...) }

// CompileAlone is Compile without the built-in rules: for explaining what one
// file says. Self-protection stays.
func CompileAlone(files ...*File) *Policy { return compile(false, files...) }

func compile(baseline bool, files ...*File) *Policy {
	p := &Policy{baseline: baseline}
	for _, f := range files {
		p.add(f.rules, f.Default)
	}
	p.index(p.rules)
	return p
}

func (p *Policy) addDefault(v ask.Verdict) {
	if p.def != nil {
		v = v.Stricter(*p.def)
	}
	p.def = &v
}

// Ignored returns where the rules stand that count for nothing: what a
// project's file would allow.
func (f *File) Ignored() []ask.RuleRef {
	var out []ask.RuleRef
	for _, r := range f.rules {
		if r.layer == LayerProject && r.Action == ask.Allow {
			out = append(out, r.ref)
		}
	}
	return out
}

func (p *Policy) index(rules []*rule) {
	p.commands, p.servers, p.rules = map[string][]*rule{}, map[string][]*rule{}, nil
	for _, r := range rules {
		c := *r
		r = &c // numbers belong to this policy
		p.number(r)
		p.rules = append(p.rules, r)
		switch r.kind {
		case kindCommand:
			if key := r.program(); key != "" {
				p.commands[key] = append(p.commands[key], r)
			} else {
				p.anywhere = append(p.anywhere, r)
			}
		case kindPath:
			p.paths = append(p.paths, r)
		case kindMCP:
			if r.server.star {
				p.others = append(p.others, r)
			} else {
				key := strings.ToLower(r.server.text)
				p.servers[key] = append(p.servers[key], r)
			}
		default:
			p.others = append(p.others, r)
		}
	}
}

func (p *Policy) number(r *rule) {
	r.seq = p.numbered
	p.numbered++
	r.except = slices.Clone(r.except)
	for i, e := range r.except {
		c := *e
		p.number(&c)
		r.except[i] = &c
	}
}

// program is the lower-case name of the one program that r may be about, ""
// when it may be several.
func (r *rule) program() string {
	if r.argv == nil || len(r.argv.words) == 0 || !r.argv.words[0].literal() {
		return ""
	}
	s := r.argv.words[0].text
	return strings.ToLower(s[strings.LastIndexByte(s, '/')+1:])
}

// binding is a policy's path patterns put in their places.
type binding struct {
	project, home paths.Place
	bounds        []*paths.Bound // by rule.seq
	byKey         map[string][]*rule
	loose         []*rule // can match a name of any segments
}

// bind resolves all path patterns.
func (p *Policy) bind(r *paths.Resolver, a paths.Anchors) *binding {
	b := &binding{project: a.Project, home: a.Home, bounds: make([]*paths.Bound, p.numbered), byKey: map[string][]*rule{}}
	var each func(*rule)
	each = func(c *rule) {
		if c.path != nil {
			b.bounds[c.seq] = c.path.Bind(r, a)
		}
		for _, e := range c.except {
			each(e)
		}
	}
	for _, c := range p.rules {
		each(c)
	}
	for _, c := range p.paths {
		var keys []string
		if c.path != nil && c.path.Anchor() != paths.AnchorCwd {
			keys = b.bounds[c.seq].Keys()
		}
		if keys == nil {
			b.loose = append(b.loose, c)
		}
		for _, k := range keys {
			k = strings.ToLower(k)
			b.byKey[k] = append(b.byKey[k], c)
		}
	}
	return b
}

// pathRules calls f with every rule that may be about pl.
func (b *binding) pathRules(pl paths.Place, f func(*rule)) {
	for _, r := range b.loose {
		f(r)
	}
	if len(b.byKey) == 0 {
		return
	}
	b.segments(pl.Given, f)
	if pl.Real != pl.Given {
		b.segments(pl.Real, f)
	}
}

func (b *binding) segments(name string, f func(*rule)) {
	for seg := range strings.SplitSeq(name, "/") {
		if seg == "" {
			continue
		}
		for _, r := range b.byKey[strings.ToLower(seg)] {
			f(r)
		}
	}
}

// Rules returns all rules as values with their places, for listing.
func (p *Policy) Rules() ([]ask.Rule, []ask.RuleRef) {
	rules, refs := make([]ask.Rule, len(p.rules)), make([]ask.RuleRef, len(p.rules))
	for i, r := range p.rules {
		rules[i], refs[i] = r.Rule, r.ref
	}
	return rules, refs
}
