package claude

import (
	"permd/ask"
	"permd/clients"
)

// gateOutput is what PreToolUse is answered with. stdout must be this object
// and nothing else, or Claude runs the tool.
type gateOutput struct {
	Hook struct {
		Event    string `json:"hookEventName"`
		Decision string `json:"permissionDecision"`
		Reason   string `json:"permissionDecisionReason,omitempty"`
	} `json:"hookSpecificOutput"`
}

// approvalOutput is what PermissionRequest is answered with.
type approvalOutput struct {
	Hook struct {
		Event    string `json:"hookEventName"`
		Decision struct {
			Behavior string `json:"behavior"`
			Message  string `json:"message,omitempty"`
		} `json:"decision"`
	} `json:"hookSpecificOutput"`
}

// Allow lets the call run; a deny or ask rule of Claude's own still outranks
// it.
func (Codec) Allow(ev clients.Event) clients.Reply { return reply(ev, "allow", "") }

// Deny refuses the call; Claude shows reason to the model.
func (Codec) Deny(ev clients.Event, reason string) clients.Reply {
	if reason == "" {
		reason = "denied by permd"
	}
	return reply(ev, "deny", reason)
}

// HandOver makes Claude open its own dialog, in every mode that has one; in
// -p it refuses the call. For an approval the dialog is open already, so
// nothing is said.
func (c Codec) HandOver(ev clients.Event, reason string) clients.Reply {
	if ev.Kind == clients.Approval {
		return c.Silent(ev)
	}
	return reply(ev, "ask", reason)
}

// Silent says nothing: exit 0 without output.
func (Codec) Silent(clients.Event) clients.Reply { return clients.Reply{} }

func reply(ev clients.Event, decision, reason string) clients.Reply {
	var out any
	switch ev.Kind {
	case clients.Gate:
		var g gateOutput
		g.Hook.Event, g.Hook.Decision, g.Hook.Reason = ev.Name, decision, reason
		out = g
	case clients.Approval:
		var p approvalOutput
		p.Hook.Event, p.Hook.Decision.Behavior = ev.Name, decision
		if decision == "deny" {
			p.Hook.Decision.Message = reason
		}
		out = p
	default:
		return clients.Reply{}
	}
	b, err := ask.Encode(out)
	if err != nil {
		return clients.Reply{Code: 2, Stderr: []byte("permd: " + err.Error() + "\n")}
	}
	return clients.Reply{Stdout: append(b, '\n')}
}
