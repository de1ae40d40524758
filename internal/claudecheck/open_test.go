package claudecheck

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"permd/internal/realclient"
	"permd/internal/standin"
	"permd/review"
)

// What Claude Code leaves open, line by line: where it leaves a way, permd
// closes it; where not, permd doctor says so.

// doctor is what permd doctor says, and whether its exit code asks for
// something to be put right.
func (g *governed) doctor() (text string, fix bool) {
	g.t.Helper()
	code, out := g.command("doctor", "--client", "claude")
	if code > 2 {
		g.t.Fatalf("permd doctor: %d: %s", code, out)
	}
	return out, code == 1
}

// A settings file that is broken, that has one wrong value anywhere, or that
// switches hooks off, takes every hook of that file away without a word. permd
// run does not depend on it, and doctor sees it.
func TestRunSurvivesSettingsThatSwitchHooksOff(t *testing.T) {
	const wide = `"permissions":{"allow":["Bash"]}`
	for _, k := range []struct{ name, user, project, doctor string }{
		{"broken JSON", `{"hooks":`, "", "is broken"},
		{"one wrong value", `{"hooks":HOOKS,"permissions":{"allow":["Bash"]},"cleanupPeriodDays":"soon"}`, "", ""},
		{"disableAllHooks by the user", `{"disableAllHooks":true,` + wide + `}`, "", "disableAllHooks"},
		{"disableAllHooks by the project", `{"hooks":HOOKS}`, `{"disableAllHooks":true,` + wide + `}`, "disableAllHooks"},
		{"disableAllHooks by the project's local file", `{"hooks":HOOKS}`, "local" + `{"disableAllHooks":true,` + wide + `}`, "disableAllHooks"},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			g := govern(t, place{}, simple(standin.Bash("touch ran-bad"), standin.Bash("touch ran-1"), standin.Bash("touch ran-rule")))
			hooks, err := json.Marshal(g.installed().Hooks)
			if err != nil {
				t.Fatal(err)
			}
			g.Settings(strings.ReplaceAll(k.user, "HOOKS", lower(hooks)))
			if local, ok := strings.CutPrefix(k.project, "local"); ok {
				g.writeProject(".claude/settings.local.json", local)
			} else if k.project != "" {
				g.writeProject(".claude/settings.json", k.project)
			}
			if text, fix := g.doctor(); !fix || !strings.Contains(text, k.doctor) || !strings.Contains(text, "permd run -- claude") {
				t.Errorf("doctor says (to be put right: %v):\n%s", fix, text)
			}
			// The same start without permd run asks no hook at all.
			g.Print(realclient.Run{Scenario: "x"})
			if n := len(g.records(review.NodeStarted)); n != 0 {
				t.Errorf("the client's own settings started %d nodes", n)
			}
			g.tidy(g.Ran()...)
			g.Print(g.run(realclient.Run{Scenario: "x"}))
			if g.ran() != "ran-rule" || !strings.Contains(g.told(), "not for agents") || !strings.Contains(g.told(), "nobody can answer") {
				t.Errorf("ran %q; told %q", g.ran(), g.told())
			}
			g.quiet(false)
		})
	}
}

// lower writes the members of a hook as the client spells them.
func lower(hooks []byte) string {
	return strings.NewReplacer(`"Hooks"`, `"hooks"`, `"Matcher"`, `"matcher"`, `"Type"`, `"type"`, `"Command"`, `"command"`, `"Timeout"`, `"timeout"`).Replace(string(hooks))
}

// Flags that start a client without its hooks are denied to agents; the same
// start without the flag is asked.
func TestOffSwitchesAreDeniedToAgents(t *testing.T) {
	t.Parallel()
	c := realclient.Claude(t)
	claude := realclient.Quote(c.Path)
	var steps []standin.Step
	off := []string{
		"claude --bare -p hi", claude + " --bare -p hi", "claude --safe-mode -p hi", "env A=b claude -p hi --bare",
		`claude --settings '{"disableAllHooks":true}' -p hi`, "claude --setting-sources project -p hi", "CLAUDE_CONFIG_DIR=/tmp/x claude -p hi",
		"claude --restricted -p hi", "CLAUDE_CODE_SIMPLE=1 claude -p hi", "env CLAUDE_CODE_SAFE_MODE=1 claude -p hi", "export CLAUDE_CODE_RESTRICTED=1; claude -p hi",
		"claude --settings off.json -p hi", "permd run -- claude --bare -p hi",
	}
	for _, command := range off {
		steps = append(steps, standin.Bash(command+"; touch ran-off"))
	}
	steps = append(steps, standin.Bash("claude -p hi && touch ran-claude"))
	g := govern(t, place{}, simple(steps...))
	g.Print(realclient.Run{Scenario: "x", Time: 2 * realclient.DefaultTime})
	told := g.Model.Told()
	if g.ran() != "" || len(told) != len(steps) {
		t.Fatalf("ran %q; told %q", g.ran(), told)
	}
	for i, command := range off {
		if !strings.Contains(told[i], "to protect permd") {
			t.Errorf("%s: the model was told %q", command, told[i])
		}
	}
	if last := told[len(told)-1]; !strings.Contains(last, "nobody can answer") {
		t.Errorf("a plain start: %q", last)
	}
	g.quiet(false)
	text, _ := g.doctor()
	for _, want := range []string{"--bare", "--safe-mode", "--restricted", "--setting-sources", "CLAUDE_CODE_SIMPLE", "disableAllHooks", "time-out", "tmux", "handed_to_client_dialog"} {
		if !strings.Contains(text, want) {
			t.Errorf("doctor does not speak of %s:\n%s", want, text)
		}
	}
	if !strings.Contains(text, "if the hook dies: asks") {
		t.Errorf("doctor does not say what happens if the hook dies:\n%s", text)
	}
}

// A hook over HTTP that nobody serves lets calls run; beside permd it changes
// nothing, and doctor names it.
func TestAnHTTPHookBesidePermd(t *testing.T) {
	t.Parallel()
	const url = "http://127.0.0.1:9/hook"
	g := govern(t, place{settings: map[string]any{"hooks": map[string]any{"PreToolUse": []any{map[string]any{
		"matcher": "*", "hooks": []any{map[string]any{"type": "http", "url": url}},
	}}}}}, simple(standin.Bash("touch ran-bad"), standin.Bash("touch ran-rule")))
	g.Print(realclient.Run{Scenario: "x"})
	if g.ran() != "ran-rule" || !strings.Contains(g.told(), "not for agents") {
		t.Errorf("ran %q; told %q", g.ran(), g.told())
	}
	g.quiet(false)
	if text, _ := g.doctor(); !strings.Contains(text, url) {
		t.Errorf("doctor does not name the hook:\n%s", text)
	}
}

// Every answer of the hook is nothing, or the one JSON object of its event and
// a line's end: no banner, no other event's name, no "continue".
func TestTheHookPrintsOneObjectOrNothing(t *testing.T) {
	t.Parallel()
	g := govern(t, place{bare: true}, simple(
		standin.Bash("touch ran-rule"), standin.Bash("touch ran-bad"), standin.Bash("touch ran-1"), standin.Bash("false && touch ran-2"),
	))
	// The installed hook is a script around the real one that keeps what goes
	// in and what comes out.
	kept := filepath.Join(g.Dir, "kept")
	bin := filepath.Join(g.Dir, "bin")
	for _, d := range []string{kept, bin} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	permd, err := os.ReadFile(g.permd.Bin + "/permd")
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nf=$(mktemp " + realclient.Quote(kept) + "/XXXXXX)\ncat >$f.in\n" +
		realclient.Quote(g.permd.Bin+"/permd-hook") + ` "$@" <$f.in >$f.out 2>$f.err; code=$?; echo $code >$f.code; cat $f.out; cat $f.err >&2; exit $code` + "\n"
	for name, b := range map[string][]byte{"permd": permd, "permd-hook": []byte(script)} {
		if err := os.WriteFile(filepath.Join(bin, name), b, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	real := g.permd.Bin
	g.permd.Bin = bin
	g.setup()
	g.permd.Bin = real

	term := g.Terminal(realclient.Run{})
	desk := g.desk(term.Pid(), nil)
	term.Say("SCENARIO:x go")
	g.answer(desk, allow(g.next(desk)))
	term.WaitScreen("false && touch", dialog)
	g.answer(desk, allow(g.next(desk)))
	term.WaitScreen(standin.Done)
	term.Close()
	g.quiet(true)

	type output struct {
		Hook struct {
			Event    string `json:"hookEventName"`
			Decision string `json:"permissionDecision"`
			Approval struct {
				Behavior string `json:"behavior"`
			} `json:"decision"`
		} `json:"hookSpecificOutput"`
	}
	var answers []string
	ins, err := filepath.Glob(kept + "/*.in")
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range ins {
		base := strings.TrimSuffix(in, ".in")
		read := func(ext string) []byte {
			b, err := os.ReadFile(base + ext)
			if err != nil {
				t.Error(err)
			}
			return b
		}
		var event struct {
			Name string `json:"hook_event_name"`
		}
		if err := json.Unmarshal(read(".in"), &event); err != nil {
			t.Fatal(err)
		}
		out := string(read(".out"))
		if code := string(read(".code")); code != "0\n" || len(read(".err")) != 0 {
			t.Errorf("%s: exit code %q, standard error %q", event.Name, code, read(".err"))
		}
		if out == "" {
			answers = append(answers, event.Name)
			continue
		}
		var o output
		var all map[string]map[string]json.RawMessage
		if err := json.Unmarshal([]byte(out), &o); err != nil || json.Unmarshal([]byte(out), &all) != nil {
			t.Errorf("%s: printed %q: %v", event.Name, out, err)
		}
		if len(all) != 1 || o.Hook.Event != event.Name || !strings.HasPrefix(out, "{") || !strings.HasSuffix(out, "}\n") || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: printed %q", event.Name, out)
		}
		answers = append(answers, event.Name+" "+o.Hook.Decision+o.Hook.Approval.Behavior)
	}
	slices.Sort(answers)
	want := []string{
		"PermissionRequest allow", "PermissionRequest allow", "PostToolUse", "PostToolUse", "PostToolUseFailure",
		"PreToolUse allow", "PreToolUse ask", "PreToolUse ask", "PreToolUse deny", "SessionStart", "UserPromptSubmit",
	}
	// A client whose terminal is closed may or may not tell of its end.
	answers = slices.DeleteFunc(answers, func(a string) bool { return a == "SessionEnd" })
	if !slices.Equal(answers, want) {
		t.Errorf("the hook answered\n%q, want\n%q", answers, want)
	}
}
