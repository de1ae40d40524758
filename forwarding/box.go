package forwarding

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"permd/internal/host"
)

// Directories of a mailbox, and what a mailbox keeps.
const (
	tmpDir = "tmp" // being written
	newDir = "new" // letters
	badDir = "bad" // set aside, for a person to look at

	maxBad     = 16
	maxBadSize = 64 << 10
)

// box is one open mailbox. Names are relative to it, as "tmp/x". Tests put one
// in that fails.
type box interface {
	host.Files
	// Read reads a private regular file of ours in new.
	Read(name string, limit int64) ([]byte, error)
	Lstat(name string) (fs.FileInfo, error)
	// Current reports whether new is still the directory found at its path.
	Current() bool
	// List opens a directory for listing.
	List(dir string) (lister, error)
	Close() error
}

// lister lists a directory in pieces; at its end it returns io.EOF.
type lister interface {
	Readdirnames(n int) ([]string, error)
	Close() error
}

// rootBox is the real thing. No name leaves it and none is followed.
type rootBox struct {
	host.Files
	path string
	root *os.Root
	in   *os.Root    // new, opened once: it is read all the time
	is   os.FileInfo // in's identity
}

var _ box = (*rootBox)(nil)

// openBox opens a mailbox that belongs to this user alone. forTaking also
// opens the part that letters are taken from.
func openBox(dir string, forTaking bool) (box, error) {
	if err := host.CheckDir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %w", ErrNoMailbox, err)
		}
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	b := &rootBox{Files: host.FilesOf(root), path: dir, root: root}
	if forTaking {
		if b.in, err = root.OpenRoot(newDir); err == nil {
			b.is, err = b.in.Stat(".")
		}
		if err != nil {
			b.Close()
			return nil, err
		}
	}
	return b, nil
}

func (b *rootBox) Current() bool {
	fi, err := os.Lstat(path.Join(b.path, newDir))
	return err == nil && os.SameFile(fi, b.is)
}

func (b *rootBox) Read(name string, limit int64) ([]byte, error) {
	return host.OpenPrivate(b.in, name, limit)
}

func (b *rootBox) Lstat(name string) (fs.FileInfo, error) { return b.root.Lstat(name) }

// Remove removes a letter without looking its directory up again.
func (b *rootBox) Remove(name string) error {
	if dir, file := path.Split(name); b.in != nil && dir == newDir+"/" {
		return b.in.Remove(file)
	}
	return b.root.Remove(name)
}

func (b *rootBox) List(dir string) (lister, error) { return b.root.Open(dir) }

func (b *rootBox) Close() error {
	err := b.root.Close()
	if b.in != nil {
		err = errors.Join(err, b.in.Close())
	}
	return err
}

// makeBox makes the directories of a mailbox that are missing.
func makeBox(dir string) error {
	for _, d := range []string{dir, path.Join(dir, tmpDir), path.Join(dir, newDir), path.Join(dir, badDir)} {
		if err := host.MakeDir(d); err != nil {
			return err
		}
	}
	return nil
}
