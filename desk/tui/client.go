package tui

import (
	"context"
	"errors"
	"fmt"
	"time"

	"permd/api"
	"permd/ask"
	"permd/desk"
)

// Dial attaches this terminal to the desk process, starting it if none runs.
type Dial func(context.Context) (*api.Answerer, error)

// ErrEnded is returned when the desk process ended on purpose.
var ErrEnded = errors.New("the desk process has ended")

// answers is what a view needs of a connection.
type answers interface {
	Answer(context.Context, ask.Answer) (api.AnswerVerdict, error)
	OnScreen(id string) error
}

// What a connection tells the view, beside the events of package api.
type (
	online  struct{ to answers }
	offline struct{ why error }
)

// Waits between attempts to reach the desk again.
const (
	retryFirst = 100 * time.Millisecond
	retryLast  = 3 * time.Second
)

// stay keeps the connection and hands everything it says to tell, in order,
// until ctx is done (nil), the desk ends on purpose ([ErrEnded]) or does not
// let us in. The first connection must succeed; a lost one is made again.
func stay(ctx context.Context, dial Dial, tell func(any)) error {
	wait := retryFirst
	for first := true; ; first = false {
		a, err := dial(ctx)
		if ctx.Err() != nil {
			if a != nil {
				a.Close()
			}
			return nil
		}
		var no *api.Refused
		if err != nil && (first || errors.As(err, &no) && no.Code != api.CodeUnavailable) {
			return err
		}
		if err == nil {
			wait = retryFirst
			ended := ""
			tell(online{a})
			err = a.Run(ctx, func(e api.Event) {
				if n, ok := e.(*api.Notice); ok && n.Kind == desk.NoticeEnded {
					ended = n.Text
				}
				tell(e)
			})
			a.Close()
			switch {
			case ctx.Err() != nil:
				return nil
			case ended != "":
				return fmt.Errorf("%w: %s", ErrEnded, ask.ExcerptLine(ended, 200))
			}
		}
		tell(offline{err})
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, retryLast)
	}
}
