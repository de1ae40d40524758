package host

import (
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

// helpers are what this test binary does when it is started as a child.
var helpers = map[string]func(args []string) int{}

func TestMain(m *testing.M) {
	if name := os.Getenv("HOST_TEST_HELPER"); name != "" {
		os.Exit(helpers[name](os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// helper is this test binary, started as a child that runs one of helpers.
func helper(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "HOST_TEST_HELPER="+name)
	cmd.Stderr = os.Stderr
	return cmd
}
