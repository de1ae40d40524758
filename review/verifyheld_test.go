package review

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"permd/ask"
)

// rebuild gives records the numbers and links of one whole chain, as somebody
// would who can write as the user.
func rebuild(t *testing.T, records [][]byte) []byte {
	t.Helper()
	var out []byte
	var prev ask.Digest
	for i, raw := range records {
		l, err := ParseLine(raw)
		if err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		if i > 0 {
			raw = bytes.Replace(raw, fmt.Appendf(nil, `"seq":%d,`, l.Seq), fmt.Appendf(nil, `"seq":%d,`, i+1), 1)
			raw = bytes.Replace(raw, []byte(l.Prev.String()), []byte(prev.String()), 1)
		}
		prev = sha256.Sum256(raw)
		out = append(append(out, raw...), '\n')
	}
	return out
}

// TestT14HeldHeads: a log of 50 records is changed at every place and its chain
// built anew, so that nothing in it is wrong, and the ledger is taken away. The
// head that was held elsewhere shows each change.
func TestT14HeldHeads(t *testing.T) {
	dir, log, ledgerFile := closedLog(t, 50)
	before := mustVerify(t, dir, Intact)
	held := before.Heads()
	if len(held) != 2 {
		t.Fatalf("heads %+v", held)
	}
	var records [][]byte
	for _, raw := range lines(readFile(t, log)) {
		if raw = bytes.TrimSuffix(raw, []byte("\n")); len(raw) > 0 {
			records = append(records, raw)
		}
	}
	if len(records) != 50 {
		t.Fatalf("%d records", len(records))
	}
	kept, keptLedger := readFile(t, log), readFile(t, ledgerFile)
	if got := rebuild(t, records); !bytes.Equal(got, kept) {
		t.Fatal("a chain that is rebuilt without a change is another: the test does not test")
	}
	if err := os.Remove(ledgerFile); err != nil {
		t.Fatal(err)
	}
	shows := func(what string, writer string) {
		t.Helper()
		r, err := VerifyHeld(dir, held)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		at := slices.IndexFunc(r.Problems, func(p Problem) bool {
			return p.Writer == writer && p.Status == Tampered && strings.Contains(p.What, "held elsewhere")
		})
		if at < 0 || r.Status != Tampered {
			t.Errorf("%s: unseen: %s", what, r.String())
		}
	}
	n := 0
	for i := 1; i < len(records); i++ { // record 0 is the file's header
		changed := bytes.Replace(records[i], []byte(`"time":"2`), []byte(`"time":"1`), 1)
		if bytes.Equal(changed, records[i]) {
			t.Fatalf("record %d has no time", i)
		}
		for what, x := range map[string][][]byte{
			"deleted":  slices.Delete(slices.Clone(records), i, i+1),
			"doubled":  slices.Insert(slices.Clone(records), i, records[i]),
			"changed":  slices.Replace(slices.Clone(records), i, i+1, changed),
			"cut":      slices.Clone(records[:i]),
			"replaced": slices.Replace(slices.Clone(records), i, i+1, records[max(1, i-1)]),
		} {
			if what == "replaced" && i == 1 || what == "doubled" && i == len(records)-1 {
				continue // the same again; behind the head, which is not its matter
			}
			if err := os.WriteFile(log, rebuild(t, x), 0o600); err != nil {
				t.Fatal(err)
			}
			shows(fmt.Sprintf("record %d %s", i+1, what), "n1")
			n++
		}
	}
	if err := os.RemoveAll(filepath.Dir(log)); err != nil {
		t.Fatal(err)
	}
	shows("the log deleted", "n1")
	shows("the ledger deleted", ledgerName)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no record: %v", err)
	}
	shows("all deleted", "n1")
	shows("all deleted", ledgerName)

	// Put back as it was, it is whole; and so it is when it has grown.
	for name, b := range map[string][]byte{log: kept, ledgerFile: keptLedger} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	l := mustOpen(t, options(dir, "n1"))
	mustAppend(t, l, denied("later"))
	mustClose(t, l)
	r, err := VerifyHeld(dir, held)
	if err != nil || r.Status != Intact {
		t.Errorf("grown: %v %s", err, r.String())
	}
	for what, f := range map[string]func(h *Head){
		"another number": func(h *Head) { h.Seq-- },
		"another file":   func(h *Head) { h.File = fileName(2) },
		"another hash":   func(h *Head) { h.Hash[0] ^= 1 },
	} {
		h := held[1]
		if h.Writer != "n1" {
			t.Fatalf("heads %+v", held)
		}
		f(&h)
		if r, err := VerifyHeld(dir, []Head{h}); err != nil || r.Status != Tampered {
			t.Errorf("a head with %s: %v %s", what, err, r.String())
		}
	}
	t.Logf("%d records changed, 0 unseen", n)
}

// A head that no log could have is refused before anything is held against it.
func TestHeadCheck(t *testing.T) {
	good := Head{Writer: "n1", File: fileName(1), Seq: 1, Hash: ask.Digest{1}}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]func(h *Head){
		"no writer":         func(h *Head) { h.Writer = "" },
		"a writer above":    func(h *Head) { h.Writer = ".." },
		"no file":           func(h *Head) { h.File = "" },
		"a file elsewhere":  func(h *Head) { h.File = "../000001.jsonl" },
		"record 0":          func(h *Head) { h.Seq = 0 },
		"a hash of nothing": func(h *Head) { h.Hash = ask.Digest{} },
	} {
		h := good
		f(&h)
		if err := h.Check(); !errors.Is(err, ask.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
