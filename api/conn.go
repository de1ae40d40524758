package api

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"permd/ask"
)

// Limits of a connection.
const (
	// MaxFrame is the most bytes of one frame's JSON.
	MaxFrame = 8 << 20
	// HandshakeTimeout bounds hello and welcome, each way.
	HandshakeTimeout = 5 * time.Second
	// writeTimeout bounds one write: a peer that does not read for so long is
	// closed, so that it cannot hold up the side that serves others.
	writeTimeout = 5 * time.Second
)

// ErrFrame is wrapped by every error about bytes that are no frame.
var ErrFrame = errors.New("malformed frame")

// Conn is one framed connection: a length of 4 bytes, big endian, and that
// many bytes of canonical JSON, a [Frame]. One goroutine reads, any may write.
type Conn struct {
	c net.Conn
	w sync.Mutex
}

// NewConn frames c. The caller closes the Conn and no longer uses c.
func NewConn(c net.Conn) *Conn { return &Conn{c: c} }

// Close ends the connection; a blocked read or write returns.
func (c *Conn) Close() error { return c.c.Close() }

// Read returns the next frame. io.EOF means the peer ended between frames.
func (c *Conn) Read() (Frame, error) { return readFrame(c.c) }

func readFrame(r io.Reader) (Frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: it ends within its length", ErrFrame)
		}
		return Frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > MaxFrame {
		return Frame{}, fmt.Errorf("%w: length %d, at most %d", ErrFrame, n, MaxFrame)
	}
	var b bytes.Buffer
	// CopyN grows with what arrives, so a length alone allocates nothing.
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return Frame{}, fmt.Errorf("%w: it ends after %d of %d bytes", ErrFrame, b.Len(), n)
	}
	var f Frame
	if err := ask.Decode(b.Bytes(), MaxFrame, &f); err != nil {
		return Frame{}, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if f.T == "" || len(f.T) > 32 {
		return Frame{}, fmt.Errorf("%w: type %s", ErrFrame, ask.Quote(f.T))
	}
	return f, nil
}

// Write sends one frame. n is the number of the request it starts or answers,
// 0 for none; body may be nil.
func (c *Conn) Write(t string, n uint64, body any) error {
	f := Frame{T: t, N: n}
	if body != nil {
		raw, err := ask.Encode(body)
		if err != nil {
			return fmt.Errorf("encode %s: %w", t, err)
		}
		f.B = raw
	}
	b, err := appendFrame(make([]byte, 4), f)
	if err != nil {
		return err
	}
	c.w.Lock()
	defer c.w.Unlock()
	if err := c.c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := c.c.Write(b); err != nil {
		c.c.Close() // a half-written frame poisons the connection
		return err
	}
	return nil
}

// appendFrame writes f behind the four bytes of its length.
func appendFrame(b []byte, f Frame) ([]byte, error) {
	raw, err := ask.Encode(f)
	if err != nil {
		return nil, err
	}
	if len(raw) > MaxFrame {
		return nil, fmt.Errorf("frame %s: %d bytes: %w", f.T, len(raw), ask.ErrTooLarge)
	}
	binary.BigEndian.PutUint32(b, uint32(len(raw)))
	return append(b, raw...), nil
}

// Body decodes the body of f strictly into v.
func (f Frame) Body(v any) error {
	if err := ask.Decode([]byte(f.B), MaxFrame, v); err != nil {
		return fmt.Errorf("body of %s: %w", ask.Quote(f.T), err)
	}
	return nil
}

// Agree returns the highest version both sides speak.
func Agree(theirs []int) (int, bool) {
	best := 0
	for _, a := range Versions {
		for _, b := range theirs {
			if a == b && a > best {
				best = a
			}
		}
	}
	return best, best > 0
}

// Accept does the server's side of the handshake: it reads the hello, agrees
// a version and answers with w. On an error the caller closes the connection.
func (c *Conn) Accept(w func(Hello) (Welcome, *Refused)) (Hello, error) {
	c.c.SetReadDeadline(time.Now().Add(HandshakeTimeout))
	defer c.c.SetReadDeadline(time.Time{})
	f, err := c.Read()
	if err != nil {
		return Hello{}, err
	}
	var h Hello
	if f.T != THello {
		return h, c.Refuse(CodeBad, "a connection begins with hello, not with "+ask.Quote(f.T))
	}
	// A newer side may say more in its hello than this one knows.
	if err := json.Unmarshal(f.B, &h); err != nil {
		return h, c.Refuse(CodeBad, "hello cannot be read")
	}
	v, ok := Agree(h.Versions)
	if !ok {
		return h, c.Refuse(CodeVersion, fmt.Sprintf("this permd speaks protocol %v, the other side (%s) %v; update the older one, then restart its agent",
			Versions, ask.Quote(h.Build), h.Versions))
	}
	out, no := w(h)
	if no != nil {
		return h, c.Refuse(no.Code, no.Text)
	}
	out.Version = v
	return h, c.Write(TWelcome, f.N, out)
}

// Refuse tells the other side no and returns that as an error.
func (c *Conn) Refuse(code, text string) error {
	r := &Refused{code, text}
	c.Write(TRefused, 0, r)
	return r
}

// Hello does the caller's side of the handshake. The error is a *Refused when
// the server said no.
func (c *Conn) Hello(h Hello) (Welcome, error) {
	if h.Versions == nil {
		h.Versions = Versions
	}
	c.c.SetReadDeadline(time.Now().Add(HandshakeTimeout))
	defer c.c.SetReadDeadline(time.Time{})
	if err := c.Write(THello, 0, h); err != nil {
		return Welcome{}, err
	}
	f, err := c.Read()
	if err != nil {
		return Welcome{}, fmt.Errorf("no answer to hello: %w", err)
	}
	switch f.T {
	case TWelcome:
		var w Welcome
		if err := f.Body(&w); err != nil {
			return w, err
		}
		if _, ok := Agree([]int{w.Version}); !ok {
			return w, fmt.Errorf("the server chose protocol %d, which this permd does not speak", w.Version)
		}
		return w, nil
	case TRefused:
		var r Refused
		if err := f.Body(&r); err != nil {
			return Welcome{}, err
		}
		return Welcome{}, &r
	}
	return Welcome{}, fmt.Errorf("%w: %s instead of welcome", ErrFrame, ask.Quote(f.T))
}
