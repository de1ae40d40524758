// Package claude translates Claude Code's hook events and answers.
//
// The contract is the one observed on the wire of Claude Code 2.1.332 and
// written down in docs/claude.md: which event carries which field, which
// output is honoured, and what the program does when a hook fails (it runs
// the tool). The codec is pure; see package clients.
package claude

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"permd/ask"
	"permd/clients"
)

// Name is the client's name in session ids.
const Name = "claude"

// Codec is the codec of Claude Code.
type Codec struct{}

var _ clients.Codec = Codec{}

// Client returns [Name].
func (Codec) Client() string { return Name }

// kinds maps Claude's event names. An event that is not here only proves
// that the client lives.
var kinds = map[string]clients.Kind{
	"PreToolUse":         clients.Gate,
	"PermissionRequest":  clients.Approval,
	"PostToolUse":        clients.Ran,
	"PostToolUseFailure": clients.RanFailed,
	"UserPromptSubmit":   clients.Prompt,
	"SessionStart":       clients.SessionStart,
	"SessionEnd":         clients.SessionEnd,
	"SubagentStart":      clients.SubStart,
	"SubagentStop":       clients.SubStop,
}

// Decode reads one hook event.
func (Codec) Decode(n clients.Native) (clients.Event, error) {
	o, err := clients.ParseObject(n.Stdin)
	if err != nil {
		return clients.Event{}, err
	}
	ev := clients.Event{Raw: json.RawMessage(ask.Compact(n.Stdin))}
	texts := []struct {
		name string
		to   *string
	}{
		{"hook_event_name", &ev.Name}, {"session_id", &ev.Session}, {"agent_id", &ev.Agent},
		{"agent_type", &ev.AgentType}, {"cwd", &ev.Cwd}, {"permission_mode", &ev.Mode},
	}
	for _, t := range texts {
		if *t.to, err = o.Text(t.name); err != nil {
			return clients.Event{}, err
		}
	}
	if ev.Name == "" || ev.Session == "" {
		return clients.Event{}, fmt.Errorf("%w: event name or session id is missing", clients.ErrNative)
	}
	ev.Kind = clients.Other
	if k, ok := kinds[ev.Name]; ok {
		ev.Kind = k
	}
	ev.Project = n.Env("CLAUDE_PROJECT_DIR")
	ev.EnvFile = n.Env("CLAUDE_ENV_FILE")
	if ev.Cwd == "" {
		ev.Cwd = n.Cwd
	}
	ev.Host = host(n, ev.Mode)
	switch ev.Kind {
	case clients.Gate, clients.Approval, clients.Ran, clients.RanFailed:
		return toolEvent(o, ev, n.Home)
	case clients.SessionStart:
		ev.Reason, err = o.Text("source")
	case clients.SessionEnd:
		ev.Reason, err = o.Text("reason")
	}
	return ev, err
}

// proved are the permission modes in which an ask from PreToolUse was seen to
// open the dialog and to run the PermissionRequest hook beside it.
var proved = []string{"default", "manual", "auto", "bypassPermissions", "acceptEdits", "plan"}

// unasked are the modes in which Claude runs calls without a prompt when no
// hook speaks.
var unasked = []string{"auto", "bypassPermissions", "acceptEdits"}

// host says who could answer at the client. Claude tells its hooks the entry
// point ("cli" for the terminal and --bg, "sdk-cli" for -p) and whether
// somebody attends. A teammate in a pane is known by its own arguments; it says
// that nobody attends, since Claude shows its dialogs at its lead.
func host(n clients.Native, mode string) clients.Host {
	screen := n.Env("CLAUDE_CODE_ENTRYPOINT") == "cli"
	pane := screen && hasOption(n.Args, "--agent-id") && hasOption(n.Args, "--parent-session-id")
	terminal := pane || screen && n.Env("CLAUDE_CODE_SESSION_ATTENDED") == "1"
	return clients.Host{
		Dialog:     terminal && mode != "dontAsk",
		Races:      terminal && !pane && slices.Contains(proved, mode),
		Pane:       pane,
		Unattended: !terminal,
		Unasked:    slices.Contains(unasked, mode),
	}
}

func hasOption(args []string, name string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == name || strings.HasPrefix(a, name+"=") })
}

// conversation are tools that are a conversation with the person. Claude
// shows them itself; an allow without an answer would skip the person, so
// permd says nothing to them.
var conversation = []string{"AskUserQuestion", "ExitPlanMode", "EnterPlanMode"}

func toolEvent(o clients.Object, ev clients.Event, home string) (clients.Event, error) {
	tool, err := o.Text("tool_name")
	if err != nil {
		return ev, err
	}
	if tool == "" {
		return ev, fmt.Errorf("%w: tool_name is missing", clients.ErrNative)
	}
	if slices.Contains(conversation, tool) {
		ev.Kind = clients.Other
		return ev, nil
	}
	call, err := o.Text("tool_use_id")
	if err != nil {
		return ev, err
	}
	raw := o["tool_input"]
	if raw == nil {
		return ev, fmt.Errorf("%w: tool_input is missing", clients.ErrNative)
	}
	in, err := o.Object("tool_input")
	if err != nil {
		return ev, err
	}
	a := &ask.Action{Client: Name, ClientTool: tool, Call: call, Input: json.RawMessage(ask.Compact(raw)),
		Cwd: ev.Cwd, Project: ev.Project, Home: home}
	if err := fill(a, tool, in, o); err != nil {
		return ev, err
	}
	ev.Action = a
	return ev, nil
}
