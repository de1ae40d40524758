package api

import (
	"encoding/json"

	"permd/ask"
)

// Versions this build speaks, newest first.
var Versions = []int{1}

// Frame is one message on the wire: a type, an optional request number that a
// reply repeats, and the body of that type.
type Frame struct {
	T string          `json:"t"`
	N uint64          `json:"n,omitempty"`
	B json.RawMessage `json:"b,omitempty"`
}

// Frame types.
const (
	THello      = "hello"      // Hello, caller
	TWelcome    = "welcome"    // Welcome, server
	TRefused    = "refused"    // Refused, server; the connection ends
	TUnknown    = "unknown"    // no body
	TAttach     = "attach"     // Attach, answerer
	TSnapshot   = "snapshot"   // Snapshot, server; first after attach
	TAsk        = "ask"        // Shown, server
	TAnswer     = "answer"     // ask.Answer, answerer
	TVerdict    = "verdict"    // AnswerVerdict, server; one for every answer
	TSettled    = "settled"    // Settled, server; exactly once an ask and answerer
	TDeliver    = "delivered"  // Delivered, server
	TFaces      = "faces"      // Faces, answerer
	TOnScreen   = "shown"      // OnScreen, answerer or parent
	THide       = "hide"       // OnScreen, answerer: this surface lost the ask
	TSessions   = "sessions"   // Sessions, server; on every change
	TNotice     = "notice"     // Notice, server
	TRegister   = "register"   // Register, child
	TRegistered = "registered" // Registered, server
	TChildren   = "children"   // Children, child: its sessions changed
	TServing    = "serving"    // Serving, server: which sessions serve changed
	TWake       = "wake"       // no body, both ways: look into your mailbox
	TCall       = "call"       // Call, control
	TResult     = "result"     // body depends on the op
	TError      = "error"      // Refused, server; the call failed
)

// Role is what a caller wants of a connection.
type Role string

// The roles.
const (
	RoleAnswerer Role = "answerer"
	RoleChild    Role = "child"
	RoleControl  Role = "control"
	RoleProbe    Role = "probe"
)

// Hello opens a connection.
type Hello struct {
	Versions []int  `json:"versions"`
	Role     Role   `json:"role"`
	Build    string `json:"build"`
}

// Welcome accepts it. Node is "desk" for the desk process. Serving is
// answered by the loop that serves, so it proves that the loop is alive.
type Welcome struct {
	Version  int      `json:"version"`
	Node     string   `json:"node"`
	Instance string   `json:"instance"`
	Build    string   `json:"build"`
	Serving  []string `json:"serving,omitempty"`
}

// Refusal codes.
const (
	CodeVersion     = "version"     // no common version
	CodePeer        = "peer"        // wrong user, or a process below a governed agent
	CodeBusy        = "busy"        // a second living holder of the id
	CodeTicket      = "ticket"      // unknown or used ticket
	CodeBad         = "bad"         // malformed message
	CodeUnknownOp   = "unknown_op"  // control op not known
	CodeUnavailable = "unavailable" // cannot be done now
	CodeDenied      = "denied"      // not allowed to this caller
)

// Refused says no, with a text for people that names the remedy.
type Refused struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Error makes Refused an error.
func (r *Refused) Error() string { return r.Text }

// Attach declares an answerer. Faces is how many terminals, pages and popups
// are attached; with none the answerer is no surface and only watches.
type Attach struct {
	Surface string `json:"surface"`
	Label   string `json:"label,omitempty"`
	Faces   int    `json:"faces"`
	// Cap is the widest scope this answerer may give.
	Cap ask.Scope `json:"cap,omitempty"`
}

// Shown is an ask as a surface gets it: the sealed ask, the offers of the
// deciding node, and how long it has waited.
type Shown struct {
	Ask    *ask.Ask    `json:"ask"`
	Offers []ask.Offer `json:"offers,omitempty"`
	// AgeMS is how long it waits already.
	AgeMS int64 `json:"age_ms"`
	// Denied is how often this session was denied an equal action, or one of
	// the same kind, before.
	Denied int `json:"denied,omitempty"`
	// Node is the deciding node; the desk fills it in for its own faces.
	Node string `json:"node,omitempty"`
	// Elsewhere says where else the ask is open ("the client's own dialog").
	Elsewhere []string `json:"elsewhere,omitempty"`
}

// Snapshot is everything that waits, in display order, and the tree.
type Snapshot struct {
	Asks     []Shown  `json:"asks"`
	Sessions Sessions `json:"sessions"`
}

// Verdicts for an answer.
const (
	VerdictAccepted    = "accepted"
	VerdictTooLate     = "too_late"
	VerdictUnknownAsk  = "unknown_ask"
	VerdictNotOffered  = "not_offered"
	VerdictWrongDigest = "wrong_digest"
	VerdictInvalid     = "invalid"
	VerdictScope       = "scope"
	VerdictNotTrusted  = "not_trusted"
	// VerdictNotRecorded: it won, but the review log could not be written, so
	// it did not count and the ask is denied.
	VerdictNotRecorded = "not_recorded"
)

// AnswerVerdict answers every answer.
type AnswerVerdict struct {
	Ask     string `json:"ask"`
	Verdict string `json:"verdict"`
	Text    string `json:"text,omitempty"`
	// Winner names the surface that won, for too_late.
	Winner string `json:"winner,omitempty"`
}

// Ways an ask settles, as told to every answerer that did not win.
const (
	SettledLocally  = "answered-locally"
	SettledRemotely = "answered-remotely"
	SettledTimeout  = "timeout"
	SettledCancel   = "cancelled"
)

// Settled ends an ask on a surface.
type Settled struct {
	Ask     string      `json:"ask"`
	How     string      `json:"how"`
	Surface string      `json:"surface,omitempty"`
	Outcome ask.Outcome `json:"outcome"`
	// Allowed says what the winner chose.
	Allowed bool   `json:"allowed,omitempty"`
	Why     string `json:"why,omitempty"`
}

// Delivered says what the origin did with the answer.
type Delivered struct {
	Ask string `json:"ask"`
	How string `json:"how"` // released, too_late, refused
	Why string `json:"why,omitempty"`
}

// Faces reports a changed number of attached faces.
type Faces struct {
	Faces int `json:"faces"`
}

// OnScreen names an ask that a person can see, or no longer.
type OnScreen struct {
	Ask string `json:"ask"`
}

// Notice is a line for every surface: a tripwire, a new surface, a pause.
type Notice struct {
	Kind    string `json:"kind"`
	Session string `json:"session,omitempty"`
	Text    string `json:"text"`
}

// SessionState is one session of the tree.
type SessionState struct {
	ID       string `json:"id"`
	Node     string `json:"node"`
	Client   string `json:"client"`
	PID      int    `json:"pid"`
	Agent    string `json:"agent,omitempty"`
	Cwd      string `json:"cwd,omitempty"`
	Project  string `json:"project,omitempty"`
	Parent   string `json:"parent,omitempty"`
	FoundBy  string `json:"found_by,omitempty"`
	Verified bool   `json:"verified,omitempty"`
	// Authority is what decides its asks: "local", "relay", "deny".
	Authority string `json:"authority"`
	RelaysTo  string `json:"relays_to,omitempty"`
	Serving   bool   `json:"serving,omitempty"`
	Mode      string `json:"mode,omitempty"`
	Tripped   bool   `json:"tripped,omitempty"`
	PausedMS  int64  `json:"paused_ms,omitempty"`
	Waiting   int    `json:"waiting,omitempty"`
	// Lifted is permd's own mode of this session where it is not normal
	// (Mode is the client's), LiftedMS how long it holds yet.
	Lifted   string `json:"lifted,omitempty"`
	LiftedMS int64  `json:"lifted_ms,omitempty"`
	// Observed is true where permd decides nothing: what it would have decided
	// is recorded.
	Observed bool `json:"observed,omitempty"`
}

// Sessions is the tree as one node knows it.
type Sessions struct {
	Sessions []SessionState `json:"sessions"`
}

// ChildSession is one session of a child node with the parent it names.
type ChildSession struct {
	Session string `json:"session"`
	Parent  string `json:"parent"`
	// FoundBy is where the parent's name was found; a claim, see the server's
	// own check.
	FoundBy string `json:"found_by"`
}

// Register asks a parent's node to take asks from a child node.
type Register struct {
	Node     string         `json:"node"`
	Instance string         `json:"instance"`
	Sessions []ChildSession `json:"sessions"`
	// PID and Start name the child's client process.
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	// Ticket is a one-time proof handed over an inherited descriptor, hex.
	Ticket string `json:"ticket,omitempty"`
	Boot   string `json:"boot"`
}

// Registered accepts a child. Key is the MAC key of this registration, hex,
// 32 bytes; it lives in memory only.
type Registered struct {
	Key string `json:"key"`
	// BeatKey is the key of the node's beats, hex, "" when they carry none.
	BeatKey  string `json:"beat_key,omitempty"`
	Node     string `json:"node"`
	Instance string `json:"instance"`
	// Verified says which of the child's sessions have a proven parent, and how.
	Verified []Proof  `json:"verified,omitempty"`
	Serving  []string `json:"serving,omitempty"`
}

// Proof is a proven parent of a session. How is descends, announced,
// in_process, ticket or confirmed.
type Proof struct {
	Session string `json:"session"`
	Parent  string `json:"parent"`
	How     string `json:"how"`
}

// Children replaces the list of a child's sessions.
type Children struct {
	Sessions []ChildSession `json:"sessions"`
	// Quiet says that the sender notices mail by itself and needs no wake.
	Quiet bool `json:"quiet,omitempty"`
}

// Serving says which sessions of the parent's node serve now.
type Serving struct {
	Sessions []string `json:"sessions"`
	Verified []Proof  `json:"verified,omitempty"`
	// Quiet says that the sender notices mail by itself and needs no wake.
	Quiet bool `json:"quiet,omitempty"`
}

// Call is one control operation.
type Call struct {
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args,omitempty"`
}

// Control operations and their arguments and results.
const (
	OpStatus   = "status"   // → Status
	OpSessions = "sessions" // → Sessions
	OpAsks     = "asks"     // → Snapshot
	OpTicket   = "ticket"   // TicketArgs → Ticket: a one-time proof for a child about to start
	OpConfirm  = "confirm"  // ConfirmArgs: a person confirms a claimed parent
	OpPause    = "pause"    // PauseArgs
	OpMode     = "mode"     // ModeArgs → Status: a person switches a mode on or off
	OpGrants   = "grants"   // → Grants
	OpLast     = "last"     // LastArgs → Last: what was asked about or denied last
	OpGrant    = "grant"    // GrantArgs → Granted: a person grants that
	OpRevoke   = "revoke"   // RevokeArgs
	OpStop     = "stop"     // desk process only: end it
	OpLaunch   = "launch"   // LaunchArgs: permd run announces the agent it is about to become
)

// Status is a node's or the desk's own state.
type Status struct {
	Node     string `json:"node"`
	Build    string `json:"build"`
	PID      int    `json:"pid"`
	Sessions int    `json:"sessions"`
	Waiting  int    `json:"waiting"`
	Faces    int    `json:"faces"`
	Policy   string `json:"policy,omitempty"` // "" or the error that keeps the last good one
	PausedMS int64  `json:"paused_ms,omitempty"`
	// Modes are those that are not normal.
	Modes []ActiveMode `json:"modes,omitempty"`
	// Observed is how many sessions are only observed.
	Observed int `json:"observed,omitempty"`
}

// ActiveMode is a mode that a person switched on: "accept-edits" or "yolo".
type ActiveMode struct {
	// Session is the one that it is for, with its subagents; "" for all.
	Session string `json:"session,omitempty"`
	Mode    string `json:"mode"`
	LeftMS  int64  `json:"left_ms"`
}

// ModeArgs switches a mode on for so many milliseconds, or with "normal" off.
type ModeArgs struct {
	Mode  string `json:"mode"`
	ForMS int64  `json:"for_ms,omitempty"`
	// Session is the one it is for, with its subagents; "" for all of the node.
	Session string `json:"session,omitempty"`
}

// TicketArgs asks for a ticket below Session; empty means the node's root.
// With PID and Start no ticket is given: that process, which a terminal
// multiplexer started for the caller, is expected as a child instead.
type TicketArgs struct {
	Session string `json:"session,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Start   uint64 `json:"start,omitempty"`
}

// Ticket proves, once, that its bearer was started below Session.
type Ticket struct {
	Ticket  string `json:"ticket"`
	Session string `json:"session"`
}

// ConfirmArgs confirms that Session really is a child of Parent.
type ConfirmArgs struct {
	Session string `json:"session"`
	Parent  string `json:"parent"`
}

// PauseArgs pauses gating for so many milliseconds; 0 ends a pause.
type PauseArgs struct {
	ForMS int64 `json:"for_ms"`
}

// LaunchArgs hands a node the launcher's facts: the parent named on the
// command line and the inherited ticket.
type LaunchArgs struct {
	Parent  string `json:"parent,omitempty"`
	FoundBy string `json:"found_by,omitempty"`
	Ticket  string `json:"ticket,omitempty"`
}

// Grants lists what a node remembers.
type Grants struct {
	Grants []ask.Grant `json:"grants"`
	// Details has more of each, in the same order; an older node sends none.
	Details []GrantDetail `json:"details,omitempty"`
}

// GrantDetail is what is kept beside a grant.
type GrantDetail struct {
	ID string `json:"id"`
	// LeftMS is how long it lives yet, 0 when it does not expire by itself.
	LeftMS int64 `json:"left_ms,omitempty"`
	// Cwd is the directory that a command's grant is for.
	Cwd string `json:"cwd,omitempty"`
	// Pins are the files whose content must be as it was.
	Pins []string `json:"pins,omitempty"`
}

// RevokeArgs ends a grant.
type RevokeArgs struct {
	ID string `json:"id"`
}

// LastArgs asks for the last call of a session, with its subagents; "" for all
// of the node.
type LastArgs struct {
	Session string `json:"session,omitempty"`
}

// Last is the last call that was asked about or denied; without one it is
// empty.
type Last struct {
	Session string   `json:"session,omitempty"`
	Ask     *ask.Ask `json:"ask,omitempty"`
	AgeMS   int64    `json:"age_ms,omitempty"`
	// Verdict and Reason are what rules and grants say of it now.
	Verdict ask.Verdict `json:"verdict"`
	Reason  string      `json:"reason,omitempty"`
	Offers  []ask.Offer `json:"offers,omitempty"`
}

// GrantArgs takes one of the offers of [Last], which it names by what was
// shown.
type GrantArgs struct {
	Session     string         `json:"session,omitempty"`
	Ask         string         `json:"ask"`
	Digest      ask.Digest     `json:"digest"`
	Offer       string         `json:"offer"`
	OfferDigest ask.Digest     `json:"offer_digest"`
	Edit        *ask.GrantEdit `json:"edit,omitempty"`
}

// Check refuses an edit of which no grant could come.
func (g *GrantArgs) Check() error {
	if g.Edit != nil {
		return g.Edit.Check()
	}
	return nil
}

// Granted is the grant as it was kept.
type Granted struct {
	Grant ask.Grant `json:"grant"`
}
