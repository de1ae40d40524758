//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"permd/api"
	"permd/review"
)

// small mounts a file system of a megabyte or two.
func small(t *testing.T, dir, size string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// fill takes all the space there is in dir and returns how to give it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 16; size >= 1; size /= 4 {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
	f.Close()
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// inMounts runs f where it may mount file systems without anybody seeing them.
func inMounts(t *testing.T, f func(t *testing.T)) {
	inner(t, syscall.CLONE_NEWNS, func(t *testing.T, inside bool) {
		if !inside && os.Geteuid() != 0 {
			t.Skip("mounting a small file system needs namespaces or root; package review has the same on a disk that says it is full")
		}
		f(t)
	})
}

// TestT13StateDiskFull: with the disk of the record full nothing is let run,
// what is denied is still denied for its reason, and with room again all is as
// before.
func TestT13StateDiskFull(t *testing.T) {
	inMounts(t, func(t *testing.T) {
		r := New(t)
		small(t, r.Dirs.State, "2m")
		x := newTrial(t, r)
		for i := range 3 {
			if list := x.round(i); !well(list) {
				t.Fatalf("before: %+v", list)
			}
		}
		for n := range 3 {
			free := fill(t, r.Dirs.State)
			// What was set aside before is used first, and what one log gives
			// back another may take: for what is recorded.
			for i, refused := 0, 0; refused < 4; i++ {
				list := x.round(1000*n + 10 + i)
				refused++
				for _, d := range list {
					switch {
					case d.err != nil:
						t.Errorf("with the disk full: %+v", d)
					case d.got.Allowed():
						refused = 0
					case strings.HasPrefix(d.command, "rm "):
						if !said(d, "use the trash") {
							t.Errorf("a rule's own reason is lost: %+v", d)
						}
					case !said(d, "full", "no space"):
						t.Errorf("the refusal does not say why: %+v", d)
					}
				}
				if i > 200 {
					t.Fatal("calls are let run for ever with the disk full")
				}
			}
			// An agent that begins now has no record at all.
			late := r.Agent(AgentOptions{Session: fmt.Sprint("late", n)})
			if got := late.Gate(Bash("make check")); got.Allowed() || got.Code != 2 && got.Decision != "deny" {
				t.Errorf("an agent that begins on a full disk: %+v", got)
			} else if !strings.Contains(got.Stderr+got.Reason, "no space") && !strings.Contains(got.Stderr+got.Reason, "full") {
				t.Errorf("the refusal does not say why: %+v", got)
			}
			free()
			if list := x.round(1000*n + 900); !well(list) {
				x.recover("with room again")
			}
			if got := late.Gate(Bash("make check")); !got.Allowed() {
				t.Errorf("the late agent, with room again: %+v", got)
			}
			late.Kill()
		}
		unrecorded := 0
		for _, g := range x.given {
			if g.verdict.Verdict == api.VerdictNotRecorded {
				unrecorded++
			}
		}
		if unrecorded == 0 {
			t.Error("no surface was told that its answer could not be recorded")
		}
		a := newAudit(r)
		a.noAllowWithoutRecord(x.done)
		a.oneDecision(nil)
		a.nothingAcknowledgedIsLost(x.given)
		r.verify()
	})
}

// TestT3RuntimeDiskFull: with the runtime directory full no ask reaches a
// parent, and no node starts; what needs neither goes on.
func TestT3RuntimeDiskFull(t *testing.T) {
	inMounts(t, func(t *testing.T) {
		r := New(t)
		small(t, r.Dirs.Run, "1m")
		if err := r.Dirs.Make(); err != nil {
			t.Fatal(err)
		}
		x := newTrial(t, r)
		if list := x.round(0); !well(list) {
			t.Fatalf("before: %+v", list)
		}
		free := fill(t, r.Dirs.Run)
		for i := range 5 {
			list := x.round(10 + i)
			if !list[0].got.Allowed() || !list[2].got.Allowed() {
				t.Errorf("what needs no runtime directory: %+v", list)
			}
			if list[3].got.Allowed() || !said(list[3], "no space", "cannot be") {
				t.Errorf("an ask that cannot be sent: %+v", list[3])
			}
		}
		late := r.Agent(AgentOptions{Session: "late"})
		if got := late.Gate(Bash("make check")); got.Code != 2 || !strings.Contains(got.Stderr, "no space") {
			t.Errorf("a node that cannot start: %+v", got)
		}
		free()
		x.recover("with room again")
		if got := late.Gate(Bash("make check")); !got.Allowed() {
			t.Errorf("the late agent, with room again: %+v", got)
		}
		a := newAudit(r)
		a.noAllowWithoutRecord(x.done)
		a.oneDecision(nil)
		r.verify()
	})
}

// TestT13RecordChangedUnderneath: whatever is done to the record of a living
// node, what is let run afterwards has its record, and what was done shows.
func TestT13RecordChangedUnderneath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("not root: what needs another owner is left out")
	}
	log := func(r *Rig, a *Agent) string { return filepath.Join(r.Dirs.Review(), a.Node(), "000001.jsonl") }
	must := func(r *Rig, err error) {
		r.T.Helper()
		if err != nil {
			r.T.Error(err)
		}
	}
	for _, c := range []struct {
		name  string
		do    func(r *Rig, a *Agent)
		undo  func(r *Rig)
		shows bool // verification says that something is gone or changed
	}{
		{"deleted", func(r *Rig, a *Agent) { must(r, os.Remove(log(r, a))) }, nil, true},
		{"cut", func(r *Rig, a *Agent) { must(r, os.Truncate(log(r, a), 200)) }, nil, true},
		{"emptied", func(r *Rig, a *Agent) { must(r, os.Truncate(log(r, a), 0)) }, nil, true},
		{"replaced by a copy", func(r *Rig, a *Agent) {
			b, err := os.ReadFile(log(r, a))
			must(r, err)
			must(r, os.WriteFile(log(r, a)+".new", b, 0o600))
			must(r, os.Rename(log(r, a)+".new", log(r, a)))
		}, nil, false},
		{"replaced by a link", func(r *Rig, a *Agent) {
			must(r, os.Rename(log(r, a), r.Root+"/elsewhere"))
			must(r, os.Symlink(r.Root+"/elsewhere", log(r, a)))
		}, nil, true},
		{"replaced by a pipe", func(r *Rig, a *Agent) {
			must(r, os.Remove(log(r, a)))
			must(r, syscall.Mkfifo(log(r, a), 0o600))
		}, nil, true},
		{"written to", func(r *Rig, a *Agent) {
			f, err := os.OpenFile(log(r, a), os.O_WRONLY|os.O_APPEND, 0)
			must(r, err)
			f.WriteString(`{"v":1,"seq":99,"event":"permission_request.approved","verdict":"allow"}` + "\n")
			f.Close()
		}, nil, true},
		{"overwritten in the middle", func(r *Rig, a *Agent) {
			f, err := os.OpenFile(log(r, a), os.O_WRONLY, 0)
			must(r, err)
			f.WriteAt(bytes.Repeat([]byte("x"), 20), 300)
			f.Close()
		}, nil, true},
		{"its directory deleted", func(r *Rig, a *Agent) { must(r, os.RemoveAll(filepath.Dir(log(r, a)))) }, nil, true},
		{"its directory moved", func(r *Rig, a *Agent) {
			must(r, os.Rename(filepath.Dir(log(r, a)), r.Root+"/elsewhere"))
		}, nil, true},
		{"its directory a link", func(r *Rig, a *Agent) {
			must(r, os.Rename(filepath.Dir(log(r, a)), r.Root+"/elsewhere"))
			must(r, os.Symlink(r.Root+"/elsewhere", filepath.Dir(log(r, a))))
		}, func(r *Rig) {
			list, _ := filepath.Glob(filepath.Join(r.Dirs.Review(), "n*"))
			for _, d := range list {
				if fi, err := os.Lstat(d); err == nil && fi.Mode()&os.ModeSymlink != 0 {
					os.Remove(d)
				}
			}
		}, true},
		{"the whole record deleted", func(r *Rig, a *Agent) { must(r, os.RemoveAll(r.Dirs.Review())) }, nil, false},
		{"the state directory deleted", func(r *Rig, a *Agent) { must(r, os.RemoveAll(r.Dirs.State)) }, nil, false},
		{"the ledger deleted", func(r *Rig, a *Agent) { must(r, os.RemoveAll(filepath.Join(r.Dirs.Review(), "ledger"))) }, nil, true},
		{"the record a file", func(r *Rig, a *Agent) {
			must(r, os.RemoveAll(r.Dirs.Review()))
			must(r, os.WriteFile(r.Dirs.Review(), nil, 0o600))
		}, func(r *Rig) { os.Remove(r.Dirs.Review()) }, false},
		{"open to others", func(r *Rig, a *Agent) { must(r, os.Chmod(filepath.Dir(log(r, a)), 0o777)) },
			func(r *Rig) {
				list, _ := filepath.Glob(filepath.Join(r.Dirs.Review(), "n*"))
				for _, d := range list {
					os.Chmod(d, 0o700)
				}
			}, false},
		{"the state directory open to others", func(r *Rig, a *Agent) { must(r, os.Chmod(r.Dirs.State, 0o777)) },
			func(r *Rig) { os.Chmod(r.Dirs.State, 0o700) }, false},
		{"somebody else's", func(r *Rig, a *Agent) {
			if os.Geteuid() == 0 {
				must(r, os.Chown(log(r, a), 65534, 65534))
			}
		}, nil, false},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			r := New(t)
			x := newTrial(t, r)
			if list := x.round(0); !well(list) {
				t.Fatalf("before: %+v", list)
			}
			from := len(x.done)
			c.do(r, x.lead)
			for i := range 3 {
				for _, d := range x.round(10 + i) {
					if d.err != nil || !d.got.Allowed() && d.got.Decision != "deny" && d.got.Code != 2 {
						t.Errorf("%+v", d)
					}
					if !d.got.Allowed() && d.got.Reason+d.got.Stderr == "" {
						t.Errorf("refused without a word: %+v", d)
					}
				}
			}
			if c.undo != nil {
				c.undo(r)
			}
			// What came before may be gone with the record.
			newAudit(r).noAllowWithoutRecord(x.done[from:])
			from = len(x.done)
			x.recover(c.name)
			newAudit(r).noAllowWithoutRecord(x.done[from:])
			rep, err := review.Verify(r.Dirs.Review())
			if err != nil {
				t.Fatal(err)
			}
			if c.shows && rep.Status == review.Intact {
				t.Error("the record is said to be intact")
			}
		})
	}
}
