package heartbeat

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"permd/ask"
	"permd/internal/host"
)

// Identity is who beats.
type Identity struct {
	Node     string
	Instance string
	// Boot is [host.BootID], "" where there is none.
	Boot string
}

// Writer writes the beats of one node instance. It is not safe for concurrent
// use: one loop owns it.
type Writer struct {
	dir  string
	id   Identity
	key  []byte
	n    uint64
	file *os.File
	size int // of the longest beat so far
}

// Create starts the beats of a node whose lock the caller holds: the file of
// an earlier holder is removed and a new one made, 0600, so that no link of
// somebody else is written through. The first beat is the caller's to write.
// key is the node's beat key, handed to children when they register; nil
// leaves beats unauthenticated.
func Create(dir string, id Identity, key []byte) (*Writer, error) {
	if !ask.ValidID(id.Node) || !ask.ValidID(id.Instance) {
		return nil, fmt.Errorf("%w: node %s, instance %s", ErrInvalid, ask.Quote(id.Node), ask.Quote(id.Instance))
	}
	w := &Writer{dir: dir, id: id, key: key}
	if err := w.open(); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Writer) open() error {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	defer root.Close()
	if err := root.Remove(Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("heartbeat: %w", err)
	}
	f, err := root.OpenFile(Name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if w.file != nil {
		_ = w.file.Close()
	}
	w.file, w.size = f, 0
	return nil
}

// Beat writes one beat: the sessions that serve, in any order, as of uptime on
// the boot-time clock. A file that was removed or replaced meanwhile is made
// anew; an error means that nothing usable was written.
func (w *Writer) Beat(uptime time.Duration, serving []string) error {
	return w.write(uptime, serving, false)
}

// Rest writes the last beat before a pause: nobody wants beats for now.
func (w *Writer) Rest(uptime time.Duration, serving []string) error {
	return w.write(uptime, serving, true)
}

func (w *Writer) write(uptime time.Duration, serving []string, resting bool) error {
	list := slices.Clone(serving)
	slices.Sort(list)
	list = slices.Compact(list)
	b := Beat{V: Version, Node: w.id.Node, Instance: w.id.Instance, Counter: w.n + 1,
		Boot: w.id.Boot, UptimeNS: int64(uptime), Resting: resting, Serving: list}
	if most := (maxBody - fixedRoom) / idRoom; len(list) > most {
		b.Serving, b.Cut = list[:most], true
	}
	if b.Serving == nil {
		b.Serving = []string{}
	}
	rec, err := Encode(b, w.key)
	if err != nil {
		return err
	}
	if !w.inPlace() {
		if err := w.open(); err != nil {
			return err
		}
	}
	if n := w.size - len(rec); n > 0 {
		rec = append(rec, make([]byte, n)...)
	}
	if _, err := w.file.WriteAt(rec, 0); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	w.n, w.size = b.Counter, len(rec)
	return nil
}

// inPlace reports whether the file we write is the one readers find.
func (w *Writer) inPlace() bool {
	ours, err := w.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(w.dir + "/" + Name)
	return err == nil && os.SameFile(ours, named)
}

// Close ends the beats. The file stays; the node's free lock says the rest.
func (w *Writer) Close() error { return w.file.Close() }

const (
	readTries = 4
	readWait  = time.Millisecond
)

// Read reads the beat in a node's directory. The node must be the one the
// directory is named for. A torn read is tried again for a few milliseconds;
// what stays torn, and everything else that is no beat, is an error. A missing
// file is [fs.ErrNotExist].
func Read(dir *os.Root, node string, key []byte) (Beat, error) {
	var err error
	for try := range readTries {
		if try > 0 {
			time.Sleep(readWait)
		}
		var raw []byte
		if raw, err = host.OpenPrivate(dir, Name, MaxSize); err != nil {
			return Beat{}, err
		}
		var b Beat
		if b, err = Decode(raw, key); err == nil {
			if b.Node != node {
				return Beat{}, fmt.Errorf("%w: node %s in the directory of %s", ErrInvalid, ask.Quote(b.Node), ask.Quote(node))
			}
			return b, nil
		}
		if !errors.Is(err, ErrTorn) {
			break
		}
	}
	return Beat{}, err
}
