package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"permd/internal/host"
	"permd/internal/host/peer"
)

// Incoming is one accepted connection with whoever is at its other end.
type Incoming struct {
	Peer *peer.Peer
	// Hook is true when the caller speaks the hook's dialect: Raw is then its
	// connection, nothing of it read. Else Conn is the framed connection.
	Hook bool
	Raw  net.Conn
	Conn *Conn
}

// Close ends the connection.
func (i *Incoming) Close() { i.Raw.Close() }

// Listener is a bound socket.
type Listener struct {
	l    *net.UnixListener
	path string
}

// bindMu orders the umask of concurrent binds in one process.
var bindMu sync.Mutex

// Listen binds path: the socket is made as path.new under umask 0177 and
// renamed into place, so that nobody ever sees one with another mode or one
// that does not accept yet. A stale socket is replaced, which is safe only for
// a caller that holds the lock of the directory.
func Listen(path string) (*Listener, error) {
	fresh := path + ".new"
	if len(fresh) > host.MaxSocketPath {
		return nil, fmt.Errorf("socket path %s has %d bytes, at most %d are possible; use a shorter --root", path, len(fresh), host.MaxSocketPath)
	}
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	bindMu.Lock()
	old := syscall.Umask(0o177)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	syscall.Umask(old)
	bindMu.Unlock()
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Rename(fresh, path); err != nil {
		l.Close()
		os.Remove(fresh)
		return nil, err
	}
	return &Listener{l, path}, nil
}

// Close stops listening and removes the socket.
func (l *Listener) Close() error {
	os.Remove(l.path)
	return l.l.Close()
}

// Serve accepts until ctx ends and runs handle for each connection on a
// goroutine of its own, with the peer's credentials checked to be of this
// user. It returns when all of them have returned. Every connection is closed
// when its handle returns or ctx ends.
func (l *Listener) Serve(ctx context.Context, handle func(context.Context, *Incoming)) error {
	var work sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer func() {
		stop()
		l.Close()
		work.Wait()
	}()
	for {
		c, err := l.l.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
				select { // no descriptor now: others end, callers wait
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
				continue
			}
			return fmt.Errorf("accept on %s: %w", l.path, err)
		}
		work.Go(func() {
			defer c.Close()
			end := context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) })
			defer end()
			in, err := open(c)
			if err != nil {
				return
			}
			defer in.Peer.Close()
			handle(ctx, in)
		})
	}
}

// open finds out who calls and which dialect it speaks: a frame begins with
// the high byte of a length under 16 MiB, a hook with a letter.
func open(c *net.UnixConn) (*Incoming, error) {
	p, err := peer.Of(c)
	if err != nil {
		return nil, err
	}
	if int(p.UID) != os.Getuid() && p.UID != 0 {
		p.Close()
		return nil, errors.New("another user")
	}
	c.SetReadDeadline(time.Now().Add(HandshakeTimeout))
	r := bufio.NewReaderSize(c, 16)
	first, err := r.Peek(1)
	if err != nil {
		p.Close()
		return nil, err
	}
	c.SetReadDeadline(time.Time{})
	raw := &peeked{UnixConn: c, r: r}
	in := &Incoming{Peer: p, Raw: raw}
	if first[0] == 0 {
		in.Conn = NewConn(raw)
	} else {
		in.Hook = true
	}
	return in, nil
}

// peeked is a connection whose first bytes are in a buffer.
type peeked struct {
	*net.UnixConn
	r *bufio.Reader
}

func (p *peeked) Read(b []byte) (int, error) {
	if p.r.Buffered() > 0 {
		return p.r.Read(b)
	}
	return p.UnixConn.Read(b)
}
