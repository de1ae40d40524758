package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"permd/api"
	"permd/forwarding"
	"permd/review"
	"permd/session"
)

// place is what this node has put into its directory: any process of the same
// user could put something else there.
type place struct {
	lock, sock fs.FileInfo
	look       chan struct{} // cap 1: something is not as it was

	mu    sync.Mutex // held over a write of the facts
	facts fs.FileInfo
}

// take notes the lock and the socket.
func (p *place) take(dir session.Node) (err error) {
	if p.lock, err = os.Lstat(dir.Lock()); err != nil {
		return err
	}
	p.sock, err = os.Lstat(dir.Sock())
	return err
}

// glance has guardPlace look at once where something is not as it was. It costs
// three calls and waits for nothing.
func (p *place) glance(dir session.Node) {
	bad := same(dir.Lock(), p.lock) != nil || same(dir.Sock(), p.sock) != nil
	if !bad && p.mu.TryLock() {
		bad = same(dir.Facts(), p.facts) != nil
		p.mu.Unlock()
	}
	if !bad {
		return
	}
	select {
	case p.look <- struct{}{}:
	default:
	}
}

// watchedBeat is the heartbeat of a node that glances at its own place with
// each beat: while it has children, who it is matters to others.
type watchedBeat struct {
	forwarding.Beater
	n *Node
}

// Beat writes a beat.
func (w watchedBeat) Beat(uptime time.Duration, serving []string) error {
	w.n.place.glance(w.n.dir)
	return w.Beater.Beat(uptime, serving)
}

// same says whether what stands at path is what was put there, unchanged.
func same(path string, was fs.FileInfo) error {
	now, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%q was taken away", path)
	case err != nil:
		return err
	case !os.SameFile(now, was) || now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime()):
		return fmt.Errorf("%q was replaced by another process", path)
	}
	return nil
}

// checkPlace looks whether the node can still be found and is still who its
// children find. Facts are written anew; a lock or a socket cannot be rebuilt
// around what is held, so an error ends the node, and the next call starts
// another one, which finds everything in the record.
func (n *Node) checkPlace() error {
	for _, x := range []struct {
		path string
		was  fs.FileInfo
	}{{n.dir.Lock(), n.place.lock}, {n.dir.Sock(), n.place.sock}} {
		if err := same(x.path, x.was); err != nil {
			n.record(review.Event{Name: review.ForwardingError, Reason: err.Error(), Fields: []review.Field{{Key: review.KeyPath, Value: x.path}}})
			n.complain(err.Error() + "; the node ends, and the next call starts another")
			return fmt.Errorf("the node's place: %w", err)
		}
	}
	n.place.mu.Lock()
	err := same(n.dir.Facts(), n.place.facts)
	n.place.mu.Unlock()
	if err == nil {
		return nil
	}
	n.record(review.Event{Name: review.ForwardingError, Reason: err.Error(), Fields: []review.Field{{Key: review.KeyPath, Value: n.dir.Facts()}}})
	n.complain(err.Error() + "; it was written anew")
	return n.writeFacts()
}

// writeFacts replaces the facts file.
func (n *Node) writeFacts() error {
	n.place.mu.Lock()
	defer n.place.mu.Unlock()
	f := session.Facts{Node: n.id, Instance: n.instance, Client: n.cfg.Codec.Client(), PID: n.cfg.PID, Start: n.cfg.Start,
		NodePID: os.Getpid(), Boot: n.boot, Build: n.cfg.Build, API: api.Versions[0]}
	n.mu.Lock()
	for _, s := range n.ordered() {
		p := s.named()
		f.Sessions = append(f.Sessions, session.Hosted{ID: s.id, Parent: p.Session, FoundBy: p.FoundBy})
	}
	n.mu.Unlock()
	err := session.WriteFacts(n.dir, f)
	if err != nil {
		return err
	}
	n.place.facts, err = os.Lstat(n.dir.Facts())
	return err
}
