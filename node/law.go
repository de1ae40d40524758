package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"permd/api"
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
	looked   uint64              // the generation of the rules by which what waits was judged again
	gave     map[givenGrant]bool // whether the giving of a grant is on the record
	chain    string              // names of the external deciders, as last recorded
	left     map[string]bool     // contents of projects' files of which it was said that they are not trusted
}

func newLaw(d session.Dirs, n *Node) (*law, error) {
	grants, err := policy.OpenGrants(d.State)
	if err != nil {
		return nil, err
	}
	l := &law{n: n, dirs: d, grants: grants, gave: map[givenGrant]bool{}, left: map[string]bool{}}
	l.store = policy.OpenStore(policy.Places{Managed: d.Managed, Config: d.Config, State: d.State, Home: d.Home, Witness: l.trustGiven,
		Applied: l.wasApplied, Applying: l.applying})
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

// kept are the grants of these sessions, of projects and of the user, whose
// giving is on the record as they are now. A grant that nobody recorded was
// written by somebody else. What has expired is taken away and recorded.
func (l *law) kept(sessions ...string) []policy.Kept {
	now := l.clock()
	list, expired, err := l.grants.Of(now, sessions...)
	if err != nil {
		l.problemSaid("grants: " + err.Error())
	}
	if len(expired) > 0 {
		l.expire(now, sessions)
	}
	l.forgetGone(list, sessions)
	if len(list) == 0 {
		return nil
	}
	return slices.DeleteFunc(list, func(k policy.Kept) bool { return !l.wasGiven(&k) })
}

// wasGiven reports whether the giving of k is on the record. What the record
// said once is remembered: a grant is recorded before it is kept, so one that
// is kept and not recorded never will be.
func (l *law) wasGiven(k *policy.Kept) bool {
	digest, err := k.Digest()
	if err != nil {
		return false
	}
	at := givenGrant{k.Grant.ID, k.Grant.Session, digest}
	l.mu.Lock()
	known, seen := l.gave[at]
	l.mu.Unlock()
	if seen {
		return known
	}
	given, err := l.recallGrant(at)
	if err != nil {
		l.problemSaid("grants cannot be looked up on the record: " + err.Error())
		return false
	}
	if !given {
		l.n.record(review.Event{Name: review.GrantRefused, Session: k.Grant.Session, Reason: "it is kept, and the record does not hold its giving",
			Fields: []review.Field{{Key: review.KeyGrant, Value: k.Grant.ID}, {Key: review.KeyScope, Value: string(k.Grant.Scope)}}})
		l.n.complain("the grant " + k.Grant.ID + " counts for nothing: the record does not hold its giving; see permd policy grants list")
	}
	l.mu.Lock()
	if len(l.gave) >= maxRecalled {
		clear(l.gave)
	}
	l.gave[at] = given
	l.mu.Unlock()
	return given
}

// maxRecalled bounds how many grants a node remembers to have looked up.
const maxRecalled = 4096

// forgetGone forgets what the record said of grants that are kept no longer:
// should one come back, its revocation is on the record too.
func (l *law) forgetGone(list []policy.Kept, sessions []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := range l.gave {
		if (at.session == "" || slices.Contains(sessions, at.session)) &&
			!slices.ContainsFunc(list, func(k policy.Kept) bool { return k.Grant.ID == at.id }) {
			delete(l.gave, at)
		}
	}
}

// recallGrant looks on the record for the giving of a grant, and for its end.
func (l *law) recallGrant(at givenGrant) (bool, error) {
	given, ended := false, false
	err := review.Scan(l.dirs.Review(), review.Filter{Event: "grant."}, func(r review.Record) error {
		if r.Err != nil || r.Field(review.KeyGrant) != at.id {
			return nil
		}
		switch r.Event {
		case review.GrantGiven:
			given = given || r.Field(review.KeyPolicyDigest) == at.digest.String()
		case review.GrantRevoked, review.GrantExpired:
			ended = true
		}
		return nil
	})
	return given && !ended, err
}

// givenGrant is a grant exactly as it was given.
type givenGrant struct {
	id      string
	session string // under which it is kept, "" for one of a project or of the user
	digest  ask.Digest
}

// expire takes away the grants whose time is over.
func (l *law) expire(now policy.Clock, sessions []string) {
	gone, err := l.grants.Prune(now, sessions...)
	if err != nil {
		l.problemSaid("grants: " + err.Error())
	}
	for _, k := range gone {
		l.n.record(review.Event{Name: review.GrantExpired, Session: k.Grant.Session, Fields: []review.Field{
			{Key: review.KeyGrant, Value: k.Grant.ID}, {Key: review.KeyScope, Value: string(k.Grant.Scope)}}})
	}
}

// judge says what rules and grants at session s say of an ask.
func (l *law) judge(s *sess, a *ask.Ask, r role) judgement {
	in := l.input(s, a, r)
	res := policy.Decide(in)
	if res.Verdict == ask.Prompt {
		mode, _ := l.n.modeOf(s)
		res = mode.Apply(in, res)
	}
	l.report()
	if u := in.Policy.Untrusted(); u != nil {
		l.skipped(s, u)
	}
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

// narrower checks a rule that a person edited before keeping a grant for a: it
// must be no wider than the one offered, and cover the call.
func (l *law) narrower(a *ask.Ask) func(offered, edited ask.Rule) error {
	return func(offered, edited ask.Rule) error {
		if err := policy.Narrower(&offered, &edited); err != nil {
			return err
		}
		trial := ask.Grant{ID: "edited", Scope: ask.ScopeUser, Rule: edited, By: ask.By{Kind: ask.KindUser}, Given: "2000-01-01T00:00:00Z"}
		k, err := l.check(trial, a.Body.Action)
		if err != nil {
			return err
		}
		if !policy.Covers(k, a.Body.From.Session, a.Body.Action, paths.Disk{}, l.clock()) {
			return errors.New("the edited rule does not cover the call that was asked about")
		}
		return nil
	}
}

// given notes that the giving of a grant is on the record.
func (l *law) given(at givenGrant) {
	l.mu.Lock()
	l.gave[at] = true
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
			return l.grants.Revoke(k.Grant.Session, id) // "" for one of a project or of the user
		}
	}
	return policy.ErrNoGrant
}

// grantList are the grants of this node's sessions, of projects and of the
// user.
func (l *law) grantList(sessions []string) api.Grants {
	out := api.Grants{Grants: []ask.Grant{}}
	now := l.clock()
	for _, k := range l.kept(sessions...) {
		out.Grants = append(out.Grants, k.Grant)
		d := api.GrantDetail{ID: k.Grant.ID, Cwd: k.Cwd}
		if left, ok := k.Left(now); ok {
			d.LeftMS = max(left.Milliseconds(), 1)
		}
		for _, p := range k.Pins {
			d.Pins = append(d.Pins, p.Path)
		}
		out.Details = append(out.Details, d)
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

// movedOn reports whether the rules are others than at the last such look: what
// waits may be decided by them.
func (l *law) movedOn() bool {
	g := l.store.Generation()
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.looked
	l.looked = g
	return was != g
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
