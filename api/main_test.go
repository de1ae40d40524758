package api

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"permd/ask"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// pair is two ends of one unix connection.
func pair(t testing.TB) (*net.UnixConn, *net.UnixConn) {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.UnixConn), b.(*net.UnixConn)
}

// serve runs a listener with handle until the test ends, and returns its path.
func serve(t testing.TB, handle func(context.Context, *Incoming)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, handle)
	return path
}

func serveOn(t testing.TB, l *Listener, handle func(context.Context, *Incoming)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Serve(ctx, handle) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// welcomed does the server's handshake and fails the connection otherwise.
func welcomed(in *Incoming) (Hello, error) {
	return in.Conn.Accept(func(Hello) (Welcome, *Refused) {
		return Welcome{Node: "n1", Instance: "i1", Build: "server", Serving: []string{"s-1"}}, nil
	})
}

func sampleAsk(t testing.TB, id string) *ask.Ask {
	t.Helper()
	a, err := ask.Seal(ask.Body{
		ID: id, Origin: ask.OriginGate, From: ask.Who{Session: "s-1", Client: "claude"}, Title: "Run a command",
		Action: &ask.Action{Client: "claude", Tool: ask.ToolBash, ClientTool: "Bash", Input: []byte(`{"command":"make"}`), Cwd: "/p", Command: "make"},
		Items:  ask.PermissionItems("Allow?"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func wantRefused(t *testing.T, err error, code string) *Refused {
	t.Helper()
	var r *Refused
	if !errors.As(err, &r) || r.Code != code || r.Text == "" {
		t.Fatalf("got %#v (%v), want a refusal %q with words", r, err, code)
	}
	return r
}

// openFiles counts our descriptors, -1 where the system does not tell.
func openFiles() int {
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		if list, err := os.ReadDir(dir); err == nil {
			return len(list)
		}
	}
	return -1
}
