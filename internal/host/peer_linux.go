package host

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func peerOf(fd int) (*Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, err
	}
	pid := int(cred.Pid)
	if pid <= 0 {
		// Not connected, not a unix socket, or from outside our pid namespace.
		return nil, &ProcessError{"peer", pid, errNoSocket}
	}
	proc, err := peerProcess(fd, pid, cred.Uid)
	if err != nil {
		return nil, &ProcessError{"peer", pid, err}
	}
	return &Peer{PID: pid, UID: cred.Uid, GID: cred.Gid, proc: proc}, nil
}

// peerProcess asks the socket for the pinned process (Linux 6.5); what the
// kernel says when that has been reaped differs by version.
func peerProcess(fd, pid int, uid uint32) (*Process, error) {
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch err {
	case nil:
		pin, err := adoptPin(pidfd)
		if err != nil {
			return nil, err
		}
		return newProcess(pid, pin)
	case unix.ENOPROTOOPT:
		return peerByNumber(pid, uid)
	case unix.ESRCH, unix.EINVAL, unix.ENODATA:
		return nil, ErrNoProcess
	default:
		return nil, err
	}
}

// peerByNumber pins by number on an older kernel, where the peer may have
// ended before and another process have its number. The start time brackets
// the pinning, and the user has to be the one that connected.
func peerByNumber(pid int, uid uint32) (*Process, error) {
	before, err := statProcess(pid)
	if err != nil {
		return nil, err
	}
	p, err := OpenProcess(pid)
	if err != nil {
		return nil, err
	}
	owner, err := effectiveUID(pid)
	if err == nil && (owner != uid || p.StartTime() != before.start || !p.Alive()) {
		err = ErrNoProcess
	}
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// effectiveUID comes from the status text: the owner of the /proc directory
// is root for a process that hides its memory.
func effectiveUID(pid int) (uint32, error) {
	b, err := readProc(pid, "/status", 1<<16)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		ids, ok := strings.CutPrefix(line, "Uid:")
		if !ok {
			continue
		}
		// Real, effective, saved, file system.
		f := strings.Fields(ids)
		if len(f) < 2 {
			break
		}
		uid, err := strconv.ParseUint(f[1], 10, 32)
		if err != nil {
			break
		}
		return uint32(uid), nil
	}
	return 0, errProcForm
}
