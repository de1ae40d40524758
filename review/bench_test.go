package review

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// Bounds: append-x-bare <= 1.5, durable-x-fsync <= 1.3, group-x-fsync-each >= 10.

// lazyDisk says that everything is durable. A Commit on it waits for the
// writer and not for the disk.
type lazyDisk struct{ RealDisk }

type lazyFile struct{ File }

func (lazyFile) Sync() error { return nil }

func (d lazyDisk) Open(name string, create bool) (File, error) {
	f, err := d.RealDisk.Open(name, create)
	return lazyFile{f}, err
}

// bareFile is what the log is compared with: a plain file for appending.
func bareFile(b *testing.B) *os.File {
	b.Helper()
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "bare.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f
}

// bareAppend is the plain way: marshal, add a newline, write.
func bareAppend(b *testing.B, f *os.File, l *Line) {
	l.Seq++
	raw, err := json.Marshal(l)
	if err == nil {
		_, err = f.Write(append(raw, '\n'))
	}
	if err != nil {
		b.Fatal(err)
	}
}

func bareLine(id string) *Line {
	ev := allowed(id)
	l := lineOf(testKeys, &ev, mark{}, now(), &wide)
	return &l
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2])
}

// BenchmarkAppend compares a chained append, until it is with the kernel, with
// marshal and write.
func BenchmarkAppend(b *testing.B) {
	const each = 500
	opt := options(stateDir(b), "n1")
	opt.Disk, opt.MaxFile = lazyDisk{}, 1<<40
	l := mustOpen(b, opt)
	f := bareFile(b)
	ev, line := allowed("A"), bareLine("A")
	var ours, bare []time.Duration
	for b.Loop() {
		start := time.Now()
		for range each {
			if err := l.Append(ev); err != nil {
				b.Fatal(err)
			}
		}
		mustCommit(b, l, ev) // everything before it is written
		middle := time.Now()
		for range each {
			bareAppend(b, f, line)
		}
		ours = append(ours, middle.Sub(start))
		bare = append(bare, time.Since(middle))
	}
	b.ReportMetric(median(ours)/each, "ns/append")
	b.ReportMetric(median(bare)/each, "ns/bare")
	b.ReportMetric(median(ours)/median(bare), "append-x-bare")
}

// BenchmarkAppendOne is the same one at a time, each waited for.
func BenchmarkAppendOne(b *testing.B) {
	l := mustOpen(b, options(stateDir(b), "n1"))
	ev := allowed("A")
	b.ReportAllocs()
	for b.Loop() {
		for l.Append(ev) != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

// BenchmarkDurable compares one commit with one write and one sync.
func BenchmarkDurable(b *testing.B) {
	l := mustOpen(b, options(stateDir(b), "n1"))
	f := bareFile(b)
	ev, line := allowed("A"), bareLine("A")
	ctx := context.Background()
	var ours, bare []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := l.Commit(ctx, ev); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		bareAppend(b, f, line)
		if err := syncData(f, int(f.Fd())); err != nil {
			b.Fatal(err)
		}
		ours = append(ours, middle.Sub(start))
		bare = append(bare, time.Since(middle))
	}
	b.ReportMetric(median(ours)/1e3, "us/commit")
	b.ReportMetric(median(bare)/1e3, "us/fsync")
	b.ReportMetric(median(ours)/median(bare), "durable-x-fsync")
}

// BenchmarkGroup compares the rate of 100 writers that share syncs with that
// of a sync for each record.
func BenchmarkGroup(b *testing.B) {
	const writers, each, alone = 100, 10, 50
	l := mustOpen(b, options(stateDir(b), "n1"))
	f := bareFile(b)
	ev, line := allowed("A"), bareLine("A")
	var ours, bare []time.Duration
	for b.Loop() {
		start := time.Now()
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					if err := l.Commit(context.Background(), ev); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
		middle := time.Now()
		for range alone {
			bareAppend(b, f, line)
			if err := syncData(f, int(f.Fd())); err != nil {
				b.Fatal(err)
			}
		}
		ours = append(ours, middle.Sub(start)/(writers*each))
		bare = append(bare, time.Since(middle)/alone)
	}
	b.ReportMetric(1e9/median(ours), "records/s")
	b.ReportMetric(median(bare)/median(ours), "group-x-fsync-each")
}

// BenchmarkVerify gives the speed of the verification.
func BenchmarkVerify(b *testing.B) {
	dir := stateDir(b)
	l := mustOpen(b, options(dir, "n1"))
	for i := range 5000 {
		for l.Append(allowed(fmt.Sprint("A", i))) != nil {
			time.Sleep(time.Millisecond)
		}
	}
	mustClose(b, l)
	fi, err := os.Stat(filepath.Join(dir, "n1", fileName(1)))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(fi.Size())
	for b.Loop() {
		if r, err := Verify(dir); err != nil || r.Status != Intact {
			b.Fatal(r.String(), err)
		}
	}
}

// BenchmarkOpen is the start and the end of a writer, which a node pays once.
func BenchmarkOpen(b *testing.B) {
	dir := stateDir(b)
	f := bareFile(b)
	line := bareLine("A")
	var ours, bare []time.Duration
	n := 0
	for b.Loop() {
		n++
		start := time.Now()
		l, err := Open(options(dir, fmt.Sprint("n", n)))
		if err != nil {
			b.Fatal(err)
		}
		opened := time.Now()
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		bareAppend(b, f, line)
		if err := syncData(f, int(f.Fd())); err != nil {
			b.Fatal(err)
		}
		ours = append(ours, opened.Sub(start))
		bare = append(bare, time.Since(middle))
	}
	b.ReportMetric(median(ours)/1e3, "us/open")
	b.ReportMetric(median(ours)/median(bare), "open-x-fsync")
}
