package policy

import (
	"strings"

	"permd/ask"
	"permd/policy/paths"
)

// depth is what a search through a whole directory tree would meet.
type depth struct {
	ruled  string // what a rule forbids or asks for
	secret string // a file that may hold secrets
}

const (
	deepBudget = 2000 // names looked at

	deepRuledText   = "a search through this directory would read what a rule forbids"
	deepMayText     = "a search through this directory may read what a rule forbids"
	deepSecretsText = "a search through this directory would read a file that may hold secrets"
)

func (j *judge) deepRuled(s *subject) string {
	if !s.deep {
		return ""
	}
	j.look(s)
	return s.depth.ruled
}

func (j *judge) deepSecret(s *subject) string {
	if !s.deep {
		return ""
	}
	j.look(s)
	return s.depth.secret
}

// look goes through the tree below s once. It stops at a bound: what a rule
// forbids is then suspected, the built-in list of secrets is not.
func (j *judge) look(s *subject) {
	if s.depth != nil {
		return
	}
	s.depth = &depth{}
	ruled := false
	j.binding.eachPath(func(r *rule) {
		ruled = ruled || r.Action != ask.Allow && r.path != nil && j.bounds[r.seq].Covers(s.place, j.fold)
	})
	suspect := func() {
		if ruled {
			s.depth.ruled = deepMayText
		}
	}
	lister, ok := j.in.View.(paths.Lister)
	if !ok || j.in.Node != Origin {
		suspect()
		return
	}
	budget := deepBudget
	for todo := []paths.Place{s.place}; len(todo) > 0; todo = todo[1:] {
		names, more, err := lister.List(todo[0].Real, budget)
		if err != nil {
			continue // a file, or not to be read
		}
		for _, n := range names {
			if !s.hidden && strings.HasPrefix(n, ".") {
				continue
			}
			below := child(todo[0], n)
			j.meet(s, below, ruled)
			if s.depth.ruled != "" {
				return
			}
			if strings.HasSuffix(n, "/") && n != ".git/" {
				todo = append(todo, below)
			}
		}
		if budget -= len(names) + 1; more || budget <= 0 {
			suspect()
			return
		}
	}
}

// meet notes what a search would do with one name below it.
func (j *judge) meet(s *subject, pl paths.Place, ruled bool) {
	if secretFile(pl.Given) {
		s.depth.secret = deepSecretsText
	}
	if !ruled {
		return
	}
	below := subject{kind: kindPath, unit: s.unit, place: pl, how: accessRead, client: s.client}
	j.binding.pathRules(pl, func(r *rule) {
		if r.Action != ask.Allow && r.path != nil && j.hits(r, &below) {
			s.depth.ruled = deepRuledText
		}
	})
}

func child(dir paths.Place, name string) paths.Place {
	name = "/" + strings.TrimSuffix(name, "/")
	p := paths.Place{Given: strings.TrimSuffix(dir.Given, "/") + name, Real: strings.TrimSuffix(dir.Real, "/") + name}
	p.Trusted = p.Real
	return p
}

// eachPath calls f with every path rule.
func (b *binding) eachPath(f func(*rule)) {
	for _, r := range b.loose {
		f(r)
	}
	for _, rules := range b.byKey {
		for _, r := range rules {
			f(r)
		}
	}
}
