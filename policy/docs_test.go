package policy

import (
	"os"
	"strings"
	"testing"

	"permd/ask"
	"permd/policy/paths"
)

// block is a fenced block of a document.
type block struct {
	info, text string
	line       int
}

func blocks(t *testing.T, name string) []block {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var (
		out  []block
		open *block
	)
	for i, line := range strings.Split(string(data), "\n") {
		switch {
		case open == nil && strings.HasPrefix(line, "```"):
			open = &block{info: strings.TrimPrefix(line, "```"), line: i + 1}
		case open != nil && line == "```":
			out = append(out, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: a block is not closed", name, open.line)
	}
	return out
}

// documented makes an action of the notation that docs/policy.md uses.
func documented(t *testing.T, s string) *ask.Action {
	verb, rest, _ := strings.Cut(s, " ")
	switch verb {
	case "$":
		return bash(rest)
	case "read":
		return onFile(ask.ToolRead, rest)
	case "write":
		return onFile(ask.ToolWrite, rest)
	case "edit":
		return onFile(ask.ToolEdit, rest)
	case "fetch":
		return fetch(rest)
	case "mcp":
		server, name, _ := strings.Cut(rest, " ")
		return mcp(server, name)
	case "task":
		a := action(ask.ToolTask, "Task")
		a.Agent = rest
		return a
	}
	t.Fatalf("what is %q?", s)
	return nil
}

// Every example of the guide says what this permd does.
func TestPolicyGuide(t *testing.T) {
	const name = "../docs/policy.md"
	p := Compile()
	rules, verdicts, wrong := 0, 0, ""
	for _, b := range blocks(t, name) {
		switch b.info {
		case "toml":
			f, err := Decode("policy.toml", []byte(b.text), LayerUser)
			if err != nil {
				t.Errorf("%s:%d: %v", name, b.line, err)
				continue
			}
			rules++
			p = Compile(f)
		case "toml wrong":
			_, err := Decode("policy.toml", []byte(b.text), LayerUser)
			if err == nil {
				t.Errorf("%s:%d: nothing is wrong", name, b.line)
				continue
			}
			wrong = err.Error()
		case "error":
			if want := strings.TrimSpace(b.text); !strings.Contains(wrong, want) {
				t.Errorf("%s:%d: the error is\n%s", name, b.line, wrong)
			}
		case "verdicts":
			for i, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
				want, what, _ := strings.Cut(line, " ")
				in := input(p, documented(t, strings.TrimSpace(what)))
				in.Self, in.View = self, paths.Fixed{Files: []string{proj + "/.env", proj + "/src/main.go"}}
				verdicts++
				if r := Decide(in); r.Verdict.String() != want {
					t.Errorf("%s:%d: %s: %s, %s", name, b.line+i+1, line, r.Verdict, r.Reason)
				}
			}
		case "sh", "session": // run by the tests of cmd/permd
		default:
			t.Errorf("%s:%d: a block %q that nothing checks", name, b.line, b.info)
		}
	}
	if rules < 8 || verdicts < 80 {
		t.Errorf("only %d rule files and %d verdicts", rules, verdicts)
	}
}
