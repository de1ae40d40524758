package tui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"permd/api"
	"permd/ask"
)

// kind is whose words a paragraph has.
type kind uint8

const (
	kindTitle kind = iota
	kindFact       // permd's, with a label
	kindWarn       // permd's, a warning
	kindAgent      // the agent's: every line is marked, so that none passes for permd's
	kindRule       // a rule as it would be kept
	kindBlank
)

// para is one paragraph of an ask. Its text is visible already, and may have
// several lines.
type para struct {
	kind  kind
	label string
	text  string
}

// document is everything a person is to see of an ask before allowing it, but
// for its age, which changes.
func document(s api.Shown) []para {
	b := &s.Ask.Body
	var out []para
	add := func(k kind, label, text string) {
		if text != "" {
			out = append(out, para{k, label, text})
		}
	}
	add(kindTitle, "", line(b.Title))
	add(kindFact, "from", whoAsks(s))
	if b.Action != nil {
		add(kindFact, "in", line(b.Action.Cwd))
	}
	add(kindFact, "why", line(b.Cause))
	add(kindFact, "left", remainingText(s))
	if s.Denied > 0 {
		add(kindWarn, "", fmt.Sprintf("this session was denied this, or nearly this, %s before", times(s.Denied)))
	}
	if b.Risk == ask.RiskHigh {
		add(kindWarn, "", "high risk")
	}
	if s.Ask.Header.Claimed() {
		add(kindWarn, "", "a parent on its way is only claimed, not proved")
	}
	if n := hidden(b); n > 0 {
		add(kindWarn, "", plural(n, "character")+" that cannot be seen, written as ⟨U+…⟩")
	}
	for _, e := range s.Elsewhere {
		add(kindFact, "also", "open at "+line(e))
	}
	out = append(out, para{kind: kindBlank})
	out = append(out, actionText(b)...)
	if b.URL != nil {
		add(kindAgent, "wants you to open", ask.Visible(b.URL.Address))
	}
	add(kindAgent, "the agent says", ask.Visible(b.Preface))
	if b.Permission() == nil || len(b.Items) > 1 {
		out = append(out, questions(b)...)
	}
	if why := unanswerable(s); why != "" {
		add(kindWarn, "", why)
	}
	return out
}

func line(s string) string { return ask.VisibleLine(s) }

// hidden counts what was written out in the texts of the body.
func hidden(b *ask.Body) int {
	n := ask.HiddenCount(b.Title) + ask.HiddenCount(b.Preface)
	if a := b.Action; a != nil {
		n += ask.HiddenCount(a.Command) + ask.HiddenCount(a.URL) + ask.HiddenCount(a.Query) + ask.HiddenCount(a.Cwd)
		for _, p := range a.Paths {
			n += ask.HiddenCount(p.Given) + ask.HiddenCount(p.Real)
		}
		for _, f := range fields(a.Input) {
			if f.key != "command" || a.Command == "" {
				n += ask.HiddenCount(f.key) + ask.HiddenCount(f.text)
			}
		}
	}
	return n
}

// whoAsks is the session with the path its ask took, a claimed step marked.
func whoAsks(s api.Shown) string {
	b := &s.Ask.Body
	text := line(b.From.Session)
	about := line(b.From.Client)
	if b.From.Agent != "" {
		about += ", agent " + ask.Quote(b.From.Agent)
	}
	if about != "" {
		text += " (" + about + ")"
	}
	arrow, last := "", b.From.Session
	for _, h := range s.Ask.Header.Path {
		if h.Session != last {
			text += arrow + line(h.Session)
			last = h.Session
		}
		arrow = " → "
		if h.Claimed {
			arrow = " →(claimed) "
		}
	}
	if strings.Contains(arrow, "claimed") {
		text += arrow + "node " + line(s.Node)
	}
	return text
}

// actionText is the action whole: nothing of what the client sent is left out.
func actionText(b *ask.Body) []para {
	a := b.Action
	if a == nil {
		return nil
	}
	var out []para
	agent := func(label, text string) {
		if text != "" {
			out = append(out, para{kindAgent, label, text})
		}
	}
	seen := map[string]bool{}
	switch {
	case a.Tool == ask.ToolBash:
		agent("command", ask.Visible(a.Command))
		seen["command"] = a.Command != ""
	case a.MCP != nil:
		source := a.MCP.Source
		if source == "" {
			source = "unknown"
		}
		agent("tool", fmt.Sprintf("%s of server %s (declared by: %s)", line(a.MCP.Name), line(a.MCP.Server), line(source)))
	default:
		agent("tool", line(a.ClientTool)+" ("+line(string(a.Tool))+")")
	}
	agent("address", ask.Visible(a.URL))
	agent("query", ask.Visible(a.Query))
	agent("kind of agent", line(a.Agent))
	var paths []string
	for _, p := range a.Paths {
		if a.Tool == ask.ToolBash && p.Access == ask.AccessRead && (p.Given == a.Cwd || p.Given == a.Project || p.Given == a.Home) {
			continue // recorded for judging elsewhere; the command need not touch it
		}
		t := line(string(p.Access)) + " " + line(p.Given)
		if p.Real != p.Given && p.Real != "" {
			t += "\n  really " + line(p.Real)
		}
		paths = append(paths, t)
	}
	agent("paths", strings.Join(paths, "\n"))
	for _, f := range fields(a.Input) {
		if !seen[f.key] {
			agent("input "+line(f.key), ask.Visible(f.text))
		}
	}
	return out
}

// field is one field of a tool input, as it is shown.
type field struct{ key, text string }

// fields cuts a tool input into its fields, in its own order. Strings are
// shown as they are, everything else as JSON. An input that is no object is
// one field.
func fields(raw json.RawMessage) []field {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return []field{{"", string(raw)}}
	}
	var out []field
	for d.More() {
		k, err := d.Token()
		key, ok := k.(string)
		var v json.RawMessage
		if err != nil || !ok || d.Decode(&v) != nil {
			return []field{{"", string(raw)}}
		}
		text := string(v)
		var s string
		if len(v) > 0 && v[0] == '"' && json.Unmarshal(v, &s) == nil {
			text = s
		}
		out = append(out, field{key, text})
	}
	return out
}

// questions are the items of an ask that is no plain permission.
func questions(b *ask.Body) []para {
	var out []para
	for i := range b.Items {
		it := &b.Items[i]
		text := ask.Visible(it.Prompt)
		for _, o := range it.Options {
			text += "\n  - " + line(o.Label)
			if o.Description != "" {
				text += ": " + line(o.Description)
			}
		}
		out = append(out, para{kindAgent, "asks", text})
	}
	return out
}

// ruleText is a rule as it would be kept, one field a line.
func ruleText(r *ask.Rule) string {
	var out []string
	add := func(k, v string) {
		if v != "" {
			out = append(out, k+": "+line(v))
		}
	}
	add("says", r.Action.String())
	add("tool", r.Tool)
	add("command", r.Command)
	add("class", r.Class)
	add("path", r.Path)
	add("outside", r.Outside)
	add("domain", r.Domain)
	add("server", r.Server)
	add("name", r.Name)
	add("source", r.Source)
	add("client", r.Client)
	add("session", r.Session)
	add("agent", r.Agent)
	if r.Digest != nil {
		add("only exactly this action", r.Digest.String())
	}
	for i := range r.Except {
		out = append(out, "except:")
		for l := range strings.Lines(ruleText(&r.Except[i])) {
			out = append(out, "  "+strings.TrimSuffix(l, "\n"))
		}
	}
	return strings.Join(out, "\n")
}

// grantText says what keeping an offer means.
func grantText(s api.Shown, o *ask.Offer) []para {
	where := map[ask.Scope]string{
		ask.ScopeSession: "in session " + line(s.Ask.Body.From.Session) + ", until it ends or you revoke it",
		ask.ScopeTree:    "in the topmost session above " + line(s.Ask.Body.From.Session) + " and in every session below it, until that one ends or you revoke it",
		ask.ScopeProject: "in this project, until you revoke it",
		ask.ScopeUser:    "everywhere, until you revoke it",
	}[o.Scope]
	if where == "" {
		where = "with scope " + line(string(o.Scope))
	}
	return []para{
		{kindTitle, "", "Keep this rule?"},
		{kindFact, "what", line(o.Label)},
		{kindFact, "where", where},
		{kind: kindBlank},
		{kindRule, "", ruleText(&o.Rule)},
	}
}

func ageText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

func remainingText(s api.Shown) string {
	if ms := s.Ask.Header.RemainingMS; ms != nil {
		return "at most " + ageText(time.Duration(*ms)*time.Millisecond) + ", when it came"
	}
	return ""
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// gist is an ask in one short line, for a list. The whole text is in its
// document.
func gist(s api.Shown, most int) string {
	b := &s.Ask.Body
	what := b.Title
	if a := b.Action; a != nil {
		switch {
		case a.Command != "":
			what = a.Command
		case a.MCP != nil:
			what = a.MCP.Server + " " + a.MCP.Name
		case a.URL != "":
			what = a.ClientTool + " " + a.URL
		case len(a.Paths) > 0:
			what = a.ClientTool + " " + a.Paths[0].Given
		default:
			what = a.ClientTool
		}
	}
	return ask.ExcerptLine(what, most)
}
