package story

import (
	"fmt"
	"strings"

	"permd/ask"
	"permd/review"
)

// By names who decided in words: the real decider first, then where, and
// through whom the decision came. "nobody" for nil.
func By(b *ask.By) string {
	if b == nil {
		return "nobody"
	}
	d := b.Decider()
	t := ask.VisibleLine(string(d.Kind))
	switch {
	case d.Rule != nil && d.Rule.File != "":
		t += fmt.Sprintf(" %s:%d", ask.VisibleLine(d.Rule.File), d.Rule.Line)
	case d.Rule != nil && d.Rule.Layer != "":
		t += " of " + ask.VisibleLine(d.Rule.Layer)
	case d.Surface != "":
		t += " " + ask.Quote(d.Surface)
	case d.Grant != "":
		t += " " + ask.VisibleLine(d.Grant)
	}
	if d.Inferred {
		t += " (inferred)"
	}
	var through []string
	for f := b; f != d && f != nil; f = f.Inner {
		through = append(through, ask.VisibleLine(f.Session))
	}
	if n := len(through); n > 0 {
		t += " at " + through[n-1]
		if n > 1 {
			t += ", via " + strings.Join(through[:n-1], ", ")
		}
	}
	return t
}

// What names an action in a few words, on one line. "" for nil.
func What(a *review.Action) string {
	if a == nil {
		return ""
	}
	t := a.ClientTool
	if t == "" {
		t = string(a.Tool)
	}
	t = ask.VisibleLine(t)
	switch {
	case a.Command != "":
		t += " " + ask.Quote(a.Command)
	case a.Server != "":
		t += " " + ask.Quote(a.Name) + " of " + ask.Quote(a.Server)
	case a.URL != "":
		t += " " + ask.Quote(a.URL)
	case a.Query != "":
		t += " " + ask.Quote(a.Query)
	case len(a.Paths) > 0:
		t += " " + ask.Quote(a.Paths[0].Given)
		if n := len(a.Paths) - 1 + a.MorePaths; n > 0 {
			t += fmt.Sprintf(" and %d more", n)
		}
	case a.Name != "":
		t += " " + ask.Quote(a.Name)
	case a.Agent != "":
		t += " " + ask.Quote(a.Agent)
	}
	return t
}

// because appends a reason to a sentence.
func because(s, reason string) string {
	if reason == "" {
		return s
	}
	return s + ": " + ask.VisibleLine(reason)
}
