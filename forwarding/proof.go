package forwarding

import (
	"permd/api"
	"permd/internal/host"
	"permd/session"
)

// Caller is the process at the other end of a child's connection.
type Caller struct {
	UID   uint32
	PID   int
	Start uint64
	// Alive asks the pinned process itself, as [host.Process.Alive] does.
	Alive func() bool
}

// CallerOf is the caller of an accepted connection. It lives as long as the
// peer.
func CallerOf(p *host.Peer) Caller {
	return Caller{UID: p.UID, PID: p.PID, Start: p.Process().StartTime(), Alive: p.Process().Alive}
}

// Ways a parent is proved, as in [api.Proof].
const (
	ByDescent      = "descends"
	ByAnnouncement = "announced"
	ByTicket       = "ticket"
	ByPerson       = "confirmed"
)

// Proofs answer for a child's claim that a session has a parent here. A nil
// function never proves. What none of them proves stays claimed: such a parent
// may deny, or carry the ask to a person, no more.
type Proofs struct {
	// Hosts says whether this node hosts the session.
	Hosts func(session string) bool
	// Descends says whether the child's client was started below this node's;
	// see [DescendsFrom].
	Descends func(child api.Register, caller Caller) bool
	// Announced says whether the parent's own agent announced the child.
	Announced func(child api.Register, s api.ChildSession) bool
	// Ticket takes a one-time ticket and says below which session its bearer
	// was started. For the node and instance that used it before it may say so
	// again, because connections break.
	Ticket func(ticket string, child api.Register) (parent string, ok bool)
	// Confirmed says whether a person confirmed this claim.
	Confirmed func(session, parent string) bool
}

// DescendsFrom proves by descent from client, the parent's agent. That the
// caller is the node of the process it names is held against the facts that
// node wrote under its lock.
func DescendsFrom(client host.ProcessID, dirs session.Dirs) func(api.Register, Caller) bool {
	return func(child api.Register, caller Caller) bool {
		f, err := session.ReadFacts(dirs.Node(child.Node))
		if err != nil || child.Node != session.NodeID(child.PID, child.Start) || f.NodePID != caller.PID || f.PID != child.PID || f.Start != child.Start || f.Instance != child.Instance {
			return false
		}
		start, err := host.StartTime(child.PID)
		if err != nil || start != child.Start {
			return false
		}
		yes, err := host.Descends(child.PID, client.PID, client.Start)
		return err == nil && yes && child.PID != client.PID
	}
}
