package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"permd/ask"
	"permd/policy/paths"
)

// Places are the directories that a [Store] reads rules from.
type Places struct {
	Managed string // *.toml of the administrator
	Config  string // policy.toml and policy.d/*.toml of the user
	State   string // what was last applied
	Home    string // the user's home, for "~" in rules
	// ManagedOwners may own managed files; nil is root alone.
	ManagedOwners []uint32
	// Witness reports whether a trusted file's trust is on the record; one that
	// is not was written by somebody else and counts for nothing. Nil believes
	// the list, for commands that only look.
	Witness func(Trusted) bool
	// Applied reports whether the record holds that the user's rules with this
	// digest were let stand, and whether it holds so of any. What lets
	// something run counts only then: an agent may have written the file, or
	// taken it away. Nil believes the file.
	Applied func(digest string) (these, any bool)
	// Applying records that the user's rules with this digest stand from now
	// on, and why, before they are written; an error keeps them from it. It may
	// be nil.
	Applying func(digest, why string) error
	// ReadOnly is for commands that only look: nothing is written, locked or
	// made, and what a node would do with an edit is only said.
	ReadOnly bool
}

// Store reads the rules of all layers and gives out the policy that holds. It
// looks at the files, by stat, at each call; there is no watcher. It may be
// used by many goroutines.
//
// A layer with a broken file stays as it was last read without fault. One that
// never was asks for everything, and what its readable rules deny holds.
type Store struct {
	places Places
	view   paths.View

	mu       sync.Mutex
	managed  loaded
	user     loaded
	projects map[string]*projectRules
	// The user's rules as they hold.
	ratchet    ratchet
	editedDef  *ask.Verdict
	appliedAt  stamp
	appliedErr error
	hadApplied bool // there were applied rules, on disk or in this process
	started    bool
	generation uint64
	// The projects' files that a person trusts.
	trusts       []Trusted
	trustAt      stamp
	trustSettled bool
	trustErr     error
	// appliedSum is the digest of the applied rules that are on the record.
	appliedSum string
	// appliedGone is true when they were not there, as last looked at.
	appliedGone bool
}

type projectRules struct {
	loaded loaded
	policy *Policy
	from   uint64 // generation of the policy
	bound  time.Time
}

const (
	maxProjects = 64
	// rebind is how often links on the way to a rule's place are followed
	// again.
	rebind = 5 * time.Second
)

// OpenStore returns a store over places and reads nothing yet.
func OpenStore(places Places) *Store {
	if places.ManagedOwners == nil {
		places.ManagedOwners = []uint32{0}
	}
	return &Store{places: places, view: paths.Disk{}, projects: map[string]*projectRules{}}
}

func (s *Store) managedSource() *source {
	return &source{layer: LayerManaged, dir: s.places.Managed, trusted: s.places.ManagedOwners}
}

func (s *Store) userSource() *source {
	return &source{layer: LayerUser, file: filepath.Join(s.places.Config, "policy.toml"), dir: filepath.Join(s.places.Config, "policy.d"),
		trusted: owners{0, uint32(os.Geteuid())}}
}

func projectSource(project string) *source {
	return &source{layer: LayerProject, file: filepath.Join(project, ".permd", "policy.toml")}
}

// Policy returns the policy that holds now for a session whose project
// directory is project, "" for none.
func (s *Store) Policy(project string) *Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	p := s.projects[project]
	if p == nil {
		if len(s.projects) >= maxProjects {
			clear(s.projects)
		}
		p = &projectRules{}
		s.projects[project] = p
	}
	changed := false
	if project != "" {
		if src := projectSource(project); p.loaded.changed(src) {
			changed = p.loaded.load(src)
		}
		if p.loaded.allows() {
			changed = s.lookTrust() || changed
		}
	}
	if changed {
		s.generation++
	}
	if changed || p.policy == nil || p.from != s.generation {
		p.policy, p.from, p.bound = s.compile(project, &p.loaded), s.generation, time.Time{}
	}
	if time.Since(p.bound) > rebind {
		p.policy, p.bound = p.policy.rebound(s.view, project, s.places.Home), time.Now()
	}
	return p.policy
}

// look reads what changed of the managed and the user's rules.
func (s *Store) look() {
	changed := false
	if src := s.managedSource(); s.managed.changed(src) {
		changed = s.managed.load(src)
	}
	src := s.userSource()
	at, err := look(filepath.Join(s.places.State, appliedDir, appliedName))
	if !s.started || err != nil || at != s.appliedAt || s.user.changed(src) {
		edited := s.user.load(src)
		if edited || !s.started || at != s.appliedAt {
			s.settle()
			changed = true
		}
	}
	s.started = true
	if changed {
		s.generation++
	}
}

// settle brings the user's edited rules and the applied ones together.
func (s *Store) settle() {
	s.appliedErr = nil
	if !s.places.ReadOnly {
		lock, err := lockApplied(s.places.State)
		if err != nil {
			s.appliedErr = err
		} else {
			defer lock.Close()
		}
	}
	defer s.stampApplied()
	edited, def := flatten(s.user.good)
	links := linksOf(s.user.good)
	s.editedDef = def
	rules, was, wasLinks, by, ok := s.lastApplied()
	switch {
	case !ok && !s.user.everGood:
		s.ratchet = ratchet{} // nothing was ever read: everything asks
		return
	case !ok && s.lost():
		s.ratchet, s.hadApplied = merge(nil, nil, edited, def), true
		s.ratchet.mergeLinks(nil, links, s.places.Config)
		if s.ratchet.pending() {
			s.appliedErr = errors.New("the applied rules are gone, and the record says that there were some; " +
				"nothing of the user's that allows holds until the rules are applied again")
			return
		}
		s.save("", "the applied rules were gone")
		return
	case !ok:
		// The very first load: what is there is taken as applied.
		s.ratchet, s.hadApplied = ratchet{rules: edited, def: def, links: pinLinks(links, s.places.Config)}, true
		s.save("", "the first rules")
		return
	case !s.user.everGood:
		s.ratchet, s.hadApplied = ratchet{rules: rules, def: was, links: wasLinks}, true // the applied rules are the last good ones
		return
	}
	s.hadApplied = true
	s.ratchet = merge(rules, was, edited, def)
	s.ratchet.mergeLinks(wasLinks, links, s.places.Config)
	if errors.Is(s.appliedErr, errForeign) && (s.started || !s.ratchet.pending()) {
		s.appliedErr = nil
		s.save(by, "what stood there was not on the record")
		return
	}
	if s.appliedGone || !sameRules(s.ratchet.rules, rules) || verdictOf(s.ratchet.def) != verdictOf(was) || !sameLinks(s.ratchet.links, wasLinks) {
		why := "an edit that tightens"
		if s.appliedGone {
			why = "the applied rules were gone"
		}
		s.save(by, why)
	}
}

// errForeign means that the applied rules are not the ones that the record
// has.
var errForeign = errors.New("the applied rules are not on the record: something else than permd wrote them; " +
	"nothing of them that allows holds until the rules are applied again")

// lost reports whether rules were applied once that are not there any more.
func (s *Store) lost() bool {
	if s.places.Applied == nil {
		return false
	}
	_, any := s.places.Applied("")
	return any
}

// foreign reports whether a, which could let something run, is not on the
// record.
func (s *Store) foreign(a *applied, digest string) bool {
	if s.places.Applied == nil || !a.loosens() || digest == s.appliedSum {
		return false
	}
	these, _ := s.places.Applied(digest)
	if these {
		s.appliedSum = digest
	}
	return !these
}

// lastApplied returns the rules that a person last let stand, ok false when
// there never were any.
func (s *Store) lastApplied() (rules []*rule, def *ask.Verdict, links []Link, by string, ok bool) {
	a, digest, err := readApplied(s.places.State)
	s.appliedGone = errors.Is(err, errNoneApplied)
	if err == nil {
		rules, err = a.compiled()
	}
	switch {
	case err == nil && !s.foreign(a, digest):
		return rules, a.Default, a.Links, a.By, true
	case err == nil && s.started && s.hadApplied:
		// Written under this process: what it knows stands.
		s.appliedErr = errForeign
		return s.ratchet.rules, s.ratchet.def, s.ratchet.links, "", true
	case err == nil:
		s.appliedErr = errForeign
		rules = slices.DeleteFunc(rules, func(r *rule) bool { return r.Action == ask.Allow })
		strict := verdictOf(a.Default).Stricter(ask.Prompt)
		return rules, &strict, nil, "", true
	}
	if errors.Is(err, errNoneApplied) {
		// Taken away under this process: what it knows stands.
		return s.ratchet.rules, s.ratchet.def, s.ratchet.links, "", s.hadApplied
	}
	s.appliedErr = fmt.Errorf("the applied rules cannot be read: %w; no allow rule of the user holds until the rules are applied again", err)
	for _, r := range s.ratchet.rules {
		if r.Action != ask.Allow {
			rules = append(rules, r)
		}
	}
	strict := verdictOf(s.ratchet.def).Stricter(ask.Prompt)
	return rules, &strict, nil, "", true
}

func (s *Store) save(by, why string) {
	if s.appliedErr != nil || s.places.ReadOnly {
		return
	}
	if err := writeApplied(s.places.State, appliedOf(s.ratchet.rules, s.ratchet.def, s.ratchet.links, by), s.applying(why)); err != nil {
		s.appliedErr = fmt.Errorf("the applied rules cannot be written: %w", err)
	}
}

// applying records the digest of what is about to be written, and remembers it.
func (s *Store) applying(why string) func(string) error {
	return func(digest string) error {
		if s.places.Applying != nil {
			if err := s.places.Applying(digest, why); err != nil {
				return err
			}
		}
		s.appliedSum = digest
		return nil
	}
}

func (s *Store) stampApplied() {
	s.appliedAt, _ = look(filepath.Join(s.places.State, appliedDir, appliedName))
}

func flatten(files []*File) (rules []*rule, def *ask.Verdict) {
	var p Policy
	for _, f := range files {
		rules = append(rules, f.rules...)
		if f.Default != nil {
			p.addDefault(*f.Default)
		}
	}
	return rules, p.def
}

// compile makes the policy of one project.
func (s *Store) compile(project string, own *loaded) *Policy {
	p := &Policy{baseline: true, project: project, links: append(linksOf(s.managed.good), s.ratchet.links...)}
	p.add(s.ratchet.rules, s.ratchet.def)
	p.lacks(&s.managed)
	if !s.hadApplied {
		p.lacks(&s.user)
	}
	rules, def := flatten(s.managed.good)
	p.add(rules, def)
	if project != "" {
		p.lacks(own)
		rules, def := flatten(own.good)
		var trusted bool
		if trusted, p.untrusted = s.trusted(own); trusted {
			p.rules = append(p.rules, rules...)
			rules = nil
		}
		p.add(rules, def)
	}
	p.index(p.rules)
	return p
}

// add takes in rules of one layer; those by which a project would loosen
// count for nothing.
func (p *Policy) add(rules []*rule, def *ask.Verdict) {
	for _, r := range rules {
		if r.layer != LayerProject || r.Action != ask.Allow {
			p.rules = append(p.rules, r)
		}
	}
	if def != nil {
		p.addDefault(*def)
	}
}

// lacks makes everything ask if l has a fault and was never read without one.
// What its readable rules deny holds.
func (p *Policy) lacks(l *loaded) {
	if len(l.problems) == 0 || l.everGood {
		return
	}
	p.broken = "the rules cannot be read: " + l.problems[0].Error()
	rules, def := flatten(l.salvaged)
	for _, r := range rules {
		if r.Action != ask.Allow {
			p.rules = append(p.rules, r)
		}
	}
	if def != nil {
		p.addDefault(def.Stricter(ask.Prompt))
	}
}

// rebound is p with its paths put in their places now.
func (p *Policy) rebound(view paths.View, project, home string) *Policy {
	r := paths.NewResolver(view, project, home)
	at, err := r.Project(project)
	if err != nil {
		return p
	}
	c := *p
	c.bound = p.bind(r, paths.Anchors{Project: at, Home: r.Dir(home), Cwd: at})
	return &c
}

// Problem is what is wrong with the files, as they were last looked at:
// [Problems], or what keeps the applied rules from being kept. Nil when all is
// well.
func (s *Store) Problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all Problems
	all = append(all, s.managed.problems...)
	all = append(all, s.user.problems...)
	for _, p := range s.projects {
		all = append(all, p.loaded.problems...)
	}
	if s.appliedErr != nil {
		all = append(all, Problem{File: filepath.Join(s.places.State, appliedDir, appliedName), Text: s.appliedErr.Error()})
	}
	if s.trustErr != nil {
		all = append(all, Problem{File: filepath.Join(s.places.State, trustDir, trustName), Text: s.trustErr.Error() + "; no project's file is trusted until it is moved away"})
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// Generation grows with every change of what holds.
func (s *Store) Generation() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation
}

// Pending is the edit that waits to be applied, nil when there is none.
func (s *Store) Pending() *Pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	s.lookLinks()
	return s.ratchet.describe(s.editedDef)
}

// lookLinks takes out an authorizer whose program changed since it was applied.
func (s *Store) lookLinks() {
	if s.ratchet.changedLink() {
		s.settle()
		s.generation++
	}
}

// ErrNothingPending and ErrOtherEdit are refusals of [Store.Apply].
var (
	ErrNothingPending = errors.New("no edit waits to be applied")
	ErrOtherEdit      = errors.New("the rules were edited again since the difference was shown; look at it once more")
)

// Apply lets the user's rules hold as they are in the files, loosening and
// all. Seen is the ID of the [Pending] that the person saw; by says who, for
// the record. It is for a person only; the caller makes sure of that.
func (s *Store) Apply(by, seen string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	s.lookLinks()
	p := s.ratchet.describe(s.editedDef)
	switch {
	case len(s.user.problems) > 0:
		return s.user.problems
	case p == nil && s.appliedErr == nil:
		return ErrNothingPending
	case p != nil && p.ID != seen:
		return ErrOtherEdit
	}
	lock, err := lockApplied(s.places.State)
	if err != nil {
		return err
	}
	defer lock.Close()
	edited, def := flatten(s.user.good)
	links := pinLinks(linksOf(s.user.good), s.places.Config)
	if err := writeApplied(s.places.State, appliedOf(edited, def, links, by), s.applying("a person applied them")); err != nil {
		return err
	}
	s.ratchet, s.appliedErr = ratchet{rules: edited, def: def, links: links}, nil
	s.stampApplied()
	s.generation++
	return nil
}
