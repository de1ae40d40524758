package node

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"permd/api"
	"permd/ask"
	"permd/internal/host/peer"
	"permd/policy"
	"permd/review"
)

// control serves operations, one at a time.
func (n *Node) control(ctx context.Context, c *api.Conn, p *peer.Peer) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	for {
		f, err := c.Read()
		if err != nil {
			return
		}
		var call api.Call
		if f.T != api.TCall || f.Body(&call) != nil {
			if c.Unknown(f) != nil {
				return
			}
			continue
		}
		result, no := n.operate(call, p)
		if no == notAnAgents || no != nil && no.Code == api.CodePeer {
			n.record(review.Event{Name: review.SurfaceRefused, Reason: no.Text, Fields: []review.Field{
				{Key: review.KeyOperation, Value: ask.ExcerptLine(call.Op, ask.MinExcerpt)}, {Key: review.KeyPID, Value: itoa(p.PID)}}})
		}
		if no != nil {
			err = c.Write(api.TError, f.N, no)
		} else {
			err = c.Write(api.TResult, f.N, result)
		}
		if errors.Is(err, ask.ErrTooLarge) {
			err = c.Fail(f.N, api.CodeUnavailable, "the answer is too large for one message")
		}
		if err != nil {
			return
		}
	}
}

// notAnAgents refuses what is a person's to a process below an agent.
var notAnAgents = &api.Refused{Code: api.CodeDenied, Text: "an agent may not do this; use a terminal of your own"}

// operate runs one operation. What changes anything is refused to processes
// below an agent, but for what a launcher needs there.
func (n *Node) operate(call api.Call, p *peer.Peer) (any, *api.Refused) {
	args := func(v any) *api.Refused {
		if err := ask.Decode(call.Args, ask.MaxMessage, v); err != nil {
			return &api.Refused{Code: api.CodeBad, Text: "arguments of " + ask.Quote(call.Op) + ": " + err.Error()}
		}
		return nil
	}
	person := func() *api.Refused {
		if n.governed(p) != "" {
			return notAnAgents
		}
		return nil
	}
	switch call.Op {
	case api.OpStatus:
		return n.status(), nil
	case api.OpSessions:
		return n.tree(), nil
	case api.OpAsks:
		shown := n.broker.Snapshot()
		if shown == nil {
			shown = []api.Shown{}
		}
		for i := range shown {
			shown[i].Node = n.id
		}
		return api.Snapshot{Asks: shown, Sessions: n.tree()}, nil
	case api.OpGrants:
		n.mu.Lock()
		ids := []string{}
		for id := range n.sessions {
			ids = append(ids, id)
		}
		n.mu.Unlock()
		return n.law.grantList(ids), nil
	case api.OpLaunch:
		var a api.LaunchArgs
		if no := args(&a); no != nil {
			return nil, no
		}
		if p.PID != n.cfg.PID {
			return nil, &api.Refused{Code: api.CodePeer, Text: "only the process that becomes the agent may announce it"}
		}
		n.mu.Lock()
		n.launch = &a
		n.mu.Unlock()
		return api.Status{Node: n.id, PID: os.Getpid(), Build: n.cfg.Build}, nil
	case api.OpTicket:
		var a api.TicketArgs
		if no := args(&a); no != nil {
			return nil, no
		}
		return n.ticket(a, p)
	case api.OpConfirm:
		var a api.ConfirmArgs
		if no := first(person(), args(&a)); no != nil {
			return nil, no
		}
		return struct{}{}, n.confirm(a)
	case api.OpPause:
		var a api.PauseArgs
		if no := first(person(), args(&a)); no != nil {
			return nil, no
		}
		return n.pause(a)
	case api.OpLast:
		var a api.LastArgs
		if no := first(person(), args(&a)); no != nil {
			return nil, no
		}
		return n.lastAsked(a)
	case api.OpGrant:
		var a api.GrantArgs
		if no := first(person(), args(&a)); no != nil {
			return nil, no
		}
		return n.grantLast(a)
	case api.OpMode:
		var a api.ModeArgs
		if no := first(person(), args(&a)); no != nil {
			return nil, no
		}
		return n.setMode(a)
	case api.OpRevoke:
		var a api.RevokeArgs
		if no := first(person(), args(&a)); no != nil {
			return nil, no
		}
		return struct{}{}, n.revoke(a.ID)
	}
	return nil, &api.Refused{Code: api.CodeUnknownOp, Text: "operation " + ask.Quote(call.Op) + " is not known to this node; restart its agent to update it"}
}

func first(no ...*api.Refused) *api.Refused {
	for _, r := range no {
		if r != nil {
			return r
		}
	}
	return nil
}

func (n *Node) status() api.Status {
	paused := n.pausedFor().Milliseconds()
	waiting := len(n.broker.Snapshot())
	problem := n.law.problem() // it may look at files and write the record
	if n.law.movedOn() {
		n.recheckSoon()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	st := api.Status{Node: n.id, Build: n.cfg.Build, PID: os.Getpid(), Sessions: len(n.sessions), Waiting: waiting, Faces: n.faces,
		Policy: problem, PausedMS: paused}
	now := n.law.clock()
	for id, m := range n.modes.of {
		if left := m.left(now); left > 0 && m.mode != policy.ModeNormal {
			st.Modes = append(st.Modes, api.ActiveMode{Session: id, Mode: string(m.mode), LeftMS: left.Milliseconds()})
		}
	}
	for _, s := range n.sessions {
		if s.observed() && !s.ended {
			st.Observed++
		}
	}
	slices.SortFunc(st.Modes, func(a, b api.ActiveMode) int { return strings.Compare(a.Session, b.Session) })
	return st
}

// ticket gives a one-time proof, or expects a process: a launcher below this
// agent says which child it is about to have.
func (n *Node) ticket(a api.TicketArgs, p *peer.Peer) (any, *api.Refused) {
	if !n.ours(p) {
		return nil, &api.Refused{Code: api.CodePeer, Text: "only a process of this agent may announce a child of it"}
	}
	if a.PID > 0 {
		// What was claimed before the announcement came may be proved now.
		defer n.down.recheck()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	below := a.Session
	if below == "" || below == n.id {
		below = n.root
	}
	if below == "" {
		below = n.id
	} else if n.sessions[below] == nil {
		return nil, &api.Refused{Code: api.CodeBad, Text: "session " + ask.Quote(below) + " is not hosted here"}
	}
	if a.PID > 0 {
		if len(n.expected) >= maxTickets {
			return nil, &api.Refused{Code: api.CodeUnavailable, Text: "too many announced children"}
		}
		n.expected[procID{a.PID, a.Start}] = below
		return api.Ticket{Session: below}, nil
	}
	if len(n.tickets) >= maxTickets {
		return nil, &api.Refused{Code: api.CodeUnavailable, Text: "too many unused tickets"}
	}
	b := make([]byte, 32)
	rand.Read(b)
	t := hex.EncodeToString(b)
	n.tickets[t] = below
	return api.Ticket{Ticket: t, Session: below}, nil
}

const maxTickets = 256

// confirm takes a person's word that a claimed parent is real, for this
// session only.
func (n *Node) confirm(a api.ConfirmArgs) *api.Refused {
	if !ask.ValidID(a.Session) || !ask.ValidID(a.Parent) {
		return &api.Refused{Code: api.CodeBad, Text: "session or parent is no session id"}
	}
	n.mu.Lock()
	known := n.sessions[a.Parent] != nil || a.Parent == n.id
	if known {
		n.confirms[a.Session] = a.Parent
	}
	n.mu.Unlock()
	if !known {
		return &api.Refused{Code: api.CodeBad, Text: "session " + ask.Quote(a.Parent) + " is not hosted here"}
	}
	n.record(review.Event{Name: review.ParentConfirmed, Session: a.Session,
		Fields: []review.Field{{Key: review.KeyChild, Value: a.Session}, {Key: review.KeyParent, Value: a.Parent}}})
	n.down.recheck()
	return nil
}

// maxPause is the longest pause.
const maxPause = 8 * time.Hour

// pause leaves calls to the client's own prompts for a while. Deny rules and
// self-protection still hold.
func (n *Node) pause(a api.PauseArgs) (any, *api.Refused) {
	d := time.Duration(a.ForMS) * time.Millisecond
	if a.ForMS < 0 || a.ForMS > maxPause.Milliseconds() {
		return nil, &api.Refused{Code: api.CodeBad, Text: "a pause lasts at most " + maxPause.String()}
	}
	n.mu.Lock()
	unasked := ""
	for _, s := range n.ordered() {
		if !s.ended && (s.host.Unasked || s.host.Unattended) {
			unasked = s.id
		}
	}
	if d > 0 && unasked == "" {
		n.paused = time.Now().Add(d)
	}
	if d == 0 {
		n.paused = time.Time{}
	}
	n.mu.Unlock()
	if d > 0 && unasked != "" {
		n.record(review.Event{Name: review.PauseRefused, Session: unasked})
		return nil, &api.Refused{Code: api.CodeDenied, Text: "session " + unasked + " would run its calls unasked, or has nobody to ask; it is not paused"}
	}
	name := review.PauseStarted
	if d == 0 {
		name = review.PauseEnded
	}
	n.record(review.Event{Name: name, Fields: []review.Field{{Key: review.KeyExpiresMS, Value: strconv.FormatInt(a.ForMS, 10)}}})
	text := "permd is paused for " + d.String() + ": the client's own prompts decide, deny rules still hold"
	if d == 0 {
		text = "the pause has ended"
	}
	n.notice(api.Notice{Kind: "pause", Text: text})
	n.changed()
	return n.status(), nil
}

func itoa(n int) string { return strconv.Itoa(n) }
