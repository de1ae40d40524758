package heartbeat

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

func create(t *testing.T, dir string, key []byte) *Writer {
	t.Helper()
	w, err := Create(dir, Identity{Node: filepath.Base(dir), Instance: "i1", Boot: boot}, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func nodeDir(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "n1")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func beat(t *testing.T, w *Writer, up time.Duration, serving ...string) {
	t.Helper()
	if err := w.Beat(up, serving); err != nil {
		t.Fatal(err)
	}
}

func TestWriteRead(t *testing.T) {
	dir := nodeDir(t)
	w := create(t, dir, testKey)
	root := openRoot(t, dir)
	if _, err := Read(root, "n1", testKey); !errors.Is(err, ErrInvalid) {
		t.Fatalf("before the first beat: %v", err)
	}
	beat(t, w, time.Second, "b", "a", "b")
	b, err := Read(root, "n1", testKey)
	if err != nil {
		t.Fatal(err)
	}
	if b.Counter != 1 || b.Uptime() != time.Second || fmt.Sprint(b.Serving) != "[a b]" || b.Boot != boot || b.Resting {
		t.Fatalf("%+v", b)
	}
	if !b.Serves("a") || b.Serves("c") || b.Serves("") {
		t.Fatal("serving list is not read")
	}
	// Shorter and longer beats stand in the same file.
	beat(t, w, 2*time.Second)
	if b, err = Read(root, "n1", testKey); err != nil || b.Counter != 2 || len(b.Serving) != 0 {
		t.Fatalf("%+v, %v", b, err)
	}
	beat(t, w, 3*time.Second, "a", "b", "c", "d")
	if b, err = Read(root, "n1", testKey); err != nil || b.Counter != 3 || len(b.Serving) != 4 {
		t.Fatalf("%+v, %v", b, err)
	}
	if err := w.Rest(4*time.Second, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if b, err = Read(root, "n1", testKey); err != nil || !b.Resting || b.Counter != 4 {
		t.Fatalf("%+v, %v", b, err)
	}
	fi, err := os.Lstat(filepath.Join(dir, Name))
	if err != nil || fi.Mode() != 0o600 {
		t.Fatalf("%v, %v", fi.Mode(), err)
	}
	// Without the key the beat is read, with another it is foreign.
	if _, err := Read(root, "n1", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(root, "n1", []byte("other")); !errors.Is(err, ErrForeign) {
		t.Fatal(err)
	}
	if _, err := Read(root, "n2", testKey); !errors.Is(err, ErrInvalid) {
		t.Fatalf("beat of another directory: %v", err)
	}
}

func TestTooManySessionsAreCut(t *testing.T) {
	dir := nodeDir(t)
	w := create(t, dir, nil)
	list := make([]string, 5000)
	for i := range list {
		list[i] = fmt.Sprintf("claude-%057d", i)
	}
	beat(t, w, 1, list...)
	b, err := Read(openRoot(t, dir), "n1", nil)
	if err != nil || !b.Cut || len(b.Serving) < 3000 {
		t.Fatalf("cut %v, %d sessions, %v", b.Cut, len(b.Serving), err)
	}
}

func TestCreateRefusesBadIDs(t *testing.T) {
	for _, id := range []Identity{{"", "i", ""}, {"..", "i", ""}, {"n", "a/b", ""}, {"n", "", ""}} {
		if _, err := Create(t.TempDir(), id, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", id, err)
		}
	}
	if _, err := Create(filepath.Join(t.TempDir(), "missing"), Identity{"n", "i", ""}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
}

// What lies at the name when a node starts is never written through.
func TestCreateReplaces(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "victim")
	for name, plant := range map[string]func(string) error{
		"file":      func(p string) error { return os.WriteFile(p, []byte("old"), 0o644) },
		"symlink":   func(p string) error { return os.Symlink(outside, p) },
		"hard link": func(p string) error { return os.Link(outside, p) },
		"fifo":      func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"empty dir": func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(outside, []byte("victim"), 0o600); err != nil {
				t.Fatal(err)
			}
			dir := nodeDir(t)
			if err := plant(filepath.Join(dir, Name)); err != nil {
				t.Fatal(err)
			}
			w := create(t, dir, nil)
			beat(t, w, 1, "a")
			if _, err := Read(openRoot(t, dir), "n1", nil); err != nil {
				t.Fatal(err)
			}
			if b, _ := os.ReadFile(outside); string(b) != "victim" {
				t.Fatalf("victim holds %q", b)
			}
		})
	}
}

// T11: heartbeat file deleted or replaced, directory replaced.
func TestBeatMakesItsFileAnew(t *testing.T) {
	for name, harm := range map[string]func(dir string) error{
		"deleted":  func(dir string) error { return os.Remove(filepath.Join(dir, Name)) },
		"replaced": func(dir string) error { return swapFile(dir, "x") },
		"symlink": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, Name)), os.Symlink("lock", filepath.Join(dir, Name)))
		},
		"directory replaced": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := nodeDir(t)
			w := create(t, dir, nil)
			beat(t, w, 1, "a", "b")
			if err := harm(dir); err != nil {
				t.Fatal(err)
			}
			beat(t, w, 2, "a")
			b, err := Read(openRoot(t, dir), "n1", nil)
			if err != nil || b.Counter != 2 {
				t.Fatalf("%+v, %v", b, err)
			}
		})
	}
	t.Run("directory gone", func(t *testing.T) {
		dir := nodeDir(t)
		w := create(t, dir, nil)
		beat(t, w, 1)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := w.Beat(2, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	})
}

func swapFile(dir, text string) error {
	p := filepath.Join(dir, "new")
	return errors.Join(os.WriteFile(p, []byte(text), 0o600), os.Rename(p, filepath.Join(dir, Name)))
}

func TestReadRefuses(t *testing.T) {
	good, err := Encode(Beat{V: 1, Node: "n1", Instance: "i", Counter: 1, Serving: []string{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(p string) error{
		"missing":         func(string) error { return nil },
		"empty":           func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"symlink":         func(p string) error { return errors.Join(os.WriteFile(p+"2", good, 0o600), os.Symlink("beat2", p)) },
		"hard link":       func(p string) error { return errors.Join(os.WriteFile(p+"2", good, 0o600), os.Link(p+"2", p)) },
		"fifo":            func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"directory":       func(p string) error { return os.Mkdir(p, 0o700) },
		"world writable":  func(p string) error { return errors.Join(os.WriteFile(p, good, 0o600), os.Chmod(p, 0o666)) },
		"10 GB, sparse":   func(p string) error { return errors.Join(os.WriteFile(p, good, 0o600), os.Truncate(p, 10<<30)) },
		"torn for good":   func(p string) error { return os.WriteFile(p, good[:len(good)-3], 0o600) },
		"of another node": func(p string) error { return os.WriteFile(p, otherNode(t), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := nodeDir(t)
			if err := plant(filepath.Join(dir, Name)); err != nil {
				t.Fatal(err)
			}
			if b, err := Read(openRoot(t, dir), "n1", nil); err == nil {
				t.Fatalf("read %+v", b)
			}
		})
	}
}

func otherNode(t *testing.T) []byte {
	b, err := Encode(Beat{V: 1, Node: "n2", Instance: "i", Counter: 1, Serving: []string{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A reader beside a writer never sees half a beat, whatever its length.
func TestNoTornReads(t *testing.T) {
	dir := nodeDir(t)
	w := create(t, dir, testKey)
	long := make([]string, 1500)
	for i := range long {
		long[i] = fmt.Sprintf("claude-%04d-%04d", i, i)
	}
	beat(t, w, 1, long...)
	root := openRoot(t, dir)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for i := range 300 {
			if err := w.Beat(time.Duration(i), long[:(i*37)%len(long)]); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var last uint64
	reads := 0
	for open := true; open; reads++ {
		select {
		case <-done:
			open = false
		default:
		}
		b, err := Read(root, "n1", testKey)
		if errors.Is(err, ErrTorn) {
			continue // every try met a write: reported as such, and not used
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.Counter < last {
			t.Fatalf("counter went from %d back to %d", last, b.Counter)
		}
		last = b.Counter
	}
	wg.Wait()
	if last != 301 {
		t.Fatalf("last counter read is %d after %d reads", last, reads)
	}
}

func BenchmarkBeat(b *testing.B) {
	dir := b.TempDir()
	w, err := Create(dir, Identity{Node: "n1", Instance: "i1", Boot: boot}, testKey)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	serving := []string{"claude-1", "claude-2", "claude-3"}
	for b.Loop() {
		if err := w.Beat(time.Second, serving); err != nil {
			b.Fatal(err)
		}
	}
}
