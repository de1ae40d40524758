package review

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"permd/ask"
)

// everyLog is a closed log of 50 short records, one of each kind of change is
// made to, and the heads that were held elsewhere before.
type everyLog struct {
	good    []byte
	starts  []int // of the records, and behind the last
	held    []Head
	workers []*everyWorker
}

type everyWorker struct {
	dir string
	f   *os.File
}

func newEveryLog(t *testing.T, ledger bool) *everyLog {
	t.Helper()
	dir := memoryDir(t)
	l := mustOpen(t, options(dir, "n1"))
	for i := range 47 {
		mustAppend(t, l, Event{Name: AskDenied, Session: "s", Ask: fmt.Sprintf("A%d", i), Verdict: verdict(ask.Deny)})
	}
	mustClose(t, l)
	r := mustVerify(t, dir, Intact)
	e := &everyLog{good: readFile(t, filepath.Join(dir, "n1", fileName(1))), held: r.Heads(), starts: []int{0}}
	for _, line := range lines(e.good)[:50] {
		e.starts = append(e.starts, e.starts[len(e.starts)-1]+len(line))
	}
	if e.starts[50] != len(e.good) || len(e.held) != 2 {
		t.Fatalf("%d bytes, starts %v", len(e.good), e.starts)
	}
	for range runtime.GOMAXPROCS(0) {
		w := &everyWorker{dir: filepath.Join(filepath.Dir(memoryDir(t)), "copy")}
		if err := os.CopyFS(w.dir, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if !ledger {
			if err := os.RemoveAll(filepath.Join(w.dir, ledgerName)); err != nil {
				t.Fatal(err)
			}
		}
		f, err := os.OpenFile(filepath.Join(w.dir, "n1", fileName(1)), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		w.f = f
		e.workers = append(e.workers, w)
	}
	if !ledger {
		// Only the log's own head counts: what is seen is seen by it.
		e.held = e.held[1:]
	}
	return e
}

// put makes the file what b is from a place on; all before is as it was.
func (w *everyWorker) put(t *testing.T, b []byte, from int) {
	if _, err := w.f.WriteAt(b[from:], int64(from)); err != nil {
		t.Error(err)
	}
	if err := w.f.Truncate(int64(len(b))); err != nil {
		t.Error(err)
	}
}

// each gives the numbers below n in steps to the workers, and counts those for
// which something was done.
func (e *everyLog) each(n, step int, do func(w *everyWorker, i int) bool) int {
	var next, done atomic.Int64
	var wg sync.WaitGroup
	for _, w := range e.workers {
		wg.Go(func() {
			for {
				i := int(next.Add(int64(step))) - step
				if i >= n {
					return
				}
				if do(w, i) {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(done.Load())
}

// judge wants a file that was changed from a place on to be seen, and the
// first bad record named: the one that begins at one of places.
func (e *everyLog) judge(t *testing.T, w *everyWorker, b []byte, from int, what string, places ...int) {
	w.put(t, b, from)
	r, err := VerifyHeld(w.dir, e.held)
	w.put(t, e.good, from)
	if err != nil || r.Status != Tampered {
		t.Errorf("%s: unseen: %v %v", what, r.Status, err)
		return
	}
	if len(places) == 0 {
		return
	}
	p := r.Problems[0]
	if at := slices.Index(places, int(p.Offset)); at < 0 || p.Writer != "n1" || p.File != fileName(1) || p.Seq == 0 {
		t.Errorf("%s: want a record at one of %v, got %v", what, places, p)
	}
}

// record is the number of the record that byte i is in, from 0.
func (e *everyLog) record(i int) int {
	at, found := slices.BinarySearch(e.starts, i)
	if found {
		return at
	}
	return at - 1
}

// everyStep is the step through the bits of the log. The race detector costs
// ten times; without it every bit has its turn (make test runs it so).
func everyStep() int {
	if raceEnabled || testing.Short() {
		return 211
	}
	return 1
}

// TestT14Every: each single bit, each cut, each exchange, deletion and
// repetition at every place of a log of 50 records shows, and the first bad
// record is named with its byte.
func TestT14Every(t *testing.T) {
	e := newEveryLog(t, true)
	step := everyStep()
	size := len(e.good)
	flips := e.each(size*8, step, func(w *everyWorker, i int) bool {
		b := slices.Clone(e.good)
		b[i/8] ^= 1 << (i % 8)
		// It shows in its record, in the one it ran into, or in the next,
		// which does not continue it.
		k := e.record(i / 8)
		e.judge(t, w, b, i/8, fmt.Sprintf("bit %d of byte %d", i%8, i/8), e.starts[k], e.starts[k+1])
		return true
	})
	cuts := e.each(size, (step+6)/7, func(w *everyWorker, i int) bool {
		e.judge(t, w, e.good[:i], i, fmt.Sprintf("cut at byte %d", i), e.starts[e.record(i)])
		return true
	})
	records := lines(e.good)[:50]
	var swaps, deleted atomic.Int64
	parts := e.each(50*51, (step+20)/21, func(w *everyWorker, i int) bool {
		from, to := i/51, i%51
		if to == from {
			deleted.Add(1)
			e.judge(t, w, bytes.Join(slices.Delete(slices.Clone(records), from, from+1), nil), e.starts[from],
				fmt.Sprintf("without record %d", from+1), e.starts[from])
		}
		e.judge(t, w, bytes.Join(slices.Insert(slices.Clone(records), to, records[from]), nil), e.starts[to],
			fmt.Sprintf("record %d again before %d", from+1, to+1), e.starts[to], e.starts[to]+len(records[from]))
		if to < from {
			swaps.Add(1)
			x := slices.Clone(records)
			x[from], x[to] = x[to], x[from]
			e.judge(t, w, bytes.Join(x, nil), e.starts[to], fmt.Sprintf("records %d and %d exchanged", to+1, from+1), e.starts[to])
		}
		return true
	})
	w := e.workers[0]
	if r, err := VerifyHeld(w.dir, e.held); err != nil || r.Status != Intact {
		t.Fatalf("put back as it was: %v %s", err, r.String())
	}
	if err := os.RemoveAll(filepath.Join(w.dir, "n1")); err != nil {
		t.Fatal(err)
	}
	if r, err := VerifyHeld(w.dir, e.held); err != nil || r.Status != Tampered {
		t.Errorf("the log deleted: %v %s", err, r.String())
	}
	t.Logf("%d bytes: %d flipped bits, %d cuts, %d repetitions, %d exchanges, %d deletions", size, flips, cuts, parts, swaps.Load(), deleted.Load())
}

// TestT14EveryRebuilt: the same where whoever changed it numbered and linked
// all that follows anew and took the ledger away. Nothing in the log is wrong
// then; the head of it that was held elsewhere shows it.
func TestT14EveryRebuilt(t *testing.T) {
	e := newEveryLog(t, false)
	step := everyStep()
	records := make([][]byte, 50)
	for i := range records {
		records[i] = e.good[e.starts[i] : e.starts[i+1]-1]
	}
	if got := relink(e.good[:0:0], records, 0, ask.Digest{}); !bytes.Equal(got, e.good) {
		t.Fatal("a chain that is rebuilt without a change is another: the test does not test")
	}
	shows := func(w *everyWorker, x [][]byte, from int, what string) {
		w.put(t, relink(bytes.Clone(e.good[:e.starts[from]]), x[from:], from, e.prev(from)), e.starts[from])
		r, err := VerifyHeld(w.dir, e.held)
		w.put(t, e.good, e.starts[from])
		if err != nil || !seenInLog(r) {
			t.Errorf("%s: unseen: %v %s", what, err, r.String())
		}
	}
	flips := e.each(len(e.good)*8, step, func(w *everyWorker, i int) bool {
		k := e.record(i / 8)
		at := i/8 - e.starts[k]
		if at == len(records[k]) {
			return false // its newline: no record any more
		}
		raw := bytes.Clone(records[k])
		raw[at] ^= 1 << (i % 8)
		if _, err := ParseLine(raw); err != nil {
			return false
		}
		x := slices.Clone(records)
		x[k] = raw
		if bytes.Equal(relink(nil, x[k:k+1], k, e.prev(k)), e.good[e.starts[k]:e.starts[k+1]]) {
			return false // a number or a link, made right again
		}
		shows(w, x, k, fmt.Sprintf("bit %d of byte %d", i%8, i/8))
		return true
	})
	cuts := e.each(50, 1, func(w *everyWorker, i int) bool {
		shows(w, slices.Clone(records[:i]), i, fmt.Sprintf("cut before record %d", i+1))
		return true
	})
	var swaps, deleted atomic.Int64
	parts := e.each(50*50, (step+20)/21, func(w *everyWorker, i int) bool {
		from, to := i/50, i%50
		if to == from {
			deleted.Add(1)
			shows(w, slices.Delete(slices.Clone(records), from, from+1), from, fmt.Sprintf("without record %d", from+1))
		}
		shows(w, slices.Insert(slices.Clone(records), to, records[from]), to, fmt.Sprintf("record %d again before %d", from+1, to+1))
		if to < from {
			swaps.Add(1)
			x := slices.Clone(records)
			x[from], x[to] = x[to], x[from]
			shows(w, x, to, fmt.Sprintf("records %d and %d exchanged", to+1, from+1))
		}
		return true
	})
	w := e.workers[0]
	if r, err := VerifyHeld(w.dir, e.held); err != nil || seenInLog(r) {
		t.Fatalf("put back as it was: %v %s", err, r.String())
	}
	for what, dir := range map[string]string{"the log": filepath.Join(w.dir, "n1"), "all": w.dir} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if r, err := VerifyHeld(w.dir, e.held); err != nil || r.Status != Tampered {
			t.Errorf("%s deleted: %v %s", what, err, r.String())
		}
	}
	t.Logf("%d flipped bits that leave a record, %d cuts, %d repetitions, %d exchanges, %d deletions, each built anew", flips, cuts, parts, swaps.Load(), deleted.Load())
}

// seenInLog says whether something is wrong besides the ledger that is gone.
func seenInLog(r Report) bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool {
		return p.Status == Tampered && p.Writer == "n1" && p.File == fileName(1)
	})
}

// prev is the hash of the record before record i.
func (e *everyLog) prev(i int) ask.Digest {
	if i == 0 {
		return ask.Digest{}
	}
	return sha256.Sum256(e.good[e.starts[i-1] : e.starts[i]-1])
}

// relink writes records as record n+1 and on of a chain that is whole.
func relink(out []byte, records [][]byte, n int, prev ask.Digest) []byte {
	for _, raw := range records {
		seq := bytes.Index(raw, []byte(linePrev))
		out = fmt.Appendf(out, "%s%d", lineSeq, n+1)
		out = append(out, linePrev...)
		out = hex.AppendEncode(out, prev[:])
		rest := raw[seq+len(linePrev)+2*len(prev):]
		start := bytes.LastIndex(out, []byte(lineSeq))
		out = append(out, rest...)
		prev = sha256.Sum256(out[start:])
		out = append(out, '\n')
		n++
	}
	return out
}
