package review

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// ready makes the file one that can be written: it is whole, not too long, and
// the ledger knows of it.
func (l *Log) ready() error {
	if l.broken != nil {
		if err := l.mend(); err != nil {
			return err
		}
	}
	if l.c.written.end > l.opt.MaxFile {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if l.unlisted {
		return l.list()
	}
	return nil
}

// mend cuts off, and keeps, what nobody was told is recorded, and begins a new
// file that continues the last durable record and says what is missing.
func (l *Log) mend() error {
	if time.Since(l.tried) < repairWait {
		return l.broken
	}
	err := l.regain()
	if err == nil {
		err = l.salvage()
	}
	if err == nil {
		err = l.next(gap(l.broken.cause, l.broken.err, l.cut, l.lost))
	}
	if err != nil {
		l.tried = time.Now()
		return fmt.Errorf("%w (and it could not be mended: %w)", l.broken, err)
	}
	l.broken, l.cut, l.lost = nil, nil, 0
	return nil
}

// regain takes the lock again if its file was removed: on a file that nobody
// finds it keeps nobody out.
func (l *Log) regain() error {
	path := filepath.Join(l.c.dir, "lock")
	if l.lock.Confirm(path) == nil {
		return nil
	}
	lock, err := l.claim()
	if err != nil {
		return err
	}
	l.lock.Release()
	l.lock = lock
	return nil
}

// salvage closes the file and, if it is still the one that was written, takes
// everything behind the last durable record out of it.
func (l *Log) salvage() error {
	c := l.c
	if c.f != nil {
		c.f.Close()
		c.f = nil
	}
	// The lost count of gap lines that go with the rest is told again.
	l.lost += c.written.seq - c.durable.seq - l.said.lines + l.said.lost
	c.written, l.said = c.durable, unsaid{}
	f, err := c.disk.Open(c.path(), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		// Somebody put something else there; it is theirs.
		if named, statErr := c.disk.Stat(c.path()); statErr == nil && !named.same(c.id) {
			return nil
		}
		return err
	}
	defer f.Close()
	id, err := f.Stat()
	if err != nil || !id.same(c.id) || id.Size <= c.durable.end {
		return err
	}
	cut, err := c.setAside(f, c.number, c.durable.end, id.Size)
	if err == nil {
		l.cut = cut
	}
	return err
}

// next begins a new file behind the last durable record. Further records of
// the log itself follow the header.
func (l *Log) next(more ...Event) error {
	err := l.c.begin(func(m *mark, name, previous string) []byte {
		lines := l.keys.add(nil, m, header(l.opt.Writer, name, previous, l.opt.Version))
		for _, ev := range more {
			lines = l.keys.add(lines, m, ev)
		}
		return lines
	})
	if err != nil {
		return err
	}
	l.unlisted = true
	l.settled()
	return nil
}

// rotate begins a new file because the old one is long.
func (l *Log) rotate() error {
	err := l.c.sync()
	if err == nil {
		l.settled()
		if err = l.next(); err != nil {
			// Whether the new file is there is not known.
			err = &brokenError{"rotation_failed", err}
		}
	}
	if err != nil {
		l.broke(err)
	}
	return err
}

func (l *Log) ledger() *ledger {
	return &ledger{l.opt.Disk, l.opt.Dir, l.opt.Version, l.opt.MaxFile}
}

// list enters the beginning of this file, or of this process in it, in the
// ledger, and the ledger's record in this log: each then tells of the other.
func (l *Log) list() error {
	m, err := l.ledger().append(l.keys, placed(LedgerStarted, l.opt.Writer, l.c.name(), l.c.durable))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	at := l.c.written
	if err := l.c.write(l.keys.add(nil, &at, inLedger(m)), at); err != nil {
		l.broke(err)
		return err
	}
	l.unlisted = false
	return nil
}
