//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// innerEnv marks a test that runs inside namespaces of its own.
const innerEnv = "PERMD_E2E_INNER"

// inner runs f in new namespaces: this test, alone, in a process of its own.
// Where the machine lets nobody make namespaces, f runs as it is, with inside
// false.
func inner(t *testing.T, flags uintptr, f func(t *testing.T, inside bool)) {
	t.Helper()
	if os.Getenv(innerEnv) == t.Name() {
		os.Unsetenv(innerEnv)
		f(t, true)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := Binaries(t)
	c := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	c.Env = append(os.Environ(), innerEnv+"="+t.Name(), binEnv+"="+bin)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags | syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}}
	out, err := c.CombinedOutput()
	if c.Process == nil {
		t.Logf("no namespaces here, so it runs without: %v", err)
		f(t, false)
		return
	}
	for line := range strings.Lines(string(out)) {
		if s := strings.TrimRight(line, "\n"); !strings.HasPrefix(s, "=== ") && s != "PASS" && !strings.HasPrefix(s, "--- PASS") {
			t.Log(s)
		}
	}
	if err != nil {
		t.Errorf("inside: %v", err)
	}
}
