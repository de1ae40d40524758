package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// wantDirError checks the problem and, where there is a remedy, that the text
// says it.
func wantDirError(t *testing.T, err error, problem string) {
	t.Helper()
	var typed *DirError
	if !errors.As(err, &typed) || !strings.Contains(typed.Problem+" "+err.Error(), problem) {
		t.Errorf("error %v, want one that says %q", err, problem)
		return
	}
	if typed.Err == nil && (typed.Remedy == "" || !strings.Contains(err.Error(), typed.Remedy)) {
		t.Errorf("%q has no remedy", err)
	}
}

func mkdir(t *testing.T, mode os.FileMode, elem ...string) string {
	t.Helper()
	name := filepath.Join(elem...)
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func symlink(t *testing.T, to string, elem ...string) string {
	t.Helper()
	name := filepath.Join(elem...)
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
	return name
}

func touch(t *testing.T, mode os.FileMode, elem ...string) string {
	t.Helper()
	name := filepath.Join(elem...)
	if err := os.WriteFile(name, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestCheckDir(t *testing.T) {
	base := t.TempDir()
	good := mkdir(t, 0o700, base, "good")
	open := mkdir(t, 0o777, base, "open")
	sticky := mkdir(t, 0o777|os.ModeSticky, base, "sticky")
	for _, c := range []struct {
		name, path string
		mode       os.FileMode
		problem    string
	}{
		{"private", good, 0o700, ""},
		{"private, with a slash", good + "/", 0o700, ""},
		{"narrower", mkdir(t, 0o500, base, "narrow"), 0o700, ""},
		{"as wide as asked", mkdir(t, 0o750, base, "group"), 0o750, ""},
		{"in a sticky directory", mkdir(t, 0o700, sticky, "in"), 0o700, ""},
		{"group may read", mkdir(t, 0o740, base, "r"), 0o700, "has mode 0740, wider than 0700; chmod 0700"},
		{"others may enter", mkdir(t, 0o701, base, "x"), 0o700, "has mode 0701"},
		{"wider than asked", mkdir(t, 0o755, base, "w"), 0o750, "has mode 0755, wider than 0750"},
		{"link to a good one", symlink(t, good, base, "link"), 0o700, "is a symbolic link"},
		{"link with a slash", filepath.Join(base, "link") + "/", 0o700, "is a symbolic link"},
		{"link with a dot", filepath.Join(base, "link") + "/.", 0o700, "is a symbolic link"},
		{"dangling link", symlink(t, "nowhere", base, "dangling"), 0o700, "is a symbolic link"},
		{"file", touch(t, 0o600, base, "file"), 0o700, "is not a directory"},
		{"below a file", filepath.Join(base, "file", "x"), 0o700, "not a directory"},
		{"missing", filepath.Join(base, "missing"), 0o700, "no such file"},
		{"anybody may replace it", mkdir(t, 0o700, open, "in"), 0o700, "lets every user replace"},
		{"another user's", foreign(t, mkdir(t, 0o700, base, "foreign")), 0o700, "belongs to uid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := CheckDir(c.path, c.mode)
			if c.problem == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantDirError(t, err, c.problem)
			if missing := c.name == "missing"; missing != errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v is os.ErrNotExist: %v", err, !missing)
			}
		})
	}
}

// foreign gives a path to another user; a plain user takes one that already
// belongs to root.
func foreign(t *testing.T, path string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		if fi, err := os.Stat(path); err == nil && fi.IsDir() {
			return "/usr"
		}
		return "/etc/passwd"
	}
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMakeDir(t *testing.T) {
	base := t.TempDir()
	deep := filepath.Join(base, "a", "b", "c")
	for range 2 {
		if err := MakeDir(deep); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"a", "a/b", "a/b/c"} {
		if fi, err := os.Lstat(filepath.Join(base, dir)); err != nil || fi.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", dir, fi.Mode(), err)
		}
	}
	// A link on the way to our own directory is how some homes look.
	home := symlink(t, mkdir(t, 0o755, base, "disk"), base, "home")
	if err := MakeDir(filepath.Join(home, "x")); err != nil {
		t.Error(err)
	}
}

func TestMakeDirRefuses(t *testing.T) {
	base := t.TempDir()
	wide := mkdir(t, 0o755, base, "wide")
	open := mkdir(t, 0o777|os.ModeSticky, base, "open")
	good := mkdir(t, 0o700, base, "good")
	for _, c := range []struct{ name, path, problem string }{
		{"too wide", wide, "wider than 0700"},
		{"link", symlink(t, good, base, "link"), "is a symbolic link"},
		{"dangling link on the way", filepath.Join(symlink(t, "nowhere", base, "dangling"), "x"), "no such file"},
		{"dangling link", filepath.Join(base, "dangling"), "is a symbolic link"},
		{"file on the way", filepath.Join(touch(t, 0o600, base, "file"), "x"), "not a directory"},
		{"in a directory for everyone", filepath.Join(open, "x", "y"), "is writable by every user"},
		{"in another user's", filepath.Join(foreign(t, mkdir(t, 0o755, base, "foreign")), "x"), "belongs to uid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantDirError(t, MakeDir(c.path), c.problem)
		})
	}
	for _, dir := range []string{wide, open, good} {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 0 {
			t.Errorf("%s holds %v, %v", dir, entries, err)
		}
	}
	if fi, err := os.Stat(wide); err != nil || fi.Mode().Perm() != 0o755 {
		t.Error("a directory that was refused was changed")
	}
	if _, err := os.Lstat(filepath.Join(base, "nowhere")); err == nil {
		t.Error("a dangling link was followed")
	}
}

func TestMakeDirRaces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "c", "d")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := MakeDir(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestMakeDirUnderAnyUmask(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	base := mkdir(t, 0o700, t.TempDir(), "base")
	dir := filepath.Join(base, "a", "b")
	if err := MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}
