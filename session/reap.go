package session

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"permd/internal/host"
)

// Reap removes the directories of dead nodes, the bindings to nodes that are
// not there, and half-written bindings of dead processes. It returns the ids of
// the nodes it removed. A node is dead when its lock is free; one
// that is just starting is safe because starting holds start.lock, and Reap
// does nothing while that is held.
func Reap(d Dirs) ([]string, error) {
	start, err := host.TryLock(filepath.Join(d.Run, "start.lock"))
	if errors.Is(err, host.ErrLocked) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer start.Close()
	return ReapLocked(d)
}

// ReapLocked is Reap for a caller that holds start.lock.
func ReapLocked(d Dirs) ([]string, error) {
	names, err := os.ReadDir(d.Nodes())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var gone []string
	for _, n := range names {
		if !Valid(n.Name()) || !n.IsDir() {
			continue
		}
		dir := d.Node(n.Name())
		held, err := host.Held(dir.Lock())
		if held || err != nil && !errors.Is(err, os.ErrNotExist) {
			continue // alive, or not for us to judge
		}
		if os.RemoveAll(string(dir)) == nil {
			gone = append(gone, dir.ID())
		}
	}
	unbindAll(d)
	return gone, nil
}

// unbindAll removes every binding to a node without a directory.
func unbindAll(d Dirs) {
	names, err := os.ReadDir(d.Sessions())
	if err != nil {
		return
	}
	absent := func(node string) bool {
		_, err := os.Lstat(string(d.Node(node)))
		return errors.Is(err, os.ErrNotExist)
	}
	for _, s := range names {
		if pid, ok := strings.CutPrefix(s.Name(), host.TempPrefix); ok {
			pid, _, _ = strings.Cut(pid, "-")
			if n, err := strconv.Atoi(pid); err == nil && dead(n) {
				os.Remove(filepath.Join(d.Sessions(), s.Name()))
			}
			continue
		}
		unbind(d, s.Name(), absent)
	}
}

func dead(pid int) bool {
	_, err := host.StartTime(pid)
	return errors.Is(err, host.ErrNoProcess)
}
