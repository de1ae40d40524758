package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"permd/ask"
	"permd/internal/host/peer"
)

// MaxSocketPath is the most bytes of a socket's path. The system with the
// least room takes 103, and ".new" is appended while binding.
const MaxSocketPath = 99

// firstHook is the first byte of the hook's dialect, see package
// api/hookwire; a frame's is always zero.
const firstHook = 'p'

// drainTime is how long handlers have to end when a server stops.
const drainTime = 2 * time.Second

// Listener takes connections on a node's or the desk's socket.
type Listener struct {
	// Check refuses a peer before anything it says is read; its error is told
	// to the peer. Nil admits processes of our own user and no others.
	Check func(*peer.Peer) error

	path  string
	ln    *net.UnixListener
	file  os.FileInfo
	once  sync.Once
	drain time.Duration
}

// Incoming is one connection with whoever is at its other end. Both are
// closed when its handler returns.
type Incoming struct {
	Peer *peer.Peer
	// Hook is true when the caller speaks the hook's dialect: then Raw is for
	// package hookwire, nothing of it read, and Conn is nil.
	Hook bool
	Raw  *net.UnixConn
	Conn *Conn
}

// Close ends the connection.
func (i *Incoming) Close() error { return i.Raw.Close() }

func checkSocketPath(path string) error {
	if len(path) > MaxSocketPath {
		return fmt.Errorf("its path has %d bytes and a unix socket's at most %d; use a shorter --root", len(path), MaxSocketPath)
	}
	return nil
}

// Listen binds a socket that only our user may connect to and puts it at
// path at once complete: it is bound beside it, its mode is set and verified,
// and only then it is renamed. What stood at path before is replaced without
// a look. The caller therefore holds the lock of the node (or desk) whose
// socket this is until the listener is closed, and has verified the directory.
//
// The mode is set on the socket itself, not by umask, which would be the
// whole process's and take the execute bit from directories made meanwhile.
func Listen(path string) (*Listener, error) {
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", ask.Quote(path), err)
	}
	return l, nil
}

func listen(path string) (_ *Listener, err error) {
	if err := checkSocketPath(path); err != nil {
		return nil, err
	}
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	conf := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// On Linux the mode of the descriptor is that of the file to be; where
		// it is not, the chmod below is in time, because of the rename.
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
	}}
	generic, err := conf.Listen(context.Background(), "unix", fresh)
	if err != nil {
		return nil, err
	}
	ln := generic.(*net.UnixListener)
	ln.SetUnlinkOnClose(false)
	defer func() {
		if err != nil {
			ln.Close()
			os.Remove(fresh)
		}
	}()
	if err := os.Chmod(fresh, 0o600); err != nil {
		return nil, err
	}
	file, err := os.Lstat(fresh)
	if err != nil {
		return nil, err
	}
	if file.Mode() != os.ModeSocket|0o600 {
		return nil, fmt.Errorf("its mode is %v, want a socket with 0600", file.Mode())
	}
	if err := os.Rename(fresh, path); err != nil {
		return nil, err
	}
	return &Listener{path: path, ln: ln, file: file, drain: drainTime}, nil
}

// Close stops listening and removes the socket if it is still ours. It is
// called before the lock is given back.
func (l *Listener) Close() error {
	var err error
	l.once.Do(func() {
		if file, lerr := os.Lstat(l.path); lerr == nil && os.SameFile(file, l.file) {
			err = os.Remove(l.path)
		}
		err = errors.Join(err, l.ln.Close())
	})
	return err
}

// Serve hands each connection to handle, in a goroutine of its own, until ctx
// ends, which is no error. Then it takes no more, lets reads under way fail,
// gives handlers two seconds to write what they still have to say, closes
// what is left, and returns when all have returned. It closes the listener.
func (l *Listener) Serve(ctx context.Context, handle func(context.Context, *Incoming)) error {
	defer l.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { l.ln.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	open := &served{list: map[*net.UnixConn]bool{}}
	err := l.acceptAll(ctx, func(c *net.UnixConn) {
		open.start(c, func() { l.admit(ctx, c, handle) })
	})
	cancel(err)
	l.Close()
	open.each(func(c *net.UnixConn) { c.SetReadDeadline(time.Unix(1, 0)) })
	late := time.AfterFunc(l.drain, func() { open.each(func(c *net.UnixConn) { c.Close() }) })
	defer late.Stop()
	open.work.Wait()
	return err
}

// acceptAll survives a full descriptor table: nobody can be served until
// somebody leaves, and a node that ended for it could serve nobody at all.
func (l *Listener) acceptAll(ctx context.Context, take func(*net.UnixConn)) error {
	const least, most = 5 * time.Millisecond, time.Second
	wait := least
	for {
		c, err := l.ln.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		switch {
		case err == nil:
			wait = least
			take(c)
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ECONNABORTED),
			errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			wait = min(2*wait, most)
		default:
			return fmt.Errorf("accept on %s: %w", ask.Quote(l.path), err)
		}
	}
}

// admit finds out who calls and in which dialect.
func (l *Listener) admit(ctx context.Context, c *net.UnixConn, handle func(context.Context, *Incoming)) {
	p, err := peer.Of(c)
	if err != nil {
		return // it has gone, or cannot be told: no service
	}
	defer p.Close()
	check := l.Check
	if check == nil {
		check = sameUser
	}
	if err := check(p); err != nil {
		turnAway(c, err)
		return
	}
	first, err := peek(c)
	if err != nil || first != 0 && first != firstHook || ctx.Err() != nil {
		return
	}
	in := &Incoming{Peer: p, Hook: first == firstHook, Raw: c}
	if !in.Hook {
		in.Conn = NewConn(c)
	}
	handle(ctx, in)
}

func sameUser(p *peer.Peer) error {
	if own := os.Geteuid(); int(p.UID) != own {
		return &Refused{Code: CodePeer, Text: fmt.Sprintf("this permd belongs to user %d and does not serve user %d", own, p.UID)}
	}
	return nil
}

// turnAway says no in the frames of this package; a hook makes a failure of
// whatever it cannot read.
func turnAway(nc net.Conn, why error) {
	r := new(Refused)
	if !errors.As(why, &r) {
		r = &Refused{Code: CodePeer, Text: why.Error()}
	}
	c := NewConn(nc)
	c.timeout = time.Second
	_ = c.Refuse(r.Code, r.Text)
}

// peek returns the first byte without taking it, so that whoever reads next
// gets the stream whole.
func peek(c *net.UnixConn) (byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(HandshakeTimeout)); err != nil {
		return 0, err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var b [1]byte
	var n int
	var got error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, _, got = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
			if got != syscall.EINTR {
				return got != syscall.EAGAIN
			}
		}
	})
	if err = errors.Join(err, got); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	return b[0], c.SetReadDeadline(time.Time{})
}

// served is the connections being served and the goroutines that do.
type served struct {
	work sync.WaitGroup
	mu   sync.Mutex
	list map[*net.UnixConn]bool
}

func (s *served) start(c *net.UnixConn, serve func()) {
	s.mu.Lock()
	s.list[c] = true
	s.mu.Unlock()
	s.work.Go(func() {
		defer func() {
			c.Close()
			s.mu.Lock()
			delete(s.list, c)
			s.mu.Unlock()
		}()
		serve()
	})
}

func (s *served) each(f func(*net.UnixConn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.list {
		f(c)
	}
}
