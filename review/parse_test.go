package review

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sameAsSlow holds the quick parser against the strict decoder: what it takes
// the other takes, too, as the same line; and the two together refuse alike.
func sameAsSlow(t interface{ Errorf(string, ...any) }, raw []byte) (quick bool) {
	l, quick := quickParse(raw)
	quick = quick && len(raw) < MaxLine
	want, slow := slowParse(raw)
	got, err := ParseLine(raw)
	switch {
	case quick && slow != nil && l.Check() == nil:
		t.Errorf("taken quickly, and the decoder says %v: %q", slow, raw)
	case quick && slow == nil && !reflect.DeepEqual(l, want):
		t.Errorf("%q\nis quickly %+v\nand        %+v", raw, l, want)
	case (err == nil) != (slow == nil) || !reflect.DeepEqual(got, want):
		t.Errorf("%q: %v and %v", raw, err, slow)
	}
	return quick
}

// Of the lines that the log writes nearly all are taken.
func TestQuickParseOfWhatIsWritten(t *testing.T) {
	quick, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		ev := drawEvent(t)
		m := mark{seq: rapid.Uint64Range(0, 1<<40).Draw(t, "seq")}
		raw := bytes.TrimSuffix(encodeLine(t, ev, m, stampAt(rapid.Int64Range(0, 4e18).Draw(t, "ns"), rapid.Int64Range(-5, 1e9).Draw(t, "boot"))), []byte("\n"))
		all++
		if sameAsSlow(t, raw) {
			quick++
		}
	})
	if quick < all*9/10 {
		t.Errorf("%d of %d lines are taken", quick, all)
	}
}

// One changed, missing, doubled or exchanged byte anywhere is judged as the
// decoder judges it.
func TestQuickParseOfDamagedLines(t *testing.T) {
	names, err := filepath.Glob("testdata/lines/*.json")
	if err != nil {
		t.Fatal(err)
	}
	quick := 0
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		raw = bytes.TrimSuffix(raw, []byte("\n"))
		if len(raw) > 2048 {
			raw = raw[:2048]
		}
		if sameAsSlow(t, raw) {
			quick++
		}
		if !strings.HasPrefix(filepath.Base(name), "good-") {
			continue
		}
		step := 1
		if testing.Short() || raceEnabled {
			step = 17
		}
		for i := 0; i < len(raw); i += step {
			for _, c := range []byte{'"', '\\', '0', 'x', ',', ' ', raw[i] ^ 0x20, raw[i] ^ 0x80} {
				changed := bytes.Clone(raw)
				changed[i] = c
				sameAsSlow(t, changed)
			}
			sameAsSlow(t, append(bytes.Clone(raw[:i]), raw[i+1:]...))
			sameAsSlow(t, append(append(bytes.Clone(raw[:i+1]), raw[i]), raw[i+1:]...))
		}
	}
	if quick < 4 {
		t.Errorf("only %d golden lines are taken", quick)
	}
}

func FuzzQuickParse(f *testing.F) {
	names, err := filepath.Glob("testdata/lines/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.TrimSuffix(raw, []byte("\n")))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sameAsSlow(t, raw) })
}
