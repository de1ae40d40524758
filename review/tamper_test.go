package review

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// closedLog is a directory with one closed log of about n records, of which
// the first file is given, and the ledger's.
func closedLog(t *testing.T, n int) (dir, log, ledgerFile string) {
	t.Helper()
	dir = memoryDir(t)
	l := mustOpen(t, options(dir, "n1"))
	for i := range n - 3 {
		mustAppend(t, l, denied(fmt.Sprintf("A%d", i)))
	}
	mustClose(t, l)
	mustVerify(t, dir, Intact)
	return dir, filepath.Join(dir, "n1", fileName(1)), filepath.Join(dir, ledgerName, fileName(1))
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mutate writes what is not b and wants the verification to say so.
type mutant struct {
	what string
	b    []byte
}

func judgeMutants(t *testing.T, dir, file string, good []byte, want Status, mutants func(yield func(mutant) bool)) int {
	t.Helper()
	n := 0
	for m := range mutants {
		if bytes.Equal(m.b, good) {
			continue
		}
		n++
		if err := os.WriteFile(file, m.b, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Verify(dir)
		if err != nil {
			t.Fatal(err)
		}
		if r.Status < want {
			t.Errorf("%s: %v", m.what, r.Status)
		}
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

// sampling is the step through the bits of a log: odd, so that every bit of a
// byte has its turn.
func sampling() int {
	if raceEnabled || testing.Short() {
		return 101
	}
	return 7
}

// lines cuts a log with the newlines kept.
func lines(b []byte) [][]byte { return bytes.SplitAfter(b, []byte("\n")) }

// Of a closed log every changed bit, every cut, exchange, deletion and
// repetition of a record shows: its head is in the ledger.
func TestT14ClosedLogShowsEveryChange(t *testing.T) {
	dir, log, _ := closedLog(t, 10)
	good := readFile(t, log)
	step := sampling()
	flips := judgeMutants(t, dir, log, good, Tampered, func(yield func(mutant) bool) {
		for i := 0; i < len(good)*8; i += step {
			b := slices.Clone(good)
			b[i/8] ^= 1 << (i % 8)
			if !yield(mutant{fmt.Sprintf("bit %d of byte %d", i%8, i/8), b}) {
				return
			}
		}
	})
	cuts := judgeMutants(t, dir, log, good, Tampered, func(yield func(mutant) bool) {
		for i := 0; i < len(good); i += (step + 6) / 7 {
			if !yield(mutant{fmt.Sprintf("cut at byte %d", i), good[:i]}) {
				return
			}
		}
	})
	parts := judgeMutants(t, dir, log, good, Tampered, recordMutants(good))
	t.Logf("%d flips, %d cuts, %d exchanges, deletions and repetitions", flips, cuts, parts)
	if flips < 8*len(good)/step || parts < 60 {
		t.Error("too few")
	}
	mustVerify(t, dir, Intact)
}

// recordMutants gives each deletion, repetition and exchange of whole records.
func recordMutants(good []byte) func(yield func(mutant) bool) {
	return func(yield func(mutant) bool) {
		all := lines(good)
		all = all[:len(all)-1] // what follows the last newline
		for i := range all {
			del := slices.Delete(slices.Clone(all), i, i+1)
			dup := slices.Insert(slices.Clone(all), i, all[i])
			if !yield(mutant{fmt.Sprintf("without record %d", i+1), bytes.Join(del, nil)}) ||
				!yield(mutant{fmt.Sprintf("record %d twice", i+1), bytes.Join(dup, nil)}) {
				return
			}
			for j := range i {
				swap := slices.Clone(all)
				swap[i], swap[j] = swap[j], swap[i]
				if !yield(mutant{fmt.Sprintf("records %d and %d exchanged", i+1, j+1), bytes.Join(swap, nil)}) {
					return
				}
			}
		}
	}
}

// The ledger shows everything but a change within its very last record that
// leaves the chain and the place it names alone, and the loss of that record,
// which leaves a closed log without its head: incomplete.
func TestT14LedgerShowsEveryChange(t *testing.T) {
	dir, _, ledgerFile := closedLog(t, 6)
	// A second writer, so that the ledger has records that others name.
	l := mustOpen(t, options(dir, "n2"))
	mustCommit(t, l, allowed("A"))
	mustClose(t, l)
	good := readFile(t, ledgerFile)
	all := lines(good)
	last := len(good) - len(all[len(all)-2])
	step := sampling()
	judgeMutants(t, dir, ledgerFile, good, Tampered, func(yield func(mutant) bool) {
		for i := 0; i < last*8; i += step {
			b := slices.Clone(good)
			b[i/8] ^= 1 << (i % 8)
			if !yield(mutant{fmt.Sprintf("bit %d of byte %d", i%8, i/8), b}) {
				return
			}
		}
	})
	judgeMutants(t, dir, ledgerFile, good, Incomplete, func(yield func(mutant) bool) {
		for i := 0; i < len(good); i += 7 {
			if !yield(mutant{fmt.Sprintf("cut at byte %d", i), good[:i]}) {
				return
			}
		}
	})
	judgeMutants(t, dir, ledgerFile, good, Incomplete, recordMutants(good))
	// In the last record: its number, its link and the place it names.
	seq, _ := ParseLine(bytes.TrimSuffix(all[len(all)-2], []byte("\n")))
	for _, field := range []string{fmt.Sprintf(`"seq":%d`, seq.Seq), `"prev":"` + seq.Prev.String()[:5],
		`"head_seq":"` + seq.Field(KeyHeadSeq), `"head_hash":"` + seq.Field(KeyHeadHash)[:5], `"writer":"n2"`, `"file":"000001`} {
		at := bytes.LastIndex(good, []byte(field))
		if at < last {
			t.Fatalf("%s is not in the last record", field)
		}
		b := slices.Clone(good)
		b[at+len(field)-1] ^= 1
		if err := os.WriteFile(ledgerFile, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := Verify(dir); err != nil || r.Status < Incomplete {
			t.Errorf("%s changed: %v, %v", field, r.Status, err)
		}
	}
}

func TestDeletedLogsShow(t *testing.T) {
	for what, want := range map[string]struct {
		do     func(dir string) error
		status Status
		say    string
	}{
		"a writer's directory": {func(dir string) error { return os.RemoveAll(filepath.Join(dir, "n1")) }, Tampered, "the log is gone"},
		"its file":             {func(dir string) error { return os.Remove(filepath.Join(dir, "n1", fileName(1))) }, Tampered, "the log is gone"},
		"the ledger":           {func(dir string) error { return os.RemoveAll(filepath.Join(dir, ledgerName)) }, Tampered, "the ledger does not know this log"},
		"the ledger's file":    {func(dir string) error { return os.Remove(filepath.Join(dir, ledgerName, fileName(1))) }, Tampered, "the ledger does not know this log"},
		"an exchange of logs": {func(dir string) error {
			return os.Rename(filepath.Join(dir, "n1"), filepath.Join(dir, "n3"))
		}, Tampered, "does not begin with its own header"},
		"another user's log": {func(dir string) error {
			return os.CopyFS(filepath.Join(dir, "n9"), os.DirFS(filepath.Join(dir, "n1")))
		}, Tampered, "does not begin with its own header"},
		"nothing": {func(string) error { return nil }, Intact, "intact"},
	} {
		dir, _, _ := closedLog(t, 5)
		l := mustOpen(t, options(dir, "n2"))
		mustClose(t, l)
		if err := want.do(dir); err != nil {
			t.Fatal(err)
		}
		r, err := Verify(dir)
		if err != nil || r.Status != want.status || !strings.Contains(r.String(), want.say) {
			t.Errorf("%s: %v, %v:\n%s", what, r.Status, err, r.String())
		}
	}
}

// A middle file that is gone, and files that changed places.
func TestDeletedMiddleFileShows(t *testing.T) {
	opt := options(stateDir(t), "n1")
	opt.MaxFile = 2 << 10
	l := mustOpen(t, opt)
	for i := range 20 {
		mustCommit(t, l, allowed(fmt.Sprintf("A%d", i)))
	}
	mustClose(t, l)
	mustVerify(t, opt.Dir, Intact)
	middle := filepath.Join(opt.Dir, "n1", fileName(2))
	kept := readFile(t, middle)
	if err := os.Remove(middle); err != nil {
		t.Fatal(err)
	}
	r := mustVerify(t, opt.Dir, Tampered)
	if p := r.Problems[0]; p.File != fileName(3) || !strings.Contains(p.What, "missing") {
		t.Errorf("problem %v", p)
	}
	third := readFile(t, filepath.Join(opt.Dir, "n1", fileName(3)))
	os.WriteFile(middle, third, 0o600)
	os.WriteFile(filepath.Join(opt.Dir, "n1", fileName(3)), kept, 0o600)
	mustVerify(t, opt.Dir, Tampered)
}

// Who rebuilds the whole chain of a log after a change is caught by the
// ledger; who rebuilds both is caught by a head held elsewhere.
func TestRebuiltChainShows(t *testing.T) {
	dir, log, _ := closedLog(t, 6)
	held, err := Verify(dir)
	if err != nil {
		t.Fatal(err)
	}
	var m mark
	var out []byte
	for i, raw := range lines(readFile(t, log)) {
		raw = bytes.TrimSuffix(raw, []byte("\n"))
		if len(raw) == 0 {
			continue
		}
		raw = bytes.Replace(raw, []byte(`"verdict":"deny"`), []byte(`"verdict":"allow"`), 1)
		l, err := ParseLine(raw)
		if err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		raw = bytes.Replace(raw, []byte(l.Prev.String()), []byte(m.hash.String()), 1)
		m.hash = sha256.Sum256(raw)
		out = append(append(out, raw...), '\n')
	}
	if err := os.WriteFile(log, out, 0o600); err != nil {
		t.Fatal(err)
	}
	r := mustVerify(t, dir, Tampered)
	if !strings.Contains(r.String(), "the ledger knows another record") && !strings.Contains(r.String(), "of the ledger knows another record here") {
		t.Errorf("report %s", r.String())
	}
	if r.Logs[0].Head == held.Logs[0].Head {
		t.Error("the head is the same")
	}
}

// The first bad record is named with its place.
func TestFirstBadRecordIsNamed(t *testing.T) {
	dir, log, _ := closedLog(t, 8)
	good := readFile(t, log)
	all := lines(good)
	at := len(all[0]) + len(all[1]) + len(all[2])
	b := slices.Clone(good)
	b[at+200] ^= 1
	if err := os.WriteFile(log, b, 0o600); err != nil {
		t.Fatal(err)
	}
	p := mustVerify(t, dir, Tampered).Problems[0]
	// The change shows in the record itself or, if it is still one, in the next.
	if p.Writer != "n1" || p.File != fileName(1) || (p.Offset != int64(at) || p.Seq != 4) && (p.Offset != int64(at+len(all[3])) || p.Seq != 5) {
		t.Errorf("%v", p)
	}
}
