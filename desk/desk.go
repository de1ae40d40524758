package desk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"permd/api"
	"permd/internal/host"
	"permd/review"
	"permd/session"
)

// Name is what nodes and the record know the desk by.
const Name = "desk"

// NoticeEnded is the kind of the notice that a desk which ends on purpose
// sends to its faces. One that ends without was killed; a face starts another.
const NoticeEnded = "desk_ended"

// ErrRunning means that another process is this user's desk already.
var ErrRunning = errors.New("a desk process is running already")

// errStopped is the cause under which a desk ends that was told to.
var errStopped = errors.New("permd stop")

// Recorder keeps the desk's own records: which faces came and went. It is
// closed before the desk's lock is free.
type Recorder interface {
	Append(review.Event) error
	Close() error
}

// Options are what a desk is started with.
type Options struct {
	Dirs  session.Dirs
	Build string
	// Open opens the review log once the desk's lock is held; nil records
	// nothing. A face that cannot be recorded is refused.
	Open func() (Recorder, error)
	// Started is called once, when the socket accepts connections.
	Started func()
}

// Sock is where the desk of this user listens.
func Sock(d session.Dirs) string { return filepath.Join(d.Desk(), "sock") }

// LockFile is held for the life of the desk process.
func LockFile(d session.Dirs) string { return filepath.Join(d.Desk(), "lock") }

// desk is the running process. Everything below mu is guarded by it; mu is
// never held over a wait.
type desk struct {
	opt      Options
	instance string
	log      Recorder
	stop     context.CancelCauseFunc
	work     sync.WaitGroup // links
	dirty    chan struct{}  // cap 1: the tree changed

	mu    sync.Mutex
	board *board
	links map[string]*link
	faces map[*face]bool
	// refused are the nodes of which a process was refused lately.
	refused map[string]time.Time
}

// Run is the desk's life: it takes the lock, serves until ctx is done or
// "stop" is called, and returns nil then. [ErrRunning] means another one
// serves.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Dirs.Make(); err != nil {
		return err
	}
	if err := host.MakeDir(o.Dirs.Desk()); err != nil {
		return err
	}
	lock, err := claim(ctx, o)
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d := &desk{opt: o, instance: uuid.NewString(), stop: stop, dirty: make(chan struct{}, 1),
		board: newBoard(), links: map[string]*link{}, faces: map[*face]bool{}, refused: map[string]time.Time{}}
	if o.Open != nil {
		if d.log, err = o.Open(); err != nil {
			return fmt.Errorf("who attaches to the desk could not be recorded: %w", err)
		}
		defer func() { err = errors.Join(err, d.log.Close()) }()
	}
	return d.serve(ctx, lock)
}

// claim takes the lock. One that is held by a process that does not serve is
// that of a desk which is just ending, or stuck.
func claim(ctx context.Context, o Options) (*host.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit/2)
	defer cancel()
	for {
		lock, err := host.TryLock(LockFile(o.Dirs))
		if !errors.Is(err, host.ErrLocked) {
			return lock, err
		}
		if _, err := api.Probe(ctx, Sock(o.Dirs), o.Build); err == nil {
			return nil, ErrRunning
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("a process holds %q and does not answer as the desk; end it (fuser or lsof names it)", LockFile(o.Dirs))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (d *desk) serve(ctx context.Context, lock *host.Lock) error {
	listener, err := api.Listen(Sock(d.opt.Dirs))
	if err != nil {
		return err
	}
	// The loops outlive ctx by a farewell.
	run, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var loops sync.WaitGroup
	failed := make(chan error, 4)
	loop := func(f func(context.Context) error) {
		loops.Go(func() {
			if err := f(run); err != nil && run.Err() == nil {
				failed <- err
			}
		})
	}
	loop(func(ctx context.Context) error { return listener.Serve(ctx, d.accept) })
	loop(d.discover)
	loop(d.publish)
	loop(func(ctx context.Context) error { return d.guard(ctx, lock) })
	if d.opt.Started != nil {
		d.opt.Started()
	}
	var cause error
	select {
	case <-ctx.Done():
	case cause = <-failed:
	}
	d.farewell(context.Cause(ctx), cause)
	end()
	loops.Wait()
	d.work.Wait()
	return cause
}

// farewell tells the faces that the desk ends on purpose.
func (d *desk) farewell(why, failure error) {
	text := "the desk process ends; nothing was answered by that"
	switch {
	case failure != nil:
		return // they start another one
	case errors.Is(why, errStopped):
		text = "the desk process was ended by permd stop; nothing was answered by that"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tellLocked(said{t: api.TNotice, body: api.Notice{Kind: NoticeEnded, Text: text}})
}

// guardEvery is how often the desk looks whether its directory is still there:
// a login manager may delete it under a living terminal.
const guardEvery = 2 * time.Second

// guard ends a desk that nobody could find any more.
func (d *desk) guard(ctx context.Context, lock *host.Lock) error {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := lock.Confirm(LockFile(d.opt.Dirs)); err != nil {
			return fmt.Errorf("the desk's directory was taken away: %w", err)
		}
		if _, err := os.Lstat(Sock(d.opt.Dirs)); err != nil {
			return fmt.Errorf("the desk's socket was taken away: %w", err)
		}
	}
}

// tellLocked sends frames to faces. Connections are queued, so nobody waits;
// one that is too slow is closed by its queue. d.mu is held.
func (d *desk) tellLocked(all ...said) {
	for _, s := range all {
		for f := range d.faces {
			if f != s.but {
				_ = f.conn.Write(s.t, 0, s.body) // its reader sees the end
			}
		}
	}
}

// notice puts a line on every face but one.
func (d *desk) notice(but *face, n api.Notice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tellLocked(said{t: api.TNotice, body: n, but: but})
}

// facesLocked is how many terminals, pages and popups are attached.
func (d *desk) facesLocked() int {
	n := 0
	for f := range d.faces {
		n += f.faces
	}
	return n
}

// facesChangedLocked tells every node. d.mu is held.
func (d *desk) facesChangedLocked() {
	n := d.facesLocked()
	for _, l := range d.links {
		l.send(func(a *api.Answerer) error { return a.Faces(n) })
	}
}

// treeLocked is the merged tree of all nodes.
func (d *desk) treeLocked() api.Sessions {
	out := api.Sessions{Sessions: []api.SessionState{}}
	for _, l := range d.linksLocked() {
		out.Sessions = append(out.Sessions, l.sessions...)
	}
	if len(out.Sessions) > api.MaxSessions {
		out.Sessions = out.Sessions[:api.MaxSessions]
	}
	return out
}

// publishAfter gathers changes of the tree: when many agents start at once the
// faces get it a few times and not once a node and face.
const publishAfter = 50 * time.Millisecond

// publish sends the tree to the faces when it has changed.
func (d *desk) publish(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.dirty:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(publishAfter):
		}
		d.mu.Lock()
		d.tellLocked(said{t: api.TSessions, body: d.treeLocked()})
		d.mu.Unlock()
	}
}

func (d *desk) treeChanged() {
	select {
	case d.dirty <- struct{}{}:
	default:
	}
}

// record appends to the desk's own log.
func (d *desk) record(e review.Event) error {
	if d.log == nil {
		return nil
	}
	return d.log.Append(e)
}
