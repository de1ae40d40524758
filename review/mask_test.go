package review

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Equal values are masked alike within a record, and differently in another.
func TestMasker(t *testing.T) {
	var marks []string
	for range 2 {
		dir := stateDir(t)
		mustClose(t, mustOpen(t, options(dir, "n1")))
		m, err := OpenMasker(dir)
		if err != nil {
			t.Fatal(err)
		}
		a := m.Text("rm -rf build")
		if a != m.Text("rm -rf build") || a == m.Text("rm -rf .") || strings.Contains(a, "rm") || m.Text("") != "" {
			t.Errorf("masked as %s", a)
		}
		marks = append(marks, a)
	}
	if marks[0] == marks[1] {
		t.Error("two records mask alike")
	}
}

// Without a key nothing is made and everything is masked all the same; a key
// that is broken is an error.
func TestMaskerWithoutKey(t *testing.T) {
	dir := t.TempDir()
	for _, at := range []string{dir, filepath.Join(dir, "none")} {
		m, err := OpenMasker(at)
		if err != nil || m.Text("x") != "[masked]" {
			t.Errorf("%v, %v", m, err)
		}
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("reading made %v", list)
	}
	for _, bad := range []string{"", "zz", strings.Repeat("0", 63), strings.Repeat("0", 66)} {
		if err := os.WriteFile(filepath.Join(dir, keyName), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := OpenMasker(dir); err == nil {
			t.Errorf("key %q: %v", bad, m)
		}
	}
}
