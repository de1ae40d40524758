package review

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// How much space is kept ahead of a file's end. Below reserveLow a file asks
// for reserveAhead more; when the disk has none left, what remains is for
// denials, and its last headRoom bytes for heads and gaps.
const (
	reserveAhead = 128 << 10
	reserveLow   = 64 << 10
	headRoom     = 16 << 10
)

// chain is one writer's file that lines are added to. It belongs to the one
// process, and in it the one goroutine, that holds the writer's lock.
type chain struct {
	disk   Disk
	dir    string
	writer string

	f        File
	number   int // of the file; 0 before the first
	id       Ident
	written  mark // after what the kernel has
	durable  mark // after what the disk has
	reserved int64
	unable   bool // to reserve space, by the file system
	attempt  int  // file that could not be begun: it may be there, unused
}

func (c *chain) name() string { return fileName(c.number) }
func (c *chain) path() string { return filepath.Join(c.dir, c.name()) }
func fileName(n int) string   { return fmt.Sprintf("%06d.jsonl", n) }

// fileNumber reads a file's name, 0 if it is none.
func fileNumber(name string) int {
	base, ok := strings.CutSuffix(name, ".jsonl")
	if !ok || len(base) < 6 {
		return 0
	}
	n, err := strconv.Atoi(base)
	if err != nil || n <= 0 || fileName(n) != name {
		return 0
	}
	return n
}

// fileNumbers lists the log files of a directory, oldest first.
func fileNumbers(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, e := range entries {
		if n := fileNumber(e.Name()); n > 0 {
			all = append(all, n)
		}
	}
	// Numbers past 999999 are longer, and their names sort before shorter ones.
	slices.Sort(all)
	return all, nil
}

// write hands lines to the kernel; m is where they end. A short write on a full
// disk is taken back.
func (c *chain) write(lines []byte, m mark) error {
	n, err := c.f.Write(lines)
	if err == nil && n < len(lines) {
		err = io.ErrShortWrite
	}
	if err == nil {
		c.written = m
		return nil
	}
	if full(err) {
		c.reserved = 0
		if cut := c.f.Truncate(c.written.end); cut == nil {
			return fmt.Errorf("%w: %w", ErrDiskFull, err)
		}
	}
	return &brokenError{"write_failed", err}
}

// sync makes what was written durable, and looks whether it is where it will
// be looked for.
func (c *chain) sync() error {
	if err := c.f.Sync(); err != nil {
		return &brokenError{"sync_failed", err}
	}
	if cause, err := c.changed(); err != nil {
		return &brokenError{cause, err}
	}
	c.durable = c.written
	return nil
}

// changed says what somebody did to the file.
func (c *chain) changed() (cause string, err error) {
	open, err := c.f.Stat()
	if err != nil {
		return "stat_failed", err
	}
	named, err := c.disk.Stat(c.path())
	if err == nil && linked(c.dir) {
		// Those who read the record follow no link.
		return "replaced", fmt.Errorf("%w: %q is a link now", ErrChanged, c.dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "deleted", fmt.Errorf("%w: %q is gone", ErrChanged, c.path())
	case err != nil:
		return "stat_failed", err
	case !named.same(open):
		return "replaced", fmt.Errorf("%w: %q is another file now", ErrChanged, c.path())
	case open.Size < c.written.end:
		return "truncated", fmt.Errorf("%w: %q was cut", ErrChanged, c.path())
	case open.Size > c.written.end:
		return "written_to", fmt.Errorf("%w: %q was written to", ErrChanged, c.path())
	}
	return "", nil
}

// linked says whether a directory is not where its name says.
func linked(dir string) bool {
	var st unix.Stat_t
	return unix.Lstat(dir, &st) == nil && uint32(st.Mode)&unix.S_IFMT == unix.S_IFLNK
}

// brokenError is an error after which the file must be mended before anything
// is written. Its cause is for the gap record.
type brokenError struct {
	cause string
	err   error
}

func (e *brokenError) Error() string {
	if errors.Is(e.err, ErrChanged) {
		return e.err.Error()
	}
	return ErrBroken.Error() + ": " + e.err.Error()
}

func (e *brokenError) Unwrap() []error {
	if errors.Is(e.err, ErrChanged) {
		return []error{e.err}
	}
	return []error{ErrBroken, e.err}
}

// named makes the name of the file durable: whoever began it may have failed,
// or died, before that.
func (c *chain) named() error { return c.disk.SyncDir(c.dir) }

// room sees to it that n bytes, and reserveLow more, fit. nil where the file
// system cannot tell.
func (c *chain) room(n int) error {
	need := c.written.end + int64(n)
	if c.unable || c.reserved-need >= reserveLow {
		return nil
	}
	err := c.f.Reserve(need + reserveAhead)
	if errors.Is(err, errors.ErrUnsupported) {
		c.unable = true
		return nil
	}
	if err == nil {
		c.reserved = need + reserveAhead
	}
	return err
}

// begin starts the next file with the lines that first writes behind m, which
// continues the durable head. The file appears under its name whole and
// durable, or not at all. On an error the chain stays where it was.
func (c *chain) begin(first func(m *mark, name, previous string) []byte) error {
	// Somebody may have removed the directory, or left higher numbers in it.
	if err := makeDir(c.disk, c.dir); err != nil {
		return err
	}
	numbers, err := fileNumbers(c.dir)
	if err != nil {
		return err
	}
	next, previous := c.number+1, ""
	if len(numbers) > 0 && numbers[len(numbers)-1] != c.attempt {
		next = max(next, numbers[len(numbers)-1]+1)
	}
	c.attempt = next
	if c.number > 0 {
		previous = c.name()
	}
	if c.f != nil {
		// The new file stands on the end of this one, which an earlier process
		// may have written and not synced.
		if err := c.f.Sync(); err != nil {
			return err
		}
	}
	m := mark{seq: c.durable.seq, hash: c.durable.hash}
	lines := first(&m, fileName(next), previous)
	f, id, err := c.put(".next", fileName(next), lines)
	if err != nil {
		return err
	}
	if c.f != nil {
		c.f.Close()
	}
	c.f, c.id, c.number = f, id, next
	c.attempt = 0
	c.at(m)
	return nil
}

// put makes a file whole and durable, or leaves the name as it was.
func (c *chain) put(temp, name string, data []byte) (File, Ident, error) {
	temp = filepath.Join(c.dir, temp)
	f, err := c.disk.Open(temp, true)
	if err != nil {
		return nil, Ident{}, err
	}
	fail := func(err error) (File, Ident, error) {
		f.Close()
		return nil, Ident{}, err
	}
	if err := f.Truncate(0); err != nil {
		return fail(err)
	}
	n, err := f.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fail(err)
	}
	if err := f.Sync(); err != nil {
		return fail(err)
	}
	id, err := f.Stat()
	if err != nil {
		return fail(err)
	}
	if err := c.disk.Rename(temp, filepath.Join(c.dir, name)); err != nil {
		return fail(err)
	}
	if err := c.disk.SyncDir(c.dir); err != nil {
		return fail(err)
	}
	return f, id, nil
}
