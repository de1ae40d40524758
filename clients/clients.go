// Package clients is what permd knows of agent programs in general: the
// shape of a codec, which has one package a client below this one.
//
// A codec is pure: native event in, neutral event out; neutral verdict in,
// native reply out, byte for byte as the client reads it. It asks nobody,
// waits for nothing and keeps nothing. The node runs it.
package clients

import (
	"encoding/json"

	"permd/ask"
)

// Kind is what a native event means.
type Kind string

// The kinds of events.
const (
	// Gate comes before a tool runs; its answer decides.
	Gate Kind = "gate"
	// Approval comes while the client's own dialog is open or would open;
	// an answer races it.
	Approval Kind = "approval"
	// Ran and RanFailed come after a tool ran.
	Ran       Kind = "ran"
	RanFailed Kind = "ran_failed"
	// Prompt is input of the person.
	Prompt       Kind = "prompt"
	SessionStart Kind = "session_start"
	SessionEnd   Kind = "session_end"
	SubStart     Kind = "sub_start"
	SubStop      Kind = "sub_stop"
	// Other is an event that only proves that the client lives.
	Other Kind = "other"
)

// Native is one event as a hook delivered it.
type Native struct {
	// Env looks up one of the few variables that hooks carry.
	Env func(string) string
	// Args is the client's own argv, nil when it cannot be read.
	Args  []string
	Cwd   string // of the hook process
	Home  string // from the password database
	Stdin []byte
}

// Event is a native event in neutral words.
type Event struct {
	Kind Kind
	// Name is the client's own name of the event.
	Name string
	// Session is the client's own id of the conversation, Agent that of an
	// in-process subagent, "" for the root; AgentType is its label.
	Session   string
	Agent     string
	AgentType string
	Cwd       string
	Project   string
	// Mode is the client's own permission mode.
	Mode   string
	Action *ask.Action
	// Reason is why a session ended or how it started.
	Reason string
	Host   Host
	// EnvFile is where the client lets a session start hook export variables.
	EnvFile string
	Raw     json.RawMessage
}

// Host is who could answer at the client itself.
type Host struct {
	// Dialog: the client shows a dialog of its own for its calls.
	Dialog bool
	// Races: an answer given to the approval event is taken while that dialog
	// is open, in a mode where this was proved.
	Races bool
	// Pane: the client is a teammate in a terminal of its own whose dialogs
	// the client shows at its lead.
	Pane bool
	// Unattended: nobody sits at the client.
	Unattended bool
	// Unasked: without permd's gate the client would run its calls unasked.
	Unasked bool
}

// Reply is what the hook process does: exit code, stdout and stderr.
type Reply struct {
	Code   int
	Stdout []byte
	Stderr []byte
}

// Codec translates for one client.
type Codec interface {
	// Client is the client's name, as in session ids.
	Client() string
	// Decode reads one native event. An error means the event cannot be
	// trusted; a gate then refuses with that text.
	Decode(n Native) (Event, error)
	// Allow, Deny and HandOver answer a gate or an approval; HandOver lets
	// the client's own dialog open. Silent is the answer that decides
	// nothing.
	Allow(ev Event) Reply
	Deny(ev Event, reason string) Reply
	HandOver(ev Event, reason string) Reply
	Silent(ev Event) Reply
	// Question returns what a gate ask shows of the action: a title and the
	// prompt of the one item.
	Question(ev Event) (title, prompt string)
}
