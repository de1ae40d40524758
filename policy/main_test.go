package policy

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"permd/ask"
	"permd/policy/paths"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	home = "/home/dev"
	proj = "/home/dev/proj"
)

type fataler interface {
	Fatalf(string, ...any)
	Helper()
}

// rules reads a rule file of the user, without built-in rules beside it.
func rules(t fataler, text string) *Policy {
	t.Helper()
	return CompileAlone(file(t, "policy.toml", text, LayerUser))
}

func file(t fataler, name, text string, layer Layer) *File {
	t.Helper()
	f, err := Decode(name, []byte(text), layer)
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	return f
}

func action(tool ask.Tool, client string) *ask.Action {
	return &ask.Action{Client: "claude", Tool: tool, ClientTool: client, Input: []byte("{}"), Cwd: proj, Project: proj, Home: home}
}

func bash(cmd string) *ask.Action {
	a := action(ask.ToolBash, "Bash")
	a.Command = cmd
	return a
}

func onFile(tool ask.Tool, names ...string) *ask.Action {
	a := action(tool, strings.ToUpper(string(tool[:1]))+string(tool[1:]))
	for _, n := range names {
		p := ask.Path{Given: n, Access: ask.AccessRead}
		if tool != ask.ToolRead {
			p.Access = ask.AccessWrite
		}
		a.Paths = append(a.Paths, p)
	}
	return a
}

func mcp(server, name string) *ask.Action {
	a := action(ask.ToolMCP, "mcp__"+server+"__"+name)
	a.MCP = &ask.MCP{Server: server, Name: name}
	return a
}

func fetch(url string) *ask.Action {
	a := action(ask.ToolWebFetch, "WebFetch")
	a.URL = url
	return a
}

func input(p *Policy, a *ask.Action) Input {
	return Input{Action: a, Origin: "s1", Here: "s1", Node: Origin, Policy: p, View: paths.Fixed{}, Now: Clock{Boot: "boot"}}
}

func decide(p *Policy, a *ask.Action) Result { return Decide(input(p, a)) }
