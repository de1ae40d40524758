package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"permd/ask"
	"permd/internal/host"
)

const (
	trustDir  = "trust"
	trustName = "projects.json"
	trustV    = 1
	maxTrust  = 4 << 20
	maxTrusts = 1000
)

// Trusted is one project's rule file whose content a person lets loosen.
type Trusted struct {
	// File is its absolute name, SHA256 its content then, in hex.
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
	// Rules are what it allowed then, to show what is different later.
	Rules []ask.Rule `json:"rules"`
	By    string     `json:"by"`
	// Given is when, RFC 3339 in UTC; for people, it decides nothing.
	Given string `json:"given"`
}

type trustFile struct {
	V     int       `json:"v"`
	Files []Trusted `json:"files"`
}

// Check refuses a file that this permd would not have written.
func (f *trustFile) Check() error {
	if f.V != trustV {
		return fmt.Errorf("version %d; this permd writes %d", f.V, trustV)
	}
	if len(f.Files) > maxTrusts {
		return fmt.Errorf("%d files, at most %d are kept", len(f.Files), maxTrusts)
	}
	for i := range f.Files {
		t := &f.Files[i]
		if sum, err := hex.DecodeString(t.SHA256); err != nil || len(sum) != sha256.Size || !filepath.IsAbs(t.File) {
			return fmt.Errorf("file %s with content %s", ask.Quote(t.File), ask.Quote(t.SHA256))
		}
		if i > 0 && f.Files[i-1].File >= t.File {
			return fmt.Errorf("file %s is out of order", ask.Quote(t.File))
		}
	}
	return nil
}

// Trust is the list of projects' rule files that a person trusts, each by its
// content. It lies in the state directory and is read at each call.
type Trust struct{ state string }

// OpenTrust returns the list below state and reads nothing yet.
func OpenTrust(state string) *Trust { return &Trust{state} }

// List returns what is trusted, in the order of the files' names.
func (t *Trust) List() ([]Trusted, error) {
	dir, err := os.OpenRoot(filepath.Join(t.state, trustDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	raw, err := host.OpenPrivate(dir, trustName, maxTrust)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := &trustFile{}
	if err := ask.Decode(raw, maxTrust, f); err != nil {
		return nil, fmt.Errorf("trusted projects, %s: %w", trustName, err)
	}
	return f.Files, nil
}

// ErrNotTrusted says that a file is not on the list.
var ErrNotTrusted = errors.New("this file is not trusted")

// Give puts x on the list, in the place of what was trusted of the same file.
// It is for a person only, and for what stands on the record; the caller makes
// sure of both.
func (t *Trust) Give(x Trusted) error {
	return t.change(func(have []Trusted) ([]Trusted, error) {
		have = slices.DeleteFunc(have, func(h Trusted) bool { return h.File == x.File })
		if len(have) >= maxTrusts {
			return nil, fmt.Errorf("%d files are trusted already; revoke some with \"permd trust --revoke FILE\"", len(have))
		}
		return append(have, x), nil
	})
}

// Revoke takes a file from the list.
func (t *Trust) Revoke(file string) error {
	return t.change(func(have []Trusted) ([]Trusted, error) {
		after := slices.DeleteFunc(slices.Clone(have), func(h Trusted) bool { return h.File == file })
		if len(after) == len(have) {
			return nil, fmt.Errorf("%s: %w", ask.Quote(file), ErrNotTrusted)
		}
		return after, nil
	})
}

func (t *Trust) change(f func([]Trusted) ([]Trusted, error)) error {
	if err := host.MakeDir(filepath.Join(t.state, trustDir)); err != nil {
		return err
	}
	lock, err := host.AcquireLock(filepath.Join(t.state, trustDir, "lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	have, err := t.List()
	if err != nil {
		return err
	}
	after, err := f(have)
	if err != nil {
		return err
	}
	slices.SortFunc(after, func(a, b Trusted) int { return strings.Compare(a.File, b.File) })
	raw, err := ask.Encode(trustFile{V: trustV, Files: after})
	if err != nil {
		return err
	}
	if len(raw) > maxTrust {
		return fmt.Errorf("the trusted files' rules have more than %d bytes; revoke some with \"permd trust --revoke FILE\"", maxTrust)
	}
	dir, err := os.OpenRoot(filepath.Join(t.state, trustDir))
	if err != nil {
		return err
	}
	defer dir.Close()
	return host.WriteAtomic(dir, trustName, raw, 0o600, true)
}

// Proposal is a project's rule file before a person trusts it.
type Proposal struct {
	Trusted
	// Text is what is different from what was trusted of this file before, one
	// rule a line; "" when nothing is.
	Text string
	// Tightens is how many of its rules deny or ask: they hold in any case.
	Tightens int
}

// Propose reads a project's rule file, which must have no fault, and says what
// trusting it would allow.
func (t *Trust) Propose(file, by string, now time.Time) (*Proposal, error) {
	data, err := readRules(file, nil)
	if err != nil {
		return nil, fmt.Errorf("%s %w", file, err)
	}
	f, err := Decode(file, data, LayerProject)
	if err != nil {
		return nil, err
	}
	list, err := t.List()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	p := &Proposal{Trusted: Trusted{File: file, SHA256: hex.EncodeToString(sum[:]), Rules: []ask.Rule{}, By: by, Given: now.UTC().Format(time.RFC3339)}}
	was, is := map[string]bool{}, map[string]bool{}
	var old []ask.Rule
	for i := range list {
		if list[i].File == file {
			old = list[i].Rules
		}
	}
	for i := range old {
		was[ruleKey(&old[i])] = true
	}
	var b strings.Builder
	for _, r := range f.rules {
		if r.Action != ask.Allow {
			p.Tightens++
			continue
		}
		p.Rules = append(p.Rules, r.Rule)
		if k := r.key(); !is[k] {
			is[k] = true
			if !was[k] {
				fmt.Fprintf(&b, "+ %s   (%s)\n", ask.VisibleLine(Line(&r.Rule)), place(&r.ref))
			}
		}
	}
	for i := range old {
		if !is[ruleKey(&old[i])] {
			fmt.Fprintf(&b, "- %s\n", ask.VisibleLine(Line(&old[i])))
		}
	}
	p.Text = b.String()
	return p, nil
}

// Untrusted is a project's rule file of which the allow rules count for
// nothing, because no person trusted its content.
type Untrusted struct {
	File, SHA256 string
	Rules        int
	// Changed is true when an earlier content of it was trusted.
	Changed bool
}

// Untrusted returns what p leaves out, nil when it leaves out nothing.
func (p *Policy) Untrusted() *Untrusted { return p.untrusted }

// trusted says whether the content of a project's file may loosen, and if not
// what is left out by that. s.mu is held.
func (s *Store) trusted(own *loaded) (bool, *Untrusted) {
	if len(own.good) != 1 || len(own.sums) != 1 {
		return false, nil
	}
	u := &Untrusted{File: own.good[0].Name, SHA256: own.sums[0]}
	for _, r := range own.good[0].rules {
		if r.Action == ask.Allow {
			u.Rules++
		}
	}
	if u.Rules == 0 {
		return false, nil
	}
	for _, t := range s.trusts {
		if t.File == u.File {
			if t.SHA256 == u.SHA256 && (s.places.Witness == nil || s.places.Witness(t)) {
				return true, nil
			}
			u.Changed = t.SHA256 != u.SHA256
		}
	}
	return false, u
}

// lookTrust reads the list of trusted files again if it changed. It reports
// whether it did.
func (s *Store) lookTrust() bool {
	at, err := look(filepath.Join(s.places.State, trustDir, trustName))
	if err == nil && at == s.trustAt && s.trustSettled {
		return false
	}
	list, lerr := OpenTrust(s.places.State).List()
	if err = errors.Join(err, lerr); err != nil {
		list = nil // nothing is trusted that cannot be read
	}
	changed := !slices.EqualFunc(list, s.trusts, func(a, b Trusted) bool { return a.File == b.File && a.SHA256 == b.SHA256 && a.Given == b.Given }) ||
		(err == nil) != (s.trustErr == nil)
	s.trusts, s.trustErr, s.trustAt, s.trustSettled = list, err, at, at.settled(time.Now())
	return changed
}
