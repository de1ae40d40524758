package review

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// several writers with several files each, written in turn.
func severalLogs(t *testing.T, records int) string {
	t.Helper()
	dir := stateDir(t)
	var logs []*Log
	for w := range 3 {
		opt := options(dir, fmt.Sprint("n", w))
		opt.MaxFile = 4 << 10
		logs = append(logs, mustOpen(t, opt))
	}
	for i := range records {
		ev := allowed(fmt.Sprint("A", i))
		if i%5 == 0 {
			ev = denied(fmt.Sprint("A", i))
		}
		mustCommit(t, logs[(i*i)%3], ev)
	}
	for _, l := range logs {
		mustClose(t, l)
	}
	return dir
}

// The last n records are the end of all of them, whatever n.
func TestLast(t *testing.T) {
	dir := severalLogs(t, 60)
	// A line that is not whole yet, and an empty file behind all others.
	log := filepath.Join(dir, "n0", "000001.jsonl")
	b := readFile(t, log)
	if err := os.WriteFile(log, append(b, `{"v":1,"torn`...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "n1", "000999.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Filter{{}, {Writer: "n1"}, {Decision: "deny"}, {Event: "log."}, {Since: time.Now().Add(-time.Hour)}, {Until: time.Now().Add(-time.Hour)}} {
		var all []string
		if err := Scan(dir, f, func(r Record) error { all = append(all, r.Writer+" "+string(r.Raw)); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{-1, 0, 1, 2, 3, 7, 20, len(all) - 1, len(all), len(all) + 1, 10_000} {
			var got []string
			if err := Last(dir, f, n, func(r Record) error { got = append(got, r.Writer+" "+string(r.Raw)); return nil }); err != nil {
				t.Fatal(err)
			}
			if want := all[max(0, len(all)-max(n, 0)):]; !slices.Equal(got, want) {
				t.Errorf("%+v, the last %d: %d records, want %d", f, n, len(got), len(want))
			}
		}
	}
	if err := Last(filepath.Join(dir, "none"), Filter{}, 5, func(Record) error { t.Error("a record"); return nil }); err != nil {
		t.Error(err)
	}
}

// Where the last lines begin, for chunks that end anywhere.
func TestLastLines(t *testing.T) {
	for _, lengths := range [][]int{{}, {0}, {5}, {0, 0, 0}, {10, 70_000, 3}, {65_535, 65_536, 1}, {200_000}} {
		var b bytes.Buffer
		starts := []int64{}
		for _, n := range lengths {
			starts = append(starts, int64(b.Len()))
			b.WriteString(strings.Repeat("x", n) + "\n")
		}
		end := int64(b.Len())
		for _, torn := range []string{"", "torn", strings.Repeat("y", 100_000)} {
			data := append(bytes.Clone(b.Bytes()), torn...)
			for n := range len(lengths) + 2 {
				at, found, err := lastLines(bytes.NewReader(data), int64(len(data)), n)
				want, count := end, n
				if n >= len(lengths) {
					want, count = 0, len(lengths)
				} else if n > 0 {
					want = starts[len(lengths)-n]
				}
				if n == 0 && len(lengths) == 0 {
					want = 0
				}
				if err != nil || at != want || found != count {
					t.Errorf("%v and %d more bytes, the last %d: at %d, %d lines, %v; want %d, %d", lengths, len(torn), n, at, found, err, want, count)
				}
			}
		}
	}
}

// What follows the last records is told as it comes, also by a new writer.
func TestFollowLast(t *testing.T) {
	for _, n := range []int{1, 2} {
		dir := severalLogs(t, 9)
		ctx, stop := context.WithCancel(t.Context())
		got := make(chan string, 100)
		ended := make(chan error, 1)
		go func() {
			ended <- FollowLast(ctx, dir, Filter{}, n, func(r Record) error {
				got <- r.Ask + string(r.Event)
				return nil
			})
		}()
		next := func() string {
			select {
			case s := <-got:
				return s
			case <-time.After(20 * time.Second):
				t.Fatal("nothing came")
			}
			return ""
		}
		for range n {
			if s := next(); s != string(LogHead) {
				t.Errorf("the last records begin with %s", s)
			}
		}
		l := mustOpen(t, options(dir, "n7"))
		mustCommit(t, l, allowed("new"))
		for s := next(); s != "new"+string(allowed("new").Name); s = next() {
			if !strings.HasPrefix(s, "log.") {
				t.Errorf("%s came", s)
			}
		}
		mustClose(t, l)
		stop()
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
	}
}
