package host_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"permd/internal/host"
	"permd/internal/host/hosttest"
)

var (
	oldData = []byte("old")
	newData = bytes.Repeat([]byte("new "), 1000)
)

// onlyFile checks that dir holds name or nothing, and gives its content. With
// mayLeave there may be what could not be removed.
func onlyFile(t *testing.T, dir, name string, mayLeave bool) []byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != name && (!mayLeave || !strings.HasPrefix(e.Name(), host.TempPrefix)) {
			t.Errorf("%s was left behind", e.Name())
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return data
}

// Every operation of the write fails in turn, with each error, once and for
// long: the file is the old or the new one, whole, and nothing lies beside it.
func TestWriteFaultLoop(t *testing.T) {
	errnos := []syscall.Errno{syscall.EPERM, syscall.EACCES, syscall.EBUSY, syscall.EIO, syscall.ENOSPC, syscall.EROFS}
	for _, durable := range []bool{false, true} {
		for _, before := range [][]byte{nil, oldData} {
			for _, errno := range errnos {
				for times := 1; times <= 4; times += 3 {
					for at := 1; writeWithFault(t, durable, before, at, times, errno); at++ {
					}
				}
			}
		}
	}
}

// writeWithFault says whether operation number at was reached.
func writeWithFault(t *testing.T, durable bool, before []byte, at, times int, errno syscall.Errno) (reached bool) {
	t.Helper()
	dir := t.TempDir()
	target := filepath.Join(dir, "file")
	if before != nil {
		if err := os.WriteFile(target, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	files := &hosttest.Faults{Files: host.FilesOf(root), At: at, Times: times, Err: errno}
	// The pauses before another rename take no time in a bubble.
	synctest.Test(t, func(*testing.T) {
		err = host.WriteFiles(files, host.TempName(), "file", newData, 0o600, durable)
	})
	ops := files.Ops()
	reached = len(ops) >= at
	last := len(ops)
	stuck := last < at+times && strings.HasPrefix(ops[last-1], "remove")
	after := onlyFile(t, dir, "file", stuck)
	fail := func(text string) {
		t.Helper()
		t.Errorf("durable %v, before %q, %d × %v at %d: %s; error %v, operations %q",
			durable, before, times, errno, at, text, err, ops)
	}
	for _, op := range ops {
		if strings.HasPrefix(op, "create file") {
			fail("the file itself was written")
		}
	}
	if err == nil {
		if !bytes.Equal(after, newData) {
			fail("success, but not the new content")
		}
		if info, statErr := os.Stat(target); statErr != nil || info.Mode() != 0o600 {
			fail("mode " + info.Mode().String())
		}
		transient := errno == syscall.EPERM || errno == syscall.EACCES || errno == syscall.EBUSY
		if reached && (times > 1 || !transient || !strings.HasPrefix(ops[at-1], "rename")) {
			fail("success in spite of the fault")
		}
		return reached
	}
	var typed *host.FileError
	if !errors.Is(err, errno) || !errors.As(err, &typed) || typed.Name != "file" {
		fail("wrong error")
	}
	renamed := strings.HasPrefix(ops[at-1], "syncdir")
	if want := before; !renamed && !bytes.Equal(after, want) || renamed && !bytes.Equal(after, newData) {
		fail("content is neither")
	}
	return reached
}

// The reply to a rename was lost: what is there is whole all the same.
func TestWriteLateFaults(t *testing.T) {
	for at := 1; ; at++ {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if err := os.WriteFile(filepath.Join(dir, "file"), oldData, 0o600); err != nil {
			t.Fatal(err)
		}
		files := &hosttest.Faults{Files: host.FilesOf(root), At: at, Err: syscall.EIO, Late: true}
		err = host.WriteFiles(files, host.TempName(), "file", newData, 0o600, true)
		ops := files.Ops()
		if len(ops) < at {
			if err != nil {
				t.Errorf("no fault, error %v", err)
			}
			return
		}
		data, readErr := os.ReadFile(filepath.Join(dir, "file"))
		if readErr != nil || !bytes.Equal(data, oldData) && !bytes.Equal(data, newData) {
			t.Errorf("fault at %q: %d bytes, %v", ops[at-1], len(data), readErr)
		}
		if err == nil {
			t.Errorf("fault at %q: no error", ops[at-1])
		}
	}
}

func TestWriteAtomicReal(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sub/tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, durable := range []bool{false, true} {
		for _, data := range [][]byte{nil, oldData, newData} {
			if err := host.WriteAtomic(root, "sub/file", data, 0o600, durable); err != nil {
				t.Fatal(err)
			}
			if got, err := host.OpenPrivate(root, "sub/file", 1<<20); err != nil || !bytes.Equal(got, data) {
				t.Errorf("read %d bytes, %v, want %d", len(got), err, len(data))
			}
		}
	}
	// From one directory into another, as the mailbox does.
	if err := host.WriteFiles(host.FilesOf(root), "sub/tmp/x", "sub/file", oldData, 0o600, false); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "sub/tmp")); err != nil {
		t.Error(err)
	}
	if got := onlyFile(t, filepath.Join(dir, "sub"), "file", false); !bytes.Equal(got, oldData) {
		t.Errorf("content %q", got)
	}
	for _, name := range []string{"../file", "/file", "no/dir/file", "sub", ""} {
		if err := host.WriteAtomic(root, name, newData, 0o600, true); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	// A link at the target is replaced, never written through.
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, oldData, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := host.WriteAtomic(root, "link", newData, 0o600, false); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(outside); !bytes.Equal(got, oldData) {
		t.Error("written through a link")
	}
	if entries, _ := filepath.Glob(filepath.Join(dir, host.TempPrefix+"*")); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// Data before name before the directory: any other order shows an empty file
// after a power cut.
func TestWriteOrder(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.Mkdir("d", 0o700); err != nil {
		t.Fatal(err)
	}
	for durable, want := range map[bool]string{
		true:  "create d/t, write d/t, sync d/t, close d/t, rename d/t d/f, syncdir d",
		false: "create d/t, write d/t, close d/t, rename d/t d/f",
	} {
		files := &hosttest.Faults{Files: host.FilesOf(root)}
		if err := host.WriteFiles(files, "d/t", "d/f", newData, 0o600, durable); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(files.Ops(), ", "); got != want {
			t.Errorf("durable %v: %s\nwant %s", durable, got, want)
		}
	}
}

func TestReadersNeverSeeHalf(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	contents := [2][]byte{bytes.Repeat([]byte("a"), 64<<10), bytes.Repeat([]byte("b"), 128<<10)}
	write := func(i int) error { return host.WriteAtomic(root, "file", contents[i%2], 0o600, false) }
	if err := write(0); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range 100 {
				if err := write(i + w); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			got, err := host.OpenPrivate(root, "file", 1<<20)
			if err != nil || !bytes.Equal(got, contents[0]) && !bytes.Equal(got, contents[1]) {
				t.Errorf("read %d bytes, %v", len(got), err)
			}
		}
	})
	wg.Wait()
	close(done)
	readers.Wait()
}

func TestTempNamesDiffer(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				name := host.TempName()
				mu.Lock()
				if seen[name] || !strings.HasPrefix(name, host.TempPrefix) || len(name) > 80 {
					t.Errorf("name %q", name)
				}
				seen[name] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}
