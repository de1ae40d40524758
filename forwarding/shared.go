package forwarding

import (
	"context"

	"permd/api"
)

// sharedKey stands where a registration's key would: it proves nothing, and
// keeps the one letter format for children without a connection.
var sharedKey = []byte("permd: unauthenticated")

// maxShared bounds the sessions and nodes that a directory can claim.
const maxShared = 1024

// adopt takes in a child that has only the directory in common with us, on its
// first ask, or in its next life. It gets no proof, ever. A child that has a
// connection stays as it is. It runs in a turn.
func (s *Server) adopt(have *peer, name Name, raw []byte) *peer {
	if have != nil && (have.conn != nil || have.reg.Instance == name.Instance) || name.Kind != KindAsk {
		return have
	}
	l, err := Open(raw, sharedKey)
	if err != nil || l.Name() != name {
		return have
	}
	p := &peer{reg: api.Register{Node: name.Node, Instance: name.Instance}, key: sharedKey,
		asks: map[askKey]*served{}, past: map[askKey]*served{}}
	p.caller.Alive = func() bool { return p.ctx.Err() == nil }
	s.mu.Lock()
	if len(s.peers) >= maxShared {
		s.mu.Unlock()
		return have
	}
	s.admitted(p, map[string]*Child{})
	s.mu.Unlock()
	if have != nil {
		have.end(errReplaced)
	}
	s.rep.event(Event{Kind: EventUnguarded, Node: name.Node, Session: l.From.Session, Why: "a child without a connection is served"})
	// Its place in serving was taken by admitted.
	go s.watch(p)
	s.beatNow()
	return p
}

// watch waits for the end of an adopted child.
func (s *Server) watch(p *peer) {
	defer s.serving.Done()
	err := s.cfg.Transport.Alive(p.ctx, p.reg.Node)
	p.end(err)
	_ = s.call(context.WithoutCancel(p.ctx), func() { s.dismiss(p) })
}
