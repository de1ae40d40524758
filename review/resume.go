package review

import (
	"crypto/sha256"
	"errors"
	"io"
)

// found is what an earlier process left in a writer's directory.
type found struct {
	clean      bool   // it ended properly
	cut        *aside // the damaged end that was set aside
	unreadable bool   // nothing in the last file can be continued
}

// resume opens the last file of the directory, sets a damaged end aside and
// moves the chain behind the last whole record. With tail the last line alone
// is trusted, which is right where every line was made durable before the next;
// otherwise only behind a closing head: an unclean end may have holes before it.
// A chain with number 0 afterwards has no file.
func (c *chain) resume(tail bool) (found, error) {
	numbers, err := fileNumbers(c.dir)
	if err != nil || len(numbers) == 0 {
		return found{}, err
	}
	c.number = numbers[len(numbers)-1]
	if c.f, err = c.disk.Open(c.path(), false); err != nil {
		return found{}, err
	}
	if c.id, err = c.f.Stat(); err != nil {
		return found{}, err
	}
	size := c.id.Size
	if raw, err := lastLine(c.f, size); err == nil {
		if l, err := ParseLine(raw); err == nil && (tail || l.closes()) {
			c.at(mark{l.Seq, sha256.Sum256(raw), size})
			return found{clean: true}, nil
		}
	}
	m, err := c.intact(size)
	if err != nil {
		return found{}, err
	}
	if m.seq == 0 {
		c.at(m)
		return found{unreadable: true}, nil
	}
	var was found
	if m.end < size {
		if was.cut, err = c.setAside(c.f, c.number, m.end, size); err != nil {
			return found{}, err
		}
	}
	c.at(m)
	return was, nil
}

func (c *chain) at(m mark) { c.written, c.durable, c.reserved = m, m, 0 }

// closes reports whether l ends a writer's work properly.
func (l *Line) closes() bool { return l.Event == LogHead && l.Field(KeyClosing) == "true" }

// intact follows the chain of the open file and stops behind the last record
// that continues it. The first has to be this file's header; what it continues
// is taken on trust here, and looked at by [Verify].
func (c *chain) intact(size int64) (mark, error) {
	lines := newLineReader(io.NewSectionReader(c.f, 0, size), 0)
	var m mark
	for {
		raw, _, err := lines.next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, errTorn), errors.Is(err, errLong):
			return m, nil
		case err != nil:
			return mark{}, err
		}
		l, err := ParseLine(raw)
		if err != nil {
			return m, nil
		}
		if m.seq == 0 {
			if !l.heads(c.writer, c.name()) {
				return m, nil
			}
		} else if l.Seq != m.seq+1 || l.Prev != m.hash {
			return m, nil
		}
		m = mark{l.Seq, sha256.Sum256(raw), lines.end}
	}
}

// heads reports whether l is the header of this file.
func (l *Line) heads(writer, file string) bool {
	return l.Event == LogHeader && l.Field(KeyWriter) == writer && l.Field(KeyFile) == file
}
