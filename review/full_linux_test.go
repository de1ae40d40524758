package review_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"permd/review"
)

// A real disk that is really full.
func TestT13RealDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root; TestT13DiskFullKeepsDenials has the same on a disk that says it is full")
	}
	at := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", at).CombinedOutput(); err != nil {
		t.Skipf("no file system can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	dir := filepath.Join(at, "state", "review")
	l, err := review.Open(review.Options{Dir: dir, Writer: "n1", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := context.Background()
	if err := l.Commit(ctx, review.Allowed("A")); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(at, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	f.Close()
	fullDisk(t, dir, l)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(ctx, review.Allowed("B")); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	review.MustVerify(t, dir, review.Incomplete)
}
