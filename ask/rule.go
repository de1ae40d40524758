package ask

import (
	"strings"
	"time"
)

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

// remembered reports whether a grant of scope s outlives its ask.
func (s Scope) remembered() bool { return s.Width() > 0 && s.Width() <= ScopeUser.Width() }

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

// Bounds of a rule as a value; policy has its own on what a pattern may say.
const (
	MaxExcept      = 64
	MaxExceptDepth = 4
)

// Check refuses a rule that no rule file or grant could hold: too long, too
// deeply nested, or narrowed by an empty digest. Whether its patterns make
// sense is policy's to say.
func (r *Rule) Check() error { return r.check(0) }

func (r *Rule) check(depth int) error {
	if int(r.Action) >= len(verdictText) {
		return invalid("verdict %d of a rule", uint8(r.Action))
	}
	for _, s := range []string{r.Tool, r.Command, r.Class, r.Path, r.Outside, r.Domain, r.Server, r.Name,
		r.Source, r.Client, r.Session, r.Agent, r.Reason} {
		if len(s) > MaxText {
			return invalid("a field of a rule has %d bytes, at most %d are allowed", len(s), MaxText)
		}
	}
	if !r.Risk.valid() {
		return invalid("risk %s", Quote(string(r.Risk)))
	}
	if r.Digest != nil && r.Digest.IsZero() {
		return invalid("a rule for the empty digest")
	}
	if len(r.Except) > MaxExcept || len(r.Except) > 0 && depth >= MaxExceptDepth {
		return invalid("%d exceptions at depth %d, at most %d and %d are allowed", len(r.Except), depth, MaxExcept, MaxExceptDepth)
	}
	for i := range r.Except {
		if err := r.Except[i].check(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

// Check refuses a grant that must not be kept: one that does not allow, is
// not for longer than its ask, or whose giver is malformed.
func (g *Grant) Check() error {
	if !ValidID(g.ID) {
		return invalid("grant id %s", Quote(g.ID))
	}
	if !g.Scope.remembered() {
		return invalid("grant %s of scope %s", g.ID, Quote(string(g.Scope)))
	}
	if needs := g.Scope == ScopeSession || g.Scope == ScopeTree; needs != (g.Session != "") || needs && !ValidID(g.Session) {
		return invalid("grant %s of scope %s for session %s", g.ID, g.Scope, Quote(g.Session))
	}
	if needs := g.Scope == ScopeProject; needs && !absolute(g.Project) || !needs && g.Project != "" {
		return invalid("grant %s of scope %s for project %s", g.ID, g.Scope, Quote(g.Project))
	}
	if g.Rule.Action != Allow {
		return invalid("grant %s says %s; a grant lifts ask and nothing else", g.ID, g.Rule.Action)
	}
	if err := g.Rule.Check(); err != nil {
		return err
	}
	if err := g.By.Check(); err != nil {
		return err
	}
	if _, err := time.Parse(time.RFC3339, g.Given); err != nil || !strings.HasSuffix(g.Given, "Z") {
		return invalid("grant %s was given %s, want RFC 3339 in UTC", g.ID, Quote(g.Given))
	}
	if g.ExpiresMS < 0 {
		return invalid("grant %s lives %d ms", g.ID, g.ExpiresMS)
	}
	return nil
}
