package realclient

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"permd/internal/standin"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func raw(tool, input string) standin.Step {
	return standin.Calls(standin.Use(tool, json.RawMessage(input)))
}

// allowing is a hook that allows each call before it runs and watches the rest.
func (r *Rig) allowing() *Spy { return r.Spy(On("PreToolUse", Decide("allow", ""))) }

// What the client makes of a gate hook's end. Each case has an allow rule for
// the shell, so that a gate which does not count shows as a run.
func TestGateHookDecides(t *testing.T) {
	c := Claude(t)
	cases := []struct {
		name, body string
		ran        bool
		told       string
	}{
		{"deny", Decide("deny", "not this one"), false, "not this one"},
		{"allow", Decide("allow", ""), true, "marker-done"},
		{"ask has nobody to ask", Decide("ask", "a person must look"), false, "a person must look"},
		{"exit 2", "echo no gate >&2; exit 2", false, "no gate"},
		{"exit 1 fails open", "echo broken >&2; exit 1", true, "marker-done"},
		{"a signal fails open", "kill -9 $$", true, "marker-done"},
		{"silence fails open", "exit 0", true, "marker-done"},
		{"text before the answer fails open", "echo banner; " + Decide("deny", "no"), true, "marker-done"},
		{"another event's answer fails open", Reply(`{"hookSpecificOutput":{"hookEventName":"PostToolUse","permissionDecision":"deny"}}`), true, "marker-done"},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			r := c.Rig(t, map[string][]standin.Step{"bash": {standin.Bash("touch ran-1 && echo marker-done")}})
			spy := r.Spy(k.body)
			r.Settings(map[string]any{
				"hooks":       Hooks(map[string]string{"PreToolUse": spy.Command}),
				"permissions": map[string]any{"allow": []string{"Bash"}},
			})
			res := r.Print(Run{Scenario: "bash"})
			if res.Code != 0 || !strings.Contains(res.Stdout, standin.Done) {
				t.Errorf("client ended with %+v", res)
			}
			if got := len(r.Ran()) == 1; got != k.ran {
				t.Errorf("ran: %v, want %v", got, k.ran)
			}
			if told := strings.Join(r.Model.Told(), "\n"); !strings.Contains(told, k.told) {
				t.Errorf("the model was told %q, want %q in it", told, k.told)
			}
			if e := spy.Events("PreToolUse"); len(e) != 1 || e[0].Tool != "Bash" || e[0].Mode != "default" || e[0].Cwd != r.Project || e[0].Agent != "" {
				t.Errorf("the hook got %q", spy.Inputs())
			}
		})
	}
}

// A gate whose program is missing runs the tool; with the guard it refuses.
func TestGuardClosesAMissingHook(t *testing.T) {
	c := Claude(t)
	for command, ran := range map[string]int{
		"/nowhere/hook": 1,
		`/nowhere/hook || { echo "permd unavailable" >&2; exit 2; }`: 0,
	} {
		r := c.Rig(t, map[string][]standin.Step{"bash": {standin.Bash("touch ran-1")}})
		r.Settings(map[string]any{
			"hooks":       Hooks(map[string]string{"PreToolUse": command}),
			"permissions": map[string]any{"allow": []string{"Bash"}},
		})
		r.Print(Run{Scenario: "bash"})
		if got := len(r.Ran()); got != ran {
			t.Errorf("%s: ran %d, want %d", command, got, ran)
		}
		if told := strings.Join(r.Model.Told(), ""); ran == 0 && !strings.Contains(told, "permd unavailable") {
			t.Errorf("the model was told %q", told)
		}
	}
}

// tool_input is not what the model sent: the client puts it into its schema's
// order, fills defaults, makes paths absolute and drops a leading cd into the
// current folder. What it then has is the same, byte for byte, before a call,
// after it, and at a permission request, and stays on one tool_use_id.
func TestToolInputIsTheSameBeforeAndAfter(t *testing.T) {
	c := Claude(t)
	steps := []struct{ tool, sent, seen string }{
		{"Bash", `{ "description":"d", "command" : "echo \u0061 <&> 'é\u2028'"}`, `{"command":"echo a <&> 'é` + "\u2028" + `'","description":"d"}`},
		{"Bash", `{"command":"echo one","command":"echo two"}`, `{"command":"echo two"}`},
		{"Bash", `{"command":"echo x","timeout":"5000","run_in_background":"false"}`, `{"command":"echo x","timeout":5000,"run_in_background":false}`},
		{"Bash", `{"command":"cd $CWD && echo 'a  b'"}`, `{"command":"echo 'a  b'"}`},
		{"Bash", `{"command":"cd $CWD; echo x"}`, `{"command":"cd $CWD; echo x"}`},
		{"Bash", `{"command":"  false  \n"}`, `{"command":"  false  \n"}`},
		{"Write", `{"content":"x\n","file_path":"rel.txt"}`, `{"file_path":"$CWD/rel.txt","content":"x\n"}`},
		{"Write", `{"content":"lone \ud800","file_path":"$CWD/none/../b.txt"}`, `{"file_path":"$CWD/b.txt","content":"lone \ud800"}`},
		{"Read", `{"limit":2.0,"file_path":" $CWD/rel.txt "}`, `{"file_path":"$CWD/rel.txt","limit":2}`},
		{"Edit", `{"new_string":"y","old_string":"x","file_path":"$CWD/rel.txt"}`, `{"file_path":"$CWD/rel.txt","old_string":"x","new_string":"y","replace_all":false}`},
	}
	var script []standin.Step
	for _, s := range steps {
		script = append(script, raw(s.tool, s.sent))
	}
	r := c.Rig(t, map[string][]standin.Step{"x": script})
	spy := r.allowing()
	r.Settings(map[string]any{"hooks": Hooks(map[string]string{"PreToolUse": spy.Command, "PostToolUse": spy.Command, "PostToolUseFailure": spy.Command})})
	r.Print(Run{Scenario: "x"})
	before, after := spy.Events("PreToolUse"), append(spy.Events("PostToolUse"), spy.Events("PostToolUseFailure")...)
	if len(before) != len(steps) || len(after) != len(steps) {
		t.Fatalf("%d events before, %d after, want %d each; told %q", len(before), len(after), len(steps), r.Model.Told())
	}
	for i, s := range steps {
		if want := strings.ReplaceAll(s.seen, "$CWD", r.Project); string(before[i].Input) != want {
			t.Errorf("%s\n sent %s\n got  %s\n want %s", s.tool, s.sent, before[i].Input, want)
		}
	}
	byUse := map[string]Event{}
	for _, e := range before {
		byUse[e.ToolUse] = e
	}
	for _, e := range after {
		if b := byUse[e.ToolUse]; !bytes.Equal(b.Input, e.Input) || b.Tool != e.Tool || b.Session != e.Session {
			t.Errorf("%s of %s:\n before %s\n after  %s", e.Name, e.ToolUse, b.Input, e.Input)
		}
	}
}

// The cwd of an event is where the shell stands at that moment, so a call that
// changes it ends with another cwd than it began with, also when the client
// takes a shell that left the project back into it.
func TestCwdOfAnEventMovesWithTheShell(t *testing.T) {
	c := Claude(t)
	r := c.Rig(t, map[string][]standin.Step{"x": {
		standin.Bash("mkdir -p sub && cd sub"), standin.Bash("pwd"), standin.Bash("cd /"), standin.Bash("pwd"),
	}})
	spy := r.allowing()
	r.Settings(map[string]any{"hooks": Hooks(map[string]string{"PreToolUse": spy.Command, "PostToolUse": spy.Command})})
	r.Print(Run{Scenario: "x"})
	var got []string
	for _, e := range spy.Events("") {
		got = append(got, strings.TrimPrefix(e.Cwd, r.Project))
	}
	if want := ",/sub,/sub,/sub,/sub,,,"; strings.Join(got, ",") != want {
		t.Errorf("cwd below the project, before and after each call: %q, want %q", strings.Join(got, ","), want)
	}
}

// A rewritten input is what runs and what is reported afterwards.
func TestRewrittenInputIsReported(t *testing.T) {
	c := Claude(t)
	r := c.Rig(t, map[string][]standin.Step{"x": {standin.Bash("touch ran-1")}})
	spy := r.Spy(On("PreToolUse", Reply(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"description":"z","command":"touch ran-2"}}}`)))
	r.Settings(map[string]any{"hooks": Hooks(map[string]string{"PreToolUse": spy.Command, "PostToolUse": spy.Command})})
	r.Print(Run{Scenario: "x"})
	after := spy.Events("PostToolUse")
	if ran := strings.Join(r.Ran(), ","); ran != "ran-2" || len(after) != 1 || string(after[0].Input) != `{"command":"touch ran-2","description":"z"}` {
		t.Errorf("ran %q, reported %+v", ran, after)
	}
}

// Calls of one turn reach the hook one after another, never at once.
func TestParallelCallsReachTheHookInTurn(t *testing.T) {
	c := Claude(t)
	r := c.Rig(t, map[string][]standin.Step{"x": {standin.Calls(
		standin.Bash("touch ran-1").Calls[0], standin.Bash("touch ran-2").Calls[0], standin.Bash("touch ran-3").Calls[0],
	)}})
	spy := r.Spy(`mkdir "$spy/busy" || echo overlap >"$spy/overlap"; sleep 0.2; rmdir "$spy/busy"; ` + Decide("allow", ""))
	r.Settings(map[string]any{"hooks": Hooks(map[string]string{"PreToolUse": spy.Command})})
	r.Print(Run{Scenario: "x"})
	if len(r.Ran()) != 3 || spy.File("overlap") != "" || len(r.Model.Told()) != 3 {
		t.Errorf("ran %v, overlap %q, told %q", r.Ran(), spy.File("overlap"), r.Model.Told())
	}
}

// A subagent's calls carry its id and the session of the main conversation.
func TestSubagentNamesItself(t *testing.T) {
	c := Claude(t)
	r := c.Rig(t, map[string][]standin.Step{
		"lead":  {raw("Agent", `{"description":"child","prompt":"SCENARIO:child go","subagent_type":"general-purpose","run_in_background":false}`), standin.Bash("touch ran-lead")},
		"child": {standin.Bash("touch ran-child")},
	})
	spy := r.allowing()
	events := map[string]string{}
	for _, e := range []string{"PreToolUse", "PostToolUse", "SubagentStart", "SubagentStop", "SessionStart"} {
		events[e] = spy.Command
	}
	r.Settings(map[string]any{"hooks": Hooks(events)})
	r.Print(Run{Scenario: "lead"})
	if got := strings.Join(r.Ran(), ","); got != "ran-child,ran-lead" {
		t.Fatalf("ran %s; told %q", got, r.Model.Told())
	}
	var got []string
	all := spy.Events("")
	agent := ""
	for _, e := range all {
		if e.Session != all[0].Session || e.Session == "" {
			t.Errorf("%s of session %q, want %q", e.Name, e.Session, all[0].Session)
		}
		who := "lead"
		if e.Agent != "" {
			if agent == "" {
				agent = e.Agent
			}
			if who = "child"; e.Agent != agent || e.AgentType != "general-purpose" {
				t.Errorf("agent %q of type %q, want %q", e.Agent, e.AgentType, agent)
			}
		}
		got = append(got, e.Name+" "+e.Tool+" "+who)
	}
	want := []string{
		"SessionStart  lead", "PreToolUse Agent lead", "SubagentStart  child", "PreToolUse Bash child", "PostToolUse Bash child",
		"SubagentStop  child", "PostToolUse Agent lead", "PreToolUse Bash lead", "PostToolUse Bash lead",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Hooks handed over with --settings work beside the user's, survive a file that
// switches hooks off, and survive settings that change or break in mid-session.
// Hooks of the user's file alone do not.
func TestHooksOnTheCommandLine(t *testing.T) {
	c := Claude(t)
	const change = `echo '{"permissions":{"allow":["Bash"]},"disableAllHooks":true}' >"$CLAUDE_CONFIG_DIR/settings.json"`
	cases := []struct {
		name      string
		user, cli string // HOOKS stands for the hooks
		first     string // a call before the one that counts
		gated     bool
	}{
		{"command line only", `{}`, `{"hooks":HOOKS}`, "", true},
		{"both ask once", `{"hooks":HOOKS}`, `{"hooks":HOOKS}`, "", true},
		{"user file switches hooks off", `{"disableAllHooks":true,"permissions":{"allow":["Bash"]}}`, `{"hooks":HOOKS}`, "", false},
		{"and the command line on again", `{"disableAllHooks":true,"permissions":{"allow":["Bash"]}}`, `{"hooks":HOOKS,"disableAllHooks":false}`, "", true},
		{"user file is broken", `{"hooks":`, `{"hooks":HOOKS}`, "", true},
		{"user file alone, changed", `{"hooks":HOOKS}`, "", change, false},
		{"command line, user file changed", `{}`, `{"hooks":HOOKS,"disableAllHooks":false}`, change, true},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			counted := standin.Bash("touch ran-1")
			script := []standin.Step{counted}
			if k.first != "" {
				counted.Delay = 2500 * time.Millisecond // the client looks at its files meanwhile
				script = []standin.Step{standin.Bash(k.first), counted}
			}
			r := c.Rig(t, map[string][]standin.Step{"x": script})
			spy := r.Spy(`if grep -q '"command":"touch' "$in"; then ` + Decide("deny", "the gate was asked") + `; else ` + Decide("allow", "") + `; fi`)
			hooks, err := json.Marshal(Hooks(map[string]string{"PreToolUse": spy.Command}))
			if err != nil {
				t.Fatal(err)
			}
			with := func(s string) string { return strings.ReplaceAll(s, "HOOKS", string(hooks)) }
			r.Settings(with(k.user))
			run := Run{Scenario: "x"}
			if k.cli != "" {
				run.Args = []string{"--settings", with(k.cli)}
			}
			r.Print(run)
			asked := 0
			for _, e := range spy.Events("PreToolUse") {
				if strings.Contains(string(e.Input), "touch") {
					asked++
				}
			}
			ran := len(r.Ran()) == 1
			if want := 1; k.gated && (asked != want || ran) {
				t.Errorf("gated call: asked %d times, ran %v; told %q", asked, ran, r.Model.Told())
			}
			if !k.gated && (asked != 0 || !ran) {
				t.Errorf("call without gate: asked %d times, ran %v; told %q", asked, ran, r.Model.Told())
			}
		})
	}
}
