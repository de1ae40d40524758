package claude

import (
	"errors"
	"strings"
	"testing"

	"permd/ask"
	"permd/clients"
)

func native(stdin string, env map[string]string, args ...string) clients.Native {
	return clients.Native{Env: func(k string) string { return env[k] }, Args: args, Cwd: "/proc-cwd", Home: "/home/dev", Stdin: []byte(stdin)}
}

const base = `"session_id":"af9a28f9","transcript_path":"/t.jsonl","cwd":"/home/dev/proj","permission_mode":"default"`

func event(name, rest string) string {
	if rest != "" {
		rest = "," + rest
	}
	return `{` + base + `,"hook_event_name":"` + name + `"` + rest + `}`
}

func tool(name, input string) string {
	return event("PreToolUse", `"tool_name":"`+name+`","tool_input":`+input+`,"tool_use_id":"toolu_1"`)
}

func TestDecodeKinds(t *testing.T) {
	for name, want := range map[string]clients.Kind{
		"UserPromptSubmit": clients.Prompt, "SessionStart": clients.SessionStart, "SessionEnd": clients.SessionEnd,
		"SubagentStart": clients.SubStart, "SubagentStop": clients.SubStop, "Stop": clients.Other, "NewEvent": clients.Other,
	} {
		ev, err := Codec{}.Decode(native(event(name, ""), nil))
		if err != nil || ev.Kind != want {
			t.Errorf("%s: %q, %v", name, ev.Kind, err)
		}
	}
	for name, want := range map[string]clients.Kind{
		"PreToolUse": clients.Gate, "PermissionRequest": clients.Approval, "PostToolUse": clients.Ran, "PostToolUseFailure": clients.RanFailed,
	} {
		ev, err := Codec{}.Decode(native(event(name, `"tool_name":"Bash","tool_input":{"command":"ls"}`), nil))
		if err != nil || ev.Kind != want || ev.Action == nil {
			t.Errorf("%s: %q, %v", name, ev.Kind, err)
		}
	}
}

func TestDecodeActions(t *testing.T) {
	type want struct {
		tool  ask.Tool
		paths string
		other string
	}
	for _, c := range []struct {
		tool, input string
		want        want
	}{
		{"Bash", `{"command":"touch x && y","description":"d"}`, want{ask.ToolBash, "", "touch x && y"}},
		{"Read", `{"file_path":"/etc/hosts"}`, want{ask.ToolRead, "read /etc/hosts", ""}},
		{"Write", `{"file_path":"a.txt","content":"x"}`, want{ask.ToolWrite, "write a.txt", ""}},
		{"Edit", `{"file_path":"a.txt","old_string":"x","new_string":"y"}`, want{ask.ToolEdit, "write a.txt", ""}},
		{"MultiEdit", `{"file_path":"a.txt","edits":[]}`, want{ask.ToolEdit, "write a.txt", ""}},
		{"NotebookEdit", `{"notebook_path":"n.ipynb"}`, want{ask.ToolEdit, "write n.ipynb", ""}},
		{"Glob", `{"pattern":"**/*.go"}`, want{ask.ToolRead, "read /home/dev/proj", ""}},
		{"Glob", `{"pattern":"/etc/*.conf"}`, want{ask.ToolRead, "read /home/dev/proj,read /etc/", ""}},
		{"Glob", `{"pattern":"../x/*","path":"sub"}`, want{ask.ToolRead, "read sub,read ../x/", ""}},
		{"Grep", `{"pattern":"/etc/passwd","path":"src"}`, want{ask.ToolRead, "read src", ""}},
		{"Grep", `{"pattern":"x","glob":"/etc/**"}`, want{ask.ToolRead, "read /home/dev/proj,read /etc/", ""}},
		{"WebFetch", `{"url":"https://example.com/a","prompt":"p"}`, want{ask.ToolWebFetch, "", "https://example.com/a"}},
		{"WebSearch", `{"query":"go"}`, want{ask.ToolWebSearch, "", "go"}},
		{"Agent", `{"subagent_type":"general-purpose","prompt":"p"}`, want{ask.ToolTask, "", "general-purpose"}},
		{"Task", `{"subagent_type":"x","prompt":"p"}`, want{ask.ToolTask, "", "x"}},
		{"mcp__git__push_all", `{"a":1}`, want{ask.ToolMCP, "", "git/push_all"}},
		{"TodoWrite", `{"todos":[]}`, want{ask.ToolOther, "", ""}},
		{"SomethingNew", `{}`, want{ask.ToolOther, "", ""}},
	} {
		ev, err := Codec{}.Decode(native(tool(c.tool, c.input), nil))
		if err != nil {
			t.Errorf("%s: %v", c.tool, err)
			continue
		}
		a := ev.Action
		var paths []string
		for _, p := range a.Paths {
			paths = append(paths, string(p.Access)+" "+p.Given)
		}
		other := a.Command + a.URL + a.Query + a.Agent
		if a.MCP != nil {
			other = a.MCP.Server + "/" + a.MCP.Name
		}
		got := want{a.Tool, strings.Join(paths, ","), other}
		if got != c.want {
			t.Errorf("%s %s: %+v, want %+v", c.tool, c.input, got, c.want)
		}
		if a.Cwd != "/home/dev/proj" || a.Call != "toolu_1" || a.Home != "/home/dev" || string(a.Input) != c.input {
			t.Errorf("%s: facts %+v", c.tool, a)
		}
		if title, _ := (Codec{}).Question(ev); title == "" {
			t.Errorf("%s: no title", c.tool)
		}
	}
}

func TestDecodeMCPServer(t *testing.T) {
	in := func(toolName, server string) string {
		return event("PreToolUse", `"tool_name":"`+toolName+`","tool_input":{},"mcp_server":`+server)
	}
	ev, err := Codec{}.Decode(native(in("mcp__my_srv__x__do", `{"name":"my.srv__x","source":"project"}`), nil))
	if err == nil && *ev.Action.MCP != (ask.MCP{Server: "my.srv__x", Name: "do", Source: "project"}) {
		t.Errorf("got %+v", ev.Action.MCP)
	}
	if err != nil {
		t.Error(err)
	}
	for name, s := range map[string]string{
		"another server": in("mcp__a__do", `{"name":"b","source":"user"}`),
		"no name":        in("mcp__a", `{}`),
		"empty tool":     in("mcp__a__", `{}`),
		"typed name":     in("mcp__a__do", `{"name":1}`),
	} {
		if _, err := (Codec{}).Decode(native(s, nil)); !errors.Is(err, clients.ErrNative) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecodeBad(t *testing.T) {
	for name, s := range map[string]string{
		"nothing":          ``,
		"not an object":    `[1]`,
		"no event":         `{"session_id":"a"}`,
		"no session":       `{"hook_event_name":"PreToolUse"}`,
		"case variant":     `{"Hook_Event_Name":"PreToolUse","session_id":"a"}`,
		"duplicate event":  `{"hook_event_name":"Stop","hook_event_name":"PreToolUse","session_id":"a"}`,
		"typed session":    `{"hook_event_name":"PreToolUse","session_id":1}`,
		"no tool":          event("PreToolUse", `"tool_input":{}`),
		"no input":         event("PreToolUse", `"tool_name":"Bash"`),
		"input list":       tool("Bash", `[]`),
		"input duplicate":  tool("Bash", `{"command":"ls","command":"rm x"}`),
		"command missing":  tool("Bash", `{"description":"x"}`),
		"command typed":    tool("Bash", `{"command":["ls"]}`),
		"command case":     tool("Bash", `{"Command":"ls"}`),
		"path missing":     tool("Write", `{"content":"x"}`),
		"url missing":      tool("WebFetch", `{}`),
		"half":             tool("Bash", `{"command":"ls"`),
		"trailing":         tool("Bash", `{"command":"ls"}`) + `{}`,
		"agent id a list":  event("PreToolUse", `"agent_id":[],"tool_name":"Bash","tool_input":{"command":"ls"}`),
		"pattern a number": tool("Glob", `{"pattern":1}`),
	} {
		if ev, err := (Codec{}).Decode(native(s, nil)); !errors.Is(err, clients.ErrNative) {
			t.Errorf("%s: %+v, %v", name, ev.Kind, err)
		}
	}
}

// A conversation tool must never get an allow: Claude would take it for an
// empty answer.
func TestConversationToolsAreLeftAlone(t *testing.T) {
	for _, name := range conversation {
		for _, e := range []string{"PreToolUse", "PermissionRequest", "PostToolUse"} {
			ev, err := Codec{}.Decode(native(event(e, `"tool_name":"`+name+`","tool_input":{}`), nil))
			if err != nil || ev.Kind != clients.Other {
				t.Errorf("%s %s: %q, %v", e, name, ev.Kind, err)
			}
			if r := (Codec{}).Allow(ev); len(r.Stdout) != 0 || r.Code != 0 {
				t.Errorf("%s %s: something was said: %s", e, name, r.Stdout)
			}
		}
	}
}

func TestHost(t *testing.T) {
	tui := map[string]string{"CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_SESSION_ATTENDED": "1"}
	print := map[string]string{"CLAUDE_CODE_ENTRYPOINT": "sdk-cli", "CLAUDE_CODE_SESSION_ATTENDED": "0"}
	bg := map[string]string{"CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_SESSION_ATTENDED": "0"}
	pane := []string{"claude", "--agent-id", "helper@x", "--parent-session-id", "u"}
	for _, c := range []struct {
		name string
		env  map[string]string
		mode string
		args []string
		want clients.Host
	}{
		{"terminal", tui, "default", nil, clients.Host{Dialog: true, Races: true}},
		{"auto", tui, "auto", nil, clients.Host{Dialog: true, Races: true, Unasked: true}},
		{"bypass", tui, "bypassPermissions", nil, clients.Host{Dialog: true, Races: true, Unasked: true}},
		{"plan", tui, "plan", nil, clients.Host{Dialog: true, Races: true}},
		{"accept edits", tui, "acceptEdits", nil, clients.Host{Dialog: true, Races: true, Unasked: true}},
		{"dontAsk", tui, "dontAsk", nil, clients.Host{}},
		{"unknown mode", tui, "brandNew", nil, clients.Host{Dialog: true}},
		{"print", print, "default", nil, clients.Host{Unattended: true}},
		{"background", bg, "default", nil, clients.Host{Unattended: true}},
		{"pane", bg, "default", pane, clients.Host{Dialog: true, Pane: true}},
		{"pane in auto", bg, "auto", pane, clients.Host{Dialog: true, Pane: true, Unasked: true}},
		{"pane in dontAsk", bg, "dontAsk", pane, clients.Host{Pane: true}},
		{"print with a pane's arguments", print, "default", pane, clients.Host{Unattended: true}},
		{"no variables", nil, "default", nil, clients.Host{Unattended: true}},
	} {
		if got := host(native("", c.env, c.args...), c.mode); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestReplies(t *testing.T) {
	gate := clients.Event{Kind: clients.Gate, Name: "PreToolUse"}
	appr := clients.Event{Kind: clients.Approval, Name: "PermissionRequest"}
	other := clients.Event{Kind: clients.Ran, Name: "PostToolUse"}
	c := Codec{}
	for _, x := range []struct {
		name string
		got  clients.Reply
		want string
	}{
		{"gate allow", c.Allow(gate), `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}` + "\n"},
		{"gate deny", c.Deny(gate, `no "x" <y>`), `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no \"x\" <y>"}}` + "\n"},
		{"gate deny without words", c.Deny(gate, ""), `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"denied by permd"}}` + "\n"},
		{"gate ask", c.HandOver(gate, "why"), `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"why"}}` + "\n"},
		{"approval allow", c.Allow(appr), `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}` + "\n"},
		{"approval deny", c.Deny(appr, "m"), `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"m"}}}` + "\n"},
		{"approval hand over", c.HandOver(appr, "m"), ""},
		{"silent", c.Silent(gate), ""},
		{"no gate", c.Allow(other), ""},
		{"no gate deny", c.Deny(other, "x"), ""},
	} {
		if string(x.got.Stdout) != x.want || x.got.Code != 0 || len(x.got.Stderr) != 0 {
			t.Errorf("%s: %+v %s", x.name, x.got.Code, x.got.Stdout)
		}
	}
}

// The prompt shows the whole of what would happen: nothing of the command, the
// content or the change may be missing.
func TestQuestionShowsEverything(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, in := range []struct{ tool, input, must string }{
		{"Bash", `{"command":"echo ` + long + `; rm tail"}`, long + "; rm tail"},
		{"Write", `{"file_path":"a","content":"` + long + `END"}`, long + "END"},
		{"Edit", `{"file_path":"a","old_string":"` + long + `","new_string":"NEW"}`, "+ NEW"},
		{"MultiEdit", `{"file_path":"a","edits":[{"old_string":"a","new_string":"bcd"}]}`, "bcd"},
		{"WebFetch", `{"url":"https://e.x/` + long + `"}`, long},
		{"mcp__s__t", `{"big":12345678901234567890}`, "12345678901234567890"},
		{"Agent", `{"subagent_type":"x","prompt":"` + long + `"}`, long},
	} {
		ev, err := Codec{}.Decode(native(tool(in.tool, in.input), nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, p := (Codec{}).Question(ev); !strings.Contains(p, in.must) {
			t.Errorf("%s: part of the action is not shown", in.tool)
		}
	}
}
