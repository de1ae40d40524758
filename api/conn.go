package api

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"permd/ask"
)

// MaxFrame is the most bytes of one frame without its length. The first byte
// of a length is therefore always zero, which tells this protocol from the
// hook's.
const MaxFrame = 8 << 20

// WriteTimeout is how long a peer may leave a frame unread before it is given
// up: its connection is closed, and every later write says so.
const WriteTimeout = 5 * time.Second

// ErrFrame is wrapped by errors about bytes that are no frame of ours. The
// stream cannot be followed after it.
var ErrFrame = errors.New("malformed frame")

// Conn is one connection that carries frames: a length of four bytes, big
// endian, and that many bytes of JSON. One goroutine may read while any
// number write.
type Conn struct {
	nc      net.Conn
	r       *bufio.Reader
	timeout time.Duration

	write  sync.Mutex
	broken atomic.Pointer[error] // why writing ended the connection
	queue  atomic.Pointer[queue] // set by Queue
}

// NewConn carries frames over nc, which it owns from then on.
func NewConn(nc net.Conn) *Conn {
	return &Conn{nc: nc, r: bufio.NewReader(nc), timeout: WriteTimeout}
}

// Close ends the connection; a read or write under way fails. What a [Queue]
// still holds is lost.
func (c *Conn) Close() error { return c.nc.Close() }

// Receive returns the next frame of a type this build knows, io.EOF when the
// peer ended the connection between two frames. A frame of another type is
// answered with "unknown" and passed over, so that a newer peer may say more
// than we understand. Memory grows with what arrives, not with what a length
// announces.
func (c *Conn) Receive() (Frame, error) {
	for {
		f, err := readFrame(c.r)
		if err != nil {
			if why := c.broken.Load(); why != nil {
				err = *why
			}
			return Frame{}, err
		}
		if known(f.T) {
			return f, nil
		}
		if err := c.Unknown(f); err != nil {
			return Frame{}, err
		}
	}
}

// Read is [Conn.Receive].
func (c *Conn) Read() (Frame, error) { return c.Receive() }

func readFrame(r io.Reader) (Frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return Frame{}, fmt.Errorf("%w: cut in its length", ErrFrame)
		}
		return Frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > MaxFrame {
		return Frame{}, fmt.Errorf("%w: %d bytes: %w (limit %d)", ErrFrame, n, ask.ErrTooLarge, MaxFrame)
	}
	var b bytes.Buffer
	b.Grow(min(int(n), 32<<10))
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			return Frame{}, fmt.Errorf("%w: cut after %d of %d bytes", ErrFrame, b.Len(), n)
		}
		return Frame{}, err
	}
	var f Frame
	if err := ask.Decode(b.Bytes(), MaxFrame, &f); err != nil {
		return Frame{}, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return f, nil
}

// Unknown answers a frame that is not expected here.
func (c *Conn) Unknown(f Frame) error {
	if f.T == TUnknown {
		return nil // or two sides would go on for ever
	}
	return c.Write(TUnknown, f.N, nil)
}

// Refuse says no, which ends the connection from the server's side, and
// returns what was said as an error of type [*Refused].
func (c *Conn) Refuse(code, text string) error {
	r := &Refused{Code: code, Text: text}
	_ = c.Write(TRefused, 0, r) // a peer that has gone cannot be told
	return r
}

// Fail answers request n with "error"; the connection goes on.
func (c *Conn) Fail(n uint64, code, text string) error {
	return c.Write(TError, n, &Refused{Code: code, Text: text})
}

// Write writes one frame. n is the number of the request it begins or
// answers, 0 for none; a nil body is none. A body that is too large or cannot
// be encoded is an error that leaves the connection usable. A peer that does
// not read for [WriteTimeout], and any failed write, ends it.
func (c *Conn) Write(t string, n uint64, body any) error {
	f := Frame{T: t, N: n}
	if body != nil {
		raw, err := ask.Encode(body)
		if err != nil {
			return fmt.Errorf("%s frame: %w", t, err)
		}
		f.B = raw
	}
	return c.Send(f)
}

// Send is [Conn.Write] of a whole frame.
func (c *Conn) Send(f Frame) error {
	b, err := encodeFrame(f)
	if err != nil {
		return err
	}
	if q := c.queue.Load(); q != nil {
		err := q.put(b)
		if errors.Is(err, ErrSlow) {
			c.breakOff(err)
		}
		return err
	}
	return c.writeBytes(b)
}

func (c *Conn) writeBytes(b []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	if why := c.broken.Load(); why != nil {
		return *why
	}
	err := c.writeOnce(b)
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the peer does not read: %w", err)
	} else {
		err = fmt.Errorf("write: %w", err)
	}
	c.breakOff(err)
	return err
}

func (c *Conn) writeOnce(b []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	_, err := c.nc.Write(b)
	return err
}

// breakOff closes the connection; whoever reads is told why.
func (c *Conn) breakOff(why error) {
	c.broken.CompareAndSwap(nil, &why)
	c.nc.Close()
}

// encodeFrame returns the frame with its length before it.
func encodeFrame(f Frame) ([]byte, error) {
	b, err := ask.Encode(f)
	if err != nil {
		return nil, fmt.Errorf("%s frame: %w", f.T, err)
	}
	if len(b) > MaxFrame {
		return nil, fmt.Errorf("%s frame of %d bytes: %w (limit %d)", f.T, len(b), ask.ErrTooLarge, MaxFrame)
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b))), b...), nil
}
