// Package reviewtest makes the disk of a review log fail on purpose: every
// operation with any error, once or for good, late or never, and a power cut
// that loses what was not synced. It is for tests alone.
package reviewtest

import (
	"errors"
	"sync"

	"permd/review"
)

// Op is one operation on the disk, numbered from 1. Name is the path, or the
// new path of a rename.
type Op struct {
	N    int
	Kind string // open, stat, rename, syncdir, write, read, truncate, sync, reserve, fstat, close
	Name string
}

// Short is an error with which a write writes half of what it was given.
type Short struct{ Err error }

func (s Short) Error() string { return s.Err.Error() }

// Unwrap gives the error that the caller sees.
func (s Short) Unwrap() error { return s.Err }

// Disk passes everything on to Base (nil: the real disk) unless Fail says
// otherwise. Fail is asked before each operation, one at a time unless
// Parallel; it may block. An operation that fails has no effect, except half of
// a write that fails with Short, and that a file is closed all the same.
type Disk struct {
	Base     review.Disk
	Parallel bool

	mu   sync.Mutex
	fail func(Op) error
	n    int
	ops  []Op
}

var _ review.Disk = (*Disk)(nil)

// Fail puts in what is asked before each operation from now on, and numbers
// from 1 again. nil lets all pass.
func (d *Disk) Fail(f func(Op) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail, d.n, d.ops = f, 0, nil
}

// At makes a function for Fail: operation n and the times-1 after it fail with
// err; times < 0 is for good.
func At(n, times int, err error) func(Op) error {
	return func(op Op) error {
		if op.N >= n && (times < 0 || op.N < n+times) {
			return err
		}
		return nil
	}
}

// Ops lists the operations since the last Fail.
func (d *Disk) Ops() []Op {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Op(nil), d.ops...)
}

func (d *Disk) next(kind, name string) error {
	d.mu.Lock()
	d.n++
	op := Op{d.n, kind, name}
	d.ops = append(d.ops, op)
	fail := d.fail
	if fail == nil {
		d.mu.Unlock()
		return nil
	}
	if d.Parallel {
		d.mu.Unlock()
		return fail(op)
	}
	defer d.mu.Unlock()
	return fail(op)
}

func (d *Disk) base() review.Disk {
	if d.Base != nil {
		return d.Base
	}
	return review.RealDisk{}
}

// Open implements review.Disk.
func (d *Disk) Open(name string, create bool) (review.File, error) {
	if err := d.next("open", name); err != nil {
		return nil, err
	}
	f, err := d.base().Open(name, create)
	if err != nil {
		return nil, err
	}
	return &file{d, name, f}, nil
}

// Stat implements review.Disk.
func (d *Disk) Stat(name string) (review.Ident, error) {
	if err := d.next("stat", name); err != nil {
		return review.Ident{}, err
	}
	return d.base().Stat(name)
}

// Rename implements review.Disk.
func (d *Disk) Rename(from, to string) error {
	if err := d.next("rename", to); err != nil {
		return err
	}
	return d.base().Rename(from, to)
}

// SyncDir implements review.Disk.
func (d *Disk) SyncDir(dir string) error {
	if err := d.next("syncdir", dir); err != nil {
		return err
	}
	return d.base().SyncDir(dir)
}

type file struct {
	d    *Disk
	name string
	f    review.File
}

func (f *file) Write(p []byte) (int, error) {
	err := f.d.next("write", f.name)
	if err == nil {
		return f.f.Write(p)
	}
	var short Short
	if errors.As(err, &short) {
		n, _ := f.f.Write(p[:len(p)/2])
		return n, short.Err
	}
	return 0, err
}

func (f *file) ReadAt(p []byte, at int64) (int, error) {
	if err := f.d.next("read", f.name); err != nil {
		return 0, err
	}
	return f.f.ReadAt(p, at)
}

func (f *file) Truncate(size int64) error {
	if err := f.d.next("truncate", f.name); err != nil {
		return err
	}
	return f.f.Truncate(size)
}

func (f *file) Sync() error {
	if err := f.d.next("sync", f.name); err != nil {
		return err
	}
	return f.f.Sync()
}

func (f *file) Reserve(size int64) error {
	if err := f.d.next("reserve", f.name); err != nil {
		return err
	}
	return f.f.Reserve(size)
}

func (f *file) Stat() (review.Ident, error) {
	if err := f.d.next("fstat", f.name); err != nil {
		return review.Ident{}, err
	}
	return f.f.Stat()
}

func (f *file) Close() error {
	return errors.Join(f.d.next("close", f.name), f.f.Close())
}
