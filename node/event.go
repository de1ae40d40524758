package node

import (
	"context"
	"fmt"
	"runtime/debug"

	"permd/api/hookwire"
	"permd/clients"
	"permd/review"
	"permd/selection"
)

// event decides one hook call.
func (n *Node) event(ctx context.Context, req *hookwire.Request) clients.Reply {
	codec := n.cfg.Codec
	if req.Client != codec.Client() {
		return refuse("this node belongs to %s, not to %s", codec.Client(), req.Client)
	}
	native := clients.Native{Env: req.Getenv, Args: n.args, Cwd: req.Cwd, Home: n.cfg.Dirs.Home, Stdin: req.Stdin}
	ev, err := codec.Decode(native)
	if err != nil {
		n.record(review.Event{Name: review.HookRefused, Reason: err.Error()})
		return refuse("%v", err)
	}
	if ev.Kind == clients.SubStop {
		return n.subStop(ev, native)
	}
	s, _ := n.session(ev, native)
	if s == nil {
		return refuse("the client names no session")
	}
	if observes(req) {
		return n.observe(s, ev)
	}
	n.mu.Lock()
	s.gated = true
	n.mu.Unlock()
	switch ev.Kind {
	case clients.Gate:
		return n.gate(ctx, s, ev)
	case clients.Approval:
		return n.approval(ctx, s, ev)
	case clients.Ran, clients.RanFailed:
		n.activate(ctx, s)
		n.ran(s, ev)
	case clients.SessionStart:
		n.activate(ctx, s)
		n.exportSession(s, ev)
	case clients.SubStart, clients.Prompt:
		n.activate(ctx, s)
	case clients.SessionEnd:
		// The client lives, or this hook would not run: a session's end is
		// the end of the process, which is not told but seen.
		n.activate(ctx, s)
	}
	return codec.Silent(ev)
}

func (n *Node) subStop(ev clients.Event, native clients.Native) clients.Reply {
	if ev.Agent != "" {
		if s, _ := n.session(ev, native); s != nil {
			n.endSub(s)
		}
	}
	return n.cfg.Codec.Silent(ev)
}

// refuse ends a hook call that cannot be judged: exit 2 with words, which
// every client takes for a no at its gate.
func refuse(format string, a ...any) clients.Reply {
	return clients.Reply{Code: 2, Stderr: fmt.Appendf(nil, "permd: "+format+"\n", a...)}
}

// activate remakes the selection of s.
func (n *Node) activate(ctx context.Context, s *sess) selection.Choice {
	c := s.sel.Activate(ctx)
	n.mu.Lock()
	changed := s.choice != c
	s.choice = c
	unbound := s.unbound
	n.mu.Unlock()
	if unbound {
		n.bind(s) // the other one may have ended
	}
	if changed {
		n.changed()
	}
	return c
}

func (n *Node) panicked(p any) {
	n.record(review.Event{Name: review.ForwardingError, Reason: fmt.Sprintf("internal error: %v", p),
		Fields: []review.Field{{Key: review.KeyMessage, Value: string(debug.Stack())}}})
}
