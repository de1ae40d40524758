package review

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"permd/ask"
	"permd/internal/host"
)

// walk follows one writer's chain through all its files and reports each
// place where it does not hold. In a file it stops there; the next file is
// judged by itself.
type walk struct {
	dir    string // of the writer
	report *Report
	log    LogReport
	each   func(l *Line, file string, at int64, hash ask.Digest)

	file   string
	last   bool // no file after this one
	m      mark // behind the last good record
	known  bool // m is where the next record has to continue
	closed bool // the last good record is a closing head
}

// verifyLog walks the log of a writer below root. A missing directory is a
// log without files.
func verifyLog(root, writer string, r *Report, each func(l *Line, file string, at int64, hash ask.Digest)) (LogReport, error) {
	w := &walk{dir: filepath.Join(root, writer), report: r, log: LogReport{Writer: writer}, known: true, each: each}
	w.live()
	numbers, err := fileNumbers(w.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return w.log, err
	}
	for i, n := range numbers {
		if want := i + 1; i == 0 && n != want || i > 0 && n != numbers[i-1]+1 {
			w.file = fileName(n)
			w.bad(Tampered, 0, 0, "the file before it is missing")
			w.known = false
		}
		w.file, w.last = fileName(n), i == len(numbers)-1
		if err := w.walkFile(); err != nil {
			return w.log, err
		}
		w.log.Files++
	}
	w.log.Closed = w.closed
	w.live() // it may have begun while we read
	return w.log, nil
}

// live looks whether the writer is at work. A lock that nobody can hold is no
// writer's.
func (w *walk) live() {
	held, err := host.Held(filepath.Join(w.dir, "lock"))
	w.log.Live = w.log.Live || err == nil && held
}

func (w *walk) bad(s Status, at int64, seq uint64, format string, a ...any) {
	w.report.add(Problem{Status: s, Writer: w.log.Writer, File: w.file, Offset: at, Seq: seq, What: fmt.Sprintf(format, a...)})
}

func (w *walk) walkFile() error {
	f, fi, err := openToRead(filepath.Join(w.dir, w.file))
	if errors.Is(err, errNoFile) {
		w.bad(Tampered, 0, w.m.seq+1, "%v", err)
		w.known = false
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	// What is written from now on is not looked at.
	lines := newLineReader(io.LimitReader(f, fi.Size()), 0)
	for first := true; ; first = false {
		raw, at, err := lines.next()
		if errors.Is(err, io.EOF) {
			if first {
				w.bad(Tampered, 0, w.m.seq+1, "the file is empty")
				w.known = false
			}
			return nil
		}
		if errors.Is(err, errTorn) {
			w.torn(at, len(raw))
			return nil
		}
		if err == nil || errors.Is(err, errLong) {
			err = w.line(raw, at, lines.end, first, err)
		}
		if errors.Is(err, errStop) {
			w.known = false
			return nil
		}
		if err != nil {
			return err
		}
	}
}

var errStop = errors.New("the rest of the file does not count")

// torn judges bytes without an end.
func (w *walk) torn(at int64, n int) {
	if w.live(); w.log.Live && w.last {
		return // it is being written
	}
	w.known = false
	if w.last {
		w.bad(Incomplete, at, w.m.seq+1, "torn record of %d bytes", n)
		return
	}
	w.bad(Tampered, at, w.m.seq+1, "record without an end before the next file")
}

// line judges one record and moves behind it.
func (w *walk) line(raw []byte, at, end int64, first bool, long error) error {
	l, err := ParseLine(raw)
	if err == nil {
		err = long
	}
	if err != nil && w.unwritten(raw) {
		w.bad(Incomplete, at, w.m.seq+1, "damaged: a part of the disk was never written")
		return errStop
	}
	if err != nil {
		w.bad(Tampered, at, w.m.seq+1, "not a record: %v", err)
		return errStop
	}
	if what := w.follows(&l, first); what != "" {
		w.bad(Tampered, at, l.Seq, "%s", what)
		if !first || !l.heads(w.log.Writer, w.file) {
			return errStop
		}
		// From its own header on, the file is judged by itself.
	}
	w.m, w.known = mark{l.Seq, sha256.Sum256(raw), end}, true
	w.closed = l.closes()
	w.log.Records++
	w.log.Head, w.log.end = Head{Writer: w.log.Writer, File: w.file, Seq: l.Seq, Hash: w.m.hash}, end
	if w.log.First == "" {
		w.log.First = l.Time
	}
	w.log.Last = l.Time
	if l.Event == Gap {
		w.gap(&l, at)
	}
	w.each(&l, w.file, at, w.m.hash)
	return nil
}

// unwritten says whether a bad record is what a power cut leaves in a file
// that nobody has opened since: zeros, which no log writes. The ledger may still
// know better.
func (w *walk) unwritten(raw []byte) bool {
	return w.last && bytes.IndexByte(raw, 0) >= 0 && abandoned(w.dir)
}

// follows says why l cannot stand where it does.
func (w *walk) follows(l *Line, first bool) string {
	switch {
	case first && !l.heads(w.log.Writer, w.file):
		return "the file does not begin with its own header"
	case !first && l.Event == LogHeader:
		return "a second header"
	case w.known && l.Seq != w.m.seq+1:
		return fmt.Sprintf("record %d follows record %d", l.Seq, w.m.seq)
	case w.known && l.Prev != w.m.hash:
		return "it does not continue the record before it"
	case w.closed && !first && l.Event != LogResumed:
		return "it follows a closing head"
	}
	return ""
}

// gap reports what the log itself says is missing, and whether what was set
// aside is still there.
func (w *walk) gap(l *Line, at int64) {
	cause, status := l.Field(KeyCause), Incomplete
	switch cause {
	case "deleted", "replaced", "truncated", "written_to", "unreadable":
		status = Tampered
	}
	what := "gap: " + cause
	if n := l.Field(KeyLost); n != "" {
		what += ", " + n + " records lost"
	}
	w.bad(status, at, l.Seq, "%s", what)
	name := l.Field(KeySetAside)
	if name == "" {
		return
	}
	kept, err := os.ReadFile(filepath.Join(w.dir, filepath.Base(name)))
	if err != nil || ask.Digest(sha256.Sum256(kept)).String() != l.Field(KeySHA256) {
		w.bad(Tampered, at, l.Seq, "%q, which was set aside, is missing or changed", name)
	}
}
