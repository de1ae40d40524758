package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"permd/ask"
	"permd/internal/host"
)

const (
	appliedDir  = "policy-applied"
	appliedName = "user.json"
	maxApplied  = 8 << 20
	appliedV    = 1
)

// applied is the user's rules as a person last let them stand.
type applied struct {
	V       int           `json:"v"`
	Default *ask.Verdict  `json:"default,omitempty"`
	Rules   []appliedRule `json:"rules"`
	Links   []Link        `json:"authorizers,omitempty"`
	// By is who applied it, "" for the first load and for edits that only
	// tighten.
	By string `json:"by,omitempty"`
}

type appliedRule struct {
	Rule ask.Rule `json:"rule"`
	File string   `json:"file"`
	Line int      `json:"line"`
}

// Check refuses another version.
func (a *applied) Check() error {
	if a.V != appliedV {
		return fmt.Errorf("version %d; this permd writes %d", a.V, appliedV)
	}
	return nil
}

func appliedOf(rules []*rule, def *ask.Verdict, links []Link, by string) applied {
	a := applied{V: appliedV, Default: def, By: by, Rules: []appliedRule{}, Links: links}
	for _, r := range rules {
		a.Rules = append(a.Rules, appliedRule{Rule: r.Rule, File: r.ref.File, Line: r.ref.Line})
	}
	return a
}

// compiled turns the values into rules again.
func (a *applied) compiled() ([]*rule, error) {
	values := make([]ask.Rule, len(a.Rules))
	for i := range a.Rules {
		values[i] = a.Rules[i].Rule
	}
	f, err := Decode(appliedName, Format(nil, values), LayerUser)
	if err != nil {
		return nil, err
	}
	if len(f.rules) != len(a.Rules) {
		return nil, fmt.Errorf("%d rules instead of %d", len(f.rules), len(a.Rules))
	}
	for i, r := range f.rules {
		r.ref.File, r.ref.Line = a.Rules[i].File, a.Rules[i].Line
	}
	return f.rules, nil
}

// sameRules reports whether two lists say the same, in any order.
func sameRules(a, b []*rule) bool {
	keys := map[string]int{}
	for _, r := range a {
		keys[r.key()] |= 1
	}
	for _, r := range b {
		keys[r.key()] |= 2
	}
	for _, k := range keys {
		if k != 3 {
			return false
		}
	}
	return true
}

// errNoneApplied means that nothing was ever applied.
var errNoneApplied = errors.New("no applied rules")

// readApplied returns the applied rules and their digest.
func readApplied(state string) (*applied, string, error) {
	dir, err := os.OpenRoot(filepath.Join(state, appliedDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", errNoneApplied
	}
	if err != nil {
		return nil, "", err
	}
	defer dir.Close()
	raw, err := host.OpenPrivate(dir, appliedName, maxApplied)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", errNoneApplied
	}
	if err != nil {
		return nil, "", err
	}
	a := &applied{}
	if err := ask.Decode(raw, maxApplied, a); err != nil {
		return nil, "", fmt.Errorf("%s: %w", appliedName, err)
	}
	return a, ask.BodyDigest(raw).String(), nil
}

// loosens reports whether any of a could let something run.
func (a *applied) loosens() bool {
	for i := range a.Rules {
		if a.Rules[i].Rule.Action == ask.Allow {
			return true
		}
	}
	return len(a.Links) > 0 || verdictOf(a.Default) == ask.Allow
}

// writeApplied writes the applied rules, after record took their digest.
func writeApplied(state string, a applied, record func(digest string) error) error {
	raw, err := ask.Encode(a)
	if err != nil {
		return err
	}
	if len(raw) > maxApplied {
		return fmt.Errorf("the user's rules have more than %d bytes", maxApplied)
	}
	if record != nil {
		if err := record(ask.BodyDigest(raw).String()); err != nil {
			return err
		}
	}
	dir, err := os.OpenRoot(filepath.Join(state, appliedDir))
	if err != nil {
		return err
	}
	defer dir.Close()
	return host.WriteAtomic(dir, appliedName, raw, 0o600, true)
}

// lockApplied makes the directory and takes its lock, so that of several nodes
// that see an edit one writes.
func lockApplied(state string) (*host.Lock, error) {
	if err := host.MakeDir(filepath.Join(state, appliedDir)); err != nil {
		return nil, err
	}
	return host.AcquireLock(filepath.Join(state, appliedDir, "lock"))
}

// Pending is an edit of the user's rules that would loosen, and waits for a
// person.
type Pending struct {
	// ID names this very edit, for [Store.Apply].
	ID string
	// Added are rules that do not hold yet, Removed ones that still hold.
	Added, Removed []ask.Rule
	// Text is the difference, one rule a line, with where it stands.
	Text string
}

func (r *ratchet) describe(editedDef *ask.Verdict) *Pending {
	if !r.pending() {
		return nil
	}
	p := &Pending{}
	var b strings.Builder
	for _, x := range r.added {
		p.Added = append(p.Added, x.Rule)
		fmt.Fprintf(&b, "+ %s   (%s)\n", ask.VisibleLine(Line(&x.Rule)), place(&x.ref))
	}
	for _, x := range r.removed {
		p.Removed = append(p.Removed, x.Rule)
		fmt.Fprintf(&b, "- %s   (was %s)\n", ask.VisibleLine(Line(&x.Rule)), place(&x.ref))
	}
	for i := range r.newLinks {
		fmt.Fprintf(&b, "+ %s   (%s)\n", ask.VisibleLine(r.newLinks[i].line()), place(&r.newLinks[i].Ref))
	}
	if r.looser {
		fmt.Fprintf(&b, "+ default %s (now %s)\n", verdictOf(editedDef), verdictOf(r.def))
	}
	p.Text = b.String()
	sum := sha256.Sum256([]byte(p.Text))
	p.ID = hex.EncodeToString(sum[:16])
	return p
}
