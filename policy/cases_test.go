package policy

import (
	"bufio"
	"encoding/json"
	"os"
	"path"
	"slices"
	"testing"

	"permd/ask"
	"permd/policy/paths"
)

// fieldCase is one line of testdata/cases.jsonl: rules, a call, and the
// verdicts that are right.
type fieldCase struct {
	ID      string          `json:"id"`
	Rules   string          `json:"rules"`
	Want    []string        `json:"want"`
	Tool    ask.Tool        `json:"tool"`
	Command string          `json:"command"`
	Path    string          `json:"path"`
	Paths   []string        `json:"paths"`
	Server  string          `json:"server"`
	Name    string          `json:"name"`
	URL     string          `json:"url"`
	Args    json.RawMessage `json:"args"`
	Cwd     string          `json:"cwd"`
	Project string          `json:"project"`
	Home    string          `json:"home"`
	FS      struct {
		Links  map[string]string `json:"symlinks"`
		Exists []string          `json:"exists"`
		Fold   bool              `json:"case_insensitive"`
	} `json:"fs"`
}

func (c *fieldCase) input(t *testing.T) Input {
	a := action(c.Tool, string(c.Tool))
	if c.Cwd != "" {
		a.Cwd, a.Project = c.Cwd, c.Project
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
	if c.Path != "" {
		c.Paths = append(c.Paths, c.Path)
	}
	for _, p := range c.Paths {
		access := ask.AccessWrite
		if c.Tool == ask.ToolRead {
			access = ask.AccessRead
		}
		a.Paths = append(a.Paths, ask.Path{Given: p, Access: access})
	}
	view := paths.Fixed{Links: c.FS.Links}
	for name := range c.FS.Links {
		if path.Dir(name) == "/" {
			view.RootLinks = append(view.RootLinks, name)
		}
	}
	for _, n := range c.FS.Exists {
		view.Files = append(view.Files, path.Join(a.Cwd, n))
	}
	in := input(rules(t, c.Rules), a)
	in.View, in.Fold = view, c.FS.Fold
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
			r := Decide(c.input(t))
			if want := c.Want; !slices.Contains(want, r.Verdict.String()) {
				t.Errorf("%s%s%s%v: %s, want %v\n%s\n%+v", c.Command, c.Path, c.URL, c.Paths, r.Verdict, want, c.Rules, r.Reasons)
			}
		})
	}
}
