package policy

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"permd/ask"
)

// drawLine makes a rule of what people write, in the notation of ruleLines.
func drawLine(t *rapid.T) string {
	pick := func(list ...string) string { return rapid.SampledFrom(list).Draw(t, "word") }
	verdict := pick("deny", "ask", "allow")
	var parts []string
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		words := []string{pick("git", "npm", "mk*")}
		for range rapid.IntRange(0, 2).Draw(t, "words") {
			words = append(words, pick("push", "log", "-f", "--force", "x", "p*", "*"))
		}
		if rapid.Bool().Draw(t, "more") {
			words = append(words, "*")
		}
		parts = append(parts, "command="+strings.Join(words, " "))
	case 1:
		parts = append(parts, "path="+pick("src/**", "src", "src/a", "src/gen/**", "**/a", "<project>/**", "/etc/**", "/etc", "~/.ssh", "~/.ssh/x", "src/*"))
		if tool := pick("", "read", "write", "edit"); tool != "" {
			parts = append(parts, "tool="+tool)
		}
	case 2:
		parts = append(parts, "server="+pick("db", "tracker", "*"))
		if name := pick("", "get*", "get_x", "*"); name != "" {
			parts = append(parts, "name="+name)
		}
	case 3:
		parts = append(parts, "domain="+pick("example.org", "*.example.org", "a.example.org", "*", "a.example.org:8443"))
	case 4:
		parts = append(parts, "tool="+pick("bash", "read", "write", "edit", "mcp", "webfetch"))
	}
	if rapid.IntRange(0, 5).Draw(t, "client") == 0 {
		parts = append(parts, "client="+pick("claude", "codex"))
	}
	return verdict + " " + strings.Join(parts, "; ")
}

var lintActions = []func() *ask.Action{
	func() *ask.Action { return bash("git push") }, func() *ask.Action { return bash("git push x") }, func() *ask.Action { return bash("git push -f x") },
	func() *ask.Action { return bash("git log --force") }, func() *ask.Action { return bash("npm x && git -C src push") }, func() *ask.Action { return bash("git") },
	func() *ask.Action { return bash("mkx push push") }, func() *ask.Action { return bash("cat src/a /etc/x") }, func() *ask.Action { return bash("npm push > src/gen/a") },
	func() *ask.Action { return onFile(ask.ToolRead, "src/a") }, func() *ask.Action { return onFile(ask.ToolEdit, "src/gen/a") }, func() *ask.Action { return onFile(ask.ToolWrite, "src") },
	func() *ask.Action { return onFile(ask.ToolRead, "/etc/x") }, func() *ask.Action { return onFile(ask.ToolWrite, "~/.ssh/x") }, func() *ask.Action { return onFile(ask.ToolEdit, "src/a") },
	func() *ask.Action { return mcp("db", "get_x") }, func() *ask.Action { return mcp("tracker", "getter") }, func() *ask.Action { return mcp("other", "get_x") },
	func() *ask.Action { return fetch("https://a.example.org/") }, func() *ask.Action { return fetch("https://example.org/") }, func() *ask.Action { return fetch("https://a.example.org:8443/") },
}

// Whoever follows lint and takes an idle rule out changes no verdict.
func TestLawIdleRulesAreIdle(t *testing.T) {
	seen := 0
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.Custom(drawLine), 2, 5).Draw(t, "rules")
		text := func(but int) string {
			return ruleLines(append(append([]string{}, lines[:but]...), lines[min(but+1, len(lines)):]...)...)
		}
		whole := text(len(lines))
		faults, warnings := Lint(Text{"p.toml", []byte(whole), LayerUser})
		if faults != nil {
			t.Skip(faults)
		}
		for _, w := range warnings {
			if w.Kind != LackShadowed && w.Kind != LackRepeated {
				continue
			}
			seen++
			// The rule that begins at the line.
			at := strings.Count(strings.Join(strings.SplitAfter(whole, "\n")[:w.Line], ""), "[[rule]]") - 1
			both, less := decodeAll(t, whole), decodeAll(t, text(at))
			for _, a := range lintActions {
				x, y := Decide(input(both, a())), Decide(input(less, a()))
				if x.Verdict != y.Verdict {
					t.Fatalf("%s\nwithout rule %d (%s): %s of %+v, with it %s", whole, at+1, w.Text, y.Verdict, a(), x.Verdict)
				}
			}
		}
	})
	if seen < 5 {
		t.Errorf("only %d idle rules: the test is blind", seen)
	}
}

func decodeAll(t *rapid.T, text string) *Policy {
	f, err := Decode("p.toml", []byte(text), LayerUser)
	if err != nil {
		t.Fatal(fmt.Sprint(err, "\n", text))
	}
	return Compile(f)
}

// A rule for exactly what runs later allows more than any wider one, so an
// edit that adds it waits for a person; so does a port beside "*".
func TestWhatOnlyAnExactRuleAllowsIsNotCovered(t *testing.T) {
	for _, x := range []struct {
		wide, exact string
		covered     bool
	}{
		{"allow tool=write", "allow tool=write; path=.git/hooks/pre-commit", false},
		{"allow tool=write", "allow tool=write; path=src/a.go", true},
		{"allow tool=bash", "allow command=crontab jobs", false},
		{"allow tool=bash", "allow command=git -c core.pager=x log", false},
		{"allow tool=bash", "allow command=cp x .git/hooks/pre-commit", false},
		{"allow tool=bash", "allow command=timeout 5 make", false},
		{"allow tool=bash", "allow command=codex exec", false},
		{"allow command=go test *", "allow command=go test ./...", true},
		{"allow domain=*", "allow domain=a.example.org:8443", false},
		{"allow domain=*", "allow domain=a.example.org", true},
		{"allow tool=webfetch", "allow domain=a.example.org:8443", true},
		{"deny tool=bash", "deny command=crontab jobs", true},
	} {
		files := make([]*File, 2)
		for i, l := range []string{x.wide, x.exact} {
			f, err := Decode("p.toml", []byte(ruleLines(l)), LayerUser)
			if err != nil {
				t.Fatal(err)
			}
			files[i] = f
		}
		wide, exact := files[0].rules[0], files[1].rules[0]
		if got := wide.covers(exact); got != x.covered {
			t.Errorf("%s covers %s: %v", x.wide, x.exact, got)
		}
		r := merge([]*rule{wide}, nil, []*rule{wide, exact}, nil)
		if waits := len(r.added) == 1; waits == x.covered {
			t.Errorf("%s added beside %s waits: %v", x.exact, x.wide, waits)
		}
	}
}
