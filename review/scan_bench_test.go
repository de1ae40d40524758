package review

import (
	"context"
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"permd/ask"
)

// Bound: scan-exponent <= 1.15. A log that fits in the processor's caches is read
// faster, which alone makes up to 1.08; a scan that grows with the square of the
// size makes 2.

// BenchmarkScan finds few records in a log and in one 24 times as large: the
// processor time must not grow faster than the size.
func BenchmarkScan(b *testing.B) {
	const small, times = 12_000, 24
	make := func(lines int) string {
		dir := stateDir(b)
		opt := options(dir, "n1")
		opt.Disk, opt.MaxFile = lazyDisk{}, 4<<20 // so that there are several files
		l := mustOpen(b, opt)
		for i := range lines {
			ev := allowed("A")
			if i%30 == 0 {
				ev = denied("B")
			}
			if i%1000 == 0 {
				if err := l.Commit(context.Background(), ev); err != nil {
					b.Fatal(err)
				}
				continue
			}
			mustAppend(b, l, ev)
		}
		mustClose(b, l)
		return dir
	}
	scan := func(dir string, want int) time.Duration {
		n := 0
		start := cpu(b)
		err := Scan(dir, Filter{Decision: "deny", Tool: string(ask.ToolBash)}, func(Record) error { n++; return nil })
		took := cpu(b) - start
		if err != nil || n != (want+29)/30 {
			b.Fatalf("%d records, %v", n, err)
		}
		return took
	}
	few, many := make(small), make(times*small)
	var short, long []time.Duration
	for b.Loop() {
		for range 6 {
			short = append(short, scan(few, small))
		}
		long = append(long, scan(many, times*small))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(math.Log(median(long)/median(short))/math.Log(times), "scan-exponent")
}

// cpu is the processor time of this process.
func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
