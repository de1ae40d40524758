package forwarding

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"permd/api"
	"permd/ask"
)

// Child is one session of a registered child.
type Child struct {
	Node     string
	Instance string
	// PID and Start name the child's client process, as it says.
	PID     int
	Start   uint64
	Session string
	Parent  string
	FoundBy string
	// Proof is how the parent was proved, "" for a claim.
	Proof string
}

// peer is one registration, on the parent's side.
type peer struct {
	reg     api.Register
	caller  Caller
	key     []byte
	conn    Conn // nil without authentication
	out     *outbox
	release func()        // of the transport's hold
	sent    atomic.Uint64 // counter of letters to it
	in      window        // of the server's turn
	ctx     context.Context
	cancel  context.CancelCauseFunc

	descends  bool
	ticketFor string

	// Guarded by the server's mutex.
	sessions map[string]*Child
	asks     map[askKey]*served
	past     map[askKey]*served
	order    []askKey // of past, oldest first
}

// Causes under which a served ask's context ends.
var (
	// ErrChildGone: the child's registration has ended.
	ErrChildGone = errors.New("the child is gone")
	// ErrWithdrawn: the child does not want an answer any more.
	ErrWithdrawn = errors.New("the child withdrew its ask")

	errReplaced = errors.New("the child registered again")
)

// end ends a registration: everything it asked is withdrawn.
func (p *peer) end(why error) {
	p.cancel(why)
	if p.conn != nil {
		_ = p.conn.Close()
	}
}

// prove returns how the claim of one session is proved, "" if it is not. It
// calls the node back: hold no lock.
func (p *peer) prove(pr *Proofs, s api.ChildSession) string {
	switch {
	case p.ticketFor != "" && p.ticketFor == s.Parent:
		return ByTicket
	case p.descends:
		return ByDescent
	case pr.Announced != nil && pr.Announced(p.reg, s):
		return ByAnnouncement
	case pr.Confirmed != nil && pr.Confirmed(s.Session, s.Parent):
		return ByPerson
	}
	return ""
}

// claims turns a child's list into sessions with their proofs, without those
// that name no parent here. It calls the node back: hold no lock.
func (s *Server) claims(p *peer, list []api.ChildSession) (map[string]*Child, int) {
	pr := &s.cfg.Proofs
	next, refused := map[string]*Child{}, 0
	for _, cs := range list {
		if !ask.ValidID(cs.Session) || !ask.ValidID(cs.Parent) || cs.Session == cs.Parent ||
			pr.Hosts != nil && (!pr.Hosts(cs.Parent) || pr.Hosts(cs.Session)) {
			refused++
			continue
		}
		next[cs.Session] = &Child{Node: p.reg.Node, Instance: p.reg.Instance, PID: p.reg.PID, Start: p.reg.Start,
			Session: cs.Session, Parent: cs.Parent, FoundBy: cs.FoundBy, Proof: p.prove(pr, cs)}
	}
	return next, refused
}

// holder is the peer that has a session. The server's mutex is held.
func (s *Server) holder(session string) *peer {
	for _, q := range s.peers {
		if _, ok := q.sessions[session]; ok {
			return q
		}
	}
	return nil
}

// give gives p its sessions but those that another living peer holds. The
// server's mutex is held.
func (s *Server) give(p *peer, next map[string]*Child) (refused int) {
	for id := range next {
		if h := s.holder(id); h != nil && h != p {
			delete(next, id)
			refused++
		}
	}
	p.sessions = next
	return refused
}

// proofs are the proven sessions, in order. The server's mutex is held.
func (p *peer) proofs() []api.Proof {
	var list []api.Proof
	for _, c := range p.sessions {
		if c.Proof != "" {
			list = append(list, api.Proof{Session: c.Session, Parent: c.Parent, How: c.Proof})
		}
	}
	slices.SortFunc(list, func(a, b api.Proof) int { return cmp.Compare(a.Session, b.Session) })
	return list
}

// pushServing tells the child who serves. The server's mutex is held.
func (s *Server) pushServing(p *peer) {
	if p.conn != nil {
		p.out.push(api.TServing, 0, api.Serving{Sessions: s.serves(), Verified: p.proofs(), Quiet: s.quiet})
	}
}

// wake tells the child that there is mail.
func (p *peer) wake() {
	if p.conn != nil {
		p.out.wakeUp()
	}
}

// Children returns the sessions of all registered children, by id.
func (s *Server) Children() []Child {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Child
	for _, p := range s.peers {
		for _, c := range p.sessions {
			list = append(list, *c)
		}
	}
	slices.SortFunc(list, func(a, b Child) int { return cmp.Compare(a.Session, b.Session) })
	return list
}

// Reprove asks the proofs again, as after a person confirmed a claim or an
// announcement came late, and tells the children what changed. Asks that wait
// already keep what they came with. Call it without a lock that a proof takes.
func (s *Server) Reprove() {
	for _, p := range s.allPeers() {
		s.mu.Lock()
		before := make([]Child, 0, len(p.sessions))
		for _, c := range p.sessions {
			before = append(before, *c)
		}
		s.mu.Unlock()
		how := map[string]string{}
		for _, c := range before {
			how[c.Session] = p.prove(&s.cfg.Proofs, api.ChildSession{Session: c.Session, Parent: c.Parent, FoundBy: c.FoundBy})
		}
		s.mu.Lock()
		changed := false
		for _, c := range before {
			if now := p.sessions[c.Session]; now != nil && now.Parent == c.Parent && now.Proof != how[c.Session] {
				now.Proof, changed = how[c.Session], true
			}
		}
		if changed {
			s.pushServing(p)
		}
		s.mu.Unlock()
	}
}

// allPeers is a snapshot.
func (s *Server) allPeers() []*peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*peer, 0, len(s.peers))
	for _, p := range s.peers {
		list = append(list, p)
	}
	return list
}
