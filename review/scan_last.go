package review

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
)

// Last is [Scan] for the last n records that f takes. Without a condition it
// reads no more than the ends of the files.
func Last(dir string, f Filter, n int, fn func(Record) error) error {
	streams, err := openStreams(dir, f)
	if err != nil {
		return err
	}
	return mergeLast(streams, f, n, fn)
}

// FollowLast is [Follow] that begins with the last n records instead of with
// all.
func FollowLast(ctx context.Context, dir string, f Filter, n int, fn func(Record) error) error {
	w := newFollower(dir, f, fn)
	w.begin = func(streams []*stream) error { return mergeLast(streams, f, n, fn) }
	return w.run(ctx)
}

// mergeLast reads the streams to their ends and gives fn the last n records.
func mergeLast(streams []*stream, f Filter, n int, fn func(Record) error) error {
	n = max(n, 0)
	if f.bare() {
		for _, s := range streams {
			if err := s.toLast(n); err != nil {
				return err
			}
		}
	}
	var ring []Record
	next := 0 // where the oldest stands once the ring is full
	err := merge(streams, f, func(r Record) error {
		r.Raw = bytes.Clone(r.Raw)
		switch {
		case len(ring) < n:
			ring = append(ring, r)
		case n > 0:
			ring[next] = r
			next = (next + 1) % n
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range ring {
		if err := fn(ring[(next+i)%len(ring)]); err != nil {
			return err
		}
	}
	return nil
}

// bare says that f takes every record of the writers that it takes.
func (f *Filter) bare() bool {
	g := *f
	g.Writer = ""
	s := g.sieve()
	return s.event == nil && len(s.needles) == 0 && s.among == nil && len(g.Among) == 0 && s.since == "" && s.until == "" &&
		g.Text == "" && g.AskEnd == ""
}

// toLast puts a stream that has not begun before the last n lines of its
// writer, or at its beginning if it has no more.
func (s *stream) toLast(n int) error {
	numbers, err := fileNumbers(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := len(numbers) - 1; i >= 0; i-- {
		f, info, err := openToRead(filepath.Join(s.dir, fileName(numbers[i])))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoFile) {
			continue
		}
		if err != nil {
			return err
		}
		at, found, err := lastLines(f, info.Size(), n)
		f.Close()
		if err != nil {
			return err
		}
		s.number, s.at = numbers[i], at
		if n -= found; n <= 0 {
			break
		}
	}
	return nil
}

// lastLines gives where the last n whole lines of a file of size bytes begin,
// and how many there are, at most n. What follows the last newline is no line
// yet.
func lastLines(r io.ReaderAt, size int64, n int) (at int64, found int, err error) {
	const chunk = 64 << 10
	buf := make([]byte, min(chunk, size))
	ends := 0 // newlines seen
	for end := size; end > 0; {
		from := max(0, end-chunk)
		part := buf[:end-from]
		if _, err := r.ReadAt(part, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		for i := bytes.LastIndexByte(part, '\n'); i >= 0; i = bytes.LastIndexByte(part[:i], '\n') {
			if ends == n {
				return from + int64(i) + 1, n, nil
			}
			ends++
		}
		end = from
	}
	return 0, ends, nil
}
