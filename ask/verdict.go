package ask

import "fmt"

// Verdict is what recorded authority says of an action. The zero value
// denies, and anything that is not one of the three words decodes to an
// error, never to a weaker verdict.
type Verdict uint8

// The three verdicts, strictest first: a lower value always wins.
const (
	Deny Verdict = iota
	Prompt
	Allow
)

var verdictText = [...]string{Deny: "deny", Prompt: "ask", Allow: "allow"}

// String returns "deny", "ask" or "allow"; any other value reads as "deny".
func (v Verdict) String() string {
	if int(v) < len(verdictText) {
		return verdictText[v]
	}
	return verdictText[Deny]
}

// Stricter returns the stricter of the two verdicts.
func (v Verdict) Stricter(o Verdict) Verdict { return min(v, o) }

// MarshalText writes the verdict's word.
func (v Verdict) MarshalText() ([]byte, error) {
	if int(v) >= len(verdictText) {
		return nil, fmt.Errorf("verdict %d is not known", uint8(v))
	}
	return []byte(verdictText[v]), nil
}

// UnmarshalText accepts exactly "deny", "ask" and "allow".
func (v *Verdict) UnmarshalText(b []byte) error {
	for i, s := range verdictText {
		if s == string(b) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("verdict %s is not known; want deny, ask or allow", Quote(string(b)))
}

// Outcome is how an ask ended. A permission's no has one encoding: answered,
// with an option whose effect is deny. No answer is never turned into an
// option.
type Outcome string

// The eight outcomes. The empty outcome is no outcome; it denies.
const (
	Answered    Outcome = "answered"
	Declined    Outcome = "declined"
	Dismissed   Outcome = "dismissed"
	Stopped     Outcome = "stopped"
	TimedOut    Outcome = "timed_out"
	Withdrawn   Outcome = "withdrawn"
	Unavailable Outcome = "unavailable"
	Failed      Outcome = "failed"
)

// Valid reports whether o is one of the eight outcomes.
func (o Outcome) Valid() bool {
	switch o {
	case Answered, Declined, Dismissed, Stopped, TimedOut, Withdrawn, Unavailable, Failed:
		return true
	}
	return false
}

// Kind says what kind of decider a [By] frame names.
type Kind string

// The kinds of deciders. Only KindUser and KindDevice are a person; only they
// may be reported as "denied by the user".
const (
	KindRule         Kind = "rule"          // a rule, with file and line
	KindDefault      Kind = "default"       // no rule matched
	KindBaseline     Kind = "baseline"      // the built-in rules
	KindProtection   Kind = "protection"    // self-protection, above all rules
	KindGrant        Kind = "grant"         // a remembered permission
	KindUser         Kind = "user"          // a person at a local surface
	KindDevice       Kind = "device"        // a person at a paired device
	KindClientDialog Kind = "client_dialog" // the client's own dialog
	KindLink         Kind = "link"          // a link of the authorizer chain
	KindMode         Kind = "mode"          // a mode such as pause
	KindRepeat       Kind = "repeat"        // denied before, asked again
	KindForwarded    Kind = "forwarded"     // another session decided: see Inner
	KindTimeout      Kind = "timeout"       // nobody answered in time
	KindUnavailable  Kind = "unavailable"   // nobody can answer
	KindWithdrawn    Kind = "withdrawn"     // the asker went away
	KindGateError    Kind = "gate_error"    // permd itself failed
	KindRelease      Kind = "release_check" // judged again at release and refused
)

// MaxFrames bounds the nesting of By: one frame a hop and the decider.
const MaxFrames = MaxHops + 1

// By names who decided. A decision that travelled has one KindForwarded frame
// a hop, outermost first, and the real decider innermost.
type By struct {
	Kind Kind `json:"kind"`
	// Session is where the decision was made (KindForwarded: the session
	// that answered us).
	Session string `json:"session,omitempty"`
	// Surface is the surface's name for KindUser, the device's key
	// fingerprint for KindDevice, the client for KindClientDialog.
	Surface string `json:"surface,omitempty"`
	// Rule is where the deciding rule stands, for KindRule.
	Rule *RuleRef `json:"rule,omitempty"`
	// Grant is the id of the deciding grant, for KindGrant.
	Grant string `json:"grant,omitempty"`
	// Inferred is true when the decider was concluded, not told: a client's
	// dialog is only known by what ran afterwards.
	Inferred bool `json:"inferred,omitempty"`
	// Inner is the frame below, for KindForwarded.
	Inner *By `json:"inner,omitempty"`
}

// RuleRef is where a rule stands.
type RuleRef struct {
	Layer string `json:"layer"`
	File  string `json:"file,omitempty"`
	Line  int    `json:"line,omitempty"`
}

// Decider returns the innermost frame: who really decided.
func (b *By) Decider() *By {
	for i := 0; b.Inner != nil && i < MaxFrames; i++ {
		b = b.Inner
	}
	return b
}

// Person reports whether a person decided.
func (b *By) Person() bool {
	k := b.Decider().Kind
	return k == KindUser || k == KindDevice
}

// Forwarded wraps b in one frame of the session that answered.
func Forwarded(session string, b By) By {
	return By{Kind: KindForwarded, Session: session, Inner: &b}
}

// Depth is the number of frames of b, at most one more than [MaxFrames].
func (b *By) Depth() int {
	n := 1
	for b.Inner != nil && n <= MaxFrames {
		n, b = n+1, b.Inner
	}
	return n
}

// Decision ends an ask. The zero value denies.
type Decision struct {
	Ask     string  `json:"ask"`
	Digest  Digest  `json:"digest"`
	Verdict Verdict `json:"verdict"`
	Outcome Outcome `json:"outcome"`
	By      By      `json:"by"`
	// Reason is a plain sentence for the agent or the person; it never
	// echoes the command.
	Reason string `json:"reason,omitempty"`
	// Grant is a permission to be kept by the origin's node, when the
	// answer asked for one of scope session.
	Grant *Grant `json:"grant,omitempty"`
	// Answer carries the items of a question.
	Answer *Answer `json:"answer,omitempty"`
	// WaitMS is the limit that ran, nil when there was none.
	WaitMS *int64 `json:"wait_ms,omitempty"`
}

// Allows reports whether d lets the action run: an allow for exactly this
// body. Everything else denies.
func (d *Decision) Allows(id string, digest Digest) bool {
	return d != nil && d.Verdict == Allow && d.Outcome == Answered && d.Ask == id && d.Digest == digest
}
