package policy

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"permd/ask"
)

// ledger is a record of which rules were let stand.
type ledger struct {
	sums []string
	fail error
}

func (l *ledger) places(p Places) Places {
	p.Applied = func(digest string) (bool, bool) { return slices.Contains(l.sums, digest), len(l.sums) > 0 }
	p.Applying = func(digest, _ string) error {
		if l.fail == nil {
			l.sums = append(l.sums, digest)
		}
		return l.fail
	}
	return p
}

// What an agent writes into permd's own file of applied rules, or gains by
// taking it away, allows nothing: neither at a node that runs nor at a new one,
// until a person applies the rules again.
func TestAppliedRulesNeedTheirRecord(t *testing.T) {
	for _, attack := range []struct {
		name string
		do   func(b *bench)
	}{
		{"the file is written", func(b *bench) {
			b.write(user, allowMake+allowGo)
			f, err := Decode("x", []byte(allowMake+allowGo), LayerUser)
			if err != nil {
				b.t.Fatal(err)
			}
			if err := writeApplied(b.places.State, appliedOf(f.rules, nil, nil, "a person"), nil); err != nil {
				b.t.Fatal(err)
			}
		}},
		{"the file is taken away", func(b *bench) {
			b.write(user, allowMake+allowGo)
			if err := os.Remove(filepath.Join(b.places.State, appliedDir, appliedName)); err != nil {
				b.t.Fatal(err)
			}
		}},
		{"the directory is taken away", func(b *bench) {
			b.write(user, allowMake+allowGo)
			if err := os.RemoveAll(filepath.Join(b.places.State, appliedDir)); err != nil {
				b.t.Fatal(err)
			}
		}},
	} {
		t.Run(attack.name, func(t *testing.T) {
			b := newBench(t)
			l := &ledger{}
			b.places = l.places(b.places)
			b.reopen()
			b.write(user, allowMake+denyRM)
			b.want("the first rules", map[string]ask.Verdict{"make x": ask.Allow, "go test x": ask.Prompt, "rm x": ask.Deny})
			b.reopen()
			b.want("in another process", map[string]ask.Verdict{"make x": ask.Allow, "rm x": ask.Deny})
			attack.do(b)
			b.want("at the node that runs", map[string]ask.Verdict{"go test x": ask.Prompt, "rm x": ask.Deny})
			attack.do(b)
			b.reopen()
			b.want("at a new node", map[string]ask.Verdict{"go test x": ask.Prompt, "make x": ask.Prompt})
			if err := b.store.Problem(); err == nil || !strings.Contains(err.Error(), "applied again") {
				t.Errorf("it does not say so: %v", err)
			}
			b.reopen()
			b.want("at the next one", map[string]ask.Verdict{"go test x": ask.Prompt, "make x": ask.Prompt})
			b.apply()
			b.want("applied by a person", map[string]ask.Verdict{"go test x": ask.Allow, "make x": ask.Allow, "rm x": ask.Prompt})
			b.reopen()
			b.want("and in the next process", map[string]ask.Verdict{"go test x": ask.Allow})
			if err := b.store.Problem(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Rules that only tighten need no person after such an attack.
func TestForeignRulesThatTighten(t *testing.T) {
	b := newBench(t)
	l := &ledger{}
	b.places = l.places(b.places)
	b.reopen()
	b.write(user, denyRM)
	b.want("the first rules", map[string]ask.Verdict{"rm x": ask.Deny})
	if err := os.RemoveAll(filepath.Join(b.places.State, appliedDir)); err != nil {
		t.Fatal(err)
	}
	b.reopen()
	b.want("taken away", map[string]ask.Verdict{"rm x": ask.Deny, "ls": ask.Allow})
	if err := b.store.Problem(); err != nil || b.store.Pending() != nil {
		t.Errorf("%v, %+v", err, b.store.Pending())
	}
}

// No record, no rule that allows: what cannot be recorded is not applied.
func TestRulesThatCannotBeRecorded(t *testing.T) {
	b := newBench(t)
	l := &ledger{}
	b.places = l.places(b.places)
	b.reopen()
	b.write(user, denyRM)
	b.want("the first rules", map[string]ask.Verdict{"rm x": ask.Deny})
	b.write(user, denyRM+allowMake)
	b.want("pending", map[string]ask.Verdict{"make x": ask.Prompt})
	l.fail = errors.New("disk full")
	p := b.store.Pending()
	if err := b.store.Apply("dev", p.ID); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("applied without a record: %v", err)
	}
	b.want("not applied", map[string]ask.Verdict{"make x": ask.Prompt})
	l.fail = nil
	b.apply()
	b.want("applied", map[string]ask.Verdict{"make x": ask.Allow})
}
