package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"permd/ask"
	"permd/clients"
	"permd/review"
	"permd/session"
)

// recall reads from this node's own log which calls were let go before it was
// started: it may follow one that was killed in the middle. Without that, what
// its predecessor had released would trip the wire.
func (n *Node) recall() {
	byAsk := map[string]*call{}
	owner := map[string]string{}
	tripped := map[string]bool{}
	err := review.Scan(n.cfg.Dirs.Review(), review.Filter{Writer: n.id}, func(r review.Record) error {
		if r.Err != nil {
			return nil
		}
		switch r.Event {
		case review.Released, review.AskAutoApproved, review.HandedToClientDialog:
			if r.ActionDigest == nil || r.Action == nil {
				return nil
			}
			k := &call{ask: r.Ask, id: r.Action.Call, digest: *r.ActionDigest, cwd: r.Action.Cwd, how: letReleased, tool: r.Action.ClientTool}
			if r.Event == review.HandedToClientDialog {
				k.how = letHanded
			}
			if old := byAsk[r.Ask]; old == nil {
				byAsk[r.Ask], owner[r.Ask] = k, r.Session
			}
		case review.Effect:
			delete(byAsk, r.Ask)
		case review.SessionStrict:
			tripped[r.Session] = true
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.warn("", "reading what ran before: "+err.Error())
	}
	n.before = map[string][]call{}
	for id, k := range byAsk {
		n.before[owner[id]] = append(n.before[owner[id]], *k)
	}
	n.wasTripped = tripped
}

// exportSession tells what the client's tools start whose child it is: Claude
// lets a session start hook append to a file of its own.
func (n *Node) exportSession(s *sess, ev clients.Event) {
	if ev.EnvFile == "" || s.agent != "" {
		return
	}
	if err := appendEnv(ev.EnvFile, ev.Session, "export "+session.EnvSession+"="+s.id+"\nunset "+session.EnvParent+"\n"); err != nil {
		n.warn(s.id, "telling the client's tools their session: "+err.Error())
	}
}

// appendEnv appends to the file the client named. A hook call could be forged
// by the agent, so it must be what Claude uses: a file of ours, not a link, in
// a directory named for this purpose and this session.
func appendEnv(path, native, text string) error {
	if !filepath.IsAbs(path) || !strings.Contains(path, "/session-env/") || !strings.Contains(path, native) || filepath.Clean(path) != path {
		return errors.New("the environment file " + ask.Quote(path) + " is not where the client keeps such files")
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "env")
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if uint32(st.Mode)&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Getuid() || st.Size > 64<<10 {
		return errors.New("the environment file is no small regular file of ours")
	}
	_, err = f.WriteString(text)
	return err
}
