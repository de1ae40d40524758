package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"permd/ask"
	"permd/internal/host"
)

const (
	grantsDir       = "grants"
	grantsV         = 1
	maxGrants       = 256
	maxGrantsFile   = 4 << 20
	grantsExtension = ".json"
	// lasting is the name of the file of project and user grants; no session
	// has an id with a leading dot.
	lasting = ".lasting"
)

// Grants keeps grants in the state directory: those of sessions and trees in
// one file a session, so that they survive a resume, those of projects and of
// the user in a file of their own. A grant of scope session lies under its
// origin session, one of scope tree under the topmost one. Who gave each and
// when stands beside it. It may be used by many goroutines and processes.
type Grants struct {
	dir string
	mu  sync.Mutex
	// seen are files as they were last read.
	seen map[string]seenGrants
}

type seenGrants struct {
	at     stamp
	grants []Kept
}

// OpenGrants makes the directory below state and returns the grants in it.
func OpenGrants(state string) (*Grants, error) {
	dir := filepath.Join(state, grantsDir)
	if err := host.MakeDir(dir); err != nil {
		return nil, err
	}
	return &Grants{dir: dir, seen: map[string]seenGrants{}}, nil
}

type grantsFile struct {
	V int `json:"v"`
	// Session is "" in the file of project and user grants.
	Session string `json:"session,omitempty"`
	Grants  []Kept `json:"grants"`
}

// fileOf is the name, without extension, of the file in which g is kept.
func fileOf(g *ask.Grant) string {
	switch g.Scope {
	case ask.ScopeSession, ask.ScopeTree:
		return g.Session
	}
	return lasting
}

// Check refuses a file that this permd would not have written.
func (f *grantsFile) Check() error {
	if f.V != grantsV {
		return fmt.Errorf("version %d; this permd writes %d", f.V, grantsV)
	}
	if len(f.Grants) > maxGrants {
		return fmt.Errorf("%d grants, at most %d are kept", len(f.Grants), maxGrants)
	}
	for i := range f.Grants {
		g := &f.Grants[i].Grant
		if err := g.Check(); err != nil {
			return err
		}
		if g.Session != f.Session {
			return fmt.Errorf("grant %s is for session %s, not %s", g.ID, ask.Quote(g.Session), ask.Quote(f.Session))
		}
		for j := range i {
			if f.Grants[j].Grant.ID == g.ID {
				return fmt.Errorf("grant %s stands twice", g.ID)
			}
		}
	}
	return nil
}

// Of returns the living grants kept under the given sessions, and those of
// projects and the user; expired are the ones whose time is over, until
// [Grants.Prune] removes them. A file that cannot be read gives none, and the
// error names it; the others' grants are returned all the same.
func (g *Grants) Of(now Clock, sessions ...string) (living, expired []Kept, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for i, s := range append(slices.Clone(sessions), lasting) {
		if slices.Contains(sessions[:min(i, len(sessions))], s) {
			continue
		}
		grants, err := g.read(s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, k := range grants {
			if k.lives(now) {
				living = append(living, k)
			} else {
				expired = append(expired, k)
			}
		}
	}
	return living, expired, errors.Join(errs...)
}

// List returns all living grants: those of projects and the user first, then
// in the order of sessions and ids.
func (g *Grants) List(now Clock) ([]Kept, error) {
	entries, err := os.ReadDir(g.dir)
	if err != nil {
		return nil, err
	}
	var sessions []string
	for _, e := range entries {
		if s, ok := strings.CutSuffix(e.Name(), grantsExtension); ok && ask.ValidID(s) {
			sessions = append(sessions, s)
		}
	}
	out, _, err := g.Of(now, sessions...)
	slices.SortStableFunc(out, func(a, b Kept) int {
		return cmp.Or(strings.Compare(a.Grant.Session, b.Grant.Session), strings.Compare(a.Grant.ID, b.Grant.ID))
	})
	return out, err
}

// Prune removes the grants of the given sessions, of projects and of the user
// whose time is over, and returns them. Of several that call it at once, one
// gets each.
func (g *Grants) Prune(now Clock, sessions ...string) ([]Kept, error) {
	_, expired, err := g.Of(now, sessions...)
	errs := []error{err}
	var gone []Kept
	done := map[string]bool{}
	for _, e := range expired {
		name := fileOf(&e.Grant)
		if done[name] {
			continue
		}
		done[name] = true
		var removed []Kept
		err := g.change(name, func(have []Kept) ([]Kept, error) {
			return slices.DeleteFunc(have, func(h Kept) bool {
				over := !h.lives(now)
				if over {
					removed = append(removed, h)
				}
				return over
			}), nil
		})
		if err == nil {
			gone = append(gone, removed...)
		}
		errs = append(errs, err)
	}
	return gone, errors.Join(errs...)
}

// Add keeps k, made by [Keep]. One with the same id is replaced.
func (g *Grants) Add(k Kept) error {
	if k.rule == nil {
		return errors.New("a grant is kept as Keep returned it")
	}
	if k.Grant.Scope.Width() > ask.ScopeUser.Width() || k.Grant.Scope.Width() == 0 {
		return notGrantable("scope %s is not kept", k.Grant.Scope)
	}
	return g.change(fileOf(&k.Grant), func(have []Kept) ([]Kept, error) {
		have = slices.DeleteFunc(have, func(h Kept) bool { return h.Grant.ID == k.Grant.ID })
		if len(have) >= maxGrants {
			return nil, fmt.Errorf("there are %d grants of this kind already; revoke some with \"permd policy grants revoke\"", maxGrants)
		}
		return append(have, k), nil
	})
}

// ErrNoGrant says that no grant has this id.
var ErrNoGrant = errors.New("no such grant")

// Revoke takes a grant back: of a session, or with session "" one of a project
// or of the user.
func (g *Grants) Revoke(session, id string) error {
	if session == "" {
		session = lasting
	}
	return g.change(session, func(have []Kept) ([]Kept, error) {
		n := len(have)
		have = slices.DeleteFunc(have, func(h Kept) bool { return h.Grant.ID == id })
		if len(have) == n {
			return nil, fmt.Errorf("%w: %s", ErrNoGrant, ask.Quote(id))
		}
		return have, nil
	})
}

// End drops what lives only as long as the tree of session: its grants of
// scope tree.
func (g *Grants) End(session string) error {
	return g.change(session, func(have []Kept) ([]Kept, error) {
		return slices.DeleteFunc(have, func(h Kept) bool { return h.Grant.Scope == ask.ScopeTree }), nil
	})
}

// change reads, changes and writes the file of a session, or the lasting one,
// under the lock of them all.
func (g *Grants) change(session string, f func([]Kept) ([]Kept, error)) error {
	if session != lasting && !ask.ValidID(session) {
		return fmt.Errorf("session id %s", ask.Quote(session))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	lock, err := host.AcquireLock(filepath.Join(g.dir, ".lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	delete(g.seen, session)
	have, err := g.read(session)
	if err != nil {
		return err
	}
	after, err := f(slices.Clone(have))
	if err != nil {
		return err
	}
	delete(g.seen, session)
	return g.write(session, after)
}

func (g *Grants) write(session string, grants []Kept) error {
	dir, err := os.OpenRoot(g.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := session + grantsExtension
	if len(grants) == 0 {
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	f := grantsFile{V: grantsV, Grants: grants}
	if session != lasting {
		f.Session = session
	}
	raw, err := ask.Encode(f)
	if err != nil {
		return err
	}
	if len(raw) > maxGrantsFile {
		return fmt.Errorf("the grants in %s have more than %d bytes; revoke some with \"permd policy grants revoke\"", name, maxGrantsFile)
	}
	return host.WriteAtomic(dir, name, raw, 0o600, true)
}

// read returns the grants of a session, from memory while the file is the
// same.
func (g *Grants) read(session string) ([]Kept, error) {
	if session != lasting && !ask.ValidID(session) {
		return nil, fmt.Errorf("session id %s", ask.Quote(session))
	}
	name := session + grantsExtension
	at, err := look(filepath.Join(g.dir, name))
	if err != nil {
		return nil, err
	}
	if !at.there {
		delete(g.seen, session)
		return nil, nil
	}
	if s, ok := g.seen[session]; ok && s.at == at {
		return s.grants, nil
	}
	dir, err := os.OpenRoot(g.dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	raw, err := host.OpenPrivate(dir, name, maxGrantsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := &grantsFile{}
	if err := ask.Decode(raw, maxGrantsFile, f); err != nil {
		return nil, fmt.Errorf("grants %s: %w", name, err)
	}
	if want := strings.TrimPrefix(session, lasting); f.Session != want {
		return nil, fmt.Errorf("grants %s: the file says session %s", name, ask.Quote(f.Session))
	}
	for i := range f.Grants {
		k := &f.Grants[i]
		if fileOf(&k.Grant) != session {
			return nil, fmt.Errorf("grants %s: grant %s of scope %s does not belong here", name, k.Grant.ID, k.Grant.Scope)
		}
		if k.rule, err = grantRule(&k.Grant.Rule); err != nil {
			return nil, fmt.Errorf("grants %s: grant %s: %w", name, k.Grant.ID, err)
		}
	}
	if at.settled(time.Now()) {
		g.seen[session] = seenGrants{at, f.Grants}
	}
	return f.Grants, nil
}
