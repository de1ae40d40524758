package claudecheck

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/internal/realclient"
	"permd/internal/standin"
	"permd/review"
)

// The files of the project that is worked on.
var projectFiles = map[string]string{
	"Makefile":      "test:\n\t@sh test.sh\nlint:\n\t@sh -n src/add.sh src/mul.sh\n",
	"test.sh":       ". ./src/add.sh\n. ./src/mul.sh\n[ \"$(add 2 3)\" = 5 ] && [ \"$(mul 2 3)\" = 6 ] && echo ok\n",
	"src/add.sh":    "# add two numbers\nadd() { echo $(($1 + $2)); }\n",
	"src/mul.sh":    "# multiply two numbers\nmul() { echo $(($1 * $2)); }\n",
	"docs/guide.md": "# Guide\n\nadd and mul take two numbers.\n",
}

func read(file string) standin.Call {
	return standin.Use("Read", map[string]any{"file_path": "$CWD/" + file})
}

func edit(file, before, after string) standin.Call {
	return standin.Use("Edit", map[string]any{"file_path": "$CWD/" + file, "old_string": before, "new_string": after})
}

func write(file, text string) standin.Call {
	return standin.Use("Write", map[string]any{"file_path": "$CWD/" + file, "content": text})
}

func sh(command string) standin.Call {
	return standin.Use("Bash", map[string]any{"command": command, "description": "work"})
}

// workingSession is what an agent does on an ordinary day: it looks around,
// reads, searches, changes, tests and commits. 50 calls.
func workingSession() []standin.Step {
	return []standin.Step{
		standin.Calls(sh("ls -la"), sh("git status"), sh("git log --oneline -5"), read("README.md"), sh("find . -name '*.sh' | sort")),
		standin.Calls(read("Makefile"), read("test.sh"), read("src/add.sh"), read("src/mul.sh"), read("docs/guide.md")),
		standin.Calls(sh("grep -rn 'add' src docs | head -20"), sh("(cd src && ls && wc -l *.sh)"), sh("make test 2>&1 | tail -20")),
		standin.Calls(edit("src/add.sh", "# add two numbers", "# add prints the sum of two numbers"), sh("git diff"), sh("make test")),
		standin.Calls(edit("src/mul.sh", "# multiply two numbers", "# mul prints the product of two numbers"), sh("git diff --stat && git status --short"), sh("make test 2>&1 | tail -5")),
		standin.Calls(sh("git add -A"), sh("git commit -q -m 'src: comments say what is printed'"), sh("git log -1 --stat | head -20")),
		standin.Calls(write("src/sub.sh", "# sub prints the difference of two numbers\nsub() { echo $(($1 - $2)); }\n"), edit("test.sh", "echo ok", ". ./src/sub.sh && [ \"$(sub 5 3)\" = 2 ] && echo ok"), sh("make test")),
		standin.Calls(sh("cd docs && cat ../test.sh | grep -c sub; cd .."), edit("Makefile", "src/mul.sh", "src/mul.sh src/sub.sh"), sh("make lint"), edit("docs/guide.md", "add and mul take", "add, mul and sub take"), sh("make test 2>&1 | tail -3")),
		standin.Calls(sh("git diff HEAD -- docs | head -40"), sh("git add -A && git commit -q -m 'sub: the difference; with its test'"), sh("git log --oneline | head -3")),
		standin.Calls(sh("for f in src/*.sh; do head -1 \"$f\"; done"), sh("grep -n 'sub' test.sh docs/guide.md"), read("docs/guide.md")),
		standin.Calls(edit("docs/guide.md", "two numbers.", "two whole numbers."), sh("git diff --word-diff"), sh("make test")),
		standin.Calls(write("docs/changes.md", "# Changes\n\n* sub\n"), sh("sed -n '1,3p' docs/guide.md"), sh("git add docs"), sh("git commit -q -m 'docs: whole numbers'"), sh("make lint && make test")),
		standin.Calls(sh("git show --stat HEAD"), sh("git status --short"), sh("ls docs src"), sh("tail -n 3 docs/changes.md"), sh("git branch --show-current"), sh("head -20 Makefile")),
	}
}

// startProject lays the project and makes its first commit.
func startProject(t *testing.T, r *realclient.Rig) {
	t.Helper()
	for name, text := range projectFiles {
		file := filepath.Join(r.Project, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"config", "user.name", "someone"}, {"config", "user.email", "someone@example.org"}, {"add", "-A"}, {"commit", "-q", "-m", "start"}} {
		c := exec.Command("git", append([]string{"-C", r.Project}, args...)...)
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.Home, "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
}

// worked checks that the session did its work, all of it.
func worked(t *testing.T, r *realclient.Rig, calls int) {
	t.Helper()
	if calls != 50 {
		t.Errorf("%d calls, want 50", calls)
	}
	c := exec.Command("git", "-C", r.Project, "log", "--oneline")
	out, err := c.Output()
	b, rerr := os.ReadFile(filepath.Join(r.Project, "docs/guide.md"))
	if n := strings.Count(string(out), "\n"); err != nil || rerr != nil || n != 4 || !strings.Contains(string(b), "add, mul and sub take two whole numbers") {
		t.Errorf("%d commits, want 4 (%v, %v); the guide says %q\nthe model was told:\n%s", n, err, rerr, b, strings.Join(r.Model.Told(), "\n---\n"))
	}
}

const sessionTime = 50 * time.Second

// aloneSession runs the session with the client alone in its manual mode, and
// counts its prompts: the questions to the hook that answers in their place.
func aloneSession(t *testing.T) (prompts []string) {
	r := realclient.Claude(t).Rig(t, simple(workingSession()...))
	startProject(t, r)
	seen := r.Spy("exit 0")
	asked := r.Spy(realclient.Reply(map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": "PermissionRequest", "decision": map[string]any{"behavior": "allow"}}}))
	r.Settings(map[string]any{"hooks": realclient.Hooks(map[string]string{"PreToolUse": seen.Command, "PermissionRequest": asked.Command})})
	r.Print(realclient.Run{Scenario: "x", Args: []string{"--permission-mode", "default"}, Time: sessionTime})
	worked(t, r, len(seen.Events("PreToolUse")))
	for _, e := range asked.Events("PermissionRequest") {
		prompts = append(prompts, fmt.Sprintf("%s %s", e.Tool, e.Input))
	}
	return prompts
}

// governedSession runs it under permd, with a person at a desk who allows once
// whatever is asked.
func governedSession(t *testing.T, prepare func(*governed)) (prompts []string) {
	g := govern(t, place{hold: true, config: "asks_a_minute = 1000\n"}, simple(workingSession()...))
	startProject(t, g.Rig)
	if err := os.Remove(filepath.Join(g.permd.Dirs.Config, "policy.toml")); err != nil {
		t.Fatal(err)
	}
	prepare(g)
	var mu sync.Mutex
	p := g.Start(realclient.Run{Scenario: "x", Args: []string{"--permission-mode", "default"}, Time: sessionTime})
	g.desk(p.Pid(), func(s api.Shown) *ask.Answer {
		mu.Lock()
		defer mu.Unlock()
		a := s.Ask.Body.Action
		what := string(a.Tool) + " " + a.Command
		for _, f := range a.Paths {
			if a.Command == "" {
				what += f.Given
			}
		}
		prompts = append(prompts, what+" ("+s.Ask.Body.Cause+")")
		yes := allow(s.Ask)
		return &yes
	})
	if res := p.Wait(); res.Code != 0 || res.Expired {
		t.Errorf("the client ended with %+v", res)
	}
	mu.Lock()
	defer mu.Unlock()
	calls := map[string]bool{} // those that permd decided, and that then ran or not
	for _, r := range g.records(review.Effect) {
		calls[r.Field(review.KeyCall)] = true
	}
	worked(t, g.Rig, len(calls))
	return prompts
}

// An ordinary working session shows no more prompts with permd's built-in
// rules alone than the client shows alone, and at most a third of them with
// the starter policy.
func TestAnOrdinarySessionAsksSeldom(t *testing.T) {
	var alone, baseline, starter []string
	t.Run("sessions", func(t *testing.T) {
		t.Run("the client alone", func(t *testing.T) {
			t.Parallel()
			alone = aloneSession(t)
		})
		t.Run("built-in rules", func(t *testing.T) {
			t.Parallel()
			baseline = governedSession(t, func(*governed) {})
		})
		t.Run("policy init", func(t *testing.T) {
			t.Parallel()
			starter = governedSession(t, func(g *governed) {
				if code, out := g.permd.Permd("policy", "init"); code != 0 {
					t.Errorf("permd policy init: %d: %s", code, out)
				}
			})
		})
	})
	t.Logf("of 50 calls ask: the client alone %d, with permd %d, with its starter policy %d", len(alone), len(baseline), len(starter))
	list := func(name string, prompts []string) { t.Logf("%s:\n  %s", name, strings.Join(prompts, "\n  ")) }
	if len(alone) <= 20 { // docs/policy.md says more
		t.Errorf("the client alone asked %d times: the session is no work", len(alone))
	}
	if len(baseline) > len(alone) {
		t.Errorf("with built-in rules alone permd asks %d times, the client %d", len(baseline), len(alone))
	}
	if 3*len(starter) > len(alone) {
		t.Errorf("with the starter policy permd asks %d times, the client alone %d", len(starter), len(alone))
	}
	if t.Failed() || testing.Verbose() {
		list("alone", alone)
		list("built-in rules", baseline)
		list("starter policy", starter)
	}
}
