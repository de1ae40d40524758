package realclient

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"permd/internal/standin"
)

const dialog = "Do you want to proceed?"

// manual is the mode in which the client asks; its default mode asks nothing.
var manual = Run{Args: []string{"--permission-mode", "default"}}

// ask from the gate opens the client's own dialog, with no "always" in it, and
// runs the PermissionRequest hook beside it. The person's yes runs the tool at
// once and does not end that hook; what is reported afterwards is the input
// that both hooks saw.
func TestAskOpensTheClientsDialog(t *testing.T) {
	t.Parallel()
	c := Claude(t)
	r := c.Rig(t, map[string][]standin.Step{"x": {standin.Bash("touch ran-1")}})
	spy := r.Spy(On("PreToolUse", Decide("ask", "look at this")) + "\n" + On("PermissionRequest", Hold))
	r.Settings(map[string]any{"hooks": Hooks(map[string]string{"PreToolUse": spy.Command, "PermissionRequest": spy.Command, "PostToolUse": spy.Command})})
	term := r.Terminal(manual)
	term.Say("SCENARIO:x go")
	screen := term.WaitScreen("Hook PreToolUse:Bash requires confirmation", "look at this", "touch ran-1", dialog, "1. Yes", "2. No")
	if strings.Contains(screen, "always") {
		t.Errorf("the dialog offers more than once:\n%s", screen)
	}
	spy.WaitFile("waiting", 10*time.Second)
	if ran := r.Ran(); len(ran) != 0 {
		t.Fatalf("ran %v before an answer", ran)
	}
	term.Answer("1", dialog)
	term.WaitScreen(standin.Done)
	if ran := r.Ran(); len(ran) != 1 {
		t.Errorf("ran %v", ran)
	}
	if got := spy.File("signal"); got != "" {
		t.Errorf("the waiting PermissionRequest hook got %q though the tool ran", got)
	}
	pre, ask, post := spy.Events("PreToolUse"), spy.Events("PermissionRequest"), spy.Events("PostToolUse")
	if len(pre) != 1 || len(ask) != 1 || len(post) != 1 {
		t.Fatalf("events: %d before, %d asks, %d after", len(pre), len(ask), len(post))
	}
	if string(ask[0].Input) != string(pre[0].Input) || string(post[0].Input) != string(pre[0].Input) {
		t.Errorf("input differs:\n%s\n%s\n%s", pre[0].Input, ask[0].Input, post[0].Input)
	}
	if ask[0].ToolUse != "" || post[0].ToolUse != pre[0].ToolUse {
		t.Errorf("tool-use ids: before %q, ask %q, after %q", pre[0].ToolUse, ask[0].ToolUse, post[0].ToolUse)
	}
	term.Close()
	if got := spy.WaitFile("signal", 5*time.Second); got != "TERM\n" {
		t.Errorf("at the client's end the waiting hook got %q", got)
	}
}

// An answer of the PermissionRequest hook closes the dialog.
func TestPermissionHookAnswersTheDialog(t *testing.T) {
	t.Parallel()
	c := Claude(t)
	for behavior, ran := range map[string]int{"allow": 1, "deny": 0} {
		t.Run(behavior, func(t *testing.T) {
			r := c.Rig(t, map[string][]standin.Step{"x": {standin.Bash("touch ran-1")}})
			answer := Reply(`{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"` + behavior + `"}}}`)
			spy := r.Spy(On("PreToolUse", Decide("ask", "look at this")) + "\n" +
				On("PermissionRequest", `while [ ! -e "$spy/go" ]; do sleep 0.05; done; `+answer))
			r.Settings(map[string]any{"hooks": Hooks(map[string]string{"PreToolUse": spy.Command, "PermissionRequest": spy.Command})})
			term := r.Terminal(manual)
			term.Say("SCENARIO:x go")
			term.WaitScreen(dialog)
			r.write(filepath.Join(spy.dir, "go"), []byte("go"), 0o600)
			screen := term.WaitScreen(standin.Done)
			if strings.Contains(screen, dialog) || len(r.Ran()) != ran {
				t.Errorf("ran %v, screen:\n%s", r.Ran(), screen)
			}
		})
	}
}

// Escape ends a waiting hook with SIGTERM, given to the whole process group of
// the hook's shell, so that also the program behind a guard gets it. The tool
// does not run, and neither a report of the call nor a Stop event follows.
func TestEscapeSignalsTheWaitingHook(t *testing.T) {
	t.Parallel()
	c := Claude(t)
	for event, shows := range map[string]string{"PreToolUse": "running PreToolUse hook", "PermissionRequest": dialog} {
		t.Run(event, func(t *testing.T) {
			r := c.Rig(t, map[string][]standin.Step{"x": {standin.Bash("touch ran-1")}})
			spy := r.Spy(On(event, `ps -o pgid= -p $$ >"$spy/group"; echo $PPID >"$spy/shell"; echo "$CLAUDE_PID" >"$spy/client"; `+Hold))
			guarded := spy.Command + ` || { echo "permd unavailable" >&2; exit 2; }`
			hooks := map[string]string{event: guarded}
			for _, e := range []string{"PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd"} {
				hooks[e] = spy.Command
			}
			r.Settings(map[string]any{"hooks": Hooks(hooks)})
			term := r.Terminal(manual)
			term.Say("SCENARIO:x go")
			term.WaitScreen(shows)
			spy.WaitFile("waiting", 10*time.Second)
			term.Keys("Escape")
			if got := spy.WaitFile("signal", 5*time.Second); got != "TERM\n" {
				t.Errorf("the hook got %q", got)
			}
			term.WaitScreen("Interrupted")
			if group, shell := strings.TrimSpace(spy.File("group")), strings.TrimSpace(spy.File("shell")); group != shell || group == "" {
				t.Errorf("the hook's process group is %q, its shell %q", group, shell)
			}
			if got := strings.TrimSpace(spy.File("client")); got != strconv.Itoa(term.Pid()) {
				t.Errorf("CLAUDE_PID %q, want %d", got, term.Pid())
			}
			term.Tmux("send-keys", "-t", "main:0.0", "-l", "/exit")
			term.Keys("Enter")
			r.WaitFor("the session's end", 10*time.Second, func() bool { return len(spy.Events("SessionEnd")) == 1 })
			if n := len(spy.Events("")); n != 2 || len(r.Ran()) != 0 {
				t.Errorf("%d events, want the held one and the session's end; ran %v", n, r.Ran())
			}
		})
	}
}

// A teammate in a pane of its own is a session of its own: another id, no agent
// id, a client that does not descend from the lead's and does not get the lead's
// variables. Its arguments name the lead's session, and carry --settings on.
func TestTeammateInItsOwnPane(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		Missing(t, "this test reads arguments from /proc")
	}
	c := Claude(t)
	r := c.Rig(t, map[string][]standin.Step{
		"lead":  {raw("Agent", `{"description":"child","prompt":"SCENARIO:child go","subagent_type":"general-purpose","name":"helper"}`)},
		"child": {standin.Bash("touch ran-1")},
	})
	spy := r.Spy(On("PreToolUse", `tr '\0' '\n' </proc/$CLAUDE_PID/cmdline >"$spy/args-$CLAUDE_PID"; echo "$CLAUDE_PID=$PERMD_SESSION" >>"$spy/sessions"; `+Decide("allow", "")))
	hooks := `{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"` + spy.Command + `"}]}]},"teammateMode":"tmux"}`
	term := r.Terminal(Run{
		Args: append([]string{"--settings", hooks}, manual.Args...),
		Env:  []string{"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1", "PERMD_SESSION=claude-lead"},
	})
	term.Say("SCENARIO:lead go")
	r.WaitFor("the teammate's call", 25*time.Second, func() bool { return len(r.Ran()) == 1 })
	e := spy.Events("PreToolUse")
	if len(e) != 2 || e[0].Tool != "Agent" || e[1].Tool != "Bash" {
		t.Fatalf("hook inputs %q", spy.Inputs())
	}
	if e[0].Session == e[1].Session || e[1].Agent != "" || e[1].AgentType != "general-purpose" {
		t.Errorf("lead %+v, teammate %+v", e[0], e[1])
	}
	lines := strings.Fields(spy.File("sessions"))
	if len(lines) != 2 || lines[0] != strconv.Itoa(term.Pid())+"=claude-lead" || !strings.HasSuffix(lines[1], "=") {
		t.Fatalf("clients and their PERMD_SESSION: %q", lines)
	}
	args := spy.File("args-" + strings.TrimSuffix(lines[1], "="))
	for _, want := range []string{"--parent-session-id\n" + e[0].Session + "\n", "--agent-name\nhelper\n", "--settings\n"} {
		if !strings.Contains(args, want) {
			t.Errorf("the teammate's arguments lack %q:\n%s", want, args)
		}
	}
	if panes := strings.Fields(term.Tmux("list-panes", "-a", "-F", "#{pane_pid}")); len(panes) != 2 {
		t.Errorf("panes %v", panes)
	}
}

// Whatever the client's own mode would do with a call, an ask of the gate opens
// the dialog and runs the PermissionRequest hook beside it: also in the modes
// that otherwise ask nothing, and in the one that denies instead of asking.
func TestEachModeOpensTheDialogForAnAsk(t *testing.T) {
	c := Claude(t)
	for _, mode := range []string{"acceptEdits", "auto", "bypassPermissions", "dontAsk", "plan"} { // and default, above
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := c.Rig(t, map[string][]standin.Step{"x": {standin.Bash("touch ran-1")}})
			spy := r.Spy(On("PreToolUse", Decide("ask", "look at this")))
			r.Settings(map[string]any{"hooks": Hooks(map[string]string{"PreToolUse": spy.Command, "PermissionRequest": spy.Command})})
			term := r.Terminal(Run{Args: []string{"--permission-mode", mode}})
			term.Say("SCENARIO:x go")
			term.WaitScreen("look at this", dialog)
			r.WaitFor("the PermissionRequest hook", 5*time.Second, func() bool { return len(spy.Events("PermissionRequest")) == 1 })
			for _, e := range spy.Events("") {
				if e.Mode != mode {
					t.Errorf("%s is told the mode %q", e.Name, e.Mode)
				}
			}
			if ran := r.Ran(); len(ran) != 0 {
				t.Errorf("ran %v without an answer", ran)
			}
		})
	}
}
