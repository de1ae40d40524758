package review

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// What may stand in the place of a line.
var (
	errTorn = errors.New("the last line has no end")
	errLong = errors.New("a line is longer than allowed")
)

// errNoFile stands for a link, a pipe, or whatever else has a log's name.
var errNoFile = errors.New("it is not a regular file")

// openToRead opens a log, follows no link and waits for no pipe.
func openToRead(name string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, nil, errNoFile
	}
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errNoFile
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// lineReader cuts a stream into lines with their places. It keeps one line in
// memory.
type lineReader struct {
	r   *bufio.Reader
	end int64 // where the next line begins
}

func newLineReader(r io.Reader, from int64) *lineReader {
	return &lineReader{bufio.NewReaderSize(r, MaxLine), from}
}

// next gives a line without its newline, valid until the next call, and where
// it begins. io.EOF after the last; errTorn for bytes without a newline at the
// end, and errLong, both with what there is of them; the place is then not
// passed.
func (l *lineReader) next() (line []byte, at int64, err error) {
	at = l.end
	line, err = l.r.ReadSlice('\n')
	switch {
	case err == nil:
		l.end += int64(len(line))
		return line[:len(line)-1], at, nil
	case errors.Is(err, bufio.ErrBufferFull):
		return line, at, errLong
	case errors.Is(err, io.EOF) && len(line) > 0:
		return line, at, errTorn
	default:
		return nil, at, err
	}
}

// skip passes the line that next refused, over any length.
func (l *lineReader) skip() error {
	for {
		part, err := l.r.ReadSlice('\n')
		l.end += int64(len(part))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// lastLine reads the last whole line of a file of size bytes, and where it
// ends; errTorn when bytes follow it or when there is none.
func lastLine(r io.ReaderAt, size int64) (line []byte, err error) {
	from := max(0, size-2*MaxLine)
	buf := make([]byte, size-from)
	if _, err := r.ReadAt(buf, from); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(buf) == 0 || buf[len(buf)-1] != '\n' {
		return nil, errTorn
	}
	buf = buf[:len(buf)-1]
	if i := bytes.LastIndexByte(buf, '\n'); i >= 0 {
		return buf[i+1:], nil
	}
	if from > 0 {
		return nil, errLong
	}
	return buf, nil
}
