package api

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"permd/ask"
)

// Probe asks the socket at path who serves there. Its error is as [Dial]'s.
// An empty build is this program's own, here and in the other functions that
// dial.
func Probe(ctx context.Context, path, build string) (Welcome, error) {
	c, w, err := Dial(ctx, path, Hello{Role: RoleProbe, Build: build})
	if err != nil {
		return Welcome{}, err
	}
	return w, c.Close()
}

// Control is a connection for operations, one at a time, in order.
type Control struct {
	conn    *Conn
	welcome Welcome

	mu sync.Mutex
	n  uint64
}

// DialControl opens a connection for calls. The caller closes it.
func DialControl(ctx context.Context, path, build string) (*Control, error) {
	c, w, err := Dial(ctx, path, Hello{Role: RoleControl, Build: build})
	if err != nil {
		return nil, err
	}
	return &Control{conn: c, welcome: w}, nil
}

// Welcome is what the server said of itself.
func (c *Control) Welcome() Welcome { return c.welcome }

// Close ends the connection; a call under way fails.
func (c *Control) Close() error { return c.conn.Close() }

// Call runs op with args (nil for none) and reads its result into result (nil
// to ignore it). The error is a [*Refused] when the server says no. A call
// that is given up because its context ends takes the connection with it.
func (c *Control) Call(ctx context.Context, op string, args, result any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := Call{Op: op}
	if args != nil {
		raw, err := ask.Encode(args)
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		call.Args = raw
	}
	c.n++
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	err := c.roundTrip(call, result)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

func (c *Control) roundTrip(call Call, result any) error {
	if err := c.conn.Write(TCall, c.n, call); err != nil {
		return err
	}
	for {
		f, err := c.conn.Receive()
		if err != nil {
			return err
		}
		switch {
		case f.T == TRefused, f.T == TError && f.N == c.n:
			return f.refused()
		case f.T == TUnknown && f.N == c.n:
			return errors.New("the server does not know control calls; update the older side")
		case f.T == TResult && f.N == c.n && result == nil:
			return nil
		case f.T == TResult && f.N == c.n:
			return f.Body(result)
		}
	}
}
