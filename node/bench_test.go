package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"permd/api/hookwire"
	"permd/clients/claude"
	"permd/internal/host"
	"permd/session"
)

// BenchmarkGate is what a node adds to a call that policy allows: the time
// from the hook's connection to its answer, the durable record included.
func BenchmarkGate(b *testing.B) {
	root, err := os.MkdirTemp("/tmp", "nb")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(root)
	d, err := session.Find(root)
	if err != nil {
		b.Fatal(err)
	}
	work := filepath.Join(root, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		b.Fatal(err)
	}
	start, err := host.StartTime(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- Run(ctx, Config{Dirs: d, PID: os.Getpid(), Start: start, Codec: claude.Codec{}, Settings: Defaults(), Started: func() { close(ready) }})
	}()
	select {
	case <-ready:
	case err := <-done:
		b.Fatal(err)
	}
	sock := d.Node(session.NodeID(os.Getpid(), start)).Sock()
	n := 0
	call := func() {
		n++
		in := fmt.Sprintf(`{"session_id":"s","cwd":%q,"permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"git status"},"tool_use_id":"t%d"}`, work, n)
		req := hookwire.Request{Client: "claude", Gate: true, PID: os.Getpid(), PPID: os.Getppid(), Cwd: work, Stdin: []byte(in)}
		head, err := req.AppendHead(nil)
		if err != nil {
			b.Fatal(err)
		}
		c, err := net.Dial("unix", sock)
		if err != nil {
			b.Fatal(err)
		}
		c.Write(append(head, in...))
		out, err := io.ReadAll(c)
		c.Close()
		if err != nil || len(out) < 50 {
			b.Fatalf("%s %v", out, err)
		}
	}
	call()
	b.ResetTimer()
	for b.Loop() {
		call()
	}
	b.StopTimer()
	stop()
	<-done
}
