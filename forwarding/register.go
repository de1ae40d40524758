package forwarding

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"sync"

	"permd/api"
	"permd/ask"
)

const maxRegister = 1 << 20 // bytes of a register or children frame

// Child holds one child's connection, after hello and welcome, from its
// register frame to its end, and returns why it ended. Call it on the
// connection's goroutine; it closes the connection. An error of type
// [*api.Refused] was told to the child.
func (s *Server) Child(ctx context.Context, conn Conn, caller Caller) error {
	defer conn.Close()
	f, err := conn.Read()
	if err != nil {
		return fmt.Errorf("registration: %w", err)
	}
	p, refused, err := s.admit(ctx, conn, caller, f)
	if refused != nil {
		s.rep.event(Event{Kind: EventRefusedChild, Why: fmt.Sprintf("pid %d: %s", caller.PID, ask.Quote(refused.Text))})
		_ = conn.Write(api.TRefused, f.N, refused)
		return refused
	}
	if err != nil {
		return fmt.Errorf("registration: %w", err)
	}
	defer s.serving.Done()
	s.rep.event(Event{Kind: EventRegistered, Node: p.reg.Node, Why: fmt.Sprintf("pid %d, %d sessions", caller.PID, len(p.reg.Sessions))})
	var sender sync.WaitGroup
	if err = s.welcome(p, f.N); err == nil {
		if s.isQuiet() {
			s.mu.Lock()
			s.pushServing(p)
			s.mu.Unlock()
		}
		sender.Go(func() { p.out.run(p.ctx) })
		err = s.hear(p)
	}
	if cause := context.Cause(p.ctx); cause != nil {
		err = cause
	}
	p.end(ErrChildGone)
	sender.Wait()
	_ = s.call(context.WithoutCancel(ctx), func() { s.dismiss(p) })
	s.rep.event(Event{Kind: EventGone, Node: p.reg.Node, Why: ask.Quote(err.Error())})
	return err
}

// admit checks a registration and takes it in. What could race with another
// registration or with letters happens in a turn; what may look at processes
// and files does not.
func (s *Server) admit(ctx context.Context, conn Conn, caller Caller, f api.Frame) (*peer, *api.Refused, error) {
	refuse := func(code, format string, a ...any) (*peer, *api.Refused, error) {
		return nil, &api.Refused{Code: code, Text: fmt.Sprintf(format, a...)}, nil
	}
	if f.T != api.TRegister {
		return refuse(api.CodeBad, "a child's connection begins with register")
	}
	var reg api.Register
	if err := ask.Decode(f.B, maxRegister, &reg); err != nil {
		return refuse(api.CodeBad, "register: %v", err)
	}
	switch {
	case caller.UID != uint32(os.Geteuid()):
		return refuse(api.CodePeer, "this node serves user %d only", os.Geteuid())
	case reg.Node == s.cfg.Node:
		return refuse(api.CodeBad, "a node cannot be its own child")
	case !caller.Alive():
		return refuse(api.CodePeer, "the child's process has ended")
	}
	p := &peer{reg: reg, caller: caller, key: newKey(), conn: conn, out: newOutbox(conn),
		asks: map[askKey]*served{}, past: map[askKey]*served{}}
	if t := s.cfg.Proofs.Ticket; t != nil && reg.Ticket != "" {
		if parent, ok := t(reg.Ticket, reg); ok {
			p.ticketFor = parent
		} else {
			s.rep.event(Event{Kind: EventProof, Node: reg.Node, Why: "the ticket is unknown or was used before; its bearer stays claimed"})
		}
	}
	if d := s.cfg.Proofs.Descends; d != nil {
		p.descends = d(reg, caller)
	}
	sessions, dropped := s.claims(p, reg.Sessions)
	var refused *api.Refused
	err := s.call(ctx, func() { refused = s.enrol(p, sessions, dropped) })
	return p, refused, err
}

// enrol takes a checked registration in; it runs in a turn.
func (s *Server) enrol(p *peer, sessions map[string]*Child, dropped int) *api.Refused {
	s.mu.Lock()
	old := s.peers[p.reg.Node]
	if old != nil && old.conn != nil && !same(old.caller, p.caller) && old.caller.Alive() {
		s.mu.Unlock()
		return &api.Refused{Code: api.CodeBusy, Text: fmt.Sprintf("node %s is registered by process %d, which is alive", p.reg.Node, old.caller.PID)}
	}
	for id := range sessions {
		if h := s.holder(id); h != nil && h != old && h.caller.Alive() {
			s.mu.Unlock()
			return &api.Refused{Code: api.CodeBusy, Text: fmt.Sprintf("session %s is held by node %s, which is alive", id, h.reg.Node)}
		}
	}
	delete(s.peers, p.reg.Node)
	dropped += s.admitted(p, sessions)
	s.mu.Unlock()
	s.reportDropped(p, dropped)
	if old != nil {
		old.end(errReplaced)
	}
	s.pulseNow() // a child that is told yes finds a beat that says so
	return nil
}

func same(a, b Caller) bool { return a.PID == b.PID && a.Start == b.Start }

// admitted takes a peer in and returns how many sessions it does not get. The
// server's mutex is held.
func (s *Server) admitted(p *peer, sessions map[string]*Child) (dropped int) {
	p.ctx, p.cancel = context.WithCancelCause(s.ctx)
	s.serving.Add(1)
	if h, ok := s.cfg.Transport.(holder); ok {
		p.release = h.Hold()
	}
	s.peers[p.reg.Node] = p
	return s.give(p, sessions)
}

func (s *Server) reportDropped(p *peer, n int) {
	if n > 0 {
		s.rep.event(Event{Kind: EventRefusedChild, Node: p.reg.Node,
			Why: fmt.Sprintf("%d of its sessions name no parent here or are held by another node", n)})
	}
}

// welcome hands the key over: the first frame of a registration.
func (s *Server) welcome(p *peer, n uint64) error {
	s.mu.Lock()
	r := api.Registered{Key: hex.EncodeToString(p.key), Node: s.cfg.Node, Instance: s.cfg.Instance,
		Verified: p.proofs(), Serving: slices.Clone(s.serves())}
	s.mu.Unlock()
	if s.cfg.BeatKey != nil {
		r.BeatKey = hex.EncodeToString(s.cfg.BeatKey)
	}
	return p.conn.Write(api.TRegistered, n, r)
}

// hear reads the connection to its end.
func (s *Server) hear(p *peer) error {
	for {
		f, err := p.conn.Read()
		if err != nil {
			return err
		}
		switch f.T {
		case api.TWake:
			if w, ok := s.cfg.Transport.(waker); ok {
				w.Wake()
			}
		case api.TChildren:
			var c api.Children
			if err := ask.Decode(f.B, maxRegister, &c); err != nil {
				return fmt.Errorf("children: %w", err)
			}
			p.out.setQuiet(c.Quiet)
			sessions, dropped := s.claims(p, c.Sessions)
			s.mu.Lock()
			dropped += s.give(p, sessions)
			s.pushServing(p)
			s.mu.Unlock()
			s.reportDropped(p, dropped)
		case api.TUnknown:
		default:
			p.out.push(api.TUnknown, f.N, nil)
		}
	}
}

// dismiss forgets a registration that has ended; it runs in a turn.
func (s *Server) dismiss(p *peer) {
	if p.release != nil {
		p.release()
	}
	s.mu.Lock()
	last := s.peers[p.reg.Node] == p
	if last {
		delete(s.peers, p.reg.Node)
	}
	parent := s.ups[p.reg.Node] != nil
	s.mu.Unlock()
	if !last {
		return // it registered again: what lies there is the new one's
	}
	if w, ok := s.cfg.Transport.(sweeper); ok && !parent {
		w.Sweep(p.reg.Node)
	}
	s.beatNow()
}
