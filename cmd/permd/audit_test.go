package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"permd/review"
)

// Questions of docs/audit.md, answered on a record that is made for it.

// question is a section of the document: commands, and what the first ones
// answer. A command's code stands behind it.
type question struct {
	title    string
	commands []string
	answers  []string
}

var endsWith = regexp.MustCompile(`\s*# ends with (\d)\s*$`)

func questions(t *testing.T) (out []question) {
	for _, part := range strings.Split(readDoc(t, "docs/audit.md"), "\n## ")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		q := question{title: title, answers: fences(body, "text")}
		for _, block := range fences(body, "sh") {
			q.commands = append(q.commands, strings.Split(strings.TrimSpace(block), "\n")...)
		}
		out = append(out, q)
	}
	return out
}

// plain takes out of an answer what is another one each time.
func plain(line string) string {
	for _, r := range []struct{ from, to string }{
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}`, "TIME"},
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "ASK"},
		{`\b[0-9a-f]{12}\b`, "ASK"},
		{`\bn[a-z0-9]+-[a-z0-9]+\)`, "NODE)"},
		{`\+\d+ ms`, "+N ms"},
		{`\s+`, " "},
	} {
		line = regexp.MustCompile(r.from).ReplaceAllString(line, r.to)
	}
	return strings.TrimSpace(line)
}

// answers fails unless out has what the document shows, in this order; a line
// "…" there stands for any others, and at the end of a line for any rest.
func answers(t *testing.T, title, shown, out string) {
	t.Helper()
	got := strings.Split(strings.TrimRight(out, "\n"), "\n")
	free := false
	for want := range strings.Lines(strings.TrimRight(shown, "\n")) {
		want = plain(want)
		if want == "…" {
			free = true
			continue
		}
		found := -1
		for i, line := range got {
			line = plain(line)
			rest, cut := strings.CutSuffix(want, "…")
			if line == want || cut && strings.HasPrefix(line, strings.TrimSpace(rest)) {
				found = i
				break
			}
			if !free {
				break
			}
		}
		if found < 0 {
			t.Errorf("%s: the answer lacks %q where the document has it:\n%s", title, want, out)
			return
		}
		got, free = got[found+1:], false
	}
	if len(got) > 0 && !free {
		t.Errorf("%s: the document does not have %q", title, got)
	}
}

// words cuts a command line at its spaces, and not within single quotes.
func words(line string) (out []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

func TestQuestionsToTheRecord(t *testing.T) {
	permd := filepath.Join(t.TempDir(), "permd")
	if out, err := exec.Command("go", "build", "-o", permd, "permd/cmd/permd").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	root, err := os.MkdirTemp("", "permd-") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	run := func(args ...string) (string, int) {
		t.Helper()
		var stdout, stderr strings.Builder
		c := exec.Command(permd, args...)
		c.Stdout, c.Stderr = &stdout, &stderr
		err := c.Run()
		var x *exec.ExitError
		if err != nil && !errors.As(err, &x) {
			t.Fatal(err)
		}
		if stderr.Len() > 0 && args[0] != "demo" {
			t.Errorf("permd %q says %s", args, stderr.String())
		}
		return stdout.String(), c.ProcessState.ExitCode()
	}
	if out, code := run("demo", "--auto", "--kill-lead", "--keep", root); code != 0 {
		t.Fatalf("demo ended with %d: %s", code, out)
	}
	list := questions(t)
	n := 0
	for _, q := range list {
		ask := ""
		for i, line := range q.commands {
			code := 0
			if m := endsWith.FindStringSubmatch(line); m != nil {
				line, code = strings.TrimSuffix(line, m[0]), int(m[1][0]-'0')
			}
			args := words(line)[1:]
			for j := range args {
				if args[j] == "ASK" {
					args[j] = ask
				}
				if strings.HasPrefix(args[j], "2026-") {
					args[j] = "now" // the document's moment has passed
					code = 1        // and nobody is there any more
				}
			}
			out, got := run(append([]string{"--root", root}, args...)...)
			if got != code {
				t.Errorf("%s: %s ended with %d, want %d: %s", q.title, line, got, code, out)
			}
			if i < len(q.answers) {
				answers(t, q.title, q.answers[i], out)
			} else if out != "" {
				t.Errorf("%s: %s prints what the document does not show: %s", q.title, line, out)
			}
			if f := strings.Fields(out); strings.HasPrefix(out, "TIME") && len(f) > 12 {
				ask = regexp.MustCompile(`\b[0-9a-f]{12}\b`).FindString(out)
			}
			n++
		}
	}
	if len(list) != 6 || n < 6 {
		t.Errorf("%d sections with %d commands: the test is blind", len(list), n)
	}

	// The question whether something ran without a decision has a yes, too.
	l, err := review.Open(review.Options{Dir: filepath.Join(root, "state", "review"), Writer: "n9", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	e := review.Event{Name: review.RanUngated, Session: "claude-x", Action: &review.Action{Client: "claude", Tool: "bash", ClientTool: "Bash", Command: "make"},
		Reason: "the client ran what permd had not let go"}
	if err := errors.Join(l.Commit(context.Background(), e), l.Close()); err != nil {
		t.Fatal(err)
	}
	if out, code := run("--root", root, "review", "query", "--undecided"); code != 0 || !strings.Contains(out, `ran_ungated           claude-x`) {
		t.Errorf("ended with %d: %s", code, out)
	}
}
