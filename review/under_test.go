package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What somebody does to the file of a living log. The commit that meets it
// fails, the next one is recorded in a new file, and both the log and the
// verification tell.
func TestT13LogChangedUnderneath(t *testing.T) {
	rounds := 8 // times 7 ways, times two places
	if testing.Short() {
		rounds = 1
	}
	ways := map[string]struct {
		do    func(file string) error
		cause string
		keeps bool // the file and all records before are still there
	}{
		"deleted":           {func(f string) error { return os.Remove(f) }, "deleted", false},
		"directory deleted": {func(f string) error { return os.RemoveAll(filepath.Dir(f)) }, "deleted", false},
		"moved":             {func(f string) error { return os.Rename(f, f+".old") }, "deleted", false},
		"replaced by a copy": {func(f string) error {
			b, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			if err := os.WriteFile(f+".new", b, 0o600); err != nil {
				return err
			}
			return os.Rename(f+".new", f)
		}, "replaced", true},
		"replaced by a link": {func(f string) error {
			if err := os.Rename(f, f+".old"); err != nil {
				return err
			}
			return os.Symlink(f+".old", f)
		}, "replaced", false},
		"cut":        {func(f string) error { return os.Truncate(f, 100) }, "truncated", false},
		"written to": {func(f string) error { return appendTo(f, "{\"v\":1}\n") }, "written_to", true},
	}
	n := 0
	for what, way := range ways {
		for i := range rounds {
			dir := stateDir(t)
			l := mustOpen(t, options(dir, "n1"))
			for k := range i {
				mustCommit(t, l, allowed(fmt.Sprintf("before%d", k)))
			}
			if i%2 == 1 {
				mustAppend(t, l, denied("unsynced"))
			}
			if err := way.do(filepath.Join(dir, "n1", fileName(1))); err != nil {
				t.Fatal(err)
			}
			err := l.Commit(context.Background(), allowed("hit"))
			if !errors.Is(err, ErrChanged) {
				t.Fatalf("%s: %v", what, err)
			}
			if l.Err() == nil {
				t.Errorf("%s: the log does not say that it is broken", what)
			}
			mustCommit(t, l, allowed("after"))
			if l.Err() != nil || l.Head().File != fileName(2) {
				t.Errorf("%s: %v, head %+v", what, l.Err(), l.Head())
			}
			mustClose(t, l)
			got := ids(t, dir, "n1")
			if !got["after"] || way.keeps && i > 0 && !got["before0"] {
				t.Errorf("%s: %v\n%s", what, got, dump(dir))
			}
			r := mustVerify(t, dir, Tampered)
			if !strings.Contains(r.String(), "gap: "+way.cause) {
				t.Errorf("%s: %s", what, r.String())
			}
			n++
		}
	}
	t.Logf("%d changes, none unseen", n)
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// The lock goes with the directory; the log takes it again, so that no second
// writer comes in.
func TestLockIsTakenAgain(t *testing.T) {
	dir := stateDir(t)
	l := mustOpen(t, options(dir, "n1"))
	if err := os.RemoveAll(filepath.Join(dir, "n1")); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(context.Background(), allowed("A")); !errors.Is(err, ErrChanged) {
		t.Fatal(err)
	}
	mustCommit(t, l, allowed("B"))
	if second, err := Open(options(dir, "n1")); !errors.Is(err, ErrInUse) {
		t.Errorf("second writer: %v, %v", second, err)
	}
	checkModes(t, dir)
}

// A whole review directory that is deleted under a living log.
func TestEverythingDeletedUnderneath(t *testing.T) {
	dir := stateDir(t)
	l := mustOpen(t, options(dir, "n1"))
	mustCommit(t, l, allowed("A"))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(context.Background(), allowed("B")); !errors.Is(err, ErrChanged) {
		t.Fatal(err)
	}
	mustCommit(t, l, allowed("C"))
	mustClose(t, l)
	r := mustVerify(t, dir, Tampered)
	if !strings.Contains(r.String(), "gap: deleted") {
		t.Errorf("report %s", r.String())
	}
	checkModes(t, dir)
}

// Foreign bytes behind the last durable record are kept, not continued.
func TestForeignBytesAreSetAside(t *testing.T) {
	dir := stateDir(t)
	l := mustOpen(t, options(dir, "n1"))
	mustCommit(t, l, allowed("A"))
	file := filepath.Join(dir, "n1", fileName(1))
	before := readFile(t, file)
	forged := bytes.Replace(lines(before)[2], []byte(`"ask":"A"`), []byte(`"ask":"F"`), 1)
	if err := appendTo(file, string(forged)); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(context.Background(), allowed("B")); !errors.Is(err, ErrChanged) {
		t.Fatal(err)
	}
	mustCommit(t, l, allowed("C"))
	mustClose(t, l)
	if got := readFile(t, file); !bytes.Equal(got, before) {
		t.Errorf("the file is %d bytes, it was %d", len(got), len(before))
	}
	if got := ids(t, dir, "n1"); got["F"] || !got["A"] || !got["C"] {
		t.Errorf("records %v", got)
	}
	for _, line := range logLines(t, dir, "n1") {
		if line.Event == Gap {
			if kept := readFile(t, filepath.Join(dir, "n1", line.Field(KeySetAside))); !bytes.HasPrefix(kept, forged) {
				t.Errorf("kept %s", kept)
			}
			if line.Field(KeyLost) != "1" {
				t.Errorf("gap %v", line.Fields)
			}
		}
	}
}

// What is no file of ours is not opened: a link, a pipe, a directory.
func TestOpenFollowsNothing(t *testing.T) {
	for what, put := range map[string]func(file string) error{
		"link":      func(f string) error { return os.Symlink("/etc/hostname", f) },
		"directory": func(f string) error { return os.Mkdir(f, 0o700) },
		"pipe":      func(f string) error { return syscall.Mkfifo(f, 0o600) },
		"hard link": func(f string) error {
			if err := os.WriteFile(f+"x", nil, 0o600); err != nil {
				return err
			}
			return os.Link(f+"x", f)
		},
	} {
		dir := stateDir(t)
		mustClose(t, mustOpen(t, options(dir, "n0")))
		at := filepath.Join(dir, "n1")
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := put(filepath.Join(at, fileName(1))); err != nil {
			t.Fatal(err)
		}
		if l, err := Open(options(dir, "n1")); err == nil {
			l.Close()
			t.Errorf("%s: opened", what)
		}
	}
}
