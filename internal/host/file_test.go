package host

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

func wantFileError(t *testing.T, err error, problem string) {
	t.Helper()
	var typed *FileError
	if !errors.As(err, &typed) || !strings.Contains(err.Error(), problem) {
		t.Errorf("error %v, want one that says %q", err, problem)
	}
}

func openRoot(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func TestOpenPrivate(t *testing.T) {
	base := t.TempDir()
	root := openRoot(t, base)
	fifo := func(name string) string {
		if err := syscall.Mkfifo(filepath.Join(base, name), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	touch(t, 0o600, base, "good")
	touch(t, 0o600, base, "two names")
	if err := os.Link(filepath.Join(base, "two names"), filepath.Join(base, "other name")); err != nil {
		t.Fatal(err)
	}
	mkdir(t, 0o700, base, "dir")
	touch(t, 0o600, base, "dir", "inner")
	outside := touch(t, 0o600, t.TempDir(), "outside")
	for _, c := range []struct {
		name    string
		limit   int64
		problem string
	}{
		{"good", 7, ""},
		{"good", 1 << 40, ""},
		{"dir/inner", 100, ""},
		{filepath.Base(touch(t, 0o400, base, "read only")), 100, ""},
		{filepath.Base(touch(t, 0o644, base, "others may read")), 100, ""},
		{"good", 6, "is larger than 6 bytes"},
		{"good", 0, "is larger than 0 bytes"},
		{"two names", 100, "has 2 names"},
		{filepath.Base(touch(t, 0o620, base, "group may write")), 100, "has mode 0620"},
		{filepath.Base(touch(t, 0o602, base, "others may write")), 100, "has mode 0602"},
		{filepath.Base(symlink(t, "good", base, "link")), 100, "is a symbolic link"},
		{filepath.Base(symlink(t, outside, base, "link out")), 100, "is a symbolic link"},
		{filepath.Base(symlink(t, "nowhere", base, "dangling")), 100, "is a symbolic link"},
		{fifo("fifo"), 100, "is not a regular file"},
		{"dir", 100, "is not a regular file"},
		{".", 100, "is not a regular file"},
		{"missing", 100, "no such file"},
		{"good/x", 100, "not a directory"},
		{outside, 100, "escapes"},
		{"../" + filepath.Base(base) + "/good", 100, "escapes"},
		{"", 100, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, err := OpenPrivate(root, c.name, c.limit)
			if c.problem == "" {
				if err != nil || string(data) != "content" {
					t.Errorf("%q, %v", data, err)
				}
				return
			}
			wantFileError(t, err, c.problem)
			if data != nil {
				t.Errorf("refused, and gave %q", data)
			}
			if missing := c.name == "missing"; missing && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v is not os.ErrNotExist", err)
			}
		})
	}
	t.Run("another user's", func(t *testing.T) {
		path := foreign(t, touch(t, 0o644, base, "foreign"))
		_, err := OpenPrivate(openRoot(t, filepath.Dir(path)), filepath.Base(path), 1<<20)
		wantFileError(t, err, "belongs to uid")
	})
	t.Run("a link on the way out", func(t *testing.T) {
		symlink(t, filepath.Dir(outside), base, "way out")
		_, err := OpenPrivate(root, "way out/outside", 100)
		wantFileError(t, err, "escapes")
	})
}

func TestErrorsQuoteNames(t *testing.T) {
	_, err := OpenPrivate(openRoot(t, t.TempDir()), "a\x1b[31m\nb", 10)
	if text := err.Error(); strings.ContainsAny(text, "\x1b\n") {
		t.Errorf("%q shows control characters", text)
	}
}

// The size is a hint: a file may grow between the look and the read, and a
// read may give less than was asked for.
func TestReadLimited(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 100)
	for _, size := range []int64{0, 1, 999, 1000, 1001} {
		for _, limit := range []int64{0, 10, 999, 1000, 1001, 5000} {
			got, err := readLimited(iotest.HalfReader(bytes.NewReader(content)), "f", size, limit)
			if limit < 1000 {
				wantFileError(t, err, "is larger than")
				continue
			}
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("size %d, limit %d: %d bytes, %v", size, limit, len(got), err)
			}
		}
	}
	if _, err := readLimited(iotest.ErrReader(syscall.EIO), "f", 10, 10); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
}

// A link that takes the place of the file that was looked at is not followed.
func TestOpenPrivateSwappedForALink(t *testing.T) {
	base := t.TempDir()
	root := openRoot(t, base)
	touch(t, 0o600, base, "file")
	touch(t, 0o600, base, "other")
	named, err := root.Lstat("file")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := readNamed(root, "file", named, 100); err != nil || string(data) != "content" {
		t.Fatalf("%q, %v", data, err)
	}
	symlink(t, "other", base, "link")
	if err := os.Rename(filepath.Join(base, "link"), filepath.Join(base, "file")); err != nil {
		t.Fatal(err)
	}
	if data, err := readNamed(root, "file", named, 100); data != nil || err != errReplaced {
		t.Errorf("%q, %v", data, err)
	}
	_, err = OpenPrivate(root, "file", 100)
	wantFileError(t, err, "is a symbolic link")
}
