package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Tool is one tool call of an agent.
type Tool struct {
	Name  string
	Input map[string]any
	// Agent is the in-process subagent that makes the call, "" for the root.
	Agent string
	// Call is the client's id of the call; made up when empty.
	Call string
}

// Bash is a call of the shell tool.
func Bash(command string) Tool { return Tool{Name: "Bash", Input: map[string]any{"command": command}} }

// Answer is what a hook answered.
type Answer struct {
	// Decision is allow, deny, ask or "" for silence.
	Decision string
	Reason   string
	Code     int
	Stderr   string
}

// Allowed reports whether the client would run the call: Claude runs it unless
// it is told deny or ask, or the hook ends with code 2.
func (a Answer) Allowed() bool { return a.Code != 2 && a.Decision == "allow" }

func (a *Agent) event(name string, t *Tool) string { return nativeEvent(a.Session, a.r.Work, name, t) }

// nativeEvent is an event in the client's own words.
func nativeEvent(session, cwd, name string, t *Tool) string {
	e := map[string]any{"session_id": session, "transcript_path": "/dev/null", "cwd": cwd,
		"permission_mode": "default", "hook_event_name": name}
	if t != nil {
		e["tool_name"], e["tool_input"] = t.Name, t.Input
		if name != "PermissionRequest" {
			e["tool_use_id"] = t.Call
		}
		if t.Agent != "" {
			e["agent_id"], e["agent_type"] = t.Agent, "general-purpose"
		}
	}
	b, err := json.Marshal(e)
	if err != nil {
		panic(err) // a map of strings
	}
	return string(b)
}

func (a *Agent) named(t Tool) Tool {
	if t.Call == "" {
		t.Call = fmt.Sprintf("toolu_%d", a.r.calls.Add(1))
	}
	return t
}

// Gate runs PreToolUse and waits for the answer.
func (a *Agent) Gate(t Tool) Answer {
	a.r.T.Helper()
	p := a.BeginGate(t)
	ans, err := p.Answer()
	if err != nil {
		a.r.T.Fatalf("gate: %v", err)
	}
	return ans
}

// BeginGate starts PreToolUse and returns at once.
func (a *Agent) BeginGate(t Tool) *Pending {
	a.r.T.Helper()
	t = a.named(t)
	return a.start("PreToolUse", &t, true)
}

// BeginApproval starts PermissionRequest and returns at once.
func (a *Agent) BeginApproval(t Tool) *Pending {
	a.r.T.Helper()
	t = a.named(t)
	return a.start("PermissionRequest", &t, false)
}

// Ran reports a call as run.
func (a *Agent) Ran(t Tool) {
	a.r.T.Helper()
	a.Send("PostToolUse", &t)
}

// Send runs another event and waits for the hook to end.
func (a *Agent) Send(name string, t *Tool) Answer {
	a.r.T.Helper()
	ans, err := a.start(name, t, false).Answer()
	if err != nil {
		a.r.T.Fatalf("%s: %v", name, err)
	}
	return ans
}

func (a *Agent) start(name string, t *Tool, gate bool) *Pending {
	a.r.T.Helper()
	p, err := a.begin(agentRequest{Op: "hook", Gate: gate, Stdin: a.event(name, t)})
	if err != nil {
		a.r.T.Fatalf("%s: %v", name, err)
	}
	return p
}

// Answer waits for the hook's end. The error says that the agent was gone.
func (p *Pending) Answer() (Answer, error) {
	r, err := p.wait()
	if err != nil {
		return Answer{}, err
	}
	return parseAnswer(r.Code, r.Stdout, r.Stderr)
}

// parseAnswer is what a client makes of what its hook printed.
func parseAnswer(code int, stdout, stderr string) (Answer, error) {
	out := Answer{Code: code, Stderr: stderr}
	s := strings.TrimSpace(stdout)
	if s == "" {
		return out, nil
	}
	var v struct {
		H struct {
			Decision string `json:"permissionDecision"`
			Reason   string `json:"permissionDecisionReason"`
			D        struct {
				Behavior string `json:"behavior"`
				Message  string `json:"message"`
			} `json:"decision"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		return out, fmt.Errorf("the hook printed %q: %w", s, err)
	}
	out.Decision, out.Reason = v.H.Decision, v.H.Reason
	if v.H.D.Behavior != "" {
		out.Decision, out.Reason = v.H.D.Behavior, v.H.D.Message
	}
	return out, nil
}
