package host

import "golang.org/x/sys/unix"

func peerOf(fd int) (*Peer, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return nil, err
	}
	pid, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	if err != nil {
		return nil, err
	}
	if pid <= 0 || cred.Ngroups < 1 {
		return nil, &ProcessError{"peer", pid, errNoSocket}
	}
	proc, err := OpenProcess(pid)
	if err != nil {
		return nil, err
	}
	// The number may have been used again since the connection: the user at
	// least has to be the same.
	k, err := kinfo(pid)
	if err == nil && (k.Eproc.Ucred.Uid != cred.Uid || !proc.Alive()) {
		err = ErrNoProcess
	}
	if err != nil {
		_ = proc.Close()
		return nil, &ProcessError{"peer", pid, err}
	}
	return &Peer{PID: pid, UID: cred.Uid, GID: cred.Groups[0], proc: proc}, nil
}
