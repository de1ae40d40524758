package session

import (
	"errors"
	"os"
	"path/filepath"

	"permd/internal/host"
)

// Reap removes the directories of dead nodes and the bindings that name them,
// and returns the ids it removed. A node is dead when its lock is free; one
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
	if len(gone) > 0 {
		unbindAll(d, gone)
	}
	return gone, nil
}

// unbindAll removes every binding to one of the nodes.
func unbindAll(d Dirs, nodes []string) {
	names, err := os.ReadDir(d.Sessions())
	if err != nil {
		return
	}
	dead := map[string]bool{}
	for _, n := range nodes {
		dead[n] = true
	}
	for _, s := range names {
		if n, err := Home(d, s.Name()); err == nil && dead[n] {
			os.Remove(filepath.Join(d.Sessions(), s.Name()))
		}
	}
}
