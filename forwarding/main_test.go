package forwarding

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// helpers are what this test binary can be instead of running tests.
var helpers = map[string]func() error{}

const helperEnv = "FORWARDING_HELPER"

func TestMain(m *testing.M) {
	if f := helpers[os.Getenv(helperEnv)]; f != nil {
		if err := f(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if helperDir != "" {
			os.RemoveAll(helperDir)
		}
		os.Exit(code)
	}))
}
