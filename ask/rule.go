package ask

// Scope is how far a remembered permission reaches.
type Scope string

// The scopes, narrowest first. The empty scope is once.
const (
	ScopeOnce    Scope = "once"
	ScopeSession Scope = "session" // the origin session
	ScopeTree    Scope = "tree"    // the topmost session and all below it
	ScopeProject Scope = "project"
	ScopeUser    Scope = "user"
)

// Width orders scopes; an unknown scope is the widest, so that a cap never
// lets it through.
func (s Scope) Width() int {
	switch s {
	case "", ScopeOnce:
		return 0
	case ScopeSession:
		return 1
	case ScopeTree:
		return 2
	case ScopeProject:
		return 3
	case ScopeUser:
		return 4
	}
	return 99
}

// Rule is one rule as a value: what it matches and what it says. Where it
// stands is a [RuleRef] beside it. Empty fields do not narrow.
type Rule struct {
	Action Verdict `json:"action"`
	Tool   string  `json:"tool,omitempty"`
	// Command is an argv pattern, exact words; a last "*" stands for one or
	// more further words.
	Command string `json:"command,omitempty"`
	// Class is a built-in class of commands: "read-only".
	Class string `json:"class,omitempty"`
	// Path is a glob with ** over real and given paths.
	Path    string `json:"path,omitempty"`
	Outside string `json:"outside,omitempty"`
	Domain  string `json:"domain,omitempty"`
	Server  string `json:"server,omitempty"`
	Name    string `json:"name,omitempty"`
	Source  string `json:"source,omitempty"`
	Client  string `json:"client,omitempty"`
	Session string `json:"session,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Risk    Risk   `json:"risk,omitempty"`
	Except  []Rule `json:"except,omitempty"`
	// Digest narrows a grant to one exact action; zero does not narrow.
	Digest *Digest `json:"digest,omitempty"`
}

// Grant is a remembered permission. It lifts ask, never deny.
type Grant struct {
	ID    string `json:"id"`
	Scope Scope  `json:"scope"`
	// Session is the origin session (scope session) or the topmost session
	// (scope tree); Project is the anchor for scope project.
	Session string `json:"session,omitempty"`
	Project string `json:"project,omitempty"`
	Rule    Rule   `json:"rule"`
	By      By     `json:"by"`
	// Given is when, RFC 3339 in UTC; for the record, it decides nothing.
	Given string `json:"given"`
	// ExpiresMS is the life left in milliseconds when it was given, 0 for none.
	ExpiresMS int64 `json:"expires_ms,omitempty"`
}
