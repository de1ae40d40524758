// Package install tests make install.
package install

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"permd/internal/realclient"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// makeInstall runs make install into prefix and gives what it printed.
func makeInstall(t *testing.T, prefix string, vars ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		realclient.Missing(t, "make is needed for make install")
	}
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"install", "PREFIX=" + prefix}, vars...)...)
	cmd.Dir = filepath.Join("..", "..")
	// An outer make must not pass its own flags and variables on.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=") || strings.HasPrefix(v, "DESTDIR=")
	})
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestBothProgramsSideBySide(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "with space")
	bin := filepath.Join(prefix, "bin")
	out, err := makeInstall(t, prefix)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, bin+"/permd-hook") || !strings.Contains(out, "add "+bin+" to PATH") {
		t.Errorf("make install says\n%s", out)
	}
	if got := names(t, bin); !slices.Equal(got, []string{"permd", "permd-hook"}) {
		t.Fatalf("installed %v", got)
	}
	for _, name := range names(t, bin) {
		st, err := os.Stat(filepath.Join(bin, name))
		if err != nil || st.Mode().Perm()&0o111 == 0 {
			t.Errorf("%s: mode %v, %v", name, st.Mode(), err)
		}
		static(t, filepath.Join(bin, name))
	}
	version, err := exec.Command(filepath.Join(bin, "permd"), "version").Output()
	if err != nil || !bytes.HasPrefix(version, []byte("permd ")) {
		t.Errorf("permd version prints %q, %v", version, err)
	}

	// An upgrade puts new files in the place of the old, which go on running.
	before := inodes(t, bin)
	if out, err := makeInstall(t, prefix); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	after := inodes(t, bin)
	for i := range before {
		if before[i] == after[i] {
			t.Errorf("file %d was written in place", i)
		}
	}
}

// static fails the test if a program needs libraries or names this machine's folders.
func static(t *testing.T, path string) {
	t.Helper()
	if runtime.GOOS == "linux" {
		f, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				t.Errorf("%s needs a dynamic linker", path)
			}
		}
	}
	source, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b, []byte(source+"/")) {
		t.Errorf("%s names the folder it was built in", path)
	}
}

func inodes(t *testing.T, dir string) (n []uint64) {
	t.Helper()
	for _, name := range names(t, dir) {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		n = append(n, uint64(st.Sys().(*syscall.Stat_t).Ino))
	}
	return n
}

func TestFailedBuildInstallsNothing(t *testing.T) {
	prefix := t.TempDir()
	out, err := makeInstall(t, prefix, "GO=false")
	if err == nil {
		t.Errorf("make install succeeded without a compiler:\n%s", out)
	}
	if got := names(t, filepath.Join(prefix, "bin")); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

func TestDestdirStandsBeforeThePrefix(t *testing.T) {
	stage := t.TempDir()
	if out, err := makeInstall(t, "/opt/permd", "DESTDIR="+stage); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := names(t, filepath.Join(stage, "opt", "permd", "bin")); !slices.Equal(got, []string{"permd", "permd-hook"}) {
		t.Errorf("installed %v", got)
	}
}
