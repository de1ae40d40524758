package trial

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the most bytes that a line may have.
const MaxLine = 8 << 20

// Lines calls f with each line of r that is not blank, and its number from 1.
// A line over [MaxLine] comes as nil, with an error: it is passed over without
// being kept. f's error ends the reading and is returned.
func Lines(r io.Reader, f func(n int, line []byte, err error) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for n := 1; ; n++ {
		line = line[:0]
		size, done := 0, false
		for {
			part, err := in.ReadSlice('\n')
			size += len(part)
			if size <= MaxLine {
				line = append(line, part...)
			}
			if err == nil {
				break
			}
			if errors.Is(err, io.EOF) {
				done = true
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return err
			}
		}
		var err error
		switch {
		case size > MaxLine:
			err = f(n, nil, fmt.Errorf("the line has %d bytes, at most %d are allowed", size, MaxLine))
		case !blank(line):
			err = f(n, line, nil)
		}
		if err != nil || done {
			return err
		}
	}
}

func blank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}
