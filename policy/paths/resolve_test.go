package paths

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	proj = "/home/dev/proj"
	home = "/home/dev"
)

func links(pairs ...string) Fixed {
	f := Fixed{Links: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		f.Links[pairs[i]] = pairs[i+1]
	}
	return f
}

func TestPlace(t *testing.T) {
	view := links(
		proj+"/outbox", "/srv/outside",
		proj+"/current", "v2",
		proj+"/up", "..",
		proj+"/a", proj+"/b", proj+"/b", proj+"/a",
		proj+"/secretlink", "/etc/shadow",
		"/tmp", "/private/tmp",
	)
	view.RootLinks = []string{"/tmp"}
	for _, c := range []struct{ name, given, real, doubt string }{
		{"src/a.go", proj + "/src/a.go", proj + "/src/a.go", ""},
		{"/etc/hosts", "/etc/hosts", "/etc/hosts", ""},
		{".", proj, proj, ""},
		{"./src/../x", proj + "/x", proj + "/x", ""},
		{"../.ssh/id", home + "/.ssh/id", home + "/.ssh/id", ""},
		{"/../../etc//passwd/", "/etc/passwd", "/etc/passwd", ""},
		{"~", home, home, ""},
		{"~/x", home + "/x", home + "/x", ""},
		{"~+/x", proj + "/x", proj + "/x", ""},
		{"~root/x", proj + "/~root/x", proj + "/~root/x", "another user's home directory"},
		{"", proj, proj, "no file name"},
		{"a\x00b", proj, proj, "no file name"},
		{strings.Repeat("a/", 3000), proj, proj, "the name is too long"},
		{"outbox/escaped.txt", proj + "/outbox/escaped.txt", "/srv/outside/escaped.txt", ""},
		{"current/a.txt", proj + "/current/a.txt", proj + "/v2/a.txt", ""},
		{"up/x", proj + "/up/x", home + "/x", ""},
		{"a/x", proj + "/a/x", proj + "/a/x", "too many links"},
		{"secretlink", proj + "/secretlink", "/etc/shadow", ""},
		{"/tmp/x", "/tmp/x", "/private/tmp/x", ""},
		{"/proc/self/root/etc/shadow", "/proc/self/root/etc/shadow", "/etc/shadow", ""},
		{"/proc/self/root/tmp/x", "/proc/self/root/tmp/x", "/private/tmp/x", ""},
		{"/proc/thread-self/root/etc/shadow", "/proc/thread-self/root/etc/shadow", "/etc/shadow", ""},
		{"/proc/self/task/12/root/etc/shadow", "/proc/self/task/12/root/etc/shadow", "/etc/shadow", ""},
		{"/proc/self/cwd/outbox/x", "/proc/self/cwd/outbox/x", "/srv/outside/x", ""},
		{"/proc/self/cwd", "/proc/self/cwd", proj, ""},
		{"/proc/1/root/etc/shadow", "/proc/1/root/etc/shadow", "/etc/shadow", "the root directory of another process"},
		{"/proc/1/cwd/x", "/proc/1/cwd/x", proj + "/x", "the directory of another process"},
		{"/proc/self/fd/3", "/proc/self/fd/3", "/proc/self/fd/3", "an open file or the memory of a process"},
		{"/proc/77/environ", "/proc/77/environ", "/proc/77/environ", "an open file or the memory of a process"},
		{"/dev/fd/3", "/dev/fd/3", "/dev/fd/3", "an open file of the process"},
		{"/dev/stdin", "/dev/stdin", "/dev/stdin", "an open file of the process"},
		{"/dev/null", "/dev/null", "/dev/null", ""},
		{"/proc/cpuinfo", "/proc/cpuinfo", "/proc/cpuinfo", ""},
		{"/proc/self/status", "/proc/self/status", "/proc/self/status", ""},
	} {
		r := NewResolver(view, proj, home)
		p := r.Places(c.name, "")[0]
		if p.Given != c.given || p.Real != c.real || p.Doubt != c.doubt {
			t.Errorf("%q: got %+v, want %q %q %q", c.name, p, c.given, c.real, c.doubt)
		}
	}
}

func TestTwoPlacesOfDotsBehindALink(t *testing.T) {
	r := NewResolver(links(proj+"/out", "/srv/deep/down"), proj, home)
	got := r.Places("out/../x", "")
	if len(got) != 2 || got[0].Real != proj+"/x" || got[1].Real != "/srv/deep/x" {
		t.Fatalf("got %+v; the text says proj/x, the kernel walks to /srv/deep/x", got)
	}
	if got := r.Places("src/../x", ""); len(got) != 1 {
		t.Fatalf("no link, yet %+v", got)
	}
}

func TestRelativeToAnotherDirectory(t *testing.T) {
	r := NewResolver(links(), proj, home)
	if p := r.Places("../x", "/etc/ssh")[0]; p.Real != "/etc/x" || !p.Sure() {
		t.Fatalf("got %+v", p)
	}
	if p := NewResolver(links(), "", home).Places("x", "")[0]; p.Sure() {
		t.Fatalf("sure of a relative name without a directory: %+v", p)
	}
	if p := NewResolver(nil, proj, home).Places("x", "")[0]; p.Sure() {
		t.Fatalf("sure without a file system: %+v", p)
	}
	if p := NewResolver(links(), proj, "").Places("~/x", "")[0]; p.Sure() {
		t.Fatalf("sure of ~ without a home: %+v", p)
	}
}

func TestTrustedFollowsOnlyLinksOfRoot(t *testing.T) {
	view := links("/tmp", "/private/tmp", "/private/tmp/mine", "/etc")
	view.RootLinks = []string{"/tmp"}
	p := NewResolver(view, proj, home).Place("/tmp/mine/shadow")
	if p.Real != "/etc/shadow" || p.Trusted != "/private/tmp/mine/shadow" {
		t.Fatalf("got %+v", p)
	}
}

// failing answers every name below a directory with an error.
type failing struct {
	Fixed
	below string
	err   error
}

func (f failing) Readlink(name string) (string, bool, error) {
	if name != f.below && Under(f.below, name) {
		return "", false, f.err
	}
	return f.Fixed.Readlink(name)
}

func TestErrorsOfTheFileSystem(t *testing.T) {
	for _, c := range []struct {
		err  error
		sure bool
	}{{fs.ErrNotExist, true}, {fs.ErrPermission, false}, {errors.New("input/output error"), false}} {
		r := NewResolver(failing{links(), proj + "/d", c.err}, proj, home)
		p := r.Place("d/x/../y")
		if p.Sure() != c.sure || p.Real != proj+"/d/y" {
			t.Errorf("%v: got %+v, want sure %v", c.err, p, c.sure)
		}
	}
}

func TestKnownDirectoriesChangeNothing(t *testing.T) {
	view := links(home+"/proj", "/data/proj", "/data/proj/out", "/srv")
	for _, name := range []string{"x", "out/x", "/home/dev/proj/out/../x", "/home/dev/projx", "~/y", "/data/proj/x"} {
		plain := NewResolver(view, proj, home)
		warm := NewResolver(view, proj, home)
		warm.Dir(proj)
		warm.Dir(home)
		warm.Dir("/data")
		want, got := plain.Places(name, ""), warm.Places(name, "")
		if len(want) != len(got) || want[0] != got[0] {
			t.Errorf("%q: %+v, with memory %+v", name, want, got)
		}
	}
}

func TestProject(t *testing.T) {
	view := links("/srv/tohome", home, "/srv/toroot", "/")
	for _, c := range []struct {
		dir string
		ok  bool
	}{
		{proj, true}, {"/srv/app", true}, {"/home/devil", true},
		{"", false}, {"proj", false}, {"/", false}, {"/home", false}, {home, false}, {home + "/", false},
		{"/srv/tohome", false}, {"/srv/toroot", false}, {"/home/dev/x/..", false},
	} {
		r := NewResolver(view, proj, home)
		p, err := r.Project(c.dir)
		if (err == nil) != c.ok {
			t.Errorf("%q: %+v, %v", c.dir, p, err)
		}
		if err != nil && (!errors.Is(err, ErrAnchor) || p.Given != "") {
			t.Errorf("%q: %+v, %v", c.dir, p, err)
		}
	}
}

func TestInsideAndOutside(t *testing.T) {
	view := links(proj+"/out", "/srv", "/work", proj, proj+"/in", "src")
	r := NewResolver(view, proj, home)
	at, err := r.Project(proj)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name                string
		inside, maybeBeyond bool
	}{
		{"a", true, false}, {".", true, false}, {"in/a", true, false}, {"/proc/self/cwd/a", false, true},
		{"out/a", false, true}, {"../projx/a", false, true}, {"/home/dev/proj-secrets/k", false, true},
		{"/work/a", false, true}, {"/etc/passwd", false, true}, {"~x/a", false, false},
	} {
		p := r.Places(c.name, "")[0]
		if got := Inside(at, p); got != c.inside {
			t.Errorf("%q inside %v: %+v", c.name, got, p)
		}
		if got := MayBeOutside(at, p); got != c.maybeBeyond {
			t.Errorf("%q may be outside %v: %+v", c.name, got, p)
		}
	}
	if Inside(Place{}, r.Place("a")) || !MayBeOutside(Place{}, r.Place("a")) {
		t.Error("without a project something is inside")
	}
	linked := NewResolver(links("/tmp", "/private/tmp"), "/tmp/work", home)
	root, err := linked.Project("/tmp/work")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/tmp/work/a", "/private/tmp/work/a", "a"} {
		if !Inside(root, linked.Place(name)) {
			t.Errorf("%q is not inside a project that is reached by a link", name)
		}
	}
}

// The walk agrees with the kernel on trees of directories, files and links.
func TestAgreesWithTheKernel(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		root := filepath.Join(base, strings.Repeat("r", 1+n%3), rapid.StringMatching(`[a-z]{12}`).Draw(t, "root"))
		names := []string{"a", "b", "c", "a/x", "b/y", "a/x/z"}
		for _, name := range names {
			at := filepath.Join(root, name)
			switch rapid.IntRange(0, 3).Draw(t, "kind of "+name) {
			case 0:
				_ = os.MkdirAll(at, 0o700)
			case 1:
				_ = os.MkdirAll(filepath.Dir(at), 0o700)
				_ = os.WriteFile(at, nil, 0o600)
			case 2:
				_ = os.MkdirAll(filepath.Dir(at), 0o700)
				target := rapid.SampledFrom([]string{"a", "../b", root + "/c", "..", "gone", root, "a/x"}).Draw(t, "target")
				_ = os.Symlink(target, at)
			}
		}
		defer os.RemoveAll(root)
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "x", "y", "z", "..", "."}), 1, 5).Draw(t, "name")
		name := root + "/" + strings.Join(parts, "/")
		want, err := filepath.EvalSymlinks(name)
		if err != nil {
			return // it does not exist: the kernel has no answer
		}
		r := NewResolver(Disk{}, base, "")
		r.Dir(base)
		got := r.Places(name, "")
		if last := got[len(got)-1]; last.Real != want || !last.Sure() {
			t.Fatalf("%s: got %+v, the kernel says %s", name, got, want)
		}
	})
}

func TestDiskListAndSum(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("hello"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	names, more, err := Disk{}.List(dir, 10)
	if err != nil || more || len(names) != 4 || strings.Count(strings.Join(names, " "), "/") != 1 {
		t.Fatalf("%q %v %v", names, more, err)
	}
	if _, more, _ := (Disk{}).List(dir, 2); !more {
		t.Error("two of four names, and nothing was left out")
	}
	if _, _, err := (Disk{}).List(filepath.Join(dir, "a"), 2); err == nil {
		t.Error("listed a file")
	}
	if _, err := (Disk{}).Sum(filepath.Join(dir, "a"), 5); err != nil {
		t.Error(err)
	}
	for _, n := range []string{"d", "l", "gone"} {
		if _, err := (Disk{}).Sum(filepath.Join(dir, n), 5); err == nil {
			t.Errorf("summed %s", n)
		}
	}
	if _, err := (Disk{}).Sum(filepath.Join(dir, "a"), 4); err == nil {
		t.Error("summed more than the limit")
	}
}

func BenchmarkPlace(b *testing.B) {
	cwd, err := os.Getwd()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r := NewResolver(Disk{}, cwd, "")
		r.Dir(cwd)
		r.Place("resolve.go")
	}
}
