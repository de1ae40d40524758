package review

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"permd/ask"
)

// aside is a part of a file that was cut off and kept.
type aside struct {
	file   string // it was cut from
	from   int64
	size   int64
	sum    ask.Digest
	kept   string // file it is in, "" if it could not be read
	reason error  // why not
}

// setAside copies what f has from a place on into a file beside it, durably,
// and cuts it off. What cannot be read is cut off all the same.
func (c *chain) setAside(f File, number int, from, size int64) (*aside, error) {
	a := &aside{file: fileName(number), from: from, size: size - from}
	tail := make([]byte, size-from)
	if _, err := f.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		a.reason = err
	} else {
		a.sum = sha256.Sum256(tail)
		if a.kept, err = c.keep(a, tail); err != nil {
			return nil, fmt.Errorf("cannot keep the damaged end of %q: %w", a.file, err)
		}
	}
	if err := f.Truncate(from); err != nil {
		return nil, err
	}
	return a, f.Sync()
}

// keep writes a part that was cut off, under a name that nothing has.
func (c *chain) keep(a *aside, tail []byte) (string, error) {
	for n := 1; n < 1000; n++ {
		name := fmt.Sprintf("%s.aside-%d-%d", a.file, a.from, n)
		_, err := c.disk.Stat(filepath.Join(c.dir, name))
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		f, _, err := c.put(".aside", name, tail)
		if err != nil {
			return "", err
		}
		return name, f.Close()
	}
	return "", errors.New("a thousand parts were set aside there; move them away")
}
