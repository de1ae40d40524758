package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// guideFiles are what the sessions of docs/policy.md find in the project.
var guideFiles = map[string]string{
	"team.toml": `[[rule]]
action = "allow"
command = "git *"

[[rule]]
action = "allow"
command = "make deploy"

[[rule]]
action = "deny"
command = "make *"
`,
	"cases.jsonl": `{"want":"deny","tool":"bash","command":"cd x; make deploy"}
{"want":"allow","tool":"bash","command":"git log -1"}
{"want":"ask","tool":"write","path":"/etc/hosts"}
{"want":"deny","tool":"bash","command":"npm publish"}
`,
	".claude/settings.json": `{ "permissions": { "allow": ["Bash(npm run test:*)", "Bash(npm test && echo)"], "deny": ["Read(./.env)"] } }
`,
	"sub/README.md": "A part.\n",
}

// The sessions of the guide are run, one after the other, and print what the
// guide shows. In it "…" stands for any text, alone on a line for any lines.
func TestPolicyGuideSessions(t *testing.T) {
	permd := installed(t)
	dir := t.TempDir()
	project, root, bin := filepath.Join(dir, "proj"), filepath.Join(dir, "root"), filepath.Join(dir, "bin")
	for _, d := range []string{project, root, bin} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range guideFiles {
		file := filepath.Join(project, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wrapper := fmt.Sprintf("#!/bin/sh\nexec '%s' --root '%s' \"$@\"\n", permd, root)
	if err := os.WriteFile(filepath.Join(bin, "permd"), []byte(wrapper), 0o700); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, block := range fences(readDoc(t, "docs/policy.md"), "session") {
		for _, part := range strings.Split("\n"+block, "\n$ ")[1:] {
			command, want, _ := strings.Cut(part, "\n")
			c := exec.Command("sh", "-c", command)
			c.Dir = project
			c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			out, _ := c.CombinedOutput()
			if !shows(want, string(out)) {
				t.Errorf("$ %s\nprints\n%s\nthe guide says\n%s", command, out, want)
			}
			n++
		}
	}
	if n < 8 {
		t.Errorf("only %d commands: the test is blind", n)
	}
}

// shows reports whether out is what want says, but for its "…".
func shows(want, out string) bool {
	var b strings.Builder
	b.WriteString("(?s)^")
	for line := range strings.Lines(strings.TrimRight(want, "\n") + "\n") {
		if line == "…\n" {
			b.WriteString("(?:.*\n)?")
			continue
		}
		for i, lit := range strings.Split(line, "…") {
			if i > 0 {
				b.WriteString("[^\n]*")
			}
			b.WriteString(regexp.QuoteMeta(lit))
		}
	}
	b.WriteString("\n*$")
	return regexp.MustCompile(b.String()).MatchString(strings.TrimRight(out, "\n") + "\n")
}

func TestShows(t *testing.T) {
	for _, x := range []struct {
		want, out string
		ok        bool
	}{
		{"a\nb\n", "a\nb\n", true}, {"a\n", "a\nb\n", false}, {"a…c\n", "a b c\n", true}, {"a\n…\nc\n", "a\nx\ny\nc\n", true}, {"a\n…\nc\n", "a\nc\n", true},
		{"a…\n", "a\nb\n", false}, {"a\n…\n", "a\n", true}, {"a\n…\nb\n", "a\nc\n", false},
	} {
		if got := shows(x.want, x.out); got != x.ok {
			t.Errorf("%q of %q: %v", x.want, x.out, got)
		}
	}
}
