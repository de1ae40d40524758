package forwarding

import (
	"net"
	"os"
	"syscall"
	"testing"

	"permd/api"
)

// socketPair is a connection between two nodes of this process.
func socketPair(t testing.TB) (a, b *api.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn := func(fd int) *api.Conn {
		syscall.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "pair")
		defer f.Close()
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		return api.NewConn(c)
	}
	return conn(fds[0]), conn(fds[1])
}
