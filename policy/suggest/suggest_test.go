package suggest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"permd/ask"
	"permd/policy"
)

// said makes calls of lines: "allowed|denied|let session $ command" and the
// like, "let" for what nobody was asked about.
func said(t *testing.T, lines ...string) (out []Call) {
	t.Helper()
	for n, l := range lines {
		how, rest, _ := strings.Cut(l, " ")
		session, rest, _ := strings.Cut(rest, " ")
		verb, what, _ := strings.Cut(rest, " ")
		a := ask.Action{Client: "claude", ClientTool: verb, Cwd: "/w", Project: "/w", Home: "/home/u", Input: []byte("{}")}
		switch verb {
		case "$":
			a.Tool, a.Command = ask.ToolBash, what
		case "read", "edit", "write":
			a.Tool = ask.Tool(verb)
			a.Paths = []ask.Path{{Given: what, Real: what, Access: ask.AccessWrite}}
			if verb == "read" {
				a.Paths[0].Access = ask.AccessRead
			}
		case "fetch":
			a.Tool, a.URL = ask.ToolWebFetch, what
		case "mcp":
			server, name, _ := strings.Cut(what, " ")
			a.Tool, a.MCP = ask.ToolMCP, &ask.MCP{Server: server, Name: name}
		case "task":
			a.Tool, a.Agent = ask.ToolTask, what
		default:
			t.Fatal(l)
		}
		out = append(out, Call{Action: a, Session: session, Time: fmt.Sprintf("2026-11-%02dT00:00:00Z", n+1), Allowed: how == "allowed", Denied: how == "denied"})
	}
	return out
}

func rulesOf(t *testing.T, text string) *policy.Policy {
	t.Helper()
	f, err := policy.Decode("p.toml", []byte(text), policy.LayerUser)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Compile(f)
}

func three(l string) []string { return []string{l, l, l} }

func TestSuggestions(t *testing.T) {
	for _, x := range []struct {
		name, rules string
		calls       []string
		want        []string // rules with their times
	}{
		{"nothing", "", nil, nil},
		{"not often enough", "", []string{"allowed s1 $ make deploy", "allowed s1 $ make deploy"}, nil},
		{"exactly the command", "", three("allowed s1 $ make deploy"), []string{`3 allow tool = "bash", command = "make deploy"`}},
		{"one subcommand, one command", "", three("allowed s1 $ git commit -m x"), []string{`3 allow tool = "bash", command = "git commit -m x"`}},
		{"a subcommand", "", []string{"allowed s1 $ go test ./a", "allowed s2 $ go test ./b", "allowed s1 $ go test ./..."},
			[]string{`3 allow tool = "bash", command = "go test *"`}},
		{"the part that asked", "", three("allowed s1 $ cd sub && make deploy 2>&1 | tail -5"), []string{`3 allow tool = "bash", command = "make deploy"`}},
		{"denied once", "", append(three("allowed s1 $ make deploy"), "denied s2 $ make deploy"), nil},
		{"another of the subcommand denied", "", []string{"allowed s1 $ go test ./a", "allowed s1 $ go test ./b", "allowed s1 $ go test ./b", "allowed s1 $ go test ./b", "denied s1 $ go test ./c"},
			[]string{`3 allow tool = "bash", command = "go test ./b"`}},
		{"a rule asks on purpose", "[[rule]]\naction = \"ask\"\ncommand = \"make *\"\n", three("allowed s1 $ make deploy"), nil},
		{"allowed by now", "[[rule]]\naction = \"allow\"\ncommand = \"make deploy\"\n", three("allowed s1 $ make deploy"), nil},
		{"nobody was asked", "", three("let s1 $ make deploy"), nil},
		{"the first word is never enough", "", []string{"allowed s1 $ deployer a", "allowed s1 $ deployer b", "allowed s1 $ deployer c"}, nil},
		{"a wrapper", "", three("allowed s1 $ sudo make deploy"), nil},
		{"a shell that is seen through", "", three("allowed s1 $ bash -c 'make deploy'"), []string{`3 allow tool = "bash", command = "make deploy"`}},
		{"an interpreter's text", "", three("allowed s1 $ python3 -c 'print(1)'"), []string{`3 allow tool = "bash", command = "python3 -c 'print(1)'"`}},
		{"runs later", "", three("allowed s1 $ crontab jobs"), nil},
		{"a secret was taken out", "", three("allowed s1 $ curl -H [redacted] https://x.example.org"), nil},
		{"not understood", "", three("allowed s1 $ make $X"), nil},
		{"a file", "", three("allowed s1 edit /w/src/a.go"), []string{`3 allow tool = "edit", path = "/w/src/a.go"`}},
		{"never a directory", "", []string{"allowed s1 edit /w/src/a.go", "allowed s1 edit /w/src/b.go", "allowed s1 edit /w/src/c.go"}, nil},
		{"a tool of a server", "", three("allowed s1 mcp tracker get_issue"), []string{`3 allow tool = "mcp", server = "tracker", name = "get_issue"`}},
		{"a host", "", []string{"allowed s1 fetch https://docs.example.org/a", "allowed s1 fetch https://docs.example.org/b?x=1", "allowed s2 fetch https://docs.example.org"},
			[]string{`3 allow tool = "webfetch", domain = "docs.example.org"`}},
		{"a host with a user name", "", three("allowed s1 fetch https://docs.example.org@evil.test/"), nil},
	} {
		s := From(said(t, x.calls...), rulesOf(t, x.rules), 3)
		var got []string
		for _, g := range s.Suggestions {
			got = append(got, fmt.Sprintf("%d %s", g.Times, policy.Line(&g.Rule)))
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}

// With a suggestion in force the calls that speak for it ask no more.
func TestSuggestionsSpare(t *testing.T) {
	calls := said(t, "allowed s1 $ go test ./a", "allowed s2 $ go test ./b", "allowed s1 $ go test -v ./... 2>&1 | tail", "allowed s1 $ cd x; go test ./a")
	s := From(calls, policy.Compile(), 3)
	if len(s.Suggestions) != 1 || s.Calls != 4 || s.Asked != 4 || s.Suggestions[0].Sessions != 2 || s.Suggestions[0].Last != "2026-11-04T00:00:00Z" {
		t.Fatalf("%+v", s)
	}
	again := From(calls, rulesOf(t, string(policy.Format(nil, []ask.Rule{s.Suggestions[0].Rule}))), 3)
	if len(again.Suggestions) != 0 || len(again.Idle) != 0 {
		t.Errorf("%+v", again)
	}
}

// A rule that spoke of nothing is idle; one that denies never is.
func TestIdle(t *testing.T) {
	rules := rulesOf(t, `
[[rule]]
action = "allow"
command = "make test"
[[rule]]
action = "allow"
command = "make lint"
[[rule]]
action = "ask"
command = "git push *"
[[rule]]
action = "deny"
command = "rm *"
[[rule]]
action = "allow"
command = "go test *"
`)
	s := From(said(t, "let s1 $ make test && ls", "let s1 $ go test ./... | tail", "denied s1 $ make clean"), rules, 3)
	var got []int
	for _, i := range s.Idle {
		got = append(got, i.Ref.Line)
	}
	if !slices.Equal(got, []int{5, 8}) {
		t.Errorf("%v", s.Idle)
	}
}
