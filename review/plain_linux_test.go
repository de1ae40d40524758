package review

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Modes mean little to root: what depends on them runs once more as nobody.
func TestAsPlainUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this run is a plain user's")
	}
	const nobody = 65534
	tmp, err := os.MkdirTemp("", "review")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	if err := os.Chown(tmp, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	// The binary lies in a directory that is root's alone.
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.short",
		"-test.run", "^(TestLog|TestOne|TestOpen|TestTorn|TestT13Log|TestT1Killed|TestMany|TestForeign|TestEverything|TestKey|TestUnreadable|TestUnwritable)")
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp, "GOCOVERDIR=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if passed := strings.Count(string(out), "\n--- PASS"); err != nil || passed < 14 {
		t.Errorf("as uid %d: %d passed, %v\n%s", nobody, passed, err, out)
	}
}

// A directory that is not ours to write, or anybody's: an error, no log.
func TestUnwritableDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		return // root may write everywhere; TestAsPlainUser runs this
	}
	for _, mode := range []os.FileMode{0o500, 0o777, 0o750} {
		dir := stateDir(t)
		mustClose(t, mustOpen(t, options(dir, "n0")))
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if l, err := Open(options(dir, "n1")); err == nil {
			l.Close()
			t.Errorf("mode %o: opened", mode)
		}
		os.Chmod(dir, 0o700)
	}
	dir := stateDir(t)
	l := mustOpen(t, options(dir, "n1"))
	at := dir + "/n1/" + fileName(1)
	mustClose(t, l)
	if err := os.Chmod(at, 0); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(options(dir, "n1")); err == nil {
		l.Close()
		t.Error("a file without rights was opened")
	}
}
