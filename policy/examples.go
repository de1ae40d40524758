package policy

import (
	"strings"

	"permd/ask"
	"permd/policy/paths"
)

// The place that examples in rule files are judged in.
const (
	exampleHome    = "/home/user"
	exampleProject = "/home/user/project"
)

// examples judges the match and not_match entries of r, and reports those
// that are wrong.
func (d *decoder) examples(r *rule) bool {
	if len(r.examples) == 0 {
		return true
	}
	p := &Policy{}
	p.index([]*rule{r})
	ok := true
	for _, x := range r.examples {
		a, why := exampleAction(r, x.text)
		if why != "" {
			d.problem(x.pos, "%s", why)
			return false
		}
		in := Input{Action: a, Origin: r.Session, Here: r.Session, Agent: r.Agent, Node: Origin, Policy: p, View: paths.Fixed{}}
		if got := r.spoke(Decide(in)); got != x.want {
			word := "does not match"
			if got {
				word = "matches"
			}
			d.problem(x.pos, "the rule at line %d %s %q", r.ref.Line, word, cut(x.text))
			ok = false
		}
	}
	return ok
}

// spoke reports whether the rule decided: an allow rule by allowing all of it,
// any other one by its part in it.
func (r *rule) spoke(d Result) bool {
	if r.Action == ask.Allow {
		return d.Verdict == ask.Allow
	}
	for _, reason := range d.Reasons {
		if reason.Rule != nil && *reason.Rule == r.ref {
			return true
		}
	}
	return false
}

// exampleAction makes of an example what the rule is about.
func exampleAction(r *rule, text string) (a *ask.Action, why string) {
	a = &ask.Action{Client: r.Client, ClientTool: "example", Input: []byte("{}"), Cwd: exampleProject, Project: exampleProject, Home: exampleHome}
	if a.Client == "" {
		a.Client = "example"
	}
	switch r.kind {
	case kindCommand:
		a.Tool, a.Command = ask.ToolBash, text
	case kindPath:
		a.Tool = ask.ToolRead
		p := ask.Path{Given: text, Access: ask.AccessRead}
		switch r.Tool {
		case "write", "edit":
			a.Tool, p.Access = ask.Tool(r.Tool), ask.AccessWrite
		case "", "read":
		default:
			a.ClientTool = r.Tool
			if r.Tool == "bash" {
				a.Tool, a.Command = ask.ToolBash, text
			}
		}
		if a.Tool != ask.ToolBash {
			a.Paths = []ask.Path{p}
		}
	case kindWeb:
		a.Tool, a.URL = ask.ToolWebFetch, text
	case kindMCP:
		server := r.Server
		if s, name, ok := strings.Cut(text, "/"); ok && (server == "" || r.server.star) {
			server, text = s, name
		}
		a.Tool, a.MCP = ask.ToolMCP, &ask.MCP{Server: server, Name: text, Source: r.Source}
	case kindTask:
		a.Tool, a.Agent = ask.ToolTask, text
	default:
		return nil, "examples are for rules about commands, paths, domains, MCP tools and kinds of agents"
	}
	return a, ""
}
