package policy

import (
	"errors"
	"strings"

	"permd/ask"
	"permd/policy/paths"
	"permd/policy/shell"
)

// Offers are the grants that may be offered beside a plain yes for the action
// of in, on which r was the result: for the origin session, for its whole
// tree, for its project and for the user. Each is for exactly this command in
// this directory, this file, this tool of this server, this host or this kind
// of agent; a second one of each scope, where the program is known to have
// subcommands, for this subcommand with any further words in this directory.
// They come narrowest first. None when nothing narrow would cover the action:
// never the first word of a command, never a wildcard for a path, never a
// command that starts another one or runs later.
//
// The ids are "session", "tree", "project" and "user", each with "-sub" for
// the second.
func Offers(in Input, r Result) []ask.Offer {
	if r.Verdict != ask.Prompt || !r.Grantable || in.Node == Claimed || in.Action == nil {
		return nil
	}
	rule, label, ok := narrow(in)
	if !ok {
		return nil
	}
	sub, subLabel, hasSub := subcommandRule(in, rule)
	var out []ask.Offer
	for _, s := range offered {
		if s.scope == ask.ScopeProject && in.Action.Project == "" {
			continue
		}
		out = append(out, ask.Offer{ID: string(s.scope), Scope: s.scope, Label: label + s.text, Rule: rule})
		if hasSub {
			out = append(out, ask.Offer{ID: string(s.scope) + "-sub", Scope: s.scope, Label: subLabel + s.text, Rule: sub})
		}
	}
	return out
}

var offered = []struct {
	scope ask.Scope
	text  string
}{
	{ask.ScopeSession, " for the rest of this session"},
	{ask.ScopeTree, " for this session, the ones above it and all below them"},
	{ask.ScopeProject, " for every session of this project, until it is revoked"},
	{ask.ScopeUser, " for every session of yours, until it is revoked"},
}

// subcommandRule is the rule for the subcommand of the plain command that rule
// is for.
func subcommandRule(in Input, rule ask.Rule) (sub ask.Rule, label string, ok bool) {
	if in.Action.Tool != ask.ToolBash {
		return sub, "", false
	}
	s := shell.Read(in.Action.Command, shell.Env{Cwd: in.Action.Cwd, Home: in.Action.Home})
	argv, ok := s.Units[0].Argv()
	if !ok {
		return sub, "", false
	}
	sub = rule
	if sub.Command, ok = wide(argv, &s.Units[0]); !ok {
		return sub, "", false
	}
	r, err := grantRule(&sub)
	if err != nil {
		return sub, "", false
	}
	if _, err := keepCommand(Kept{Grant: ask.Grant{Rule: sub}}, r, in.Action, in.View); err != nil {
		return sub, "", false
	}
	return sub, "Allow this subcommand with any further words, in this directory,", true
}

// ErrWider refuses an edited rule that is not narrower than the one offered.
var ErrWider = errors.New("the edited rule is wider than the one that was offered, or cannot be compared with it; " +
	"to allow more, write a rule with \"permd policy edit\"")

// Narrower returns why edited must not be kept in the place of the rule that
// was offered: it is no rule that a grant may have, or it matches something
// that the offered one does not. A nil error means that it is equal or
// narrower. Whether it covers the call that was asked about is for [Keep].
func Narrower(offered, edited *ask.Rule) error {
	o, err := grantRule(offered)
	if err != nil {
		return err
	}
	e, err := grantRule(edited)
	switch {
	case err != nil:
		return err
	case !o.covers(e), offered.Digest != nil && (edited.Digest == nil || *edited.Digest != *offered.Digest):
		return ErrWider
	}
	return nil
}

// narrow is the rule for exactly the action of in, and what to call it.
func narrow(in Input) (rule ask.Rule, label string, ok bool) {
	a := in.Action
	rule = ask.Rule{Action: ask.Allow, Client: a.Client}
	switch a.Tool {
	case ask.ToolBash:
		return narrowCommand(rule, in)
	case ask.ToolRead, ask.ToolWrite, ask.ToolEdit:
		return narrowPath(rule, in)
	case ask.ToolMCP:
		if a.MCP == nil || a.MCP.Source == "project" || strings.Contains(a.MCP.Server+a.MCP.Name, "*") {
			return rule, "", false
		}
		rule.Tool, rule.Server, rule.Name, rule.Source = "mcp", a.MCP.Server, a.MCP.Name, a.MCP.Source
		label = "Allow this tool of this server"
	case ask.ToolWebFetch:
		t := parseTarget(a.URL)
		if !t.certain || t.host == "" {
			return rule, "", false
		}
		rule.Tool, rule.Domain = "webfetch", t.host
		if t.port != "" {
			rule.Domain += ":" + t.port
		}
		label = "Allow fetching from this host"
	case ask.ToolTask:
		if a.Agent == "" {
			return rule, "", false
		}
		rule.Tool, rule.Agent = "task", a.Agent
		label = "Allow this kind of agent"
	default:
		return rule, "", false
	}
	_, err := grantRule(&rule)
	return rule, label, err == nil
}

func narrowCommand(rule ask.Rule, in Input) (ask.Rule, string, bool) {
	a := in.Action
	s := shell.Read(a.Command, shell.Env{Cwd: a.Cwd, Home: a.Home})
	if !s.Plain() {
		return rule, "", false
	}
	argv, ok := s.Units[0].Argv()
	if !ok {
		return rule, "", false
	}
	rule.Tool, rule.Command = "bash", quoteArgv(argv)
	r, err := grantRule(&rule)
	if err != nil {
		return rule, "", false
	}
	k := Kept{Grant: ask.Grant{Rule: rule}}
	if _, err := keepCommand(k, r, a, in.View); err != nil {
		return rule, "", false
	}
	return rule, "Allow exactly this command, in this directory,", true
}

func narrowPath(rule ask.Rule, in Input) (ask.Rule, string, bool) {
	a := in.Action
	if len(a.Paths) != 1 {
		return rule, "", false
	}
	r := paths.NewResolver(in.View, a.Cwd, a.Home)
	found := r.Places(a.Paths[0].Given, "")
	if in.Node != Origin {
		p := a.Paths[0]
		given := found[0].Given
		found = []paths.Place{{Given: given, Real: p.Real, Trusted: p.Real}}
	}
	// A name behind a link is not offered: the link may lead elsewhere
	// tomorrow.
	if len(found) != 1 || !found[0].Sure() || found[0].Real != found[0].Given {
		return rule, "", false
	}
	p := found[0]
	switch {
	case a.Paths[0].Access == ask.AccessRead:
		rule.Tool = "read"
	case laterFile(p.Real, a.Home) != "":
		return rule, "", false
	case a.Tool == ask.ToolEdit:
		rule.Tool = "edit"
	default:
		rule.Tool = "write"
	}
	rule.Path = paths.Escape(p.Given)
	if rule.Tool == "read" && (a.ClientTool == "Grep" || a.ClientTool == "Glob" || a.ClientTool == "LS") {
		return rule, "", false // a directory: what is below it would not be covered
	}
	_, err := grantRule(&rule)
	return rule, "Allow this file", err == nil
}
