package main

import (
	"fmt"
	"strings"
	"testing"

	"permd/ask"
	"permd/policy"
	"permd/review"
	"permd/review/story"
)

func bashAction(cmd string) *review.Action {
	return &review.Action{Client: "claude", Tool: ask.ToolBash, ClientTool: "Bash", Cwd: "/home/dev/proj", Command: cmd}
}

func TestKindsOfCalls(t *testing.T) {
	for _, c := range []struct {
		a    *review.Action
		want string
		rule string // "" for none
	}{
		{bashAction("git push origin main"), "git push *", `command = "git push *"`},
		{bashAction("git push"), "git push", `command = "git push"`},
		{bashAction("make check"), "make check", `command = "make check"`},
		{bashAction("make check && rm -rf build"), "make check && rm -rf build", ""},
		{bashAction("echo $HOME"), "echo $HOME", ""},
		{bashAction("curl -H [redacted hmac:00] https://h"), "curl -H [redacted hmac:00] https://h", ""},
		{bashAction("ls *.go"), "ls *.go", ""},
		{&review.Action{Tool: ask.ToolEdit, ClientTool: "Edit", Paths: []ask.Path{{Given: "/p/src/a.go"}}}, "edit /p/src/", ""},
		{&review.Action{Tool: ask.ToolMCP, ClientTool: "mcp__db__connect", Server: "db", Name: "connect", Source: "user"}, "mcp db connect", `server = "db"`},
		{&review.Action{Tool: ask.ToolMCP, Server: "db*", Name: "connect"}, "mcp connect", ""},
		{&review.Action{Tool: ask.ToolWebFetch, ClientTool: "WebFetch", URL: "https://example.org:8443/x?y"}, "WebFetch example.org", `domain = "example.org"`},
		{&review.Action{Tool: ask.ToolWebFetch, ClientTool: "WebFetch", URL: "://"}, "webfetch WebFetch", ""},
	} {
		if got := kindOf(c.a); got != c.want {
			t.Errorf("%+v: %q, want %q", *c.a, got, c.want)
		}
		r, ok := ruleFor(c.a)
		text := string(policy.Format(nil, []ask.Rule{r}))
		if ok != (c.rule != "") || ok && !strings.Contains(text, c.rule) {
			t.Errorf("%+v: rule %v %s", *c.a, ok, text)
		}
	}
}

// A rule is shown only if every question was answered with yes, more than one
// was, and policy takes the rule without a warning.
func TestSavedRules(t *testing.T) {
	for _, c := range []struct {
		cmd       string
		yes, no   int
		suggested bool
	}{
		{"git push origin main", 5, 0, true},
		{"git push origin main", 5, 1, false},
		{"git push origin main", 1, 0, false},
		{"make check", 2, 0, true},
		{"make check; true", 2, 0, false},
	} {
		s := story.Stats{Kind: kindOf}
		for i := range c.yes + c.no {
			r := review.Record{Writer: "n"}
			allow, deny := ask.Allow, ask.Deny
			r.Event, r.Verdict, r.Outcome = review.AskApproved, &allow, ask.Answered
			if i >= c.yes {
				r.Event, r.Verdict = review.AskDenied, &deny
			}
			r.Ask, r.Session, r.By, r.Action = fmt.Sprint(i), "s", &ask.By{Kind: ask.KindUser, Surface: "desk"}, bashAction(c.cmd)
			s.Add(&r)
		}
		list := saving(&s, 10)
		if (len(list) == 1) != c.suggested {
			t.Errorf("%+v: %d rules", c, len(list))
			continue
		}
		var b strings.Builder
		(&app{out: &b}).printStats(&s, 10)
		if got := strings.Contains(b.String(), `action = "allow"`); got != c.suggested {
			t.Errorf("%+v: %s", c, b.String())
		}
		if c.suggested {
			if faults, warnings := policy.Lint(policy.Text{Name: "x", Data: []byte(savedRule(list[0]))}); len(faults)+len(warnings) > 0 {
				t.Errorf("%+v: %v %v", c, faults, warnings)
			}
		}
	}
}
