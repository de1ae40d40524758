package host

import "errors"

// maxHops bounds a walk up the process tree. Real trees of agents in
// multiplexers are a dozen deep.
const maxHops = 128

// lookups is how often a parent is looked for when the tree changes under the
// walk: each failed try means that a process ended in that very moment.
const lookups = 8

var errTooDeep = errors.New("more than 128 ancestors")

var errUnsettled = errors.New("the process tree changed at every look")

// process facts that a walk needs, read in one go.
type procStat struct {
	parent int // 0: none that is visible from here
	start  uint64
	zombie bool
}

type statFunc func(pid int) (procStat, error)

// StartTime gives a process's start time, as in ProcessID.
func StartTime(pid int) (uint64, error) {
	st, err := statProcess(pid)
	if err != nil {
		return 0, &ProcessError{"start time", pid, err}
	}
	return st.start, nil
}

// ParentPID gives the number of a process's parent, 0 when it has none that
// is visible from here (the first process, or one put into a namespace).
func ParentPID(pid int) (int, error) {
	st, err := statProcess(pid)
	if err != nil {
		return 0, &ProcessError{"parent", pid, err}
	}
	return st.parent, nil
}

// Ancestors lists the parent, its parent and so on up to the first process,
// nearest first, without pid itself. Every link was true at one moment of the
// walk; a process whose parent ended belongs to the one that adopted it.
func Ancestors(pid int) ([]ProcessID, error) {
	return ancestors(statProcess, pid)
}

func ancestors(stat statFunc, pid int) ([]ProcessID, error) {
	at, err := identify(stat, pid)
	if err != nil {
		return nil, err
	}
	var list []ProcessID
	for {
		parent, found, err := parentOf(stat, at)
		if err != nil {
			return nil, &ProcessError{"ancestors", at.PID, err}
		}
		if !found {
			return list, nil
		}
		if len(list) == maxHops {
			return nil, &ProcessError{"ancestors", pid, errTooDeep}
		}
		list = append(list, parent)
		at = parent
	}
}

// Descends says whether pid is the process {ancestor, ancestorStart} or
// descends from it: a process counts as its own descendant, so that a check
// that refuses descendants refuses the process itself. A process that has the
// ancestor's number but another start time is not the ancestor. What cannot
// be looked up is an error, never true. The caller holds pid open (see
// Process.Descends) or lives with its number having been used again.
func Descends(pid, ancestor int, ancestorStart uint64) (bool, error) {
	at, err := identify(statProcess, pid)
	if err != nil {
		return false, err
	}
	return descends(statProcess, at, ancestor, ancestorStart)
}

func identify(stat statFunc, pid int) (ProcessID, error) {
	st, err := stat(pid)
	if err != nil {
		return ProcessID{}, &ProcessError{"ancestors", pid, err}
	}
	return ProcessID{pid, st.start}, nil
}

func descends(stat statFunc, from ProcessID, ancestor int, ancestorStart uint64) (bool, error) {
	at := from
	for range maxHops + 1 {
		if at.PID == ancestor {
			return at.Start == ancestorStart, nil
		}
		parent, found, err := parentOf(stat, at)
		if err != nil {
			return false, &ProcessError{"ancestors", at.PID, err}
		}
		if !found {
			return false, nil
		}
		at = parent
	}
	return false, &ProcessError{"ancestors", from.PID, errTooDeep}
}

// parentOf looks at the child, the parent and the child again: only when the
// child still names the same parent was that process the parent, and not one
// that took over its number.
func parentOf(stat statFunc, child ProcessID) (parent ProcessID, found bool, err error) {
	for range lookups {
		before, err := stat(child.PID)
		if err != nil {
			return ProcessID{}, false, err
		}
		if before.start != child.Start {
			return ProcessID{}, false, ErrNoProcess
		}
		if before.parent == 0 {
			return ProcessID{}, false, nil
		}
		up, err := stat(before.parent)
		if errors.Is(err, ErrNoProcess) {
			continue
		}
		if err != nil {
			return ProcessID{}, false, err
		}
		after, err := stat(child.PID)
		if err != nil {
			return ProcessID{}, false, err
		}
		if after != before || (startsInOrder && up.start > before.start) {
			continue
		}
		return ProcessID{before.parent, up.start}, true, nil
	}
	return ProcessID{}, false, errUnsettled
}
