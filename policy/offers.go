package policy

import (
	"strings"

	"permd/ask"
	"permd/policy/paths"
	"permd/policy/shell"
)

// Offers are the grants that may be offered beside a plain yes for the action
// of in, on which r was the result: for the origin session and for its whole
// tree, each for exactly this command in this directory, this file, this tool
// of this server, this host or this kind of agent. None when nothing narrow
// would cover the action: never the first word of a command, never a wildcard,
// never a command that starts another one or runs later.
//
// The ids are "session" and "tree".
func Offers(in Input, r Result) []ask.Offer {
	if r.Verdict != ask.Prompt || !r.Grantable || in.Node == Claimed || in.Action == nil {
		return nil
	}
	rule, label, ok := narrow(in)
	if !ok {
		return nil
	}
	return []ask.Offer{
		{ID: "session", Scope: ask.ScopeSession, Label: label + " for the rest of this session", Rule: rule},
		{ID: "tree", Scope: ask.ScopeTree, Label: label + " for this session, the ones above it and all below them", Rule: rule},
	}
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
