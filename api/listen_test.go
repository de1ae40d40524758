package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"permd/api/hookwire"
	"permd/internal/host/peer"
)

func TestListenPutsASocketInPlaceComplete(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	if _, err := os.Lstat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("left over: %v", err)
	}
	if c, err := net.Dial("unix", path); err != nil {
		t.Fatal(err)
	} else {
		c.Close()
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("still there: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatalf("closed twice: %v", err)
	}
}

// The umask of the process is left alone: another goroutine may be making a
// directory that needs its execute bit.
func TestListenKeepsTheUmask(t *testing.T) {
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	l, err := Listen(filepath.Join(t.TempDir(), "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if now := syscall.Umask(0o022); now != 0o022 {
		t.Fatalf("umask is %o", now)
	}
}

func TestListenReplacesLeftovers(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, path string){
		"a dead socket": func(t *testing.T, path string) {
			ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
			if err != nil {
				t.Fatal(err)
			}
			ln.SetUnlinkOnClose(false)
			ln.Close()
		},
		"a file":    func(t *testing.T, path string) { os.WriteFile(path, []byte("x"), 0o600) },
		"a symlink": func(t *testing.T, path string) { os.Symlink("/etc/passwd", path) },
	} {
		for _, suffix := range []string{"", ".new"} {
			t.Run(name+suffix, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "sock")
				leave(t, path+suffix)
				l, err := Listen(path)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSocket == 0 {
					t.Fatalf("%v, %v", info, err)
				}
			})
		}
	}
	if info, err := os.Lstat("/etc/passwd"); err != nil || info.Mode()&os.ModeSocket != 0 {
		t.Fatal("wrote through the symlink")
	}
}

func TestListenRefuses(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	if err := os.MkdirAll(filepath.Join(sub, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"too long":     dir + "/" + strings.Repeat("s", MaxSocketPath-len(dir)),
		"no directory": filepath.Join(dir, "none", "sock"),
		"a directory":  sub,
	} {
		l, err := Listen(path)
		if err == nil {
			l.Close()
			t.Errorf("%s: listening", name)
			continue
		}
		if name == "too long" && !strings.Contains(err.Error(), "--root") {
			t.Errorf("no remedy: %v", err)
		}
		if _, err := os.Lstat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: left %s.new behind", name, path)
		}
	}
	longest := "/tmp/" + strings.Repeat("s", MaxSocketPath-len("/tmp/"))
	if err := checkSocketPath(longest); err != nil {
		t.Error(err)
	}
}

// A listener that ends late never takes its successor's socket away.
func TestCloseLeavesTheSuccessor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	first, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the successor is gone: %v", err)
	}
	c.Close()
}

func TestServeTellsTheDialects(t *testing.T) {
	got := make(chan string, 1)
	path := serve(t, func(_ context.Context, in *Incoming) {
		if in.Peer.PID != os.Getpid() {
			t.Errorf("peer %d", in.Peer.PID)
		}
		if in.Hook != (in.Conn == nil) {
			t.Error("a hook has no frames, a frame no hook")
		}
		if !in.Hook {
			h, err := welcomed(in)
			got <- fmt.Sprint("frames ", h.Role, err)
			return
		}
		b, err := io.ReadAll(in.Raw)
		got <- fmt.Sprintf("hook %q %v", b, err)
	})
	if w, err := Probe(context.Background(), path, "t"); err != nil || w.Node != "n1" {
		t.Fatalf("%+v, %v", w, err)
	}
	if s := <-got; s != "frames probe<nil>" {
		t.Fatal(s)
	}
	say := func(text string) *net.UnixConn {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		return c.(*net.UnixConn)
	}
	c := say("permd-hook/1\nrest")
	c.CloseWrite()
	if s := <-got; s != `hook "permd-hook/1\nrest" <nil>` {
		t.Fatal(s)
	}
	c.Close()
	// Neither dialect, and nothing at all.
	for _, text := range []string{"GET / HTTP/1.1\r\n", "\x01", "{", "P"} {
		c := say(text)
		if b, err := io.ReadAll(c); len(b) != 0 && err == nil {
			t.Fatalf("%q is answered with %q", text, b)
		}
		c.Close()
	}
	c = say("")
	c.CloseWrite()
	if b, _ := io.ReadAll(c); len(b) != 0 {
		t.Fatalf("%q", b)
	}
	c.Close()
	select {
	case s := <-got:
		t.Fatalf("served %s", s)
	default:
	}
	if firstHook != hookwire.First {
		t.Fatal("the hook's first byte is another one")
	}
}

func TestServeRefusesOtherPeers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	var served atomic.Int32
	why := errors.New("not this one")
	l.Check = func(p *peer.Peer) error { return why }
	serveOn(t, l, func(context.Context, *Incoming) { served.Add(1) })
	_, err = Probe(context.Background(), path, "")
	if r := wantRefused(t, err, CodePeer); r.Text != "not this one" {
		t.Fatal(r.Text)
	}
	// The same for one that says nothing, and for a hook.
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := NewConn(c).Read()
	if err != nil || f.T != TRefused {
		t.Fatalf("%v, %v", f, err)
	}
	if served.Load() != 0 {
		t.Fatal("served")
	}
}

func TestSameUser(t *testing.T) {
	if err := sameUser(&peer.Peer{UID: uint32(os.Geteuid())}); err != nil {
		t.Fatal(err)
	}
	r := wantRefused(t, sameUser(&peer.Peer{UID: uint32(os.Geteuid()) + 1}), CodePeer)
	if !strings.Contains(r.Text, fmt.Sprint(os.Geteuid()+1)) {
		t.Fatal(r.Text)
	}
}

// When the server ends, a handler that waits is freed at once and may still
// say its last word; one that will not end is cut off.
func TestServeEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l.drain = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	held := make(chan struct{}, 2)
	done := make(chan error, 1)
	go func() {
		done <- l.Serve(ctx, func(ctx context.Context, in *Incoming) {
			h, err := welcomed(in)
			if err != nil {
				t.Error(err)
				return
			}
			held <- struct{}{}
			_, err = in.Conn.Read()
			if ctx.Err() == nil {
				t.Errorf("read ended before the server: %v", err)
			}
			if h.Build == "stubborn" {
				in.Raw.SetReadDeadline(time.Time{})
				in.Conn.Read()
				return
			}
			in.Conn.Refuse(CodeUnavailable, "the node ends")
		})
	}()
	var conns []*Conn
	for _, build := range []string{"polite", "stubborn"} {
		c, _, err := Dial(context.Background(), path, Hello{Role: RoleControl, Build: build})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
		<-held
	}
	silent, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	cancel()
	f, err := conns[0].Read()
	if err != nil || f.T != TRefused {
		t.Fatalf("%v, %v", f, err)
	}
	if _, err := conns[1].Read(); err == nil {
		t.Fatal("the stubborn one got something")
	}
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("Serve does not return")
	}
	if _, err := Probe(context.Background(), path, ""); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("after the end: %v", err)
	}
}

// With no descriptor left the server waits for one; it does not end and does
// not lose the callers that wait.
func TestServeSurvivesAFullDescriptorTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path) // waits in the queue
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// Something to count with, opened before the limit falls.
	next, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	free := next.Fd()
	next.Close()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = uint64(free)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	restore := func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) }
	defer restore()
	served := make(chan struct{})
	serveOn(t, l, func(context.Context, *Incoming) { close(served) })
	if _, err := c.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-served:
		t.Fatal("served without a descriptor: the test does not test")
	case <-time.After(100 * time.Millisecond):
	}
	restore()
	select {
	case <-served:
	case <-time.After(patience):
		t.Fatal("never served")
	}
}

// Connections that come and go, well or badly, leave no descriptor behind.
func TestNothingIsLeftOpen(t *testing.T) {
	path := serve(t, func(_ context.Context, in *Incoming) {
		if _, err := welcomed(in); err == nil {
			in.Conn.Read()
		}
	})
	one := func(i int) {
		switch i % 4 {
		case 0:
			if _, err := Probe(context.Background(), path, ""); err != nil {
				t.Fatal(err)
			}
		case 1:
			if _, _, err := Dial(context.Background(), path, Hello{Versions: []int{9}, Role: RoleProbe}); err == nil {
				t.Fatal("welcome")
			}
		case 2:
			if _, _, err := Dial(context.Background(), path, Hello{Role: "none"}); err == nil {
				t.Fatal("welcome")
			}
		case 3:
			c, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			c.Write([]byte{0, 0})
			c.Close()
		}
	}
	// The listener takes connections in turn, so a probe that was answered says
	// that all before it were taken; what is left is that the server closes its
	// ends in its own time.
	settle := func(limit int) int {
		if _, err := Probe(context.Background(), path, ""); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(patience)
		for {
			now := openFiles()
			if now <= limit || time.Now().After(deadline) {
				return now
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	idle := openFiles()
	for i := range 8 {
		one(i)
	}
	before := settle(idle)
	for i := range 200 {
		one(i)
	}
	if now := settle(before); before < 0 || now > before {
		t.Fatalf("%d descriptors before, %d after", before, now)
	}
}
