package policy

import (
	"permd/ask"
	"permd/policy/paths"
)

// Layer is where a rule comes from.
type Layer string

// The layers, strongest first for the choice of the one reason that is named.
// No layer overrides another: the strictest verdict of all of them holds.
const (
	LayerManaged Layer = "managed"
	LayerUser    Layer = "user"
	LayerProject Layer = "project"
	LayerBuiltIn Layer = "built-in"
)

// Words of a rule.
const (
	maxReason      = 500
	classReadOnly  = "read-only"
	outsideProject = "project"
)

func (l Layer) rank() int {
	switch l {
	case LayerManaged:
		return 0
	case LayerUser:
		return 1
	case LayerProject:
		return 2
	}
	return 3
}

// kind is what a rule speaks of.
type kind uint8

const (
	kindAll kind = iota // every action
	kindCommand
	kindPath
	kindMCP
	kindWeb
	kindSearch
	kindTask
	kindTool // a client's own tool, by its name
)

// rule is a rule ready to be matched.
type rule struct {
	ask.Rule
	ref   ask.RuleRef
	layer Layer
	kind  kind
	// seq numbers the rules and exceptions of one policy; it finds the bound
	// form of a path pattern.
	seq int
	// prove is true when a match must be certain: of an allow rule, and of an
	// exception from any other.
	prove bool
	// held is true for a rule that the user's file no longer has, kept until
	// a person applies the edit.
	held bool

	argv   *argv
	path   *paths.Pattern
	domain *domain
	server wild
	name   wild
	except []*rule

	examples []example
}

// example is a match or not_match entry, to be judged at load.
type example struct {
	text string
	want bool
	pos  position
}

// position is a place in a rule file, from 1.
type position struct{ line, col int }

// exactCommand and exactPath report whether r names one thing: nothing in it
// is a pattern. Only such a rule may allow what runs later.
func (r *rule) exactCommand() bool { return r.kind == kindCommand && r.argv != nil && r.argv.exact() }

func (r *rule) exactPath() bool { return r.kind == kindPath && r.path != nil && r.path.Literal() }

// key is the rule without what does not change its meaning, for comparing
// two versions of a file.
func (r *rule) key() string { return ruleKey(&r.Rule) }

func ruleKey(r *ask.Rule) string {
	c := *r
	c.Reason, c.Risk = "", ""
	c.Except = nil
	raw, err := ask.Encode(c)
	if err != nil {
		return ""
	}
	s := string(raw)
	for i := range r.Except {
		s += "!" + ruleKey(&r.Except[i])
	}
	return s
}
