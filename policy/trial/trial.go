// Package trial judges actions that are written down: one JSON object a line,
// as "permd policy explain" reads them and a file of cases for "permd policy
// test" holds them.
//
// It promises that a line means one thing or is refused: unknown, repeated or
// misspelt keys, a key that says nothing of its tool, a text that is not the
// one written, and whatever follows the object are errors, and no error is
// ever an allow. Nothing is run and nobody is asked. A line may bring a file
// system of its own; then the real one is not looked at.
//
// It does not promise what a node would say: modes, grants and who else is
// asked are the node's.
package trial

import (
	"encoding/json"
	"path"

	"permd/ask"
	"permd/policy"
	"permd/policy/paths"
)

// Place is where an action happens whose line does not say.
type Place struct {
	Cwd, Home string // absolute
	// Client is whose action it is taken for.
	Client string
}

// Case is one action and, in a file of cases, the verdicts that are right.
type Case struct {
	// ID is the line's own name, "" for none.
	ID string
	// Want are the verdicts that are right, nil when the line does not say.
	Want []ask.Verdict
	// Action is complete but for the real places of its files.
	Action ask.Action
	// Session is who asks, Agent what its client calls the subagent.
	Session, Agent string
	// View is the line's own file system, nil for the real one.
	View paths.View
	// Fold compares names without regard to case.
	Fold bool
}

// Right reports whether v is what the line wants; without a wish anything is.
func (c *Case) Right(v ask.Verdict) bool {
	for _, w := range c.Want {
		if w == v {
			return true
		}
	}
	return len(c.Want) == 0
}

// Court is what cases are judged by.
type Court struct {
	// Policy gives the rules that hold for a project's directory.
	Policy func(project string) *policy.Policy
	// Self is what is protected of the person with this Home. In a case of
	// another home permd's directories are those below it.
	Self *policy.Self
	Home string
	Now  policy.Clock
	// Grants may be nil.
	Grants []policy.Kept

	// at is the policy of the last case's project on the real file system.
	at      *policy.Policy
	project string
	home    string
	of      *policy.Policy
}

// rules are those of c's project. For cases of one project on the real file
// system their places are looked up once: a court sits for a moment.
func (k *Court) rules(project string, c *Case) *policy.Policy {
	p := k.Policy(project)
	if c.View != nil {
		return p
	}
	if k.at == nil || k.of != p || k.project != c.Action.Project || k.home != c.Action.Home {
		k.of, k.project, k.home = p, c.Action.Project, c.Action.Home
		k.at = p.At(paths.Disk{}, k.project, k.home)
	}
	return k.at
}

// Judge says what the rules make of c.
func (k *Court) Judge(c *Case) policy.Result {
	view := c.View
	if view == nil {
		view = paths.Disk{}
	}
	a := c.Action
	a.Paths = append([]ask.Path(nil), a.Paths...)
	policy.Complete(&a, view)
	// A directory that cannot be a project has no rules of its own; the
	// decision sees to it that nothing lies inside.
	project, _ := policy.ProjectDir(a.Project, a.Home, view)
	return policy.Decide(policy.Input{Action: &a, Origin: c.Session, Agent: c.Agent, Here: c.Session, Node: policy.Origin,
		Policy: k.rules(project, c), Grants: k.Grants, Now: k.Now, View: view, Self: k.self(a.Home, view), Fold: c.Fold})
}

// self is what is protected where home is the home directory.
func (k *Court) self(home string, view paths.View) *policy.Self {
	if home == "" || home == k.Home || k.Home == "" || k.Self == nil {
		return k.Self
	}
	s := policy.Self{Config: path.Join(home, ".config", "permd"), State: path.Join(home, ".local", "state", "permd"),
		Run: k.Self.Run, Managed: k.Self.Managed, Root: k.Self.Root, Binaries: k.Self.Binaries}
	return policy.NewSelf(s, view)
}

// Answer is a verdict as it is printed, one object a line.
type Answer struct {
	ID      string      `json:"id,omitempty"`
	Verdict ask.Verdict `json:"verdict"`
	// Line and Error are of a line that could not be judged.
	Line    int        `json:"line,omitempty"`
	Error   string     `json:"error,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Risk    ask.Risk   `json:"risk,omitempty"`
	Reasons []Reason   `json:"reasons"`
	Units   []string   `json:"units"`
	Paths   []ask.Path `json:"paths"`
}

// Reason is one rule, grant or built-in rule that spoke.
type Reason struct {
	Verdict ask.Verdict  `json:"verdict"`
	Kind    ask.Kind     `json:"kind"`
	Rule    *ask.RuleRef `json:"rule,omitempty"`
	Grant   string       `json:"grant,omitempty"`
	Unit    string       `json:"unit,omitempty"`
	Path    string       `json:"path,omitempty"`
	Text    string       `json:"text,omitempty"`
}

// AnswerOf is what is printed of a result.
func AnswerOf(c *Case, r policy.Result) Answer {
	a := Answer{ID: c.ID, Verdict: r.Verdict, Reason: r.Reason, Risk: r.Risk, Reasons: []Reason{}, Units: r.Units, Paths: r.Paths}
	for _, x := range r.Reasons {
		a.Reasons = append(a.Reasons, Reason{x.Verdict, x.Kind, x.Rule, x.Grant, x.Unit, x.Path, x.Text})
	}
	if a.Units == nil {
		a.Units = []string{}
	}
	if a.Paths == nil {
		a.Paths = []ask.Path{}
	}
	return a
}

// Refused is the answer to a line that could not be judged: deny.
func Refused(line int, err error) Answer {
	return Answer{Verdict: ask.Deny, Line: line, Error: err.Error(), Reason: "the line cannot be judged",
		Reasons: []Reason{}, Units: []string{}, Paths: []ask.Path{}}
}

// Wire is a's line, with its line end. A text that JSON cannot hold is written
// with replacement characters.
func (a *Answer) Wire() []byte {
	b, err := ask.Encode(a)
	if err != nil {
		b, _ = json.Marshal(a)
	}
	return append(b, '\n')
}
