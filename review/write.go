package review

import (
	"errors"
	"fmt"
	"time"
)

// unsaid counts gap lines that are in the file and not yet durable: if they
// are cut off, what they told is to be told again.
type unsaid struct{ lines, lost uint64 }

// run is the one goroutine that touches the file.
func (l *Log) run() {
	defer close(l.ended)
	for range l.wake {
		for {
			b, closed := l.take()
			if len(b.items) == 0 {
				l.lost += b.lost
				if closed {
					l.closeErr = l.finish()
					return
				}
				l.spare = b
				break
			}
			l.lost += b.lost
			l.process(&b)
			b.reset()
			l.spare = b
		}
	}
}

// process writes a batch, makes it durable if anybody waits for that, and
// answers.
func (l *Log) process(b *batch) {
	if err := l.ready(); err != nil {
		l.refuse(b, err)
		return
	}
	noRoom := l.c.room(len(b.bodies) + len(b.items)*prefixMax)
	m, durable := l.frame(b, noRoom)
	if err := l.c.write(l.out, m); err != nil {
		l.broke(err)
		l.refuse(b, err)
		return
	}
	if l.saying > 0 {
		l.said = unsaid{l.said.lines + 1, l.said.lost + l.saying}
		l.lost -= l.saying
	}
	if durable {
		if err := l.c.sync(); err != nil {
			// What is lost with it is counted when the file is mended.
			l.broke(err)
			l.setState(err)
			l.answer(b, func(int) result { return result{err: err} })
			return
		}
		l.settled()
	}
	l.lost += l.unfit
	l.setState(noRoomError(noRoom))
	l.answer(b, func(i int) result { return l.results[i] })
}

func (l *Log) answer(b *batch, how func(i int) result) {
	for i := range b.items {
		if done := b.items[i].done; done != nil {
			done <- how(i)
		}
	}
}

// frame chains the batch into l.out. What there is no room for has its error
// in results.
// It begins with a gap line if records were lost and there is room to say so.
func (l *Log) frame(b *batch, noRoom error) (m mark, durable bool) {
	if l.out, m = l.out[:0], l.c.written; cap(l.out) > 1<<20 {
		l.out = nil
	}
	l.results, l.unfit = l.results[:0], 0
	l.saying = 0
	if l.lost > 0 && noRoom == nil {
		l.saying = l.lost
		l.out = l.keys.add(l.out, &m, gap("dropped", nil, nil, l.lost))
	}
	from := 0
	for i := 0; i < len(b.items); {
		n := b.group(i)
		group := b.items[i : i+n]
		bodies := b.bodies[from:group[n-1].end]
		i += n
		if noRoom != nil && !l.fits(group, m.end+int64(len(bodies)+n*prefixMax)) {
			l.unfit += uint64(n)
			l.results = append(l.results, make([]result, n)...)
			l.results[i-1].err = noRoomError(noRoom)
			from = group[n-1].end
			continue
		}
		for k := range group {
			l.out = appendLine(l.out, &m, group[k].at, b.bodies[from:group[k].end])
			l.results = append(l.results, result{mark: m, file: l.c.name()})
			durable = durable || group[k].done != nil
			from = group[k].end
		}
	}
	return m, durable
}

// fits says whether records may use what is left of the reserve when there is
// no more: never what lets something run, and the last bytes only the log's own.
func (l *Log) fits(group []item, end int64) bool {
	for i := range group {
		if group[i].opens {
			return false
		}
	}
	left := l.c.reserved - end
	return left >= headRoom || group[0].own && left >= 0
}

func noRoomError(err error) error {
	if err == nil {
		return nil
	}
	if full(err) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	return fmt.Errorf("%w: no space can be set aside: %w", ErrBroken, err)
}

// refuse answers a batch of which nothing was recorded.
func (l *Log) refuse(b *batch, err error) {
	l.lost += uint64(len(b.items))
	l.setState(err)
	l.answer(b, func(int) result { return result{err: err} })
}

// broke notes that the file has to be mended, if that is what err says.
func (l *Log) broke(err error) {
	var broken *brokenError
	if errors.As(err, &broken) {
		l.broken, l.tried = broken, time.Time{}
	}
}

// settled notes that all that was written is durable.
func (l *Log) settled() {
	l.said = unsaid{}
	l.head.Store(&Head{Writer: l.opt.Writer, File: l.c.name(), Seq: l.c.durable.seq, Hash: l.c.durable.hash})
}

// finish ends the log properly, or says why it could not.
func (l *Log) finish() error {
	defer func() {
		if l.c.f != nil {
			l.c.f.Close()
		}
	}()
	err := l.end()
	return errors.Join(err, l.lock.Release())
}

func (l *Log) end() error {
	if err := l.ready(); err != nil {
		return err
	}
	m := l.c.written
	l.out = l.out[:0]
	if l.lost > 0 {
		l.out = l.keys.add(l.out, &m, gap("dropped", nil, nil, l.lost))
	}
	l.out = l.keys.add(l.out, &m, headRecord(true))
	if err := l.c.write(l.out, m); err != nil {
		return err
	}
	if err := l.c.sync(); err != nil {
		return err
	}
	l.settled()
	// The reserve goes back to the disk; it costs nothing but space.
	_ = l.c.f.Truncate(l.c.written.end)
	_, err := l.ledger().append(l.keys, placed(LedgerHead, l.opt.Writer, l.c.name(), l.c.durable))
	return err
}
