package forwarding

import (
	"context"
	"errors"
)

// Transport moves sealed letters between the mailboxes of nodes. Its three
// verbs are put, take and alive; package transporttest holds what every
// transport must keep.
//
// A transport neither opens letters nor knows keys. It keeps them whole: what
// is taken is byte for byte what was put, under the name it was put under.
type Transport interface {
	// Put hands one letter to a node. Once it returns nil the letter will be
	// taken if that node lives, even if this process dies in that moment. On
	// an error the letter was not put, or, where a reply was lost, may have
	// been: receivers know it by its counter. It does not wait for the taker.
	Put(ctx context.Context, to string, name Name, sealed []byte) error
	// Take gives each letter that waits for this node to f, in no promised
	// order (senders count theirs), and drops it when f returns nil. Where f returns [ErrLater] it is given again by a later Take; any other
	// error sets it aside for a person to look at. Take waits for nothing. It
	// takes a bounded number and says with more that others wait. It is called
	// from one goroutine at a time.
	Take(f func(Name, []byte) error) (more bool, err error)
	// Arrived is signalled when Take may find something.
	Arrived() <-chan struct{}
	// Alive waits until the node is lost and returns [ErrLost], or until ctx
	// is done and returns its error.
	Alive(ctx context.Context, node string) error
}

// A transport may also have these methods; the server looks for them.
type (
	// runner works in the background until ctx is done.
	runner interface {
		Run(ctx context.Context) error
	}
	// mailer calls f on the goroutine that notices mail, instead of signalling
	// Arrived: that spares each letter a switch. f may take.
	mailer interface{ OnMail(f func()) }
	// waker is told that somebody said there is mail.
	waker interface{ Wake() }
	// holder is told that letters are expected until release is called;
	// otherwise it may do nothing at all.
	holder interface{ Hold() (release func()) }
	// quieter says whether it notices arrivals without being woken.
	quieter interface{ OnQuiet(func(quiet bool)) }
	// sweeper removes what a dead node left in this mailbox.
	sweeper interface{ Sweep(node string) }
)

// Errors of transports.
var (
	// ErrLater keeps a letter that cannot be read yet.
	ErrLater = errors.New("not yet")
	// ErrLost means that a node is dead, gone or stuck.
	ErrLost = errors.New("node is lost")
	// ErrNoMailbox means that the node to put to has none: it never was or is
	// gone.
	ErrNoMailbox = errors.New("no such mailbox")
)
