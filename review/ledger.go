package review

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"permd/internal/host"
)

// ledgerName is the ledger's directory; no writer may have this name.
const ledgerName = "ledger"

// How long somebody waits for a lock that is held for milliseconds, unless its
// holder was stopped.
const (
	ledgerWait = 5 * time.Second
	writerWait = 2 * time.Second
)

// ledger is the chain that all writers of a user add to, one durable record
// at a time, each under the ledger's lock. It says which logs there are and how
// far they went.
type ledger struct {
	disk    Disk
	root    string // the review directory
	version string
	maxFile int64
}

func (g *ledger) dir() string { return filepath.Join(g.root, ledgerName) }

func (g *ledger) lock() (*host.Lock, error) {
	if err := makeDir(g.disk, g.dir()); err != nil {
		return nil, err
	}
	return acquire(filepath.Join(g.dir(), "lock"), ledgerWait)
}

// key reads the user's key, or makes it.
func (g *ledger) key() (keys, error) {
	if _, err := os.Lstat(filepath.Join(g.root, keyName)); !errors.Is(err, fs.ErrNotExist) {
		return loadKey(g.root)
	}
	lock, err := g.lock()
	if err != nil {
		return nil, err
	}
	k, err := loadKey(g.root)
	return k, errors.Join(err, lock.Release())
}

// append makes ev durable and gives its place.
func (g *ledger) append(k keys, ev Event) (m mark, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ledger of the review logs: %w", err)
		}
	}()
	lock, err := g.lock()
	if err != nil {
		return mark{}, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	c := chain{disk: g.disk, dir: g.dir(), writer: ledgerName}
	defer func() {
		if c.f != nil {
			c.f.Close()
		}
	}()
	was, err := c.resume(true)
	if err != nil {
		return mark{}, err
	}
	if err := g.add(&c, k, was, ev); err != nil {
		return mark{}, err
	}
	return c.durable, nil
}

func (g *ledger) add(c *chain, k keys, was found, ev Event) error {
	tail := func(out []byte, m *mark) []byte {
		if was.cut != nil || was.unreadable {
			out = k.add(out, m, gap(causeOf(was), nil, was.cut, 0))
		}
		return k.add(out, m, ev)
	}
	if c.number == 0 || was.unreadable || c.written.end > g.maxFile {
		return c.begin(func(m *mark, name, previous string) []byte {
			return tail(k.add(nil, m, header(ledgerName, name, previous, g.version)), m)
		})
	}
	if err := c.named(); err != nil {
		return err
	}
	m := c.written
	out := tail(nil, &m)
	// A failure here shows in the write, if it matters.
	_ = c.room(len(out))
	err := c.write(out, m)
	if err == nil {
		err = c.sync()
	}
	if err != nil && !errors.Is(err, ErrChanged) {
		// Nobody was told that the record is there, and the next one must not
		// stand on it: the kernel may have dropped it.
		_ = c.f.Truncate(c.durable.end)
		_ = c.f.Sync()
	}
	return err
}

func causeOf(was found) string {
	switch {
	case was.unreadable:
		return "unreadable"
	case was.cut != nil:
		return "torn_tail"
	}
	return ""
}

// acquire takes a lock that its holders give back soon.
func acquire(path string, wait time.Duration) (*host.Lock, error) {
	end := time.Now().Add(wait)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		lock, err := host.TryLock(path)
		if !errors.Is(err, host.ErrLocked) {
			return lock, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%w: %q is locked", ErrInUse, path)
		}
		time.Sleep(pause)
	}
}
