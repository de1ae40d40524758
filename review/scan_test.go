package review

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestScanMergesWritersInTime(t *testing.T) {
	dir := stateDir(t)
	var logs []*Log
	for w := range 3 {
		opt := options(dir, fmt.Sprint("n", w))
		opt.MaxFile = 2 << 10
		logs = append(logs, mustOpen(t, opt))
	}
	var want []string
	for i := range 30 {
		id := fmt.Sprint("A", i)
		want = append(want, id)
		mustCommit(t, logs[i%3], allowed(id))
	}
	for _, l := range logs {
		mustClose(t, l)
	}
	var got []string
	var last string
	err := Scan(dir, Filter{Event: "permission_request."}, func(r Record) error {
		if r.Time < last || r.Err != nil || !strings.Contains(string(r.Raw), r.Ask) {
			t.Errorf("%s after %s: %v", r.Time, last, r.Err)
		}
		last = r.Time
		got = append(got, r.Ask)
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	// Every record's place is where its bytes are.
	err = Scan(dir, Filter{}, func(r Record) error {
		b := readFile(t, filepath.Join(dir, r.Writer, r.File))
		if !strings.HasPrefix(string(b[r.Offset:]), string(r.Raw)+"\n") {
			t.Errorf("%s/%s at %d", r.Writer, r.File, r.Offset)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	stop := errors.New("stop")
	if err := Scan(dir, Filter{}, func(Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	if err := Scan(filepath.Join(dir, "none"), Filter{}, func(Record) error { return stop }); err != nil {
		t.Errorf("nothing there: %v", err)
	}
}

func TestFilter(t *testing.T) {
	r := &Record{Writer: "n1", Line: Line{Time: "2026-11-30T10:00:00.000000000Z", Event: RelayStarted, Session: "s1", Ask: "A"}}
	r.Path = append(r.Path, allowed("x").Path...)
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for i, c := range []struct {
		f    Filter
		want bool
	}{
		{Filter{}, true},
		{Filter{Writer: "n1"}, true},
		{Filter{Writer: "n2"}, false},
		{Filter{Ask: "A"}, true},
		{Filter{Ask: "B"}, false},
		{Filter{Session: "s1"}, true},
		{Filter{Session: "claude-1.ab"}, true},
		{Filter{Session: "claude-1.a"}, false},
		{Filter{Event: "forwarded_permission.relay_started"}, true},
		{Filter{Event: "forwarded_permission."}, true},
		{Filter{Event: "forwarded_permission"}, false},
		{Filter{Since: at("2026-11-30T10:00:00Z")}, true},
		{Filter{Since: at("2026-11-30T10:00:01Z")}, false},
		{Filter{Until: at("2026-11-30T10:00:00Z")}, false},
		{Filter{Until: at("2026-11-30T10:00:01Z")}, true},
		{Filter{Writer: "n1", Ask: "A", Session: "s1", Event: "forwarded_permission.", Since: at("2026-11-30T09:00:00Z")}, true},
	} {
		if got := c.f.Match(r); got != c.want {
			t.Errorf("%d: %+v: %v", i, c.f, got)
		}
	}
}

// What cannot be read comes with its error, and what follows it is read.
func TestScanPassesBadLines(t *testing.T) {
	dir, log, _ := closedLog(t, 6)
	b := readFile(t, log)
	all := lines(b)
	out := slices.Concat(all[0], all[1], []byte("garbage\n"), []byte(strings.Repeat("x", 5*MaxLine)+"\n"), all[2], []byte("torn"))
	if err := os.WriteFile(log, out, 0o600); err != nil {
		t.Fatal(err)
	}
	var bad, good int
	err := Scan(dir, Filter{}, func(r Record) error {
		if r.Err != nil {
			bad++
			if r.Time == "" {
				t.Error("a bad line without a time")
			}
		} else {
			good++
		}
		return nil
	})
	if err != nil || bad != 2 || good != 3 {
		t.Errorf("%d bad, %d good, %v", bad, good, err)
	}
}

// follower runs Follow and gives what it sees.
func follow(t *testing.T, dir string, f Filter) (seen chan Record, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	seen = make(chan Record, 1000)
	done := make(chan error, 1)
	go func() {
		done <- Follow(ctx, dir, f, func(r Record) error {
			seen <- r
			return nil
		})
	}()
	return seen, func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("follow: %v", err)
		}
	}
}

// await gives the next n asks that were seen.
func await(t *testing.T, seen chan Record, n int) []string {
	t.Helper()
	var got []string
	late := time.After(20 * time.Second)
	for len(got) < n {
		select {
		case r := <-seen:
			if r.Ask != "" {
				got = append(got, r.Ask)
			}
		case <-late:
			t.Fatalf("only %v", got)
		}
	}
	return got
}

func TestFollowSeesOldAndNewRecordsAndWriters(t *testing.T) {
	dir := stateDir(t)
	opt := options(dir, "n1")
	opt.MaxFile = 2 << 10
	l := mustOpen(t, opt)
	mustCommit(t, l, allowed("A1"))
	seen, stop := follow(t, dir, Filter{})
	defer stop()
	if got := await(t, seen, 1); got[0] != "A1" {
		t.Errorf("first %v", got)
	}
	var want []string
	for i := range 20 { // over several files
		id := fmt.Sprint("B", i)
		want = append(want, id)
		mustCommit(t, l, allowed(id))
	}
	if got := await(t, seen, 20); !slices.Equal(got, want) {
		t.Errorf("then %v", got)
	}
	m := mustOpen(t, options(dir, "n2"))
	mustCommit(t, m, allowed("C"))
	if got := await(t, seen, 1); got[0] != "C" {
		t.Errorf("new writer %v", got)
	}
	mustClose(t, m)
	m = mustOpen(t, options(dir, "n2"))
	mustCommit(t, m, allowed("D"))
	if got := await(t, seen, 1); got[0] != "D" {
		t.Errorf("writer again %v", got)
	}
	mustClose(t, m)
}

// Before there is anything, and beside a directory that goes away.
func TestFollowFindsADirectoryThatComesLater(t *testing.T) {
	dir := stateDir(t)
	seen, stop := follow(t, dir, Filter{Event: "permission_request."})
	defer stop()
	l := mustOpen(t, options(dir, "n1"))
	mustCommit(t, l, allowed("A"))
	if got := await(t, seen, 1); got[0] != "A" {
		t.Errorf("%v", got)
	}
	if err := os.RemoveAll(filepath.Join(dir, "n1")); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(context.Background(), allowed("B")); err == nil {
		t.Fatal("the log is gone and B was recorded")
	}
	mustCommit(t, l, allowed("C"))
	if got := await(t, seen, 1); got[0] != "C" {
		t.Errorf("%v", got)
	}
	mustClose(t, l)
	if err := os.RemoveAll(filepath.Join(dir, "n1")); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, options(dir, "n1"))
	mustCommit(t, l, allowed("D"))
	if got := await(t, seen, 1); got[0] != "D" {
		t.Errorf("%v", got)
	}
}

func TestFollowEndsWithItsReader(t *testing.T) {
	dir := stateDir(t)
	mustClose(t, mustOpen(t, options(dir, "n1")))
	stop := errors.New("enough")
	if err := Follow(context.Background(), dir, Filter{}, func(Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}
