package host

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// helpers are what this test binary does when it is started as a child.
var helpers = map[string]func(args []string) int{}

func TestMain(m *testing.M) {
	if name := os.Getenv("HOST_TEST_HELPER"); name != "" {
		os.Exit(helpers[name](os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// testBinary is the way to this test binary that a plain user has, too.
func testBinary() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe"
	}
	return os.Args[0]
}

// helper is this test binary, started as a child that runs one of helpers.
func helper(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(testBinary(), args...)
	cmd.Env = append(os.Environ(), "HOST_TEST_HELPER="+name, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

func shortContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Millisecond)
}

func getsid(pid int) (int, error) { return unix.Getsid(pid) }

// socketPair is two connected unix sockets as files.
func socketPair(t *testing.T) (a, b *os.File) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
}

// plainUser is nobody, whom TestAsPlainUser runs as.
const plainUser = 65534

// plain says that this is the run within TestAsPlainUser.
func plain() bool { return os.Getenv("HOST_TEST_PLAIN") != "" }

// File modes and peers mean little to root, which may do everything: all tests
// run once more as a plain user.
func TestAsPlainUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this run is a plain user's")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the test binary is only reached through /proc")
	}
	tmp, err := os.MkdirTemp("", "host")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	if err := os.Chown(tmp, plainUser, plainUser); err != nil {
		t.Fatal(err)
	}
	// The binary lies in a directory that is root's alone.
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.timeout=120s")
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "HOST_TEST_PLAIN=1", "TMPDIR="+tmp, "GOCOVERDIR=", "HOME="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: plainUser, Gid: plainUser}}
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "--- FAIL") || strings.Contains(line, "--- SKIP") || err != nil {
			t.Log(strings.TrimRight(line, "\n"))
		}
	}
	if err != nil {
		t.Errorf("as uid %d: %v", plainUser, err)
	}
	if passed := strings.Count(string(out), "\n--- PASS"); passed < 30 {
		t.Errorf("only %d tests passed", passed)
	}
}
