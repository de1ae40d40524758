package review

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"permd/internal/host"
)

// Open takes the writer's lock and goes on where its log ended: in the last
// file, or in a new one if that is too long, was not there or cannot be
// continued. A damaged end is set aside and a gap recorded. When Open returns,
// the beginning is durable and in the ledger. ErrInUse if another process
// writes this log.
func Open(opt Options) (*Log, error) {
	if err := opt.fill(); err != nil {
		return nil, err
	}
	l := &Log{
		opt:   opt,
		c:     &chain{disk: opt.Disk, dir: filepath.Join(opt.Dir, opt.Writer), writer: opt.Writer},
		wake:  make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
	if err := l.open(); err != nil {
		if l.c.f != nil {
			l.c.f.Close()
		}
		if l.lock != nil {
			l.lock.Release()
		}
		return nil, fmt.Errorf("review log of %q: %w", opt.Writer, err)
	}
	go l.run()
	return l, nil
}

func (l *Log) open() error {
	err := makeDir(l.opt.Disk, l.opt.Dir)
	if err != nil {
		return err
	}
	if l.lock, err = l.claim(); err != nil {
		return err
	}
	if l.keys, err = l.ledger().key(); err != nil {
		return err
	}
	was, err := l.c.resume(false)
	if err != nil {
		return err
	}
	if err := l.start(was); err != nil {
		return err
	}
	l.dirty = true
	return l.list()
}

// makeDir makes a private directory, with missing parents; one that exists is
// checked. Its name is durable afterwards, also if whoever made it failed to see
// to that.
func makeDir(d Disk, dir string) error {
	var made []string
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, at)
	}
	if err := host.MakeDir(dir); err != nil {
		return err
	}
	for _, at := range made {
		if err := d.SyncDir(filepath.Dir(at)); err != nil {
			return err
		}
	}
	if len(made) > 0 {
		return nil
	}
	return d.SyncDir(filepath.Dir(dir))
}

// claim takes the writer's lock.
func (l *Log) claim() (*host.Lock, error) {
	if err := makeDir(l.opt.Disk, l.c.dir); err != nil {
		return nil, err
	}
	return acquire(filepath.Join(l.c.dir, "lock"), writerWait)
}

// start writes the first records of this process and makes them durable.
func (l *Log) start(was found) error {
	var gaps []Event
	if cause := causeOf(was); cause != "" {
		gaps = append(gaps, gap(cause, nil, was.cut, 0))
	}
	if l.c.number == 0 || was.unreadable || l.c.written.end > l.opt.MaxFile {
		return l.next(gaps...)
	}
	m := l.c.written
	out := l.keys.add(nil, &m, resumed(l.opt.Version, was.clean))
	for _, ev := range gaps {
		out = l.keys.add(out, &m, ev)
	}
	if err := l.c.room(len(out)); err != nil {
		return noRoomError(err)
	}
	if err := l.c.named(); err != nil {
		return err
	}
	if err := l.c.write(out, m); err != nil {
		return err
	}
	if err := l.c.sync(); err != nil {
		return err
	}
	l.unlisted = true
	l.settled()
	return nil
}
