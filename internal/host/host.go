// Package host is what differs from one system to the next: who is at the
// other end of a socket, when a process ended, who holds a lock, how long the
// machine has been up, and files and directories that are nobody else's.
//
// It promises that an answer about a process is about that process and not a
// later one with the same number; that a lookup that fails is an error and
// never a yes; that nothing is read through a symbolic link, from a pipe or
// from another user's file; that a file is replaced whole or not at all.
//
// It does not promise a wall between processes of one user: they can remove
// each other's files and send each other signals. It knows nothing of nodes,
// sessions and asks.
//
// Linux (5.3 or later, for pidfd_open) and macOS. The hook links this
// package, so it stays without fmt, net and os/exec and does nothing at package
// level.
package host

import (
	"errors"
	"strconv"
	"syscall"
)

// MaxSocketPath is the longest path in bytes that a unix socket may have
// here. macOS allows 103, Linux 107; the rest is room for a suffix while the
// socket is being put in place.
const MaxSocketPath = 100

// ErrNoProcess says that no process has this number, or that the one that was
// meant has ended.
var ErrNoProcess = errors.New("no such process")

// ErrLocked says that somebody else holds the lock.
var ErrLocked = errors.New("locked by another process")

// ProcessError is a failed question about a process. Err is ErrNoProcess when
// the process is gone, otherwise what the system said.
type ProcessError struct {
	Op  string
	PID int
	Err error
}

func (e *ProcessError) Error() string {
	return "process " + strconv.Itoa(e.PID) + ": " + e.Op + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *ProcessError) Unwrap() error { return e.Err }

// DetachAttr gives the attributes for a child that is to outlive its parent's
// terminal: a session of its own, so that neither the terminal's hang-up nor
// its interrupt key reaches it.
func DetachAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}
