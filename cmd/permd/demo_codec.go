package main

import (
	"encoding/json"
	"fmt"

	"permd/ask"
	"permd/clients"
)

// demoClient is the client of the demo's agents.
const demoClient = "demo"

// demoCodec speaks the dialect of the demo's agents: one flat JSON object an
// event, one object back. It has no dialog of its own.
type demoCodec struct{}

var _ clients.Codec = demoCodec{}

func (demoCodec) Client() string { return demoClient }

// demoEvent is what a demo agent sends.
type demoEvent struct {
	Event   string `json:"event"` // start, gate, ran
	Session string `json:"session"`
	Call    string `json:"call,omitempty"`
	Command string `json:"command,omitempty"`
	Read    string `json:"read,omitempty"`
	Cwd     string `json:"cwd"`
}

// demoReply is what it gets back.
type demoReply struct {
	Verdict ask.Verdict `json:"verdict"`
	Reason  string      `json:"reason,omitempty"`
}

func (demoCodec) Decode(n clients.Native) (clients.Event, error) {
	var e demoEvent
	if err := ask.Decode(n.Stdin, ask.MaxMessage, &e); err != nil {
		return clients.Event{}, fmt.Errorf("%w: %w", clients.ErrNative, err)
	}
	ev := clients.Event{Name: e.Event, Session: e.Session, Cwd: e.Cwd, Project: e.Cwd, Mode: "default",
		Host: clients.Host{Unattended: true}, Raw: n.Stdin}
	switch e.Event {
	case "start":
		ev.Kind = clients.SessionStart
		return ev, nil
	case "gate":
		ev.Kind = clients.Gate
	case "ran":
		ev.Kind = clients.Ran
	default:
		return ev, fmt.Errorf("%w: event %s", clients.ErrNative, ask.Quote(e.Event))
	}
	a := &ask.Action{Client: demoClient, Call: e.Call, Cwd: e.Cwd, Project: e.Cwd, Home: n.Home, Tool: ask.ToolBash, ClientTool: "shell", Command: e.Command}
	input := map[string]string{"command": e.Command}
	if e.Read != "" {
		a.Tool, a.ClientTool, a.Command = ask.ToolRead, "read", ""
		a.Paths = []ask.Path{{Given: e.Read, Access: ask.AccessRead}}
		input = map[string]string{"path": e.Read}
	}
	var err error
	a.Input, err = json.Marshal(input)
	ev.Action = a
	return ev, err
}

func (demoCodec) Question(ev clients.Event) (title, prompt string) {
	if ev.Action.Tool == ask.ToolRead {
		return "Read a file", ev.Action.Paths[0].Given
	}
	return "Run a command", ev.Action.Command
}

func demoAnswer(ev clients.Event, v ask.Verdict, reason string) clients.Reply {
	if ev.Kind != clients.Gate {
		return clients.Reply{}
	}
	b, err := ask.Encode(demoReply{v, reason})
	if err != nil {
		return clients.Reply{Code: 2, Stderr: []byte(err.Error() + "\n")}
	}
	return clients.Reply{Stdout: b}
}

func (demoCodec) Allow(ev clients.Event) clients.Reply { return demoAnswer(ev, ask.Allow, "") }
func (demoCodec) Deny(ev clients.Event, why string) clients.Reply {
	return demoAnswer(ev, ask.Deny, why)
}
func (demoCodec) HandOver(ev clients.Event, why string) clients.Reply {
	return demoAnswer(ev, ask.Deny, why)
}
func (demoCodec) Silent(clients.Event) clients.Reply { return clients.Reply{} }
