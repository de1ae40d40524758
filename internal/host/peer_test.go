package host

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

func init() {
	// dial connects and stays until its input ends.
	helpers["dial"] = dialHelper
	helpers["dial hidden"] = func(args []string) int {
		if HideMemory() != nil {
			return 1
		}
		return dialHelper(args)
	}
	// dial and bequeath: the connection goes to a child, the one who made it
	// ends.
	helpers["dial and bequeath"] = func(args []string) int {
		c, err := net.Dial("unix", args[0])
		if err != nil {
			return 1
		}
		f, err := c.(*net.UnixConn).File()
		if err != nil {
			return 1
		}
		cmd := exec.Command("cat")
		cmd.Stdin = os.Stdin
		cmd.ExtraFiles = []*os.File{f}
		if cmd.Start() != nil {
			return 1
		}
		return 0
	}
}

func dialHelper(args []string) int {
	c, err := net.Dial("unix", args[0])
	if err != nil {
		return 1
	}
	defer c.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.(*net.UnixListener)
}

func accept(t *testing.T, l *net.UnixListener) *net.UnixConn {
	t.Helper()
	deadline, _ := soon(t).Deadline()
	if err := l.SetDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	c, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// dialer is a child that runs one of the dial helpers and ends with stdin.
func dialer(t *testing.T, name, path string) (*exec.Cmd, io.Closer) {
	t.Helper()
	cmd := helper(t, name, path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	return cmd, stdin
}

func socketPath(t *testing.T) string {
	t.Helper()
	// A test's own directory has a long name.
	dir, err := os.MkdirTemp("", "h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func TestPeerOfAnotherProcess(t *testing.T) {
	for _, name := range []string{"dial", "dial hidden"} {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			l := listen(t, path)
			cmd, _ := dialer(t, name, path)
			p, err := PeerOf(accept(t, l))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if p.PID != cmd.Process.Pid || p.UID != uint32(os.Getuid()) || p.GID != uint32(os.Getgid()) {
				t.Errorf("peer %+v, child %d", p, cmd.Process.Pid)
			}
			want := open(t, cmd.Process.Pid)
			if p.Process().ID() != want.ID() || !p.Process().Alive() {
				t.Errorf("process %v, want %v", p.Process().ID(), want.ID())
			}
			me := open(t, os.Getpid())
			if yes, err := p.Process().Descends(me.PID(), me.StartTime()); !yes || err != nil {
				t.Errorf("child descends: %v, %v", yes, err)
			}
			_ = cmd.Process.Kill()
			if err := p.Process().Wait(soon(t)); err != nil {
				t.Error(err)
			}
			if yes, err := p.Process().Descends(me.PID(), me.StartTime()); yes || !errors.Is(err, ErrNoProcess) {
				t.Errorf("a child that ended descends: %v, %v", yes, err)
			}
		})
	}
}

func TestPeerOfBothEnds(t *testing.T) {
	path := socketPath(t)
	l := listen(t, path)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, end := range []*net.UnixConn{accept(t, l), c.(*net.UnixConn)} {
		p, err := PeerOf(end)
		if err != nil {
			t.Fatal(err)
		}
		if p.PID != os.Getpid() || p.UID != uint32(os.Getuid()) {
			t.Errorf("peer %+v", p)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if p.Process().Alive() {
			t.Error("alive after Close")
		}
	}
}

// A peer that ended before it was asked about is nobody, whether it was reaped
// or not and whoever has its connection now.
func TestPeerThatEnded(t *testing.T) {
	for _, c := range []struct {
		name, helper string
		reaped       bool
	}{
		{"zombie", "dial", false},
		{"reaped", "dial", true},
		{"connection handed on", "dial and bequeath", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := socketPath(t)
			l := listen(t, path)
			cmd, stdin := dialer(t, c.helper, path)
			p := open(t, cmd.Process.Pid)
			conn := accept(t, l)
			if c.helper == "dial" {
				_ = cmd.Process.Kill()
			}
			if err := p.Wait(soon(t)); err != nil {
				t.Fatal(err)
			}
			if c.reaped {
				_, _ = cmd.Process.Wait()
			}
			if peer, err := PeerOf(conn); peer != nil || !errors.Is(err, ErrNoProcess) {
				t.Errorf("peer %+v, %v; want ErrNoProcess", peer, err)
			}
			_ = stdin.Close()
		})
	}
}

func TestPeerOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("only root on Linux can start another user's process and give it a socket without a directory")
	}
	path := "@permd-host-test-" + TempName()
	l := listen(t, path)
	cmd := helper(t, "dial", path)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: plainUser, Gid: 65533}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	p, err := PeerOf(accept(t, l))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.UID != plainUser || p.GID != 65533 || p.PID != cmd.Process.Pid {
		t.Errorf("peer %+v", p)
	}
}

func TestPeerOfWhatIsNoUnixSocket(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if p, err := PeerOf(r); p != nil || err == nil {
		t.Errorf("a pipe's peer is %+v", p)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if p, err := PeerOf(c.(*net.TCPConn)); p != nil || err == nil {
		t.Errorf("a TCP connection's peer is %+v", p)
	}
	u := listen(t, socketPath(t))
	if p, err := PeerOf(u); runtime.GOOS == "darwin" && (p != nil || err == nil) {
		t.Errorf("a listener's peer is %+v", p)
	} else if p != nil {
		// Linux names the one who listens.
		if p.PID != os.Getpid() {
			t.Errorf("a listener's peer is %+v", p)
		}
		_ = p.Close()
	}
	closed := accept(t, dialSelf(t))
	_ = closed.Close()
	if p, err := PeerOf(closed); p != nil || err == nil {
		t.Errorf("a closed connection's peer is %+v", p)
	}
}

func dialSelf(t *testing.T) *net.UnixListener {
	t.Helper()
	path := socketPath(t)
	l := listen(t, path)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return l
}
