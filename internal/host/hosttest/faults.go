// Package hosttest makes a file system fail on purpose, so that tests can run
// a file protocol through "fail at operation N" for every N. It is for tests
// alone.
package hosttest

import (
	"os"
	"sync"

	"permd/internal/host"
)

// Faults passes everything on to Files, counts the operations from 1 and
// fails Times of them (0 is one) from number At on with Err. A write that fails
// has written half; no other failing operation has any effect, except that a
// file is closed even when Close fails. With Late the operation is done and
// fails all the same, as on a network file system that lost the reply. Safe for
// concurrent use.
type Faults struct {
	host.Files
	At    int
	Times int
	Err   error
	Late  bool

	mu  sync.Mutex
	ops []string
}

var _ host.Files = (*Faults)(nil)

// Ops lists what was asked for so far, as "rename from to".
func (f *Faults) Ops() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.ops...)
}

// next counts an operation and says whether it fails.
func (f *Faults) next(op string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops = append(f.ops, op)
	n := len(f.ops)
	if n >= f.At && n < f.At+max(f.Times, 1) {
		return f.Err
	}
	return nil
}

func (f *Faults) do(op string, real func() error) error {
	err := f.next(op)
	if err == nil || f.Late {
		if realErr := real(); err == nil {
			err = realErr
		}
	}
	return err
}

// Create makes a file whose operations are counted too.
func (f *Faults) Create(name string, perm os.FileMode) (host.File, error) {
	err := f.next("create " + name)
	if err != nil && !f.Late {
		return nil, err
	}
	file, realErr := f.Files.Create(name, perm)
	switch {
	case realErr != nil:
		return nil, realErr
	case err != nil:
		_ = file.Close()
		return nil, err
	}
	return &faultyFile{file, f, name}, nil
}

// Rename counts and passes on.
func (f *Faults) Rename(from, to string) error {
	return f.do("rename "+from+" "+to, func() error { return f.Files.Rename(from, to) })
}

// Remove counts and passes on.
func (f *Faults) Remove(name string) error {
	return f.do("remove "+name, func() error { return f.Files.Remove(name) })
}

// SyncDir counts and passes on.
func (f *Faults) SyncDir(name string) error {
	return f.do("syncdir "+name, func() error { return f.Files.SyncDir(name) })
}

type faultyFile struct {
	file host.File
	of   *Faults
	name string
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if err := f.of.next("write " + f.name); err != nil {
		n, _ := f.file.Write(p[:len(p)/2])
		return n, err
	}
	return f.file.Write(p)
}

func (f *faultyFile) Sync() error {
	return f.of.do("sync "+f.name, f.file.Sync)
}

func (f *faultyFile) Close() error {
	err := f.of.next("close " + f.name)
	if realErr := f.file.Close(); err == nil {
		err = realErr
	}
	return err
}
