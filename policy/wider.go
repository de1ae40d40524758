package policy

import (
	"path"
	"strings"

	"permd/ask"
	"permd/policy/shell"
)

// covers reports whether x certainly matches whatever y matches. It knows the
// plain ways in which people write a rule wider or narrower; where it does not
// know, it says no, and an edit waits for a person.
func (x *rule) covers(y *rule) bool {
	if x.kind != y.kind {
		return false
	}
	if a, b := x.toolSaid(), y.toolSaid(); a != "" && a != b {
		return false
	}
	for _, f := range []string{"class", "outside", "source", "client", "session", "agent"} {
		if a, b := *field(&x.Rule, f), *field(&y.Rule, f); a != "" && a != b {
			return false
		}
	}
	if x.Action == ask.Allow && y.Action == ask.Allow && y.aloneAllows() && !x.exactCommand() && !x.exactPath() {
		return false
	}
	return coversCommand(x, y) && coversPath(x, y) && coversName(x, y) && coversDomain(x.domain, y.domain) && fewerExceptions(x, y)
}

// aloneAllows reports whether r names exactly something that no wider rule
// allows: what runs later, an option that runs another program, an agent, or a
// command that starts another one.
func (r *rule) aloneAllows() bool {
	later := func(name string) bool {
		if !strings.HasPrefix(name, "/") {
			name = exampleProject + "/" + name
		}
		return laterFile(path.Clean(name), exampleHome) != ""
	}
	switch {
	case r.exactPath():
		name := strings.TrimPrefix(r.Path, "<project>/")
		for _, home := range []string{"~/", "<home>/"} {
			if rest, ok := strings.CutPrefix(name, home); ok {
				name = exampleHome + "/" + rest
			}
		}
		return later(name)
	case r.exactCommand():
		s := shell.Read(r.Command, shell.Env{Cwd: exampleProject, Home: exampleHome})
		if len(s.Units) != 1 {
			return true
		}
		u := &s.Units[0]
		for _, w := range u.Words[1:] {
			if later(w.Text) {
				return true
			}
		}
		return laterCommand(u) != "" || escapes(u) != "" || startsAgent(u) != "" || u.Inner != "" || shell.IsWrapper(u.Name()) || shell.IsShell(u.Name())
	}
	return false
}

// toolSaid is the rule's tool unless the rule's kind implies it.
func (r *rule) toolSaid() string {
	switch r.kind {
	case kindCommand, kindMCP, kindWeb, kindSearch, kindTask:
		return ""
	}
	return r.Tool
}

func coversCommand(x, y *rule) bool {
	switch {
	case x.Command == y.Command:
		return true
	case x.argv == nil:
		// Without a command it is every command, or the class.
		return x.Class == "" || x.Class == y.Class
	case y.argv == nil:
		return false
	case x.argv.any:
		return true
	case !x.argv.rest || len(y.argv.words) < len(x.argv.words):
		return false
	}
	for i := range x.argv.words {
		a, b := &x.argv.words[i], &y.argv.words[i]
		if !a.literal() || !b.literal() || a.text != b.text {
			return false
		}
	}
	return y.argv.rest || len(y.argv.words) > len(x.argv.words)
}

func coversPath(x, y *rule) bool {
	switch {
	case x.Path == y.Path, x.Path == "":
		return true
	case y.Path == "":
		return false
	}
	base, ok := strings.CutSuffix(x.Path, "/**")
	return ok && base != "" && !strings.ContainsAny(base, `*?[]{}\`) && strings.HasPrefix(y.Path, base+"/")
}

func coversName(x, y *rule) bool {
	server := x.server.star || x.Server == y.Server
	name := x.name.star || x.Name == y.Name || y.name.literal() && x.name.match(y.name.text)
	return server && name
}

func coversDomain(x, y *domain) bool {
	switch {
	case x == nil:
		return true
	case y == nil:
		return false
	case *x == *y:
		return true
	case x.any:
		return !y.any && y.port == "" // every host, at its usual port
	case y.any:
		return false
	}
	return x.sub && x.port == y.port && strings.HasSuffix(y.host, "."+x.host)
}

// fewerExceptions reports whether every exception of x is one of y too.
func fewerExceptions(x, y *rule) bool {
	for i := range x.Except {
		found := false
		for k := range y.Except {
			found = found || ruleKey(&x.Except[i]) == ruleKey(&y.Except[k])
		}
		if !found {
			return false
		}
	}
	return true
}

// ratchet is what two versions of the user's rules come to: the edit, as far
// as it tightens, and from before, what it would loosen.
type ratchet struct {
	rules []*rule
	def   *ask.Verdict
	// added and removed wait for a person; looser is true when the default
	// does.
	added, removed []*rule
	looser         bool
	// links hold, newLinks wait for a person.
	links, newLinks []Link
}

func (r *ratchet) pending() bool {
	return len(r.added) > 0 || len(r.removed) > 0 || r.looser || len(r.newLinks) > 0
}

func merge(applied []*rule, appliedDef *ask.Verdict, edited []*rule, editedDef *ask.Verdict) ratchet {
	var out ratchet
	was := map[string]bool{}
	for _, a := range applied {
		was[a.key()] = true
	}
	is := map[string]bool{}
	for _, n := range edited {
		is[n.key()] = true
		if n.Action != ask.Allow || was[n.key()] || coveredBy(n, applied, func(a *rule) bool { return a.Action == ask.Allow }) {
			out.rules = append(out.rules, n)
		} else {
			out.added = append(out.added, n)
		}
	}
	for _, a := range applied {
		switch {
		case is[a.key()]:
		case a.Action == ask.Allow:
			// Taken out: gone at once, unless a wider rule in its place waits.
			if coveredBy(a, out.added, func(*rule) bool { return true }) {
				out.rules = append(out.rules, hold(a))
			}
		case coveredBy(a, edited, func(n *rule) bool { return n.Action <= a.Action }):
		default:
			out.removed = append(out.removed, a)
			out.rules = append(out.rules, hold(a))
		}
	}
	out.def = editedDef
	if verdictOf(editedDef) > verdictOf(appliedDef) {
		out.def, out.looser = appliedDef, true
	}
	return out
}

func hold(r *rule) *rule {
	c := *r
	c.held = true
	return &c
}

func coveredBy(y *rule, list []*rule, which func(*rule) bool) bool {
	for _, x := range list {
		if which(x) && x.covers(y) {
			return true
		}
	}
	return false
}

func verdictOf(d *ask.Verdict) ask.Verdict {
	if d == nil {
		return ask.Prompt
	}
	return *d
}
