package policy

import (
	"bufio"
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"permd/ask"
	"permd/policy/paths"
)

// fieldCase is one line of testdata/cases.jsonl: rules, a call, and the
// verdicts that are right.
type fieldCase struct {
	ID      string   `json:"id"`
	Rules   string   `json:"rules"`
	Want    []string `json:"want"`
	Managed string   `json:"managed_rules"`
	Project string   `json:"project_rules"`
	// Load is what the error says when the rules are read.
	Load string `json:"load"`
	// Baseline adds the built-in rules.
	Baseline bool `json:"baseline"`
	fieldCall
	// First is a call that was asked about before and, where that is offered,
	// allowed for the rest of the session.
	First *fieldCall `json:"first"`
	// Hidden are characters that must not be shown as they are.
	Hidden string `json:"hidden"`
	// Above are the sessions above the one that calls, and Verified says that
	// the topmost of them decides.
	Above    []string `json:"above"`
	Verified bool     `json:"verified"`
}

type fieldCall struct {
	Tool       ask.Tool        `json:"tool"`
	ClientTool string          `json:"client_tool"`
	Command    string          `json:"command"`
	Path       string          `json:"path"`
	Paths      []string        `json:"paths"`
	Server     string          `json:"server"`
	Name       string          `json:"name"`
	URL        string          `json:"url"`
	Args       json.RawMessage `json:"args"`
	Cwd        string          `json:"cwd"`
	At         string          `json:"project"`
	Home       string          `json:"home"`
	FS         struct {
		Links  map[string]string `json:"symlinks"`
		Exists []string          `json:"exists"`
		Fold   bool              `json:"case_insensitive"`
	} `json:"fs"`
}

func (c *fieldCall) action() *ask.Action {
	client := c.ClientTool
	if client == "" {
		client = string(c.Tool)
	}
	a := action(c.Tool, client)
	if c.Cwd != "" {
		a.Cwd, a.Project = c.Cwd, c.At
	}
	if c.Home != "" {
		a.Home = c.Home
	}
	a.Command, a.URL = c.Command, c.URL
	if c.Args != nil {
		a.Input = c.Args
	}
	if c.Server != "" {
		a.MCP = &ask.MCP{Server: c.Server, Name: c.Name}
	}
	names := c.Paths
	if c.Path != "" {
		names = append(names, c.Path)
	}
	for _, p := range names {
		access := ask.AccessWrite
		if c.Tool == ask.ToolRead {
			access = ask.AccessRead
		}
		a.Paths = append(a.Paths, ask.Path{Given: p, Access: access})
	}
	return a
}

func (c *fieldCall) view(a *ask.Action) paths.Fixed {
	view := paths.Fixed{Links: c.FS.Links}
	for name := range c.FS.Links {
		if path.Dir(name) == "/" {
			view.RootLinks = append(view.RootLinks, name)
		}
	}
	for _, n := range c.FS.Exists {
		view.Files = append(view.Files, path.Join(a.Cwd, n))
	}
	return view
}

func (c *fieldCase) policy(t *testing.T) *Policy {
	files := []*File{file(t, "policy.toml", c.Rules, LayerUser)}
	if c.Managed != "" {
		files = append(files, file(t, "managed.toml", c.Managed, LayerManaged))
	}
	if c.Project != "" {
		files = append(files, file(t, ".permd/policy.toml", c.Project, LayerProject))
	}
	if c.Baseline {
		return Compile(files...)
	}
	return CompileAlone(files...)
}

func (c *fieldCase) input(t *testing.T) Input {
	p := c.policy(t)
	a := c.action()
	in := input(p, a)
	in.View, in.Fold = c.view(a), c.FS.Fold
	if c.Above != nil {
		in.Above = c.Above
	}
	if c.First != nil {
		first := c.First.action()
		before := input(p, first)
		before.View = c.First.view(first)
		r := Decide(before)
		if r.Verdict != ask.Prompt {
			t.Fatalf("the first call is %s", r.Verdict)
		}
		for _, o := range Offers(before, r) {
			if o.Scope == ask.ScopeSession {
				in.Grants = append(in.Grants, keep(t, o, first))
				break
			}
		}
	}
	if c.Verified {
		Complete(a, in.View)
		in.Node, in.Here = Verified, c.Above[len(c.Above)-1]
	}
	return in
}

func fieldCases(t testing.TB) []fieldCase {
	f, err := os.Open("testdata/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []fieldCase
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c fieldCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		out = append(out, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFieldCases(t *testing.T) {
	for _, c := range fieldCases(t) {
		t.Run(c.ID, func(t *testing.T) {
			if c.Load != "" {
				if _, err := Decode("policy.toml", []byte(c.Rules), LayerUser); err == nil || !strings.Contains(err.Error(), c.Load) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if shown := ask.Visible(c.Command); c.Hidden != "" && strings.ContainsAny(shown, c.Hidden) {
				t.Errorf("shown as %q", shown)
			}
			r := Decide(c.input(t))
			if want := c.Want; !slices.Contains(want, r.Verdict.String()) {
				t.Errorf("%s%s%s%v: %s, want %v\n%s\n%+v", c.Command, c.Path, c.URL, c.Paths, r.Verdict, want, c.Rules, r.Reasons)
			}
		})
	}
}
