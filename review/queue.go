package review

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// batch is what is waiting for the disk, in order. The bodies lie one behind
// the other.
type batch struct {
	bodies []byte
	items  []item
	lost   uint64 // turned away since the last batch
}

type item struct {
	end   int // of its body
	at    stamp
	opens bool
	own   bool        // a head of the log itself, which the last of the reserve is for
	more  bool        // the next item is recorded with it or not at all
	done  chan result // nil for Append, and for all but the last of a group
}

type result struct {
	mark mark
	file string
	err  error
}

func (b *batch) reset() {
	clear(b.items)
	b.items, b.lost = b.items[:0], 0
	if b.bodies = b.bodies[:0]; cap(b.bodies) > 256<<10 {
		b.bodies = nil
	}
}

// group is how many items from i on stand together.
func (b *batch) group(i int) int {
	n := 1
	for b.items[i+n-1].more {
		n++
	}
	return n
}

var bodies = sync.Pool{New: func() any { return new([]byte) }}

// Append hands an event to the log and does not wait for the disk. The record
// follows all that was handed in before and is soon with the kernel, so that
// it outlives this process but not a power cut. An error means that it may be
// lost; the gap record that follows counts it.
func (l *Log) Append(ev Event) error {
	if err := l.put([]Event{ev}, nil, false); err != nil {
		return err
	}
	return l.Err()
}

// Commit returns nil only when the event's record is durable and its file
// still in place. It takes as long as one sync of the disk; whatever is handed
// in meanwhile shares the next one. What was given to Append before comes before
// it, unless it was lost, which a gap record says: records that must stand
// together go to [Log.CommitAll].
//
// The end of a context does not end it: a decision is recorded though its asker
// has gone. It waits at most Options.Deadline. After an error the record may be
// there all the same; nothing may be let run on it.
func (l *Log) Commit(_ context.Context, ev Event) error {
	return l.commit([]Event{ev}, false).err
}

// CommitAll is Commit for several events: they are recorded one behind the
// other with one sync, and nil says that all of them are.
func (l *Log) CommitAll(_ context.Context, evs []Event) error {
	if len(evs) == 0 {
		return nil
	}
	return l.commit(evs, false).err
}

// commit hands events in and waits for the last one's place.
func (l *Log) commit(evs []Event, own bool) result {
	done := make(chan result, 1)
	if err := l.put(evs, done, own); err != nil {
		return result{err: err}
	}
	late := time.NewTimer(l.opt.Deadline)
	defer late.Stop()
	select {
	case r := <-done:
		return r
	case <-late.C:
		return result{err: fmt.Errorf("%w (%s)", ErrDeadline, l.opt.Deadline)}
	}
}

// Checkpoint makes a head of all records so far and enters it in the ledger,
// so that no cut before it goes unseen. It does nothing when nothing but the
// log's own records was added since the last.
func (l *Log) Checkpoint(_ context.Context) error {
	l.mu.Lock()
	idle := !l.dirty
	l.dirty = false
	l.mu.Unlock()
	if idle {
		return nil
	}
	r := l.commit([]Event{headRecord(false)}, true)
	err := r.err
	if err == nil {
		_, err = l.ledger().append(l.keys, placed(LedgerHead, l.opt.Writer, r.file, r.mark))
	}
	if err != nil {
		l.mu.Lock()
		l.dirty = true
		l.mu.Unlock()
	}
	return err
}

// put encodes events and queues them.
func (l *Log) put(evs []Event, done chan result, own bool) error {
	buf := bodies.Get().(*[]byte)
	defer bodies.Put(buf)
	*buf = (*buf)[:0]
	var few [4]item // on the stack
	items := few[:0]
	for i := range evs {
		if err := evs[i].check(own); err != nil {
			return err
		}
		*buf = l.keys.body(*buf, &evs[i])
		items = append(items, item{end: len(*buf), opens: evs[i].opens(), own: own, more: i < len(evs)-1})
	}
	items[len(items)-1].done = done
	if err := l.enqueue(*buf, items); err != nil {
		return err
	}
	select {
	case l.wake <- struct{}{}:
	default: // it has not yet looked since the last time
	}
	return nil
}

func (l *Log) enqueue(body []byte, items []item) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if len(l.queue.bodies)+len(body) > maxQueue {
		l.queue.lost += uint64(len(items))
		return fmt.Errorf("%w: %d records wait", ErrBusy, len(l.queue.items))
	}
	base, at := len(l.queue.bodies), now()
	l.queue.bodies = append(l.queue.bodies, body...)
	for _, it := range items {
		it.end, it.at = it.end+base, at
		l.queue.items = append(l.queue.items, it)
		l.dirty = l.dirty || !it.own
	}
	return nil
}

// take gives what is queued, and whether nothing more will come.
func (l *Log) take() (b batch, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, l.queue = l.queue, l.spare
	l.spare = batch{}
	return b, l.closed
}

// Close writes what is queued and a closing head, enters it in the ledger and
// gives the log up. It waits at most Options.Deadline for the disk. A second
// call says ErrClosed.
func (l *Log) Close() error {
	l.mu.Lock()
	was := l.closed
	l.closed = true
	l.mu.Unlock()
	if was {
		return ErrClosed
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
	late := time.NewTimer(l.opt.Deadline)
	defer late.Stop()
	select {
	case <-l.ended:
		return l.closeErr
	case <-late.C:
		return fmt.Errorf("%w (%s)", ErrDeadline, l.opt.Deadline)
	}
}
