package policy

import (
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"permd/ask"
)

// ruleKeys are the keys of a rule; an exception has all but the last seven.
var ruleKeys = []string{
	"tool", "command", "class", "path", "outside", "domain", "server", "name", "source", "client", "session", "agent",
	"action", "reason", "risk", "except", "match", "not_match",
}

var exceptKeys = ruleKeys[:12]

// field returns where a text key of r is kept.
func field(r *ask.Rule, key string) *string {
	switch key {
	case "tool":
		return &r.Tool
	case "command":
		return &r.Command
	case "class":
		return &r.Class
	case "path":
		return &r.Path
	case "outside":
		return &r.Outside
	case "domain":
		return &r.Domain
	case "server":
		return &r.Server
	case "name":
		return &r.Name
	case "source":
		return &r.Source
	case "client":
		return &r.Client
	case "session":
		return &r.Session
	case "agent":
		return &r.Agent
	case "reason":
		return &r.Reason
	}
	return nil
}

// member reads one key of a rule or an exception.
func (d *decoder) member(r *draft, n *unstable.Node) {
	parts, at := d.key(n)
	key := strings.Join(parts, ".")
	before := len(d.problems)
	defer func() { r.bad = r.bad || len(d.problems) > before }()
	if len(parts) > 1 {
		d.problem(at, "%q is a dotted key; a rule is a flat table", cut(key))
		return
	}
	if _, twice := r.keys[key]; twice {
		d.problem(at, "%q is written twice", cut(key))
		return
	}
	known := ruleKeys
	if r.isExcept {
		known = exceptKeys
	}
	if !contains(known, key) {
		if r.isExcept && contains(ruleKeys, key) {
			d.problem(at, "an exception has no %q of its own", key)
			return
		}
		d.problem(at, "%s", unknownWord("key", key, known))
		return
	}
	r.keys[key] = at
	v := n.Value()
	switch key {
	case "except":
		d.exceptions(r, v)
	case "match", "not_match":
		d.samples(r, v, key)
	case "action":
		if s, ok := d.text(v, key); ok {
			if verdict, ok := d.verdict(s, d.valuePos(v)); ok {
				r.rule.Action = verdict
			}
		}
	case "risk":
		s, ok := d.text(v, key)
		if !ok {
			return
		}
		r.rule.Risk = ask.Risk(s)
		switch r.rule.Risk {
		case ask.RiskLow, ask.RiskMedium, ask.RiskHigh:
		default:
			d.problem(d.valuePos(v), "%s", unknownWord("risk", s, []string{"low", "medium", "high"}))
		}
	default:
		s, ok := d.text(v, key)
		if !ok {
			return
		}
		if s == "" {
			d.problem(d.valuePos(v), "%q is empty; leave the key out", key)
			return
		}
		if key == "reason" && len(s) > maxReason {
			d.problem(d.valuePos(v), "a reason has at most %d bytes", maxReason)
			return
		}
		*field(&r.rule, key) = s
	}
}

func contains(list []string, s string) bool {
	for _, w := range list {
		if w == s {
			return true
		}
	}
	return false
}

// exceptions reads except = [{…}, …].
func (d *decoder) exceptions(r *draft, v *unstable.Node) {
	if v.Kind != unstable.Array {
		d.problem(r.keys["except"], `"except" takes a list of tables, as in except = [{ path = "docs/**" }]`)
		return
	}
	it := v.Children()
	for it.Next() {
		t := it.Node()
		if t.Kind == unstable.Comment {
			continue
		}
		if t.Kind != unstable.InlineTable {
			d.problem(r.keys["except"], `"except" takes a list of tables, as in except = [{ path = "docs/**" }]`)
			return
		}
		e := &draft{at: r.keys["except"], keys: map[string]position{}, isExcept: true}
		members := t.Children()
		for members.Next() {
			if members.Node().Kind == unstable.KeyValue {
				_, e.at = d.key(members.Node())
				d.member(e, members.Node())
			}
		}
		r.except = append(r.except, e)
		if len(r.except) > maxExcept {
			d.problem(r.keys["except"], "more than %d exceptions; write a narrower rule", maxExcept)
			return
		}
	}
	if len(r.except) == 0 {
		d.problem(r.keys["except"], `"except" is empty; leave the key out`)
	}
}

// samples reads match and not_match.
func (d *decoder) samples(r *draft, v *unstable.Node, key string) {
	if v.Kind != unstable.Array {
		d.problem(r.keys[key], "%q takes a list of texts, as in %s = [\"git status\"]", key, key)
		return
	}
	it := v.Children()
	for it.Next() {
		if it.Node().Kind == unstable.Comment {
			continue
		}
		s, ok := d.text(it.Node(), key)
		if !ok {
			return
		}
		r.examples = append(r.examples, example{s, key == "match", d.valuePos(it.Node())})
		if len(r.examples) > maxSample {
			d.problem(r.keys[key], "more than %d examples of one rule", maxSample)
			return
		}
	}
}
