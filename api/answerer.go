package api

import (
	"context"
	"fmt"

	"permd/ask"
)

// Answerer is a held connection of a surface to a node, or of a face to the
// desk: it gets asks and gives answers.
type Answerer struct{ *stream }

// DialAnswerer attaches to the node or desk at path. The context bounds the
// handshake; Close ends the connection. The error is as [Dial]'s.
func DialAnswerer(ctx context.Context, path, build string, a Attach) (*Answerer, error) {
	var snapshot Snapshot
	c, w, err := open(ctx, path, Hello{Role: RoleAnswerer, Build: build}, func(c *Conn) error {
		if err := c.Write(TAttach, 0, a); err != nil {
			return err
		}
		return c.expect(TSnapshot, &snapshot)
	})
	if err != nil {
		return nil, err
	}
	return &Answerer{newStream(c, w, &snapshot)}, nil
}

// Run reads until the connection or ctx ends and gives each event to f, one
// at a time, in order. It must run for [Answerer.Answer] to return; f itself
// may call it. The first event is the [*Snapshot] of what waits; asks that it
// leaves out follow as [*Shown].
//
// It returns nil when ctx ended, io.EOF when the server did, a [*Refused]
// when the server gave a reason. It is called once.
func (a *Answerer) Run(ctx context.Context, f func(Event)) error {
	return a.run(ctx, f, func(f Frame) (Event, error) {
		switch f.T {
		case TSnapshot:
			return decodeEvent[Snapshot](f)
		case TAsk:
			return decodeEvent[Shown](f)
		case TSettled:
			return decodeEvent[Settled](f)
		case TDeliver:
			return decodeEvent[Delivered](f)
		case TSessions:
			return decodeEvent[Sessions](f)
		case TNotice:
			return decodeEvent[Notice](f)
		}
		return nil, nil
	})
}

// Answer gives an answer and waits for its verdict. Only [VerdictAccepted]
// means that it counted. With [ErrGone], or when ctx ends, it is not known
// whether it did: "settled", or the next snapshot, tells.
func (a *Answerer) Answer(ctx context.Context, n ask.Answer) (AnswerVerdict, error) {
	f, err := a.request(ctx, TAnswer, n)
	if err != nil {
		return AnswerVerdict{}, fmt.Errorf("answer: %w", err)
	}
	var v AnswerVerdict
	switch f.T {
	case TVerdict:
		err = f.Body(&v)
	case TError:
		err = f.refused()
	default:
		err = fmt.Errorf("%w: %s for a verdict; update the older side", ErrFrame, ask.Quote(f.T))
	}
	if err == nil && v.Ask != n.Ask && v.Ask != "" {
		err = fmt.Errorf("the verdict is for ask %s, not %s", ask.Quote(v.Ask), ask.Quote(n.Ask))
	}
	if err != nil {
		return AnswerVerdict{}, fmt.Errorf("answer: %w", err)
	}
	return v, nil
}

// Faces reports how many terminals, pages and popups are attached now.
func (a *Answerer) Faces(n int) error { return a.conn.Write(TFaces, 0, Faces{n}) }

// OnScreen reports that a person can see the ask.
func (a *Answerer) OnScreen(id string) error { return a.conn.Write(TOnScreen, 0, OnScreen{id}) }

// Hide reports that this surface lost the ask or hid it; nothing is answered
// by it.
func (a *Answerer) Hide(id string) error { return a.conn.Write(THide, 0, OnScreen{id}) }
