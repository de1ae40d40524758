package policy

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"permd/ask"
	"permd/policy/paths"
)

// conformanceRow is one line of testdata/rows.jsonl: a row of the conformance
// list of another permission system, its policy written as our rules.
type conformanceRow struct {
	Row     int               `json:"row"`
	Rules   string            `json:"rules"`
	Project string            `json:"project"`
	Mode    string            `json:"mode"`
	Grants  []ask.Rule        `json:"grants"`
	Calls   []conformanceCall `json:"calls"`
}

type conformanceCall struct {
	Tool       ask.Tool        `json:"tool"`
	Client     string          `json:"client"`
	ClientTool string          `json:"client_tool"`
	Command    string          `json:"command"`
	Path       string          `json:"path"`
	Server     string          `json:"server"`
	Name       string          `json:"name"`
	Args       json.RawMessage `json:"args"`
	Agent      string          `json:"agent"`
	Cwd        string          `json:"cwd"`
	Want       string          `json:"want"`
	// Ref is what the other system says where that is not what we want, and
	// Why says why.
	Ref    string `json:"ref"`
	Why    string `json:"why"`
	Reason string `json:"reason"` // must be among the reasons
}

// looserRows are the rows in which our verdict is weaker than the other
// system's: it asks about a wrapper whatever that starts, and about a search
// pattern that is called like a file.
var looserRows = map[int]bool{66: true, 73: true, 76: true, 78: true, 79: true, 100: true, 145: true}

// brokenRows are the rows whose rule file is to be refused.
var brokenRows = map[int]bool{13: true, 18: true, 19: true, 20: true, 21: true, 22: true, 23: true, 30: true, 41: true, 157: true}

// rowsView is the file system of the list.
var rowsView = paths.Fixed{
	Links: map[string]string{proj + "/etclink": "/etc", proj + "/alias.txt": proj + "/.env", proj + "/outlink": home + "/sibling"},
	Files: []string{proj + "/src/foo.ts", proj + "/.env", proj + "/.env.example", proj + "/id_rsa", proj + "/nested/x"},
}

func conformanceRows(t *testing.T) []conformanceRow {
	f, err := os.Open("testdata/rows.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []conformanceRow
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r conformanceRow
		d := json.NewDecoder(strings.NewReader(lines.Text()))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		out = append(out, r)
	}
	return out
}

func (r *conformanceRow) policy(t *testing.T) *Policy {
	var files []*File
	broken := ""
	for _, src := range []struct {
		name, text string
		layer      Layer
	}{{"policy.toml", r.Rules, LayerUser}, {".permd/policy.toml", r.Project, LayerProject}} {
		f, err := Decode(src.name, []byte(src.text), src.layer)
		if err != nil {
			broken = "the rules cannot be read: " + err.Error()
		}
		files = append(files, f)
	}
	if (broken != "") != brokenRows[r.Row] {
		t.Fatalf("the rules: %q\n%s%s", broken, r.Rules, r.Project)
	}
	p := CompileAlone(files...)
	p.broken = broken
	return p
}

func (r *conformanceRow) input(t *testing.T, c *conformanceCall) Input {
	a := action(c.Tool, c.ClientTool)
	if a.ClientTool == "" {
		a.ClientTool = string(c.Tool)
	}
	if c.Client != "" {
		a.Client = c.Client
	}
	if c.Cwd != "" {
		a.Cwd = c.Cwd
	}
	if c.Args != nil {
		a.Input = c.Args
	}
	a.Command = c.Command
	switch c.Tool {
	case ask.ToolRead:
		a.Paths = []ask.Path{{Given: c.Path, Access: ask.AccessRead}}
	case ask.ToolWrite, ask.ToolEdit:
		a.Paths = []ask.Path{{Given: c.Path, Access: ask.AccessWrite}}
	case ask.ToolMCP:
		a.MCP = &ask.MCP{Server: c.Server, Name: c.Name, Source: "user"}
	}
	in := input(r.policy(t), a)
	in.View, in.Agent = rowsView, c.Agent
	for i, g := range r.Grants {
		g.Action = ask.Allow
		compiled, err := grantRule(&g)
		if err != nil {
			t.Fatal(err)
		}
		in.Grants = append(in.Grants, Kept{
			Grant: ask.Grant{ID: "g" + string(rune('1'+i)), Scope: ask.ScopeSession, Session: "s1", Rule: g}, Cwd: a.Cwd, rule: compiled,
		})
	}
	return in
}

func TestConformanceRows(t *testing.T) {
	rows := conformanceRows(t)
	const all = 182
	if len(rows) != all {
		t.Fatalf("%d rows, want %d", len(rows), all)
	}
	for n, r := range rows {
		if r.Row != n+1 {
			t.Fatalf("row %d stands where row %d is to stand", r.Row, n+1)
		}
		for i := range r.Calls {
			r.check(t, &r.Calls[i])
		}
	}
}

func (r *conformanceRow) check(t *testing.T, c *conformanceCall) {
	res := Decide(r.input(t, c))
	got := res.Verdict
	if r.Mode == "yolo" && got == ask.Prompt {
		got = ask.Allow
	}
	shown := ask.Visible(c.Command + c.Path + c.Server + c.ClientTool)
	if got.String() != c.Want {
		t.Errorf("row %d: %s: %s, want %s: %s\n%s", r.Row, shown, got, c.Want, res.Reason, r.Rules)
	}
	if c.Reason != "" && !strings.Contains(res.Reason, c.Reason) {
		t.Errorf("row %d: %s: the reason is %q", r.Row, shown, res.Reason)
	}
	switch strength := map[string]int{"deny": 0, "ask": 1, "allow": 2}; {
	case c.Ref == "":
	case c.Why == "" && c.Want != "deny":
		t.Errorf("row %d: %s differs without a word", r.Row, shown)
	case strength[c.Want] > strength[c.Ref] && !looserRows[r.Row] || c.Want == c.Ref:
		t.Errorf("row %d: %s: %s is not stricter than %s", r.Row, shown, c.Want, c.Ref)
	}
}
