package paths

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestSecondNames(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	if err := os.WriteFile(one, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := (Disk{}).Links(one); n != 1 {
		t.Errorf("%d names of a new file", n)
	}
	if err := os.Link(one, two); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(one, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"one": 2, "two": 2, "link": 0, "none": 0, ".": 0} {
		if n := (Disk{}).Links(filepath.Join(dir, name)); n != want {
			t.Errorf("%s has %d names, want %d", name, n, want)
		}
	}
}

func TestFolds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "Some")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := (Disk{}).Folds(dir); got && runtime.GOOS == "linux" || got != (Disk{}).Folds(dir) {
		t.Errorf("%s: %v", dir, got)
	}
	// A second directory of that name in other letters is another one.
	other := filepath.Join(filepath.Dir(dir), "SOME")
	if err := os.Mkdir(other, 0o700); err == nil {
		folding.known = nil
		if (Disk{}).Folds(dir) {
			t.Error("two directories are taken for one")
		}
	}
	if (Disk{}).Folds("/") || (Disk{}).Folds("") || (Disk{}).Folds(filepath.Join(dir, "none")) {
		t.Error("what is not there folds")
	}
}
