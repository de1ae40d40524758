package api

import "context"

// Child is a held registration of a node with its parent's node. Its end is
// death, both ways.
type Child struct {
	*stream
	registered Registered
}

// DialChild registers with the node at path. The context bounds the
// handshake; Close ends the registration. The error is as [Dial]'s; a
// [*Refused] with [CodeBusy] means that another living process holds the id.
func DialChild(ctx context.Context, path, build string, r Register) (*Child, error) {
	var got Registered
	c, w, err := open(ctx, path, Hello{Role: RoleChild, Build: build}, func(c *Conn) error {
		if err := c.Write(TRegister, 0, r); err != nil {
			return err
		}
		return c.expect(TRegistered, &got)
	})
	if err != nil {
		return nil, err
	}
	return &Child{newStream(c, w), got}, nil
}

// Registered is what the parent's node said, with the key of this
// registration. Later changes come as [*Serving].
func (c *Child) Registered() Registered { return c.registered }

// Run reads until the connection or ctx ends and gives each event to f, as
// [Answerer.Run] does.
func (c *Child) Run(ctx context.Context, f func(Event)) error {
	return c.run(ctx, f, func(f Frame) (Event, error) {
		switch f.T {
		case TServing:
			return decodeEvent[Serving](f)
		case TOnScreen:
			return decodeEvent[OnScreen](f)
		case TWake:
			return &Wake{}, nil
		}
		return nil, nil
	})
}

// Wake tells the parent's node to look into its mailbox.
func (c *Child) Wake() error { return c.conn.Write(TWake, 0, nil) }

// Children replaces the list of this node's sessions.
func (c *Child) Children(list []ChildSession) error {
	return c.conn.Write(TChildren, 0, Children{Sessions: list})
}
