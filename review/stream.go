package review

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// stream reads one writer's records in order, over all its files, and can go
// on when more were written.
type stream struct {
	dir    string
	writer string

	number int // file that is read, 0 before the first
	at     int64
	f      *os.File
	info   fs.FileInfo // of that file
	last   bool        // a later file was seen, this one is looked at once more
	lines  *lineReader
	line   rawLine
	// suspended: line was read and the stream set back before it.
	suspended bool
}

// next reads the next whole line. false at the present end; a later call looks
// again.
func (s *stream) next() (bool, error) {
	s.suspended = false
	for {
		if s.f == nil {
			if ok, err := s.open(); !ok || err != nil {
				return false, err
			}
		}
		raw, at, err := s.lines.next()
		switch {
		case err == nil:
			s.at = s.lines.end
			s.line.set(raw, at)
			return true, nil
		case errors.Is(err, errLong):
			s.line.bad(at, err)
			err = s.lines.skip()
			s.at = s.lines.end
			if err != nil && !errors.Is(err, io.EOF) {
				return false, err
			}
			return true, nil
		case errors.Is(err, io.EOF), errors.Is(err, errTorn):
			s.pause()
			number, err := s.later()
			if err != nil || number == 0 {
				return false, err
			}
			// Once there is a later file nothing is added to this one; but it
			// may have been between our last look and the other's beginning.
			if s.last = !s.last; s.last {
				continue
			}
			s.turn(number)
		default:
			return false, err
		}
	}
}

// record parses the line that next has read.
func (s *stream) record() Record {
	r := Record{Writer: s.writer, File: fileName(s.number), Offset: s.line.at, Raw: s.line.raw, Err: s.line.err}
	if r.Err == nil {
		r.Line, r.Err = ParseLine(s.line.raw)
	}
	if r.Err != nil {
		r.Line = Line{Time: s.line.lastTime()}
	}
	return r
}

// open goes on where the stream was, or at the first file. A file that is
// gone, or none, is passed.
func (s *stream) open() (bool, error) {
	for {
		if s.number > 0 {
			f, info, err := openToRead(filepath.Join(s.dir, fileName(s.number)))
			if err == nil {
				s.goOn(f, info)
				return true, nil
			}
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNoFile) {
				return false, err
			}
		}
		number, err := s.later()
		if err != nil || number == 0 {
			return false, err
		}
		s.turn(number)
	}
}

// goOn reads on at the same place; in a file that took the other's name at its
// beginning, in one that was cut at its end.
func (s *stream) goOn(f *os.File, info fs.FileInfo) {
	if s.info != nil && !os.SameFile(info, s.info) {
		s.at = 0
	}
	s.f, s.info, s.at = f, info, min(s.at, info.Size())
	s.lines = newLineReader(io.NewSectionReader(f, s.at, 1<<62-s.at), s.at)
}

// later gives the number of the next file, 0 if there is none.
func (s *stream) later() (int, error) {
	numbers, err := fileNumbers(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	i, found := slices.BinarySearch(numbers, s.number)
	switch {
	case found:
		i++
	case i == len(numbers):
		// Ours is gone, and what is there is older by name: begun anew.
		i = 0
	}
	if i >= len(numbers) {
		return 0, nil
	}
	return numbers[i], nil
}

// turn goes to the beginning of another file.
func (s *stream) turn(number int) {
	s.pause()
	s.number, s.at, s.info, s.last = number, 0, nil, false
}

// pause closes the file; next opens it again at the same place.
func (s *stream) pause() {
	if s.f != nil {
		s.f.Close()
		s.f, s.lines = nil, nil
	}
}

// suspend sets the stream back before its line and closes the file, so that
// next gives the line again.
func (s *stream) suspend() {
	s.pause()
	s.at, s.suspended = s.line.at, true
}
