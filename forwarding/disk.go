package forwarding

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"permd/internal/host"
	"permd/liveness"
	"permd/session"
)

// Disk is the mailbox of one node in its directory, and the way into those of
// all other nodes. A letter is written in tmp and renamed into new, without
// fsync: an ask need not outlive the machine. Put may be called by any number
// of goroutines, Take by one.
type Disk struct {
	dirs session.Dirs
	node string
	rep  *reporter

	arrived chan struct{}
	// poke tells Run that held, or when to scan next, has changed.
	poke chan struct{}

	// The file system and the events of this machine; tests replace them.
	openIn   func(dir string) (inbox, error)
	to       targets
	newWatch func(dir string, told func(watchEvent)) (closer, error)

	mu      sync.Mutex
	hints   []string  // names that events told, for Take
	scan    bool      // a scan is due
	woken   bool      // … and not only because of events, which told the names
	scanned time.Time // when the last scan began
	held    int
	scanAt  time.Time // no scan before: an expensive one is not repeated at once
	rewatch bool      // the directory is another one now: watch it anew
	lookAt  time.Time // when Run signals for a scan that has to wait
	quiet   bool      // events arrive: nobody needs to wake us
	onQuiet func(bool)
	onMail  func()

	taking taking // Take's own
}

var (
	_ Transport = (*Disk)(nil)
	_ runner    = (*Disk)(nil)
	_ waker     = (*Disk)(nil)
	_ holder    = (*Disk)(nil)
	_ sweeper   = (*Disk)(nil)
	_ quieter   = (*Disk)(nil)
	_ mailer    = (*Disk)(nil)
)

// OpenDisk makes and opens the mailbox of a node, whose lock the caller holds.
// log is told what is set aside and how arrivals are noticed; it may be nil.
// Run the result (or give it to a [Server], which does), then Close it.
func OpenDisk(dirs session.Dirs, node string, log func(Event)) (*Disk, error) {
	if !session.Valid(node) {
		return nil, fmt.Errorf("mailbox of a node whose id is not valid")
	}
	d := &Disk{dirs: dirs, node: node, rep: newReporter(log), openIn: openInbox, to: targets{open: openTarget}, newWatch: openWatch,
		arrived: make(chan struct{}, 1), poke: make(chan struct{}, 1), scan: true}
	d.taking.init()
	if err := makeBox(d.dir()); err != nil {
		return nil, fmt.Errorf("mailbox: %w", err)
	}
	d.signal()
	return d, nil
}

func (d *Disk) dir() string { return d.dirs.Node(d.node).Mail() }

// Close gives the mailbox's descriptors back, after Run and Take have ended.
func (d *Disk) Close() error {
	d.to.close()
	return d.taking.close()
}

// Put writes a letter into another node's mailbox.
func (d *Disk) Put(ctx context.Context, to string, name Name, sealed []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !session.Valid(to) || to == d.node {
		return fmt.Errorf("%w: node %q", ErrNoMailbox, to)
	}
	file := name.String()
	if _, ok := ParseName(file); !ok || name.Node != d.node {
		return fmt.Errorf("put: %w: name", ErrMalformed)
	}
	if len(sealed) > MaxLetter {
		return fmt.Errorf("put: %w: %d bytes", ErrMalformed, len(sealed))
	}
	// The sender's node in front lets the receiver sweep what we leave behind
	// if we are killed right here.
	temp := tmpDir + "/" + d.node + nameSep + host.TempName()
	mail := d.dirs.Node(to).Mail()
	put := func() error {
		return d.to.use(mail, func(t target) error {
			return host.WriteFiles(t, temp, newDir+"/"+file, sealed, 0o600, false)
		})
	}
	err := put()
	if errors.Is(err, fs.ErrNotExist) && host.CheckDir(mail, 0o700) == nil && makeBox(mail) == nil {
		// A part of a living mailbox was taken away.
		d.to.drop(mail, nil)
		err = put()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("put: %w: %w", ErrNoMailbox, err)
	}
	if err != nil {
		return fmt.Errorf("put: %w", err)
	}
	return nil
}

// Arrived is signalled when there may be mail.
func (d *Disk) Arrived() <-chan struct{} { return d.arrived }

func (d *Disk) signal() {
	select {
	case d.arrived <- struct{}{}:
	default:
	}
}

// Wake is for who heard by another way that there is mail.
func (d *Disk) Wake() {
	d.mu.Lock()
	d.scan, d.woken = true, true
	d.mu.Unlock()
	d.signal()
}

// hint remembers a name that an event told. The scan that follows decides; a
// hint only spares a letter from waiting for it.
func (d *Disk) hint(name string) {
	d.mu.Lock()
	if len(d.hints) < maxHints {
		d.hints = append(d.hints, name)
	}
	d.scan = true
	f := d.onMail
	d.mu.Unlock()
	if f != nil {
		f()
		return
	}
	d.signal()
}

// OnMail has f called when an event told of a letter, on the goroutine that
// reads events; it may take, and should not block.
func (d *Disk) OnMail(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onMail = f
}

const maxHints = 1024

// Hold says that letters are expected: until release the mailbox is watched,
// or polled where watching fails.
func (d *Disk) Hold() (release func()) {
	d.add(1)
	var once sync.Once
	return func() { once.Do(func() { d.add(-1) }) }
}

func (d *Disk) add(n int) {
	d.mu.Lock()
	d.held += n
	d.mu.Unlock()
	d.notify()
}

func (d *Disk) notify() {
	select {
	case d.poke <- struct{}{}:
	default:
	}
}

// OnQuiet has f told, from then on, whether arrivals are noticed without
// wake-ups. f is called on Run's goroutine and must not block.
func (d *Disk) OnQuiet(f func(bool)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onQuiet = f
}

func (d *Disk) setQuiet(quiet bool) {
	d.mu.Lock()
	changed, f := quiet != d.quiet, d.onQuiet
	d.quiet = quiet
	d.mu.Unlock()
	if changed && f != nil {
		f(quiet)
	}
}

// alivePoll is how often Alive looks: a lock cannot be waited for.
const alivePoll = 500 * time.Millisecond

// Alive watches a node by its lock and its beat, for peers without a
// connection; the connection of a registration says it sooner.
func (d *Disk) Alive(ctx context.Context, node string) error {
	j := liveness.New(d.dirs)
	tick := time.NewTicker(alivePoll)
	defer tick.Stop()
	var absent time.Duration
	for {
		v := j.Judge(ctx, liveness.Target{Session: node, Node: node})
		switch v.State {
		case liveness.Dead, liveness.Stuck:
			return fmt.Errorf("%w: node %s: %s", ErrLost, node, v.State)
		case liveness.Absent:
			// A node that is replacing its beat is absent for a moment.
			if absent += alivePoll; absent > liveness.Fresh || errors.Is(statDir(d.dirs.Node(node)), fs.ErrNotExist) {
				return fmt.Errorf("%w: node %s: %s", ErrLost, node, v.State)
			}
		default:
			absent = 0
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func statDir(n session.Node) error {
	return host.CheckDir(filepath.Clean(string(n)), 0o700)
}
