package forwarding

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"permd/ask"
	"permd/internal/host"
)

// Bounds of taking.
const (
	takeBatch  = 256                    // letters a Take
	listPiece  = 1024                   // names a read of the directory
	scanBatch  = 4096                   // names a Take; a fuller directory needs several
	maxSkipped = 4096                   // letters that could not be removed
	partialFor = time.Second            // how long a letter may stay incomplete
	scanRest   = 10                     // a scan that took t is not repeated for 10 t …
	scanCheap  = time.Millisecond       // … unless it was cheap
	scanGentle = 800 * time.Millisecond // between scans that only events asked for
)

// taking is what Take remembers. One goroutine owns it.
type taking struct {
	box     inbox
	cursor  lister               // an unfinished scan
	waiting []string             // names that the scan has found
	doubt   map[string]time.Time // incomplete letters, since when
	skip    map[string]bool      // taken, but still there
	bad     int                  // letters in bad
	unknown int                  // names that are none, in the last whole scan
	counted int                  // the same in this scan
	spent   time.Duration        // on this scan
	trouble error                // why the system could not read a letter in this Take
}

func (t *taking) init() {
	t.doubt, t.skip = map[string]time.Time{}, map[string]bool{}
}

func (t *taking) close() error {
	var err error
	if t.cursor != nil {
		err = t.cursor.Close()
		t.cursor = nil
	}
	if t.box != nil {
		err = errors.Join(err, t.box.Close())
		t.box = nil
	}
	return err
}

// Take takes what events named, then scans.
func (d *Disk) Take(f func(Name, []byte) error) (more bool, err error) {
	t := &d.taking
	t.trouble = nil
	if t.box == nil {
		if err := d.openOwn(); err != nil {
			d.later()
			return false, err
		}
	}
	d.mu.Lock()
	hints := d.hints
	d.hints = nil
	d.mu.Unlock()
	taken := 0
	for i, name := range hints {
		if taken == takeBatch {
			d.mu.Lock()
			d.hints = append(hints[i:], d.hints...)
			d.mu.Unlock()
			return true, nil
		}
		taken += d.one(name, f)
	}
	if len(t.waiting) == 0 && (t.cursor != nil || d.scanDue()) {
		if err := d.list(); err != nil {
			_ = t.close() // whatever it was, the next Take starts afresh
			d.later()
			return false, fmt.Errorf("mailbox: %w", err)
		}
	}
	for len(t.waiting) > 0 && taken < takeBatch {
		name := t.waiting[0]
		t.waiting = t.waiting[1:]
		taken += d.one(name, f)
	}
	return len(t.waiting) > 0 || t.cursor != nil, t.trouble
}

// scanDue says whether a scan begins now. One that is asked for and has to
// wait is seen to by Run.
func (d *Disk) scanDue() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.scan {
		return false
	}
	at := d.scanAt
	if gentle := d.scanned.Add(scanGentle); !d.woken && at.Before(gentle) {
		at = gentle
	}
	if now := time.Now(); at.After(now) {
		d.lookLocked(at)
		return false
	}
	return true
}

// lookLocked has Run signal at a time, unless it will before.
func (d *Disk) lookLocked(at time.Time) {
	if d.lookAt.IsZero() || at.Before(d.lookAt) {
		d.lookAt = at
		d.notify()
	}
}

// openOwn opens this node's mailbox and makes it anew if it was taken away.
func (d *Disk) openOwn() error {
	t := &d.taking
	b, err := d.openIn(d.dir())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !b.Current() {
		if err == nil {
			b.Close()
		}
		if err := makeBox(d.dir()); err != nil {
			return fmt.Errorf("mailbox: %w", err)
		}
		d.rep.event(Event{Kind: EventMailbox, Node: d.node, Why: "the mailbox was taken away and made anew"})
		d.watchAnew()
		b, err = d.openIn(d.dir())
	}
	if err != nil {
		return fmt.Errorf("mailbox: %w", err)
	}
	t.box, t.bad = b, 0
	if l, err := b.List(badDir); err == nil {
		names, _ := l.Readdirnames(maxBad + 1)
		t.bad = len(names)
		l.Close()
	}
	return nil
}

// watchAnew tells Run that the directory is another one now.
func (d *Disk) watchAnew() {
	d.mu.Lock()
	d.rewatch = true
	d.mu.Unlock()
	d.notify()
}

// list reads names, at most scanBatch of them, into waiting.
func (d *Disk) list() error {
	t := &d.taking
	if t.cursor == nil {
		if !t.box.Current() {
			// The directory was renamed or replaced: letters go to another one.
			_ = t.close()
			if err := d.openOwn(); err != nil {
				return err
			}
			d.watchAnew()
		}
		d.mu.Lock()
		d.scan, d.woken = false, false // what comes from here on needs another scan
		d.scanned = time.Now()
		d.mu.Unlock()
		l, err := t.box.List(newDir)
		if err != nil {
			return err
		}
		t.cursor, t.counted, t.spent = l, 0, 0
	}
	begin := time.Now()
	for n := 0; n < scanBatch; {
		names, err := t.cursor.Readdirnames(listPiece)
		n += len(names)
		for _, name := range names {
			if _, ok := ParseName(name); ok {
				t.waiting = append(t.waiting, name)
			} else if !strings.HasPrefix(name, echoPrefix) {
				t.counted++
			}
		}
		if err != nil || len(names) == 0 {
			t.cursor.Close()
			t.cursor = nil
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			d.scanEnd()
			break
		}
	}
	slices.Sort(t.waiting)
	if t.spent += time.Since(begin); t.cursor == nil && t.spent > scanCheap {
		d.mu.Lock()
		d.scanAt = time.Now().Add(scanRest * t.spent)
		d.mu.Unlock()
	}
	return nil
}

// scanEnd ends a whole scan: what is remembered of names that are gone is
// forgotten, and names that are none are counted.
func (d *Disk) scanEnd() {
	t := &d.taking
	if len(t.skip) > 0 || len(t.doubt) > 0 {
		there := map[string]bool{}
		for _, name := range t.waiting {
			there[name] = true
		}
		for name := range t.doubt {
			if !there[name] {
				delete(t.doubt, name)
			}
		}
		for name := range t.skip {
			if !there[name] {
				delete(t.skip, name)
			}
		}
	}
	if t.counted != t.unknown {
		t.unknown = t.counted
		if t.counted > 0 {
			d.rep.event(Event{Kind: EventUnknownName, Node: d.node,
				Why: fmt.Sprintf("%d names in the mailbox are none of ours and are ignored", t.counted)})
		}
	}
}

// one takes one letter and returns 1 if f saw it.
func (d *Disk) one(file string, f func(Name, []byte) error) int {
	t := &d.taking
	name, ok := ParseName(file)
	if !ok {
		return 0
	}
	at := path.Join(newDir, file)
	if t.skip[file] {
		if t.box.Remove(at) == nil {
			delete(t.skip, file)
		}
		return 0
	}
	raw, err := t.box.Read(file, int64(MaxLetter))
	var refused *host.FileError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0 // an event's name, taken by the scan before
	case errors.As(err, &refused) && refused.Err == nil:
		d.setAside(name, file, err)
		return 0
	case ourFault(err):
		// The system failed, not the letter: it waits for the next scan.
		t.trouble = fmt.Errorf("mailbox: %w", err)
		d.later()
		return 0
	case err != nil:
		d.inDoubt(name, file, err)
		return 0
	}
	switch err := f(name, raw); {
	case err == nil:
		delete(t.doubt, file)
		d.drop(name, file)
	case errors.Is(err, ErrLater):
		d.inDoubt(name, file, ErrPartial)
	default:
		delete(t.doubt, file)
		d.setAside(name, file, err)
	}
	return 1
}

// ourFault tells a system that is short of something from a file that cannot
// be read whoever tries.
func ourFault(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, syscall.EINTR, syscall.EAGAIN, syscall.ESTALE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// inDoubt leaves a letter that cannot be read for another look, for a while.
func (d *Disk) inDoubt(name Name, file string, why error) {
	since, known := d.taking.doubt[file]
	switch {
	case !known:
		d.taking.doubt[file] = time.Now()
		d.later()
	case time.Since(since) >= partialFor:
		delete(d.taking.doubt, file)
		d.setAside(name, file, fmt.Errorf("%w, and stays so", why))
	default:
		d.later()
	}
}

// later asks for another scan in a while.
func (d *Disk) later() {
	at := time.Now().Add(partialFor / 4)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.scan, d.woken = true, true
	if d.scanAt.Before(at) {
		d.scanAt = at
	}
	d.lookLocked(d.scanAt)
}

// drop removes a letter that was taken. One that cannot be removed is not
// taken again.
func (d *Disk) drop(name Name, file string) {
	err := d.taking.box.Remove(path.Join(newDir, file))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	if len(d.taking.skip) < maxSkipped {
		d.taking.skip[file] = true
	}
	d.rep.event(Event{Kind: EventMailbox, Node: name.Node, Ask: name.ID, Why: "a letter cannot be removed: " + ask.Quote(err.Error())})
}

// setAside moves what must not be used out of the way: a few small files are
// kept for a person to look at, the rest is removed.
func (d *Disk) setAside(name Name, file string, why error) {
	t := &d.taking
	at := path.Join(newDir, file)
	d.rep.event(Event{Kind: EventSetAside, Node: name.Node, Ask: name.ID, Why: ask.Quote(why.Error())})
	fi, err := t.box.Lstat(at)
	if err != nil {
		return
	}
	if t.bad < maxBad && (fi.Size() <= maxBadSize || !fi.Mode().IsRegular()) {
		if t.box.Rename(at, path.Join(badDir, file)) == nil {
			t.bad++
			return
		}
	}
	d.drop(name, file)
}

// Sweep removes what a dead node left here: letters and files half written.
// Like Take, it belongs to one goroutine.
func (d *Disk) Sweep(node string) {
	d.to.drop(d.dirs.Node(node).Mail(), nil)
	t := &d.taking
	if t.box == nil {
		return
	}
	for _, dir := range []string{tmpDir, newDir} {
		l, err := t.box.List(dir)
		if err != nil {
			continue
		}
		for n := 0; n < scanBatch; {
			names, err := l.Readdirnames(listPiece)
			for _, file := range names {
				if strings.HasPrefix(file, node+nameSep) {
					_ = t.box.Remove(path.Join(dir, file))
				}
			}
			if n += len(names); err != nil || len(names) == 0 {
				break
			}
		}
		l.Close()
	}
}
