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
// its predecessor had released would trip the wire. What still waited then is
// closed: its hooks were cut off and have refused their calls.
func (n *Node) recall() {
	byAsk := map[string]*call{}
	owner := map[string]string{}
	tripped := map[string]bool{}
	open := map[string]review.Event{}
	err := review.Scan(n.cfg.Dirs.Review(), review.Filter{Writer: n.id}, func(r review.Record) error {
		if r.Err != nil {
			return nil
		}
		if name := ending(&r.Line); name != "" {
			open[r.Ask] = review.Event{Name: name, Session: r.Session, Path: r.Path, Ask: r.Ask, Digest: r.Digest, ActionDigest: r.ActionDigest}
		} else if ends(r.Event) {
			delete(open, r.Ask)
		}
		switch r.Event {
		case review.Released, review.AskAutoApproved, review.HandedToClientDialog, review.AskApproved, review.AskSessionApproved:
			// An approval is durable; that it was released may be lost with
			// the process, so the approval counts.
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
	for id, e := range open {
		if byAsk[id] != nil {
			continue // the client's own dialog is open, or was: the effect closes it
		}
		deny := ask.Deny
		e.Verdict, e.Outcome, e.By = &deny, ask.Withdrawn, &ask.By{Kind: ask.KindWithdrawn}
		e.Reason = "permd's node was ended while this call waited; it was refused"
		n.record(e)
	}
}

// ending is how an ask that begins to wait with l is closed when nothing else
// closed it, "" for a record after which nothing waits.
func ending(l *review.Line) review.Name {
	switch l.Event {
	case review.AskWaiting, review.RequestCreated, review.ForwardedPrompted:
		switch {
		case l.Field(review.KeyMode) == "paused":
			return "" // it was left to the client
		case len(l.Path) > 0:
			return review.ForwardedEnded
		}
		return review.AskWithdrawn
	}
	return ""
}

// ends reports whether nothing waits for an ask any more after e.
func ends(e review.Name) bool {
	switch e {
	case review.AskApproved, review.AskDenied, review.AskBlocked, review.AskSessionApproved, review.AskAutoApproved,
		review.AskExpired, review.AskWithdrawn, review.AskUnavailable, review.AskDismissed,
		review.ForwardedApproved, review.ForwardedDenied, review.ForwardedAutoApproved, review.ForwardedAutoDenied, review.ForwardedEnded,
		review.ResponseReceived, review.ResponseTimedOut, review.ParentLost, review.NoServingSession,
		review.Released, review.ReleaseRefused, review.WithdrawnByClient, review.HandedToClientDialog:
		return true
	}
	return false
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
// a directory named for this purpose and this session, wherever links lead.
func appendEnv(path, native, text string) error {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, p := range []string{path, filepath.Join(dir, filepath.Base(path))} {
		if !filepath.IsAbs(p) || !strings.Contains(p, "/session-env/") || !strings.Contains(p, native) || filepath.Clean(p) != p {
			return errors.New("the environment file " + ask.Quote(path) + " is not where the client keeps such files")
		}
	}
	path = filepath.Join(dir, filepath.Base(path))
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
