package forwarding

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"permd/internal/host"
	"permd/session"
)

// boxes is two mailboxes on disk, a's and b's, without watches.
type boxes struct {
	t      *testing.T
	dirs   session.Dirs
	a, b   *Disk
	mu     sync.Mutex
	events []Event
}

func newBoxes(t *testing.T) *boxes {
	t.Helper()
	d, err := session.Find(t.TempDir())
	if err == nil {
		err = d.Make()
	}
	if err != nil {
		t.Fatal(err)
	}
	x := &boxes{t: t, dirs: d}
	x.a, x.b = x.open("a"), x.open("b")
	return x
}

func (x *boxes) open(node string) *Disk {
	x.t.Helper()
	if err := host.MakeDir(string(x.dirs.Node(node))); err != nil {
		x.t.Fatal(err)
	}
	d, err := OpenDisk(x.dirs, node, func(e Event) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.events = append(x.events, e)
	})
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { d.Close() })
	return d
}

func (x *boxes) logged(kind EventKind, text string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.ContainsFunc(x.events, func(e Event) bool { return e.Kind == kind && strings.Contains(e.Why, text) })
}

func (x *boxes) mustLog(kind EventKind, text string) {
	x.t.Helper()
	if !x.logged(kind, text) {
		x.t.Fatalf("no %s event says %q: %+v", kind, text, x.events)
	}
}

func (x *boxes) in(dir, file string) string { return filepath.Join(x.dirs.Node("b").Mail(), dir, file) }

func (x *boxes) ls(dir string) []string {
	x.t.Helper()
	l, err := os.ReadDir(x.in(dir, ""))
	if err != nil {
		x.t.Fatal(err)
	}
	var names []string
	for _, e := range l {
		names = append(names, e.Name())
	}
	return names
}

// takeAll takes everything that waits for b now.
func (x *boxes) takeAll() map[string]string {
	x.t.Helper()
	got := map[string]string{}
	x.b.mu.Lock()
	x.b.scanAt = time.Time{} // nobody runs Run here, which waits for it
	x.b.mu.Unlock()
	x.b.Wake()
	for {
		more, err := x.b.Take(func(n Name, raw []byte) error {
			if _, twice := got[n.String()]; twice {
				x.t.Errorf("%s came twice", n)
			}
			got[n.String()] = string(raw)
			return nil
		})
		if err != nil {
			x.t.Fatal(err)
		}
		if !more {
			return got
		}
	}
}

func nameOf(counter uint64) Name { return Name{"a", "i1", counter, KindAsk, "ask"} }

func TestModes(t *testing.T) {
	x := newBoxes(t)
	if err := x.a.Put(t.Context(), "b", nameOf(1), []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{x.in("", ""), x.in("tmp", ""), x.in("new", ""), x.in("bad", "")} {
		if fi, err := os.Lstat(p); err != nil || fi.Mode() != os.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", p, fi.Mode(), err)
		}
	}
	if fi, err := os.Lstat(x.in("new", nameOf(1).String())); err != nil || fi.Mode() != 0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	if got := x.ls("tmp"); len(got) != 0 {
		t.Errorf("left in tmp: %q", got)
	}
}

// What must not be read under a letter's name is set aside, reported, and the
// letters beside it are taken.
func TestHarmfulFiles(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	for name, c := range map[string]struct {
		plant func(path string) error
		kept  bool // in bad
	}{
		"symbolic link":         {func(p string) error { return os.Symlink(victim, p) }, true},
		"link inside":           {func(p string) error { return os.Symlink("other", p) }, true},
		"dangling link":         {func(p string) error { return os.Symlink("/nowhere", p) }, true},
		"hard link":             {func(p string) error { return os.Link(victim, p) }, true},
		"pipe":                  {func(p string) error { return syscall.Mkfifo(p, 0o600) }, true},
		"socket":                {func(p string) error { return mksock(p) }, true},
		"directory":             {func(p string) error { return os.Mkdir(p, 0o700) }, true},
		"full directory":        {func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.WriteFile(p+"/x", nil, 0o600)) }, true},
		"writable by all":       {func(p string) error { return errors.Join(os.WriteFile(p, []byte("x"), 0o600), os.Chmod(p, 0o666)) }, true},
		"writable by the group": {func(p string) error { return errors.Join(os.WriteFile(p, []byte("x"), 0o600), os.Chmod(p, 0o660)) }, true},
		"10 GB, sparse":         {func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Truncate(p, 10<<30)) }, false},
		"one byte too large": {func(p string) error {
			return errors.Join(os.WriteFile(p, nil, 0o600), os.Truncate(p, int64(MaxLetter)+1))
		}, false},
		"larger than worth kept": {func(p string) error {
			return errors.Join(os.WriteFile(p, nil, 0o600), os.Truncate(p, maxBadSize+1), os.Chmod(p, 0o622))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(victim, []byte("victim"), 0o600); err != nil {
				t.Fatal(err)
			}
			x := newBoxes(t)
			if err := c.plant(x.in("new", nameOf(1).String())); err != nil {
				t.Fatal(err)
			}
			if err := x.a.Put(t.Context(), "b", nameOf(2), []byte("good")); err != nil {
				t.Fatal(err)
			}
			if got := x.takeAll(); len(got) != 1 || got[nameOf(2).String()] != "good" {
				t.Fatalf("took %q", got)
			}
			if name == "socket" { // might become readable, for all we know
				time.Sleep(partialFor)
				x.takeAll()
			}
			x.mustLog(EventSetAside, "")
			if got := x.ls("new"); len(got) != 0 {
				t.Fatalf("left in new: %q", got)
			}
			if got := x.ls("bad"); (len(got) == 1) != c.kept {
				t.Fatalf("in bad: %q", got)
			}
			if b, err := os.ReadFile(victim); err != nil || string(b) != "victim" {
				t.Fatalf("victim holds %q, %v", b, err)
			}
		})
	}
}

func mksock(p string) error {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	// Bind in the directory by a short path: this one may be too long.
	if err := syscall.Mknod(p, syscall.S_IFSOCK|0o600, 0); err == nil {
		return nil
	}
	return syscall.Mkfifo(p, 0o600)
}

// What keeps being set aside does not fill the disk.
func TestSetAsideIsBounded(t *testing.T) {
	x := newBoxes(t)
	for i := range uint64(3 * maxBad) {
		if err := os.Symlink("/nowhere", x.in("new", nameOf(i+1).String())); err != nil {
			t.Fatal(err)
		}
	}
	if got := x.takeAll(); len(got) != 0 {
		t.Fatalf("took %q", got)
	}
	if n := len(x.ls("bad")); n != maxBad {
		t.Fatalf("%d in bad", n)
	}
	if n := len(x.ls("new")); n != 0 {
		t.Fatalf("%d left", n)
	}
	// Also over a restart.
	x.b.Close()
	b := x.open("b")
	x.b = b
	if err := os.Symlink("/nowhere", x.in("new", nameOf(999).String())); err != nil {
		t.Fatal(err)
	}
	x.takeAll()
	if n := len(x.ls("bad")); n != maxBad {
		t.Fatalf("%d in bad after a restart", n)
	}
}

// Names that are none of ours are ignored, counted and left where they are.
func TestUnknownNames(t *testing.T) {
	x := newBoxes(t)
	names := []string{"x", "README", "n1~i1~1~ask~a", ".hidden", ".permd-tmp-9-9", "a~i1~0000000000000001~allow~a", strings.Repeat("x", 255), "a b", "\xff\xfe", "..."}
	for _, n := range names {
		if err := os.WriteFile(x.in("new", n), []byte("x"), 0o600); err != nil {
			t.Fatal(n, err)
		}
	}
	if err := x.a.Put(t.Context(), "b", nameOf(1), []byte("good")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		x.takeAll()
	}
	if n := len(x.ls("new")); n != len(names) {
		t.Fatalf("%d names left of %d", n, len(names))
	}
	n := 0
	for _, e := range x.events {
		if e.Kind == EventUnknownName {
			n++
		}
	}
	if n != 1 || !x.logged(EventUnknownName, fmt.Sprintf("%d names", len(names))) {
		t.Fatalf("%+v", x.events)
	}
}

// d-forward-partial-file: half a letter is passed over and read when it is
// whole; one that stays broken is set aside.
func TestPartialLetters(t *testing.T) {
	x := newBoxes(t)
	l := goldLetter()
	l.From.Node, l.From.Instance = "a", "i1"
	raw, err := l.Seal(goldKey)
	if err != nil {
		t.Fatal(err)
	}
	path := x.in("new", l.Name().String())
	open := func(n Name, raw []byte) error {
		_, err := Open(raw, goldKey)
		if errors.Is(err, ErrPartial) {
			return ErrLater
		}
		return err
	}
	take := func() {
		t.Helper()
		x.b.Wake()
		if _, err := x.b.Take(open); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, raw[:50], 0o600); err != nil {
		t.Fatal(err)
	}
	take()
	if n := len(x.ls("new")); n != 1 {
		t.Fatal("the half letter is gone")
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(partialFor / 2)
	take()
	if n := len(x.ls("new")) + len(x.ls("bad")); n != 0 {
		t.Fatal("the whole letter was not taken")
	}
	if err := os.WriteFile(path, raw[:50], 0o600); err != nil {
		t.Fatal(err)
	}
	take()
	time.Sleep(partialFor + 10*time.Millisecond)
	take()
	if n := len(x.ls("bad")); n != 1 {
		t.Fatalf("%d in bad", n)
	}
	x.mustLog(EventSetAside, "not complete")
}

// A mailbox that is removed, renamed away or replaced is made anew, and what
// comes then is taken. d-forward: the #398 of another system.
func TestMailboxIsTakenAway(t *testing.T) {
	for name, harm := range map[string]func(mail string) error{
		"new removed":      func(m string) error { return os.RemoveAll(filepath.Join(m, "new")) },
		"tmp removed":      func(m string) error { return os.RemoveAll(filepath.Join(m, "tmp")) },
		"mail removed":     func(m string) error { return os.RemoveAll(m) },
		"new renamed away": func(m string) error { return os.Rename(filepath.Join(m, "new"), filepath.Join(m, "old")) },
		"mail replaced": func(m string) error {
			return errors.Join(os.Rename(m, m+".old"), os.MkdirAll(filepath.Join(m, "new"), 0o700), os.MkdirAll(filepath.Join(m, "tmp"), 0o700), os.MkdirAll(filepath.Join(m, "bad"), 0o700))
		},
		"node replaced": func(m string) error {
			n := filepath.Dir(m)
			return errors.Join(os.Rename(n, n+"-old"), os.Mkdir(n, 0o700), os.MkdirAll(filepath.Join(m, "new"), 0o700), os.MkdirAll(filepath.Join(m, "tmp"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, first := range []string{"taker", "writer"} {
				x := newBoxes(t)
				if err := x.a.Put(t.Context(), "b", nameOf(1), []byte("one")); err != nil {
					t.Fatal(err)
				}
				x.takeAll()
				if err := harm(x.dirs.Node("b").Mail()); err != nil {
					t.Fatal(err)
				}
				if first == "taker" || strings.HasPrefix(name, "mail removed") {
					x.takeAll() // notices; a writer makes no mailbox where there is none
				}
				if err := x.a.Put(t.Context(), "b", nameOf(2), []byte("two")); err != nil {
					t.Fatal(err)
				}
				if got := x.takeAll(); got[nameOf(2).String()] != "two" {
					t.Fatalf("%s first: took %q", first, got)
				}
			}
		})
	}
}

// A link in the place of a mailbox is not written through.
func TestMailboxIsALink(t *testing.T) {
	for name, harm := range map[string]func(mail, other string) error{
		"mail":           func(m, o string) error { return errors.Join(os.Rename(m, m+"2"), os.Symlink(o, m)) },
		"mail, relative": func(m, o string) error { return errors.Join(os.Rename(m, m+"2"), os.Symlink(filepath.Base(m)+"2", m)) },
		"new": func(m, o string) error {
			return errors.Join(os.RemoveAll(filepath.Join(m, "new")), os.Symlink(o, filepath.Join(m, "new")))
		},
		"tmp": func(m, o string) error {
			return errors.Join(os.RemoveAll(filepath.Join(m, "tmp")), os.Symlink(o, filepath.Join(m, "tmp")))
		},
		"wide open": func(m, o string) error { return os.Chmod(m, 0o777) },
	} {
		t.Run(name, func(t *testing.T) {
			x := newBoxes(t)
			other := t.TempDir()
			if err := harm(x.dirs.Node("b").Mail(), other); err != nil {
				t.Fatal(err)
			}
			if err := x.a.Put(t.Context(), "b", nameOf(1), []byte("x")); err == nil {
				t.Fatal("put")
			}
			if l, err := os.ReadDir(other); err != nil || len(l) != 0 {
				t.Fatalf("%v, %v", l, err)
			}
		})
	}
}

// A name that is taken in the receiver's mailbox is replaced if it is a file,
// and an error if it is not; nothing is left behind.
func TestPutOverWhatIsThere(t *testing.T) {
	x := newBoxes(t)
	path := x.in("new", nameOf(1).String())
	if err := os.WriteFile(path, []byte("planted"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := x.a.Put(t.Context(), "b", nameOf(1), []byte("real")); err != nil {
		t.Fatal(err)
	}
	if got := x.takeAll(); got[nameOf(1).String()] != "real" {
		t.Fatalf("%q", got)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := x.a.Put(t.Context(), "b", nameOf(1), []byte("real")); err == nil {
		t.Fatal("put over a directory")
	}
	if n := len(x.ls("tmp")); n != 0 {
		t.Fatalf("%d left in tmp", n)
	}
}

func TestSweep(t *testing.T) {
	x := newBoxes(t)
	for i := range uint64(5) {
		if err := x.a.Put(t.Context(), "b", nameOf(i+1), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"tmp/a~.permd-tmp-1-1-1", "tmp/aa~.permd-tmp-1-1-1", "new/aa~i1~0000000000000001~ask~x", "new/other"} {
		if err := os.WriteFile(x.in("", f), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	x.b.Wake()
	if _, err := x.b.Take(func(Name, []byte) error { return ErrLater }); err != nil {
		t.Fatal(err)
	}
	x.b.Sweep("a")
	if got := fmt.Sprint(x.ls("new"), x.ls("tmp")); got != "[aa~i1~0000000000000001~ask~x other] [aa~.permd-tmp-1-1-1]" {
		t.Fatal(got)
	}
}

// 100,000 names nobody knows do not keep a letter from being taken, and each
// Take stays short.
func TestFloodedMailbox(t *testing.T) {
	n := 20000
	if testing.Short() {
		n = 5000
	}
	x := newBoxes(t)
	for i := range n {
		if err := os.WriteFile(x.in("new", fmt.Sprintf("junk-%d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.a.Put(t.Context(), "b", nameOf(1), []byte("x")); err != nil {
		t.Fatal(err)
	}
	// By an event's hint at once, however full it is.
	x.b.hint(nameOf(1).String())
	got := 0
	count := func(Name, []byte) error { got++; return nil }
	more, err := x.b.Take(count)
	if err != nil || got != 1 {
		t.Fatal(got, err)
	}
	// And without a hint, when the scan comes to it: one that began before is
	// finished first.
	all := func() (takes int) {
		t.Helper()
		for more := true; more; takes++ {
			if more, err = x.b.Take(count); err != nil {
				t.Fatal(err)
			}
		}
		return takes
	}
	if more {
		all()
	}
	if err := x.a.Put(t.Context(), "b", nameOf(2), []byte("x")); err != nil {
		t.Fatal(err)
	}
	x.b.mu.Lock()
	x.b.scanAt = time.Time{}
	x.b.mu.Unlock()
	x.b.Wake()
	takes := all()
	if got != 2 || takes < n/(scanBatch+listPiece) {
		t.Fatalf("%d letters in %d takes", got, takes)
	}
	x.mustLog(EventUnknownName, fmt.Sprint(n))
	// The next scan is put off: it was expensive.
	x.b.Wake()
	if x.b.scanDue() {
		t.Fatal("a full scan right after another")
	}
}
