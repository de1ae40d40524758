package policy

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"permd/ask"
	"permd/policy/paths"
	"permd/policy/shell"
)

// Kept is a grant as it is kept: with what it was given for.
type Kept struct {
	Grant ask.Grant `json:"grant"`
	// Cwd is the directory that a command grant is for: the same words mean
	// another thing elsewhere.
	Cwd string `json:"cwd,omitempty"`
	// Pins are the programs and scripts that the agent could change, as they
	// were.
	Pins []Pin `json:"pins,omitempty"`
	// Boot and UpMS are when it was given on the boot-time clock; they matter
	// for a grant that expires.
	Boot string `json:"boot,omitempty"`
	UpMS int64  `json:"up_ms,omitempty"`

	rule *rule // compiled, nil when it is not valid
}

// Pin is the content of a file, SHA-256 in hex.
type Pin struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

const (
	maxPinned = 8 << 20
	maxPins   = 16
)

// ErrNotGrantable is wrapped by every refusal to keep a grant.
var ErrNotGrantable = errors.New("this cannot be granted for longer than once")

func notGrantable(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNotGrantable}, a...)...)
}

// Keep checks g, which was given for the action a, and returns it as it is to
// be kept. It refuses what no grant may cover: another rule than an exact one,
// a command that starts another or runs later, a file that cannot be pinned.
func Keep(g ask.Grant, a *ask.Action, view paths.View, now Clock) (Kept, error) {
	if err := g.Check(); err != nil {
		return Kept{}, err
	}
	if g.Scope == ask.ScopeProject && g.Project != a.Project {
		return Kept{}, notGrantable("it is for project %s, and the call was made in %s", ask.Quote(g.Project), ask.Quote(a.Project))
	}
	if g.ExpiresMS > 0 && now.Boot == "" {
		return Kept{}, notGrantable("how long it lives cannot be measured here")
	}
	k := Kept{Grant: g, Boot: now.Boot, UpMS: now.Up.Milliseconds()}
	r, err := grantRule(&g.Rule)
	if err != nil {
		return Kept{}, err
	}
	k.rule = r
	switch r.kind {
	case kindCommand:
		return keepCommand(k, r, a, view)
	case kindPath:
		if laterFile(g.Rule.Path, a.Home) != "" && r.Tool != "read" {
			return Kept{}, notGrantable("%s", readsIn)
		}
	}
	return k, nil
}

// Covers reports whether k lifts an ask of session about a, where nothing else
// speaks.
func Covers(k Kept, session string, a *ask.Action, view paths.View, now Clock) bool {
	k.Grant.Scope, k.Grant.Session, k.Grant.Project = ask.ScopeUser, "", ""
	return Decide(Input{Action: a, Origin: session, Here: session, Node: Origin, Policy: CompileAlone(), Grants: []Kept{k}, Now: now, View: view}).Verdict == ask.Allow
}

// grantRule compiles a grant's rule, which must be exact.
func grantRule(v *ask.Rule) (*rule, error) {
	f, err := Decode("grant", Format(nil, []ask.Rule{*v}), LayerUser)
	if err != nil {
		return nil, notGrantable("its rule is not valid: %s", err)
	}
	r := f.rules[0]
	switch {
	case r.Action != ask.Allow:
		return nil, notGrantable("a grant allows")
	case r.kind == kindCommand && !r.exactCommand() && !r.subcommand(), r.kind == kindPath && (!r.exactPath() || r.Outside != ""),
		r.kind == kindMCP && (!r.server.literal() || !r.name.literal()), r.kind == kindWeb && (r.domain == nil || r.domain.any || r.domain.sub),
		r.kind == kindTask && r.Agent == "", r.kind == kindSearch, r.kind == kindAll, r.kind == kindTool:
		return nil, notGrantable("only an exact command, a subcommand, or an exact path, tool, host or kind of agent is kept")
	case r.kind == kindPath && r.Tool == "":
		return nil, notGrantable("a grant for a file says whether it is read or written")
	}
	return r, nil
}

func keepCommand(k Kept, r *rule, a *ask.Action, view paths.View) (Kept, error) {
	s := shell.Read(a.Command, shell.Env{Cwd: a.Cwd, Home: a.Home})
	argv, ok := []string(nil), false
	if s.Plain() {
		argv, ok = s.Units[0].Argv()
	}
	switch {
	case !ok || !r.argv.permits(argv):
		return Kept{}, notGrantable("the command is not the one that was asked about")
	case len(s.Units) > 1 || s.Units[0].Inner != "":
		return Kept{}, notGrantable("it starts another command; a grant would be wider than it looks")
	case laterCommand(&s.Units[0]) != "":
		return Kept{}, notGrantable("%s", laterCommand(&s.Units[0]))
	case startsAgent(&s.Units[0]) != "":
		return Kept{}, notGrantable("it starts an agent")
	case !r.exactCommand() && escapes(&s.Units[0]) != "":
		return Kept{}, notGrantable("%s", escapeText)
	}
	k.Cwd = a.Cwd
	var err error
	k.Pins, err = pins(&s.Units[0], a, view)
	return k, err
}

// pins sums the program, if it is named by a path, and the script of an
// interpreter.
func pins(u *shell.Unit, a *ask.Action, view paths.View) ([]Pin, error) {
	r := paths.NewResolver(view, a.Cwd, a.Home)
	var files []string
	if name := u.Words[0].Text; strings.Contains(name, "/") {
		files = append(files, name)
	}
	if interpreters[u.Name()] {
		for _, t := range interpreted(u.Name(), u.Words[1:]) {
			if t.how == accessRead {
				files = append(files, t.word.Text)
			}
		}
	}
	var out []Pin
	for _, name := range files {
		p := r.Place(name)
		if !p.Sure() {
			return nil, notGrantable("where %s leads is not certain: %s", ask.Quote(name), p.Doubt)
		}
		summer, ok := view.(paths.Summer)
		if !ok {
			return nil, notGrantable("the content of %s cannot be looked at", ask.Quote(name))
		}
		sum, err := summer.Sum(p.Real, maxPinned)
		if err != nil {
			return nil, notGrantable("the content of %s cannot be pinned: %v", ask.Quote(name), err)
		}
		out = append(out, Pin{Path: p.Real, SHA256: hex.EncodeToString(sum[:])})
	}
	if len(out) > maxPins {
		return nil, notGrantable("too many files to pin")
	}
	return out, nil
}

// lives reports whether the grant has not expired. One that expires does not
// outlive a restart of the machine: how long that took is not known.
func (k *Kept) lives(now Clock) bool {
	if k.Grant.ExpiresMS == 0 {
		return true
	}
	age := now.Up.Milliseconds() - k.UpMS
	return now.Boot != "" && k.Boot == now.Boot && age >= 0 && age < k.Grant.ExpiresMS
}

// Digest is the SHA-256 of the grant as it is kept. The record of its giving
// repeats it, so that a changed one is none that was given.
func (k *Kept) Digest() (ask.Digest, error) {
	raw, err := ask.Encode(k)
	if err != nil {
		return ask.Digest{}, err
	}
	return ask.BodyDigest(raw), nil
}

// Left is how long the grant lives, ok false when it does not expire.
func (k *Kept) Left(now Clock) (left time.Duration, ok bool) {
	if k.Grant.ExpiresMS == 0 {
		return 0, false
	}
	if !k.lives(now) {
		return 0, true
	}
	return time.Duration(k.Grant.ExpiresMS-(now.Up.Milliseconds()-k.UpMS)) * time.Millisecond, true
}

// granted reports whether a grant lifts the ask about s; ruled says that a
// rule asks or allows. Where the default denies, no grant lifts that.
func (j *judge) granted(s *subject, ruled bool) bool {
	if d := j.in.Policy.def; !ruled && d != nil && *d == ask.Deny {
		return false
	}
	if j.in.Node == Claimed || s.kind == kindPath && s.unit >= 0 {
		return false // a command's grant covers its paths
	}
	for i := range j.in.Grants {
		k := &j.in.Grants[i]
		if !j.applies(k) {
			continue
		}
		r := k.rule
		if r == nil || r.kind != s.kind || !j.concerns(r, s) || !j.grantMatches(k, r, s) {
			continue
		}
		j.reason(Reason{Verdict: ask.Allow, Kind: ask.KindGrant, Grant: k.Grant.ID, Unit: j.unitText(s), Path: s.place.Given})
		if s.kind == kindCommand && !r.exactCommand() {
			j.units[s.unit].lifted = true
			continue // one for exactly this covers more
		}
		j.cover(s, byGrant)
		return true
	}
	return false
}

// applies reports whether the grant is for this session, this action and now.
func (j *judge) applies(k *Kept) bool {
	g := &k.Grant
	if !k.lives(j.in.Now) || g.Rule.Action != ask.Allow {
		return false
	}
	if d := g.Rule.Digest; d != nil && *d != j.in.Action.ActionDigest() {
		return false
	}
	switch g.Scope {
	case ask.ScopeSession:
		return g.Session == j.in.Origin
	case ask.ScopeTree:
		if g.Session == j.in.Origin || g.Session == j.in.Here {
			return true
		}
		for _, up := range j.in.Above {
			if g.Session == up {
				return true
			}
		}
		return false
	case ask.ScopeProject:
		return j.anchors.Project.Sure() && (g.Project == j.anchors.Project.Given || g.Project == j.anchors.Project.Real)
	case ask.ScopeUser:
		return true
	}
	return false
}

func (j *judge) grantMatches(k *Kept, r *rule, s *subject) bool {
	switch s.kind {
	case kindCommand:
		u := j.unit(s)
		return s.argv != nil && r.argv.permits(s.argv) && s.unit == 0 && k.Cwd == j.in.Action.Cwd && len(j.script.Units) == 1 && j.unpinned(k) &&
			(r.exactCommand() || u.Inner == "" && escapes(u) == "" && startsAgent(u) == "")
	case kindPath:
		return r.path.Bind(j.resolver, j.anchors).Permits(s.place)
	case kindMCP:
		return r.mcp(s.mcp)
	case kindWeb:
		return r.web(s)
	}
	return s.kind == kindTask
}

// unpinned reports whether nothing that the grant pins has changed.
func (j *judge) unpinned(k *Kept) bool {
	if len(k.Pins) == 0 {
		return true
	}
	summer, ok := j.in.View.(paths.Summer)
	if !ok {
		return false
	}
	for _, p := range k.Pins {
		sum, err := summer.Sum(p.Path, maxPinned)
		if err != nil || hex.EncodeToString(sum[:]) != p.SHA256 {
			return false
		}
	}
	return true
}
