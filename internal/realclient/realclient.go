// Package realclient runs the real agent client in tests: it finds or installs
// the pinned program, gives it a home, a configuration and a project of its own,
// points it at the stand-in model on loopback, and drives it headless or in a
// terminal. Only tests use it.
//
// It promises: a client never sees the caller's home, configuration, keys or
// network (any address but loopback is refused at once by a closed proxy); what
// a rig started has ended when its test has; parallel test packages install the
// client once. On a developer's machine a client that cannot be had skips the
// test and says why; with CI=true that is a failure, since a skipped proof is
// no proof.
//
// It does not promise to run on systems for which no client is pinned.
package realclient

import (
	"context"
	"os"
	"testing"
	"time"
)

// ClaudeVersion is the release of Claude Code that the tests are proved with.
const ClaudeVersion = "2.1.332"

// installTime bounds finding the client, its download included.
const installTime = 8 * time.Minute

// Client is an installed agent program.
type Client struct {
	Path    string // absolute path of the program
	Version string // as the program prints it, for example "2.1.332"
}

// Claude is Claude Code. It is installed into the cache when it is not there
// yet; when it cannot be had the test is skipped, or failed with CI=true.
func Claude(t testing.TB) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	c, err := Find(ctx)
	if err != nil {
		Missing(t, err.Error())
	}
	return c
}

// Missing ends the test because something it needs is not on this machine: a
// skip for a developer, a failure with CI=true.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI must not skip: %s", reason)
	}
	t.Skip(reason)
}
