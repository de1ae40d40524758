package realclient

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// gone says whether a process has ended. One that has ended but that nobody has
// waited for (in a container often nobody does) counts as ended where /proc
// tells.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, ok := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" "))
	return ok && bytes.HasPrefix(rest, []byte("Z"))
}

func waitGone(pid int, limit time.Duration) bool {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(limit); !gone(pid); <-look.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Leftovers are the ids of the processes that this rig started, directly or
// not, and that still run. They are found by a variable in their environment,
// on Linux only; a process that hides its memory is not found.
func (r *Rig) Leftovers() []int {
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	var pids []int
	for _, path := range environs {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && r.owns(pid) && !gone(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (r *Rig) owns(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	for v := range strings.SplitSeq(string(b), "\x00") {
		if v == rigVariable+"="+r.Dir {
			return true
		}
	}
	return false
}

// remove ends what is left and removes the rig's folder. A client may still be
// writing while it shuts down, so the folder is tried again for a while.
func (r *Rig) remove() {
	grace := time.NewTicker(50 * time.Millisecond)
	defer grace.Stop()
	for end := time.Now().Add(2 * time.Second); len(r.Leftovers()) > 0 && time.Now().Before(end); {
		<-grace.C // a client's own helpers end a moment after it
	}
	for _, pid := range r.Leftovers() {
		p, err := os.FindProcess(pid) // holds the process, not just its number
		if err != nil || !r.owns(pid) {
			continue
		}
		args, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		r.t.Logf("process %d outlived its test and is ended: %.200q", pid, args)
		_ = p.Kill()
		waitGone(pid, 2*time.Second)
		_ = p.Release()
	}
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for range 30 {
		if err := os.RemoveAll(r.Dir); err == nil {
			return
		}
		<-again.C
	}
	r.t.Logf("the folder %s could not be removed", r.Dir)
}
