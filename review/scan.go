package review

import (
	"bytes"
	"container/heap"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"permd/ask"
)

// Record is a line and where it stands.
type Record struct {
	Line
	Writer string
	File   string
	Offset int64
	// Raw is the line's bytes, valid during the call.
	Raw []byte
	// Err says why the line cannot be read; Line is then zero but for its time,
	// that of the record before it if it shows none.
	Err error
}

// Scan gives fn the records of all writers below dir that f takes, in the order
// of their times; records of one writer keep their order whatever the clock did.
// It verifies nothing. A line that is not whole yet is left out; one that cannot
// be read comes with its error. fn's error ends the scan and is returned.
//
// It reads each file once from its beginning to its end and keeps one line of
// each writer in memory. Only lines whose bytes may hold what f asks for are
// parsed, so most of a log is passed at the speed of a search for bytes.
func Scan(dir string, f Filter, fn func(Record) error) error {
	streams, err := openStreams(dir, f)
	if err != nil {
		return err
	}
	return merge(streams, f, fn)
}

func openStreams(dir string, f Filter) ([]*stream, error) {
	writers, err := writerDirs(dir)
	if err != nil {
		return nil, err
	}
	var streams []*stream
	for _, name := range writers {
		if f.Writer == "" || f.Writer == name {
			streams = append(streams, &stream{dir: filepath.Join(dir, name), writer: name})
		}
	}
	return streams, nil
}

// writerDirs lists the directories of writers; the ledger is none.
func writerDirs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != ledgerName && ask.ValidID(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// merge reads the streams to their ends. Only those whose records overlap in
// time are open at once.
func merge(streams []*stream, f Filter, fn func(Record) error) error {
	var q streamHeap
	sieve := f.sieve()
	defer func() {
		for _, s := range streams {
			s.pause()
		}
	}()
	for _, s := range streams {
		more, err := s.next()
		if err != nil {
			return err
		}
		if more {
			s.suspend()
			q = append(q, s)
		}
	}
	heap.Init(&q)
	for len(q) > 0 {
		s := q[0]
		if s.suspended {
			// Its first record was only looked at for its time.
			if _, err := s.next(); err != nil {
				return err
			}
		}
		if sieve.passes(&s.line) {
			if r := s.record(); f.Match(&r) {
				if err := fn(r); err != nil {
					return err
				}
			}
		}
		more, err := s.next()
		if err != nil {
			return err
		}
		if more {
			heap.Fix(&q, 0)
		} else {
			heap.Pop(&q)
		}
	}
	return nil
}

type streamHeap []*stream

func (h streamHeap) Len() int { return len(h) }
func (h streamHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if c := bytes.Compare(a.line.time[:], b.line.time[:]); c != 0 {
		return c < 0
	}
	return a.writer < b.writer
}
func (h streamHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *streamHeap) Push(x any)   { *h = append(*h, x.(*stream)) }
func (h *streamHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	*h = old[:len(old)-1]
	return s
}
