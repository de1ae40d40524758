package reviewtest

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"permd/review"
)

// Volatile is the real disk, and knows which of what is on it would outlive a
// power cut: what of a file was synced, and which names a synced directory has.
// Files and directories that were not made through it count as durable once
// their directory was synced through it, or if they were there before.
type Volatile struct {
	root string

	mu    sync.Mutex
	n     int
	cut   func(op int) // before each operation
	files map[inode]*content
	names map[string]map[string]inode // of each directory, as last synced
}

type inode struct{ dev, ino uint64 }

type content struct {
	synced []byte
	gone   []byte // what it held when another file took its name
}

var _ review.Disk = (*Volatile)(nil)

// NewVolatile watches over what happens below root from now on.
func NewVolatile(root string) *Volatile {
	return &Volatile{root: root, files: map[inode]*content{}, names: map[string]map[string]inode{}}
}

// Before sets what is called before each operation, numbered from 1, with
// nothing else going on.
func (v *Volatile) Before(f func(op int)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cut, v.n = f, 0
}

func (v *Volatile) enter() func() {
	v.mu.Lock()
	v.n++
	if v.cut != nil {
		v.cut(v.n)
	}
	return v.mu.Unlock
}

// Open implements review.Disk.
func (v *Volatile) Open(name string, create bool) (review.File, error) {
	defer v.enter()()
	_, err := os.Lstat(name)
	fresh := err != nil
	f, err := review.RealDisk{}.Open(name, create)
	if err != nil {
		return nil, err
	}
	id, err := f.Stat()
	if err != nil {
		return nil, err
	}
	key := inode{id.Dev, id.Ino}
	if fresh || v.files[key] == nil {
		v.files[key] = &content{}
		if !fresh {
			v.files[key].synced, _ = os.ReadFile(name)
		}
	}
	return &volatileFile{f, v, v.files[key]}, nil
}

// Stat implements review.Disk.
func (v *Volatile) Stat(name string) (review.Ident, error) {
	defer v.enter()()
	return review.RealDisk{}.Stat(name)
}

// Rename implements review.Disk.
func (v *Volatile) Rename(from, to string) error {
	defer v.enter()()
	if id, err := (review.RealDisk{}).Stat(to); err == nil {
		if c := v.files[inode{id.Dev, id.Ino}]; c != nil {
			c.gone, _ = os.ReadFile(to)
		}
	}
	return os.Rename(from, to)
}

// SyncDir implements review.Disk.
func (v *Volatile) SyncDir(dir string) error {
	defer v.enter()()
	v.names[dir] = list(dir)
	return nil
}

func list(dir string) map[string]inode {
	names := map[string]inode{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if id, err := (review.RealDisk{}).Stat(filepath.Join(dir, e.Name())); err == nil {
			names[e.Name()] = inode{id.Dev, id.Ino}
		}
	}
	return names
}

type volatileFile struct {
	review.File
	v *Volatile
	c *content
}

func (f *volatileFile) Write(p []byte) (int, error) {
	defer f.v.enter()()
	return f.File.Write(p)
}

func (f *volatileFile) Truncate(size int64) error {
	defer f.v.enter()()
	return f.File.Truncate(size)
}

// Sync only remembers: a real one would take time and prove nothing here.
func (f *volatileFile) Sync() error {
	defer f.v.enter()()
	b, err := io.ReadAll(io.NewSectionReader(f.File, 0, 1<<40))
	if err == nil {
		f.c.synced = b
	}
	return err
}

// Cut writes to the directory to what could be left of root after a power cut
// now: for what was not synced, rng decides. It is called from Before.
func (v *Volatile) Cut(rng *rand.Rand, to string) error {
	return v.cutDir(rng, v.root, to)
}

func (v *Volatile) cutDir(rng *rand.Rand, from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	now, synced := list(from), v.names[from]
	all := map[string]bool{}
	for name := range now {
		all[name] = true
	}
	for name := range synced {
		all[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := filepath.Join(from, name)
		key, there := v.choose(rng, name, now, synced, at)
		if !there {
			continue
		}
		if fi, err := os.Lstat(at); err == nil && fi.IsDir() {
			if err := v.cutDir(rng, at, filepath.Join(to, name)); err != nil {
				return err
			}
			continue
		}
		b, err := v.left(rng, key, at, now[name] == key)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// choose says which file a name stands for after the cut, if any.
func (v *Volatile) choose(rng *rand.Rand, name string, now, synced map[string]inode, at string) (inode, bool) {
	n, is := now[name]
	s, was := synced[name]
	switch {
	case is && was && n == s:
		return n, true
	case is && v.files[n] == nil && !isDir(at):
		return n, true // not ours to lose
	case rng.IntN(2) == 0:
		return n, is
	default:
		return s, was
	}
}

func isDir(at string) bool {
	fi, err := os.Lstat(at)
	return err == nil && fi.IsDir()
}

// left is what could be left of a file.
func (v *Volatile) left(rng *rand.Rand, key inode, at string, here bool) ([]byte, error) {
	c := v.files[key]
	if c == nil {
		return os.ReadFile(at)
	}
	current := c.gone
	if here {
		var err error
		if current, err = os.ReadFile(at); err != nil {
			return nil, err
		}
	} else if current == nil {
		current = c.synced
	}
	if !bytes.HasPrefix(current, c.synced) {
		if rng.IntN(2) == 0 {
			return c.synced, nil
		}
		return current, nil
	}
	more := len(current) - len(c.synced)
	b := bytes.Clone(current[:len(c.synced)+rng.IntN(more+1)])
	if fresh := b[len(c.synced):]; len(fresh) > 0 && rng.IntN(3) == 0 {
		// A block of it never reached the disk.
		hole := fresh[rng.IntN(len(fresh)):]
		clear(hole[:min(len(hole), 1+rng.IntN(512))])
	}
	return b, nil
}
