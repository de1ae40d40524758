package review_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"permd/review"
	"permd/review/reviewtest"
)

// flow opens a log, records, rotates and closes, and gives the ids of all
// that Commit said was recorded. It never fails: what fails is told.
func flow(dir string, disk review.Disk) (acked []string, failed int) {
	opt := review.Options{Dir: dir, Writer: "n1", Version: "test", Disk: disk, MaxFile: 3 << 10, Deadline: 5 * time.Second}
	for round := range 2 {
		l, err := review.Open(opt)
		if err != nil {
			failed++
			continue
		}
		for i := range 4 {
			id := fmt.Sprintf("A%d-%d", round, i)
			l.Append(review.Event{Name: review.AskWaiting, Ask: "w" + id})
			if err := l.Commit(context.Background(), review.Allowed(id)); err != nil {
				failed++
				time.Sleep(time.Millisecond)
				continue
			}
			acked = append(acked, id)
		}
		group := []string{fmt.Sprintf("G%d-0", round), fmt.Sprintf("G%d-1", round)}
		err = l.CommitAll(context.Background(), []review.Event{review.Allowed(group[0]), review.Allowed(group[1])})
		if err != nil {
			failed++
		} else {
			acked = append(acked, group...)
		}
		if err := l.Checkpoint(context.Background()); err != nil {
			failed++
		}
		if err := l.Close(); err != nil {
			failed++
		}
	}
	return acked, failed
}

// holds fails unless every acknowledged record is in the log below dir, which
// has at worst what an accident explains, and the log can be written again.
func holds(t *testing.T, what, dir string, acked []string) {
	t.Helper()
	r, err := review.Verify(dir)
	if err != nil && !(errors.Is(err, os.ErrNotExist) && len(acked) == 0) {
		t.Fatalf("%s: verify: %v", what, err)
	}
	if r.Status == review.Tampered {
		t.Fatalf("%s: %s\n%s", what, r.String(), review.Dump(dir))
	}
	inLog(t, what, dir, acked)
	l, err := review.Open(review.Options{Dir: dir, Writer: "n1", Version: "test"})
	if err != nil {
		t.Fatalf("%s: open again: %v\n%s", what, err, review.Dump(dir))
	}
	if err := l.Commit(context.Background(), review.Allowed("again")); err != nil {
		t.Fatalf("%s: commit again: %v", what, err)
	}
	if err := l.Close(); err != nil {
		t.Fatalf("%s: close again: %v", what, err)
	}
	if r, err = review.Verify(dir); err != nil || r.Status == review.Tampered {
		t.Fatalf("%s: after all: %v, %s\n%s", what, err, r.String(), review.Dump(dir))
	}
	inLog(t, what, dir, append([]string{"again"}, acked...))
}

func inLog(t *testing.T, what, dir string, acked []string) {
	t.Helper()
	got := review.IDs(t, dir, "n1")
	for _, id := range acked {
		if !got[id] {
			t.Fatalf("%s: %s was acknowledged and is not there\n%s", what, id, review.Dump(dir))
		}
	}
}

// Every operation fails in turn with every error, once and for good. No
// Commit that returned nil may be missing, not even after a power cut at the
// end, and the log is never left so that it looks tampered with.
func TestT3T13NoAcknowledgedRecordIsLostToADiskError(t *testing.T) {
	kinds := []struct {
		name string
		err  error
		step int // what the log treats like another kind is sampled
	}{
		{"EIO", syscall.EIO, 1}, {"ENOSPC", syscall.ENOSPC, 1}, {"EMFILE", syscall.EMFILE, 4},
		{"short EIO", reviewtest.Short{Err: syscall.EIO}, 4}, {"short ENOSPC", reviewtest.Short{Err: syscall.ENOSPC}, 1},
	}
	runs, refused, first := 0, 0, 0
	for _, kind := range kinds {
		for _, times := range []int{1, -1} {
			step := kind.step
			if review.RaceEnabled || testing.Short() {
				step = 9
			}
			first++
			for n := 1 + first%step; ; n += step {
				dir := review.MemoryDir(t)
				base := reviewtest.NewVolatile(filepath.Dir(dir))
				disk := &reviewtest.Disk{Base: base}
				disk.Fail(reviewtest.At(n, times, kind.err))
				acked, failed := flow(dir, disk)
				runs++
				refused += failed
				ops := len(disk.Ops())
				what := fmt.Sprintf("%s x %d at operation %d of %d", kind.name, times, n, ops)
				disk.Fail(nil)
				if len(acked) > 0 && runs%3 == 0 {
					after := filepath.Join(filepath.Dir(filepath.Dir(dir)), "after")
					if err := base.Cut(rand.New(rand.NewPCG(uint64(n), uint64(runs))), after); err != nil {
						t.Fatal(err)
					}
					holds(t, what+", then a power cut", filepath.Join(after, "review"), acked)
				}
				holds(t, what, dir, acked)
				os.RemoveAll(filepath.Dir(filepath.Dir(dir)))
				if ops < n {
					if len(acked) != 12 || failed != 0 {
						t.Fatalf("clean pass: %d acknowledged, %d failed", len(acked), failed)
					}
					break
				}
			}
		}
	}
	t.Logf("%d runs, %d calls refused", runs, refused)
	if runs < 150 || refused < runs {
		t.Errorf("only %d runs with %d refusals", runs, refused)
	}
}
