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
	lines  *lineReader
	cur    Record
	// suspended: cur was read and the stream set back before it.
	suspended bool
}

// next reads the next whole record into cur. false at the present end; a later
// call looks again.
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
			s.take(raw, at)
			return true, nil
		case errors.Is(err, errLong):
			s.bad(at, err)
			err = s.lines.skip()
			s.at = s.lines.end
			if err != nil && !errors.Is(err, io.EOF) {
				return false, err
			}
			return true, nil
		case errors.Is(err, io.EOF), errors.Is(err, errTorn):
			more, err := s.advance()
			if err != nil || !more {
				s.pause()
				return false, err
			}
		default:
			return false, err
		}
	}
}

func (s *stream) take(raw []byte, at int64) {
	l, err := ParseLine(raw)
	if err != nil {
		s.bad(at, err)
		s.cur.Raw = raw
		return
	}
	s.cur = Record{Line: l, Writer: s.writer, File: fileName(s.number), Offset: at, Raw: raw}
}

func (s *stream) bad(at int64, err error) {
	s.cur = Record{Line: Line{Time: s.cur.Time}, Writer: s.writer, File: fileName(s.number), Offset: at, Err: err}
}

// open goes on where the stream was, or at the first file.
func (s *stream) open() (bool, error) {
	if s.number == 0 {
		if more, err := s.advance(); err != nil || !more {
			return false, err
		}
	}
	f, err := os.Open(filepath.Join(s.dir, fileName(s.number)))
	if errors.Is(err, fs.ErrNotExist) {
		return s.skipTo()
	}
	if err != nil {
		return false, err
	}
	if err := s.place(f); err != nil {
		f.Close()
		return false, err
	}
	s.f = f
	s.lines = newLineReader(io.NewSectionReader(f, s.at, 1<<62-s.at), s.at)
	return true, nil
}

// place corrects where to go on: in a file that took the other's name at its
// beginning, in one that was cut at its end.
func (s *stream) place(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if s.info != nil && !os.SameFile(info, s.info) {
		s.at = 0
	}
	s.info, s.at = info, min(s.at, info.Size())
	return nil
}

// skipTo passes a file that is gone.
func (s *stream) skipTo() (bool, error) {
	if more, err := s.advance(); err != nil || !more {
		return false, err
	}
	return s.open()
}

// advance goes to the beginning of the next file, if there is one.
func (s *stream) advance() (bool, error) {
	numbers, err := fileNumbers(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	i, found := slices.BinarySearch(numbers, s.number)
	if found {
		i++
	}
	if i >= len(numbers) {
		return false, nil
	}
	s.pause()
	s.number, s.at, s.info = numbers[i], 0, nil
	return true, nil
}

// pause closes the file; next opens it again at the same place.
func (s *stream) pause() {
	if s.f != nil {
		s.f.Close()
		s.f, s.lines = nil, nil
	}
}

// suspend sets the stream back before cur and closes the file, so that next
// gives cur again.
func (s *stream) suspend() {
	s.pause()
	s.at, s.suspended = s.cur.Offset, true
}
