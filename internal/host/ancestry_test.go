package host

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// tree is a process table that can change at a look.
type tree struct {
	procs  map[int]procStat
	looks  int
	before func(look, pid int)
}

func (tr *tree) stat(pid int) (procStat, error) {
	tr.looks++
	if tr.before != nil {
		tr.before(tr.looks, pid)
	}
	st, ok := tr.procs[pid]
	if !ok {
		return procStat{}, ErrNoProcess
	}
	if st.parent < 0 {
		return procStat{}, errors.New("unreadable")
	}
	return st, nil
}

func line() *tree {
	return &tree{procs: map[int]procStat{
		1: {0, 1, false}, 10: {1, 20, false}, 100: {10, 30, false}, 200: {100, 30, false},
	}}
}

func TestDescendsTable(t *testing.T) {
	long := &tree{procs: map[int]procStat{}}
	for pid := range 1000 {
		long.procs[pid] = procStat{max(pid-1, 0), uint64(pid), false}
	}
	circle := &tree{procs: map[int]procStat{7: {8, 5, false}, 8: {7, 5, false}}}
	unreadable := line()
	unreadable.procs[10] = procStat{-1, 0, false}
	recycled := line()
	// 10 died and its number went to a process that started after 100.
	recycled.procs[10] = procStat{1, 99, false}
	gone := line()
	delete(gone.procs, 10)
	for _, c := range []struct {
		name  string
		tree  *tree
		from  ProcessID
		of    ProcessID
		want  bool
		fails bool
	}{
		{"parent", line(), ProcessID{100, 30}, ProcessID{10, 20}, true, false},
		{"grandparent", line(), ProcessID{200, 30}, ProcessID{10, 20}, true, false},
		{"first process", line(), ProcessID{200, 30}, ProcessID{1, 1}, true, false},
		{"itself", line(), ProcessID{100, 30}, ProcessID{100, 30}, true, false},
		{"same number, other start", line(), ProcessID{200, 30}, ProcessID{10, 21}, false, false},
		{"itself, other start", line(), ProcessID{100, 30}, ProcessID{100, 29}, false, false},
		{"child", line(), ProcessID{10, 20}, ProcessID{100, 30}, false, false},
		{"stranger", line(), ProcessID{100, 30}, ProcessID{55, 30}, false, false},
		{"zero ancestor", line(), ProcessID{100, 30}, ProcessID{}, false, false},
		{"the start is another process by now", line(), ProcessID{100, 29}, ProcessID{10, 20}, false, true},
		{"the start is gone", line(), ProcessID{101, 29}, ProcessID{10, 20}, false, true},
		{"a link cannot be read", unreadable, ProcessID{200, 30}, ProcessID{1, 1}, false, true},
		{"a link was recycled", recycled, ProcessID{200, 30}, ProcessID{1, 1}, false, startsInOrder},
		{"a link is gone and stays named", gone, ProcessID{200, 30}, ProcessID{1, 1}, false, true},
		{"128 hops", long, ProcessID{500, 500}, ProcessID{372, 372}, true, false},
		{"129 hops", long, ProcessID{500, 500}, ProcessID{371, 371}, false, true},
		{"circle", circle, ProcessID{7, 5}, ProcessID{1, 1}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "a link was recycled" && !startsInOrder {
				t.Skip("start times have no order here")
			}
			got, err := descends(c.tree.stat, c.from, c.of.PID, c.of.Start)
			if got != c.want || (err != nil) != c.fails {
				t.Errorf("got %v, %v; want %v, error %v", got, err, c.want, c.fails)
			}
		})
	}
}

// At every look of the walk the parent ends and the child is adopted by the
// first process, while the parent's number goes to an impostor. The answer is
// that of before or of after, and the impostor is never the ancestor.
func TestDescendsWhileTheTreeChanges(t *testing.T) {
	for at := 1; ; at++ {
		tr := line()
		tr.before = func(look, _ int) {
			if look == at {
				tr.procs[100] = procStat{1, 30, false}
				// In the same tick, so that its start time gives nothing away.
				tr.procs[10] = procStat{1, 30, false}
			}
		}
		id := ProcessID{200, 30}
		if yes, err := descends(tr.stat, id, 10, 30); yes || err != nil {
			t.Errorf("change at look %d: the impostor: %v, %v", at, yes, err)
		}
		looks := tr.looks
		tr = line()
		tr.before = func(look, pid int) {
			if look == at {
				// The parent ends; its number is free.
				delete(tr.procs, 10)
				tr.procs[100] = procStat{1, 30, false}
			}
		}
		list, err := ancestors(tr.stat, 200)
		switch {
		case errors.Is(err, ErrNoProcess):
			// The walk stood on the process that ended.
		case err != nil:
			t.Errorf("change at look %d: %v", at, err)
		case len(list) == 3 && list[1] != ProcessID{10, 20}, len(list) == 2 && list[1] != ProcessID{1, 1}:
			t.Errorf("change at look %d: %v", at, list)
		}
		if at > looks && at > tr.looks {
			break
		}
	}
}

func TestAncestorsOfARealTree(t *testing.T) {
	list, err := Ancestors(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 || list[0].PID != os.Getppid() {
		t.Fatalf("ancestors %v, parent %d", list, os.Getppid())
	}
	for i, id := range list {
		if yes, err := Descends(os.Getpid(), id.PID, id.Start); err != nil || !yes {
			t.Errorf("ancestor %d %v: %v, %v", i, id, yes, err)
		}
		if yes, err := Descends(os.Getpid(), id.PID, id.Start+1); err != nil || yes {
			t.Errorf("ancestor %d %v with another start: %v, %v", i, id, yes, err)
		}
	}
	if _, err := ancestors(line().stat, 300); !errors.Is(err, ErrNoProcess) {
		t.Errorf("no such process: %v", err)
	}
}

func init() {
	// orphan starts a sleep, prints its number and ends.
	helpers["orphan"] = func([]string) int {
		cmd := exec.Command("sleep", "600")
		if cmd.Start() != nil {
			return 1
		}
		os.Stdout.WriteString(strconv.Itoa(cmd.Process.Pid))
		return 0
	}
}

func TestOrphanDoesNotDescend(t *testing.T) {
	cmd := helper(t, "orphan")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(out))
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, pid)
	defer func() {
		if proc, err := os.FindProcess(pid); err == nil {
			_ = proc.Kill()
		}
		if err := p.Wait(soon(t)); err != nil {
			t.Error(err)
		}
	}()
	list, err := Ancestors(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range list {
		if id.PID == cmd.Process.Pid {
			t.Errorf("the parent that ended is among %v", list)
		}
	}
	if yes, err := p.Descends(cmd.Process.Pid, 0); yes || err != nil {
		t.Errorf("descends from the parent that ended: %v, %v", yes, err)
	}
}
