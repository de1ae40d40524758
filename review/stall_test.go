package review_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"permd/review"
	"permd/review/reviewtest"
)

// A disk that answers after 30 s, at each kind of operation: no Commit waits
// longer than its deadline, none returns nil before its record is durable, and
// Append never waits.
func TestT13DiskBlocks(t *testing.T) {
	for _, kind := range []string{"write", "sync", "fstat", "stat", "reserve"} {
		dir := review.MemoryDir(t)
		synctest.Test(t, func(t *testing.T) {
			disk := &reviewtest.Disk{Parallel: true}
			l, err := review.Open(review.Options{Dir: dir, Writer: "n1", Version: "test", Disk: disk})
			if err != nil {
				t.Fatal(err)
			}
			var once sync.Once
			disk.Fail(func(op reviewtest.Op) error {
				if op.Kind == kind {
					once.Do(func() { time.Sleep(30 * time.Second) })
				}
				return nil
			})
			start := time.Now()
			err = l.Commit(context.Background(), review.Allowed("A"))
			if waited := time.Since(start); !errors.Is(err, review.ErrDeadline) || waited != review.DefaultDeadline {
				t.Errorf("%s: %v after %v", kind, err, waited)
			}
			start = time.Now()
			for i := range 100 {
				if err := l.Append(review.Denied(fmt.Sprint(i))); err != nil {
					t.Errorf("%s: append: %v", kind, err)
				}
			}
			if waited := time.Since(start); waited != 0 {
				t.Errorf("%s: append waited %v", kind, waited)
			}
			time.Sleep(25 * time.Second)
			if err := l.Commit(context.Background(), review.Allowed("B")); err != nil {
				t.Errorf("%s: after it: %v", kind, err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		review.MustVerify(t, dir, review.Intact)
		if got := review.IDs(t, dir, "n1"); !got["B"] || !got["99"] {
			t.Errorf("%s: records are missing", kind)
		}
	}
}

// A queue that the disk does not take is bounded, and says what was lost.
func TestQueueIsBounded(t *testing.T) {
	dir := review.MemoryDir(t)
	disk := &reviewtest.Disk{Parallel: true}
	l, err := review.Open(review.Options{Dir: dir, Writer: "n1", Version: "test", Disk: disk})
	if err != nil {
		t.Fatal(err)
	}
	free := make(chan struct{})
	disk.Fail(func(op reviewtest.Op) error {
		if op.Kind == "write" {
			<-free
		}
		return nil
	})
	busy, n := 0, 0
	for ; busy < 10 && n < 50000; n++ {
		ev := review.Denied(fmt.Sprint(n))
		ev.Reason = string(make([]byte, 400))
		switch err := l.Append(ev); {
		case errors.Is(err, review.ErrBusy):
			busy++
		case err != nil:
			t.Fatal(err)
		}
	}
	if err := l.Commit(context.Background(), review.Allowed("A")); !errors.Is(err, review.ErrBusy) {
		t.Errorf("commit: %v", err)
	}
	close(free)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if busy != 10 {
		t.Fatalf("%d of %d were turned away", busy, n)
	}
	lost := ""
	err = review.Scan(dir, review.Filter{Event: "gap"}, func(r review.Record) error {
		lost += r.Field(review.KeyLost)
		return nil
	})
	if err != nil || lost != "11" {
		t.Errorf("lost %q, %v", lost, err)
	}
}

// The power goes at every operation of a run, several times each with other
// luck. Nothing acknowledged is missing and nothing looks like tampering, in
// the ledger neither.
func TestT2PowerCut(t *testing.T) {
	luck := 4
	if review.RaceEnabled || testing.Short() {
		luck = 1
	}
	states := 0
	for n := 1; ; n++ {
		for seed := range luck {
			dir := review.MemoryDir(t)
			disk := reviewtest.NewVolatile(filepath.Dir(dir))
			after := filepath.Join(filepath.Dir(filepath.Dir(dir)), "after")
			var mu sync.Mutex
			var acked, then []string
			cut := false
			disk.Before(func(op int) {
				if op != n {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				then, cut = append(then, acked...), true
				if err := disk.Cut(rand.New(rand.NewPCG(uint64(n), uint64(seed))), after); err != nil {
					t.Error(err)
				}
			})
			for round := range 2 {
				l, err := review.Open(review.Options{Dir: dir, Writer: "n1", Version: "test", Disk: disk, MaxFile: 3 << 10})
				if err != nil {
					t.Fatal(err)
				}
				for i := range 4 {
					id := fmt.Sprintf("A%d-%d", round, i)
					l.Append(review.Denied("w" + id))
					if err := l.Commit(context.Background(), review.Allowed(id)); err != nil {
						t.Fatal(err)
					}
					mu.Lock()
					acked = append(acked, id)
					mu.Unlock()
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if !cut {
				os.RemoveAll(filepath.Dir(filepath.Dir(dir)))
				t.Logf("%d states after a power cut", states)
				if states < 100*luck {
					t.Error("too few")
				}
				return
			}
			states++
			holds(t, fmt.Sprintf("cut at operation %d, seed %d", n, seed), filepath.Join(after, "review"), then)
			os.RemoveAll(filepath.Dir(filepath.Dir(dir)))
		}
	}
}

// A disk that is full: what lets something run is refused, denials and heads
// are written as long as the reserve lasts, and all is well once there is room.
func TestT13DiskFullKeepsDenials(t *testing.T) {
	dir := review.MemoryDir(t)
	disk := &reviewtest.Disk{}
	l, err := review.Open(review.Options{Dir: dir, Writer: "n1", Version: "test", Disk: disk})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := l.Commit(ctx, review.Allowed("A")); err != nil {
		t.Fatal(err)
	}
	disk.Fail(func(op reviewtest.Op) error {
		if op.Kind == "reserve" {
			return syscall.ENOSPC
		}
		return nil
	})
	fullDisk(t, dir, l)
	disk.Fail(nil)
	if err := l.Commit(ctx, review.Allowed("B")); err != nil || l.Err() != nil {
		t.Errorf("with room again: %v, %v", err, l.Err())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := review.MustVerify(t, dir, review.Incomplete)
	if len(r.Problems) != 1 {
		t.Errorf("%s", r.String())
	}
}

// fullDisk writes to a log on a full disk until it takes no denial any more.
func fullDisk(t *testing.T, dir string, l *review.Log) {
	t.Helper()
	ctx := context.Background()
	got := map[string]bool{}
	denials, allows := 0, 0
	for i := 0; ; i++ {
		id := fmt.Sprintf("D%d", i)
		if err := l.Commit(ctx, review.Denied(id)); err != nil {
			if !errors.Is(err, review.ErrDiskFull) {
				t.Errorf("denial %d: %v", i, err)
			}
			break
		}
		got[id] = true
		denials++
		// While there is reserve enough an allow may still be recorded.
		id = fmt.Sprintf("F%d", i)
		switch err := l.Commit(ctx, review.Allowed(id)); {
		case err == nil:
			if denials > allows+1 {
				t.Errorf("allow %d after %d denials and %d allows", i, denials, allows)
			}
			allows++
			got[id] = true
		case !errors.Is(err, review.ErrDiskFull):
			t.Errorf("allow %d: %v", i, err)
		}
		if i > 10000 {
			t.Fatal("the disk is not full")
		}
	}
	// What stands together is refused together.
	group := []review.Event{review.Denied("X1"), review.Allowed("X2"), review.Denied("X3")}
	if err := l.CommitAll(ctx, group); !errors.Is(err, review.ErrDiskFull) {
		t.Errorf("a group with an allow: %v", err)
	}
	if denials < allows+20 {
		t.Errorf("%d denials and %d allows on a full disk", denials, allows)
	}
	if !errors.Is(l.Err(), review.ErrDiskFull) {
		t.Errorf("the log says %v", l.Err())
	}
	if err := l.Checkpoint(ctx); err != nil {
		t.Errorf("a head: %v", err)
	}
	there := review.IDs(t, dir, "n1")
	for id := range got {
		if !there[id] {
			t.Errorf("%s was acknowledged and is not there", id)
		}
	}
	for id := range there {
		if !got[id] && id[0] != 'A' {
			t.Errorf("%s was refused and is there", id)
		}
	}
	t.Logf("%d denials, %d allows", denials, allows)
}
