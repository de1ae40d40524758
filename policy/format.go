package policy

import (
	"strings"

	"permd/ask"
)

// Format writes rules as a rule file. What it writes [Decode] reads back as
// the same rules.
func Format(def *ask.Verdict, rules []ask.Rule) []byte {
	var b strings.Builder
	if def != nil {
		b.WriteString("default = " + quoteTOML(def.String()) + "\n")
	}
	for i := range rules {
		r := &rules[i]
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("[[rule]]\naction = " + quoteTOML(r.Action.String()) + "\n")
		for _, key := range ruleKeys {
			if f := field(r, key); f != nil && *f != "" {
				b.WriteString(key + " = " + quoteTOML(*f) + "\n")
			}
		}
		if r.Risk != "" {
			b.WriteString("risk = " + quoteTOML(string(r.Risk)) + "\n")
		}
		if len(r.Except) > 0 {
			b.WriteString("except = [\n")
			for j := range r.Except {
				b.WriteString("  " + inline(&r.Except[j]) + ",\n")
			}
			b.WriteString("]\n")
		}
	}
	return []byte(b.String())
}

// inline writes the matchers of r as a table on one line.
func inline(r *ask.Rule) string {
	var parts []string
	for _, key := range exceptKeys {
		if f := field(r, key); f != nil && *f != "" {
			parts = append(parts, key+" = "+quoteTOML(*f))
		}
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// Line says r on one line, for people.
func Line(r *ask.Rule) string {
	s := r.Action.String() + " " + strings.TrimSuffix(strings.TrimPrefix(inline(r), "{ "), " }")
	for i := range r.Except {
		if i == 0 {
			s += " except"
		} else {
			s += " or"
		}
		s += " " + inline(&r.Except[i])
	}
	return s
}

// quoteTOML writes s as a basic string.
func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			const hex = "0123456789abcdef"
			b.WriteString(`\u00`)
			b.WriteByte(hex[r>>4])
			b.WriteByte(hex[r&15])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
