package host

import (
	"errors"
	"syscall"
)

var errNoSocket = errors.New("the other end of the socket cannot be told")

// Peer is the process that connected a unix socket (or, asked from the other
// side, that listens on it), as of that moment: a process that was handed the
// descriptor later speaks under the same name.
type Peer struct {
	PID      int
	UID, GID uint32
	proc     *Process
}

// Process is the pinned process. It lives until Close of the Peer.
func (p *Peer) Process() *Process { return p.proc }

// Close gives the pin back.
func (p *Peer) Close() error { return p.proc.Close() }

// PeerOf tells who is at the other end of a connected unix socket, which is
// any *net.UnixConn or *os.File. A peer that has ended is ErrNoProcess. The
// caller closes the Peer.
func PeerOf(c syscall.Conn) (*Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var p *Peer
	ctlErr := raw.Control(func(fd uintptr) { p, err = peerOf(int(fd)) })
	if ctlErr != nil {
		return nil, ctlErr
	}
	return p, err
}
