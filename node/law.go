package node

import (
	"os"
	"path/filepath"
	"slices"
	"sync"

	"permd/ask"
	"permd/internal/host"
	"permd/policy"
	"permd/policy/paths"
	"permd/review"
	"permd/session"
)

// role says for whom this node judges.
type role int

const (
	roleClaimed  role = iota // a session that only claims to be below ours
	roleVerified             // a session below ours
	roleOrigin               // our own session
)

// judgement is what recorded authority says. The zero value denies.
type judgement struct {
	Verdict ask.Verdict
	By      ask.By
	Reason  string
	// Cause says to a person why it is asked.
	Cause string
	Risk  ask.Risk
}

// law is recorded authority at this node: rules, grants, self-protection.
type law struct {
	n      *Node
	dirs   session.Dirs
	store  *policy.Store
	grants *policy.Grants
	self   *policy.Self

	mu   sync.Mutex
	said string // the problem that was recorded last
	// reported is the generation of the rules last looked at for problems,
	// plus one; broken whether they had any.
	reported uint64
	broken   bool
	gave     map[string]bool // grants whose giving is on the record
}

func newLaw(d session.Dirs, n *Node) (*law, error) {
	grants, err := policy.OpenGrants(d.State)
	if err != nil {
		return nil, err
	}
	l := &law{n: n, dirs: d, grants: grants, gave: map[string]bool{}}
	l.store = policy.OpenStore(policy.Places{Managed: d.Managed, Config: d.Config, State: d.State, Home: d.Home})
	self := policy.Self{Config: d.Config, State: d.State, Run: d.Run, Managed: d.Managed, PIDs: []int{os.Getpid()}}
	if exe, err := os.Executable(); err == nil {
		self.Binaries = []string{exe, filepath.Join(filepath.Dir(exe), "permd-hook")}
	}
	l.self = policy.NewSelf(self, paths.Disk{})
	return l, nil
}

func (l *law) clock() policy.Clock {
	up, err := host.Uptime()
	if err != nil {
		return policy.Clock{} // what expires has then expired
	}
	return policy.Clock{Boot: l.n.boot, Up: up}
}

// anchor is the project directory of a session, "" where there can be none.
func (l *law) anchor(dir string) string {
	p, err := policy.ProjectDir(dir, l.dirs.Home, paths.Disk{})
	if err != nil {
		return ""
	}
	return p
}

// complete finds where the files really are that an action names.
func (l *law) complete(a *ask.Action) { policy.Complete(a, paths.Disk{}) }

// moved names a file of a sealed action that is not any more where it was when
// it was asked about, "" if there is none.
func (l *law) moved(a *ask.Action) string {
	return policy.Moved(a, paths.Disk{})
}

// input is what a decision at session s rests on.
func (l *law) input(s *sess, a *ask.Ask, r role) policy.Input {
	in := policy.Input{Action: a.Body.Action, Origin: a.Body.From.Session, Agent: a.Body.From.Agent, Here: s.id, Now: l.clock(), Self: l.self}
	in.Policy = l.store.Policy(s.project)
	switch r {
	case roleOrigin:
		in.Node, in.View = policy.Origin, paths.Disk{}
		in.Above = l.n.registry.Above(s.id)
	case roleVerified:
		// Same machine: what a grant pins can be looked at here. Places still
		// come from the action.
		in.Node, in.View = policy.Verified, paths.Disk{}
		for _, h := range a.Header.Path {
			in.Above = append(in.Above, h.Session)
		}
	}
	in.Above = append(in.Above, s.id)
	if r != roleClaimed {
		in.Grants = l.kept(append([]string{in.Origin}, in.Above...)...)
	}
	return in
}

// kept are the grants of these sessions whose giving is on the record. A
// grant that nobody recorded was written by somebody else.
func (l *law) kept(sessions ...string) []policy.Kept {
	list, err := l.grants.Of(l.clock(), sessions...)
	if err != nil {
		l.problemSaid("grants: " + err.Error())
	}
	if len(list) == 0 {
		return nil
	}
	l.mu.Lock()
	unknown := slices.ContainsFunc(list, func(k policy.Kept) bool { return !l.gave[k.Grant.ID] })
	l.mu.Unlock()
	if unknown {
		l.recallGrants()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(list, func(k policy.Kept) bool { return !l.gave[k.Grant.ID] })
}

// recallGrants reads from the record which grants were given.
func (l *law) recallGrants() {
	given := map[string]bool{}
	err := review.Scan(l.dirs.Review(), review.Filter{Event: string(review.GrantGiven)}, func(r review.Record) error {
		if r.Err == nil && r.Field(review.KeyGrant) != "" {
			given[r.Field(review.KeyGrant)] = true
		}
		return nil
	})
	if err != nil {
		l.problemSaid("grants cannot be looked up on the record: " + err.Error())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range given {
		l.gave[id] = true
	}
}

// judge says what rules and grants at session s say of an ask.
func (l *law) judge(s *sess, a *ask.Ask, r role) judgement {
	res := policy.Decide(l.input(s, a, r))
	l.report()
	j := judgement{Verdict: res.Verdict, By: res.By, Reason: res.Reason, Cause: res.Reason, Risk: res.Risk}
	j.By.Session = s.id
	if j.Cause == "" {
		j.Cause = "no rule allows it"
	}
	return j
}

// offers are the grants a person may give with an allow.
func (l *law) offers(s *sess, a *ask.Ask) []ask.Offer {
	r := roleVerified
	if s.id == a.Body.From.Session {
		r = roleOrigin
	}
	in := l.input(s, a, r)
	return policy.Offers(in, policy.Decide(in))
}

// given notes that the giving of a grant is on the record.
func (l *law) given(id string) {
	l.mu.Lock()
	l.gave[id] = true
	l.mu.Unlock()
}

// check says whether g, given for a, can be kept.
func (l *law) check(g ask.Grant, a *ask.Action) (policy.Kept, error) {
	return policy.Keep(g, a, paths.Disk{}, l.clock())
}

// revoke takes a grant back, whoever's it is. The error is policy.ErrNoGrant
// when there is none.
func (l *law) revoke(id string) error {
	list, err := l.grants.List(l.clock())
	if err != nil {
		return err
	}
	for _, k := range list {
		if k.Grant.ID == id {
			return l.grants.Revoke(k.Grant.Session, id)
		}
	}
	return policy.ErrNoGrant
}

// grantList are the grants of this node's sessions.
func (l *law) grantList(sessions []string) []ask.Grant {
	out := []ask.Grant{}
	for _, k := range l.kept(sessions...) {
		out = append(out, k.Grant)
	}
	return out
}

// problem is what keeps the rules on disk from being in force, "" for nothing.
func (l *law) problem() string {
	if err := l.store.Problem(); err != nil {
		return err.Error()
	}
	if p := l.store.Pending(); p != nil {
		return "an edit that loosens waits for a person; see: permd policy apply"
	}
	return ""
}

// report puts a new problem of the rules on the record and on every surface,
// once.
func (l *law) report() {
	g, broken := l.store.Generation(), l.store.Problem() != nil
	l.mu.Lock()
	seen := l.reported == g+1 && broken == l.broken
	l.reported, l.broken = g+1, broken
	l.mu.Unlock()
	if seen {
		return
	}
	p := l.problem()
	l.mu.Lock()
	news := p != l.said
	l.said = p
	l.mu.Unlock()
	if !news {
		return
	}
	switch err := l.store.Problem(); {
	case err != nil:
		l.n.record(review.Event{Name: review.PolicyRejected, Reason: err.Error()})
		l.n.complain(err.Error())
	case p != "":
		l.n.record(review.Event{Name: review.PolicyLoosenPending, Reason: p})
		l.n.complain(p)
	default:
		l.n.record(review.Event{Name: review.PolicyChanged})
	}
}

func (l *law) problemSaid(text string) {
	l.mu.Lock()
	news := l.said != text
	l.said = text
	l.mu.Unlock()
	if news {
		l.n.complain(text)
	}
}

// recorded is an action as it may be written down.
func (l *law) recorded(raw *ask.Action) *review.Action {
	a := policy.RedactAction(raw)
	r := &review.Action{Client: a.Client, Tool: a.Tool, ClientTool: a.ClientTool, Call: a.Call, Cwd: a.Cwd, Command: a.Command,
		Paths: a.Paths, Agent: a.Agent, Query: a.Query, URL: a.URL}
	if a.MCP != nil {
		r.Server, r.Name, r.Source = a.MCP.Server, a.MCP.Name, a.MCP.Source
	}
	const most = 8
	if len(r.Paths) > most {
		r.Paths, r.MorePaths = r.Paths[:most], len(a.Paths)-most
	}
	return r
}
