package peer

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOf(t *testing.T) {
	dir, err := os.MkdirTemp("", "p")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := Of(c.(*net.UnixConn))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.PID != os.Getpid() || p.UID != uint32(os.Getuid()) || !p.Process().Alive() {
		t.Errorf("peer %+v", p)
	}
	_ = c.Close()
	if p, err := Of(c.(*net.UnixConn)); p != nil || err == nil {
		t.Errorf("a closed connection's peer is %+v", p)
	}
}
