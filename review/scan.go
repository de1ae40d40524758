package review

import (
	"container/heap"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	// Err says why the line cannot be read; Line is then zero but for the time
	// of the record before it.
	Err error
}

// Filter chooses records. Its zero value takes all.
type Filter struct {
	Writer string
	// Session is the record's session or one on its ask's path.
	Session string
	Ask     string
	// Event is a name, or the beginning of names when it ends with a dot.
	Event string
	// Since and Until bound the record's time: not before, and before.
	Since, Until time.Time
}

// Match says whether f takes r. What cannot be read is taken unless the filter
// asks for something in it.
func (f *Filter) Match(r *Record) bool {
	switch {
	case f.Writer != "" && f.Writer != r.Writer,
		f.Ask != "" && f.Ask != r.Ask,
		f.Event != "" && !matchName(f.Event, string(r.Event)),
		f.Session != "" && !r.concerns(f.Session):
		return false
	}
	if f.Since.IsZero() && f.Until.IsZero() {
		return true
	}
	t, err := time.Parse(timeLayout, r.Time)
	return err == nil && !t.Before(f.Since) && (f.Until.IsZero() || t.Before(f.Until))
}

func matchName(want, name string) bool {
	return want == name || strings.HasSuffix(want, ".") && strings.HasPrefix(name, want)
}

func (l *Line) concerns(session string) bool {
	if l.Session == session {
		return true
	}
	for _, h := range l.Path {
		if h.Session == session {
			return true
		}
	}
	return false
}

// Scan gives fn the records of all writers below dir that f takes, in the order
// of their times; records of one writer keep their order whatever the clock did.
// It verifies nothing. A line that is not whole yet is left out; one that cannot
// be read comes with its error. fn's error ends the scan and is returned.
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
		if f.Match(&s.cur) {
			if err := fn(s.cur); err != nil {
				return err
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
	a, b := &h[i].cur, &h[j].cur
	if a.Time != b.Time {
		return a.Time < b.Time
	}
	return a.Writer < b.Writer
}
func (h streamHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *streamHeap) Push(x any)   { *h = append(*h, x.(*stream)) }
func (h *streamHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	*h = old[:len(old)-1]
	return s
}
