package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"permd/ask"
)

// HandshakeTimeout bounds everything before a connection is held: connecting,
// hello, attach, register. A held connection has no deadline for reading.
const HandshakeTimeout = 5 * time.Second

// maxVersions is the most versions a hello may list.
const maxVersions = 64

// Dial connects to the socket at path and greets it. Empty fields of h are
// filled in with what this build speaks. The context and [HandshakeTimeout]
// bound the handshake, not the connection.
//
// The error is a [*Refused] when the server says no. Otherwise errors.Is
// tells fs.ErrNotExist (no socket), syscall.ECONNREFUSED (nobody behind it),
// and os.ErrDeadlineExceeded (somebody who does not answer).
func Dial(ctx context.Context, path string, h Hello) (*Conn, Welcome, error) {
	return open(ctx, path, h, nil)
}

// open is Dial and the rest of a role's handshake, all under one deadline.
func open(ctx context.Context, path string, h Hello, then func(*Conn) error) (*Conn, Welcome, error) {
	fail := func(err error) (*Conn, Welcome, error) {
		return nil, Welcome{}, fmt.Errorf("permd socket %s: %w", ask.Quote(path), err)
	}
	if err := checkSocketPath(path); err != nil {
		return fail(err)
	}
	nc, err := connect(ctx, path)
	if err != nil {
		return fail(err)
	}
	c := NewConn(nc)
	var w Welcome
	err = c.within(ctx, func() (err error) {
		if w, err = c.greet(h); err == nil && then != nil {
			err = then(c)
		}
		return err
	})
	if err != nil {
		c.Close()
		return fail(err)
	}
	return c, w, nil
}

// connect tries again while the server's queue of connections is full, which
// many hooks at once may bring about.
func connect(ctx context.Context, path string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		nc, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil || !errors.Is(err, syscall.EAGAIN) {
			return nc, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, fmt.Errorf("its queue is full: %w", err)
		}
	}
}

// within runs f, which reads and writes, under the context and the handshake
// timeout, and leaves the connection without a deadline.
func (c *Conn) within(ctx context.Context, f func() error) error {
	if err := c.nc.SetReadDeadline(time.Now().Add(c.patience())); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.nc.Close() })
	err := f()
	if !stop() {
		return context.Cause(ctx)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("no answer within %v: %w", c.patience(), err)
	}
	if err != nil {
		return err
	}
	return c.nc.SetReadDeadline(time.Time{})
}

// patience is HandshakeTimeout, or less in tests.
func (c *Conn) patience() time.Duration { return min(HandshakeTimeout, c.timeout) }

// Hello does the caller's side of the handshake. The error is a [*Refused]
// when the server says no.
func (c *Conn) Hello(h Hello) (Welcome, error) {
	var w Welcome
	err := c.within(context.Background(), func() (err error) {
		w, err = c.greet(h)
		return err
	})
	return w, err
}

func (c *Conn) greet(h Hello) (Welcome, error) {
	if h.Versions == nil {
		h.Versions = Versions
	}
	if h.Build == "" {
		h.Build = buildName()
	}
	raw, err := ask.Encode(h)
	if err != nil {
		return Welcome{}, fmt.Errorf("hello: %w", err)
	}
	b, err := encodeFrame(Frame{T: THello, B: raw})
	if err != nil {
		return Welcome{}, err
	}
	if err := c.writeOnce(b); err != nil {
		// A server that turns us away may have hung up before it heard us; what
		// it said is still there to be read.
		if f, rerr := readFrame(c.r); rerr == nil && f.T == TRefused {
			return Welcome{}, f.refused()
		}
		return Welcome{}, fmt.Errorf("hello: %w", err)
	}
	var w Welcome
	if err := c.expect(TWelcome, &w); err != nil {
		return Welcome{}, err
	}
	if _, ok := agree(h.Versions, []int{w.Version}); !ok {
		return Welcome{}, fmt.Errorf("the server chose version %d of the socket protocol, which was not offered; update the older side", w.Version)
	}
	return w, nil
}

// expect reads the next frame and wants type t; "refused" and "error" are
// returned as errors.
func (c *Conn) expect(t string, v any) error {
	f, err := c.Receive()
	if err != nil {
		return err
	}
	switch f.T {
	case t:
		return f.Body(v)
	case TRefused, TError:
		return f.refused()
	case TUnknown:
		return fmt.Errorf("the server does not know what was asked of it; update the older side")
	}
	return fmt.Errorf("%w: %s, want %s", ErrFrame, ask.Quote(f.T), t)
}

// refused reads a "refused" or "error" as an error. It is read leniently: it
// may come from a version that shares none with us.
func (f Frame) refused() error {
	var r Refused
	if m, err := ask.Fields(f.B); err == nil {
		_ = json.Unmarshal(m["code"], &r.Code)
		_ = json.Unmarshal(m["text"], &r.Text)
	}
	r.Code, r.Text = ask.ExcerptLine(r.Code, 64), ask.Excerpt(r.Text, 2000)
	if r.Text == "" {
		r.Text = "refused without a reason"
	}
	return &r
}

// Accept does the server's side of the handshake: it reads the hello, agrees
// a version and answers with what welcome returns, with the version filled
// in. Let the loop that serves make it, if it is to prove that the loop is
// alive. A caller that cannot be served is told why; the error says the same,
// and the connection is then of no use.
func (c *Conn) Accept(welcome func(Hello) (Welcome, *Refused)) (Hello, error) {
	var h Hello
	err := c.within(context.Background(), func() (err error) {
		h, err = c.answerHello(welcome)
		return err
	})
	if err != nil {
		return Hello{}, fmt.Errorf("handshake: %w", err)
	}
	return h, nil
}

func (c *Conn) answerHello(welcome func(Hello) (Welcome, *Refused)) (Hello, error) {
	f, err := c.Receive()
	if errors.Is(err, ErrFrame) {
		return Hello{}, c.Refuse(CodeBad, err.Error())
	}
	if err != nil {
		return Hello{}, err
	}
	h, err := readHello(f)
	if err != nil {
		return Hello{}, c.Refuse(CodeBad, err.Error())
	}
	version, ok := Agree(h.Versions)
	if !ok {
		return Hello{}, c.Refuse(CodeVersion, noCommonVersion(Versions, h.Versions, buildName(), h.Build))
	}
	switch h.Role {
	case RoleAnswerer, RoleChild, RoleControl, RoleProbe:
	default:
		return Hello{}, c.Refuse(CodeBad, "role "+ask.Quote(string(h.Role))+" is not known to this permd; update the older side")
	}
	w, no := welcome(h)
	if no != nil {
		return Hello{}, c.Refuse(no.Code, no.Text)
	}
	w.Version = version
	if w.Build == "" {
		w.Build = buildName()
	}
	return h, c.Write(TWelcome, f.N, w)
}

// readHello reads a hello leniently, the one message that is: it comes before
// a version is agreed, and a newer one may say more. Keys are still exact.
func readHello(f Frame) (Hello, error) {
	if f.T != THello {
		return Hello{}, fmt.Errorf("%w: a connection begins with hello, not with %s", ErrFrame, ask.Quote(f.T))
	}
	m, err := ask.Fields(f.B)
	if err != nil {
		return Hello{}, fmt.Errorf("hello: %w", err)
	}
	var h Hello
	for key, v := range map[string]any{"versions": &h.Versions, "role": &h.Role, "build": &h.Build} {
		if m[key] == nil {
			return Hello{}, fmt.Errorf("hello: %w: no %s", ask.ErrInvalid, key)
		}
		if err := json.Unmarshal(m[key], v); err != nil {
			return Hello{}, fmt.Errorf("hello: %w: %s is of another type", ask.ErrMalformed, key)
		}
	}
	if len(h.Versions) > maxVersions {
		return Hello{}, fmt.Errorf("hello: %w: %d versions", ask.ErrInvalid, len(h.Versions))
	}
	h.Build = ask.ExcerptLine(h.Build, 128)
	return h, nil
}
