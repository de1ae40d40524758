package desk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"time"

	"permd/api"
	"permd/ask"
	"permd/internal/host"
	"permd/internal/host/peer"
	"permd/review"
	"permd/session"
)

// face is one attached terminal, page or popup.
type face struct {
	name   string
	pid    int
	conn   *api.Conn
	widest int // the width of the widest scope it may give

	// Guarded by desk.mu.
	faces   int
	pending int // answers whose verdict has not come
}

// maxAnswers is how many answers of one face may be on their way.
const maxAnswers = 64

// accept serves one connection.
func (d *desk) accept(ctx context.Context, in *api.Incoming) {
	if in.Hook {
		return // hooks speak to nodes
	}
	h, err := in.Conn.Accept(func(h api.Hello) (api.Welcome, *api.Refused) {
		switch h.Role {
		case api.RoleAnswerer:
			if no := d.refuseGoverned(in.Peer, "answer at the desk"); no != nil {
				return api.Welcome{}, no
			}
		case api.RoleChild:
			return api.Welcome{}, &api.Refused{Code: api.CodeBad, Text: "the desk is no parent of sessions"}
		}
		return api.Welcome{Node: Name, Instance: d.instance, Build: d.opt.Build}, nil
	})
	if err != nil {
		return
	}
	switch h.Role {
	case api.RoleAnswerer:
		d.attach(ctx, in)
	case api.RoleControl:
		d.control(in)
	}
}

// refuseGoverned refuses a process that is, or descends from, the agent of a
// living node. What cannot be told is refused too.
func (d *desk) refuseGoverned(p *peer.Peer, what string) *api.Refused {
	node, err := governor(d.opt.Dirs, p)
	switch {
	case err != nil:
		return &api.Refused{Code: api.CodePeer, Text: "it cannot be told whether this process belongs to an agent: " + err.Error()}
	case node == "":
		return nil
	}
	if d.tellRefusal(node) {
		_ = d.record(review.Event{Name: review.SurfaceRefused, Reason: "it descends from the agent of a node",
			Fields: []review.Field{{Key: review.KeyNode, Value: node}, {Key: review.KeyPID, Value: strconv.Itoa(p.PID)}}})
		d.notice(nil, api.Notice{Kind: "surface", Text: fmt.Sprintf("process %d below the agent of node %s tried to %s and was refused", p.PID, node, what)})
	}
	return &api.Refused{Code: api.CodePeer, Text: "a process below a governed agent (node " + node + ") may not " + what + "; use a terminal of your own"}
}

// refusalEvery is how often a refusal of one node's processes is told and
// recorded: an agent that tries again and again shall not fill the record.
const refusalEvery = 10 * time.Second

func (d *desk) tellRefusal(node string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(d.refused, func(_ string, at time.Time) bool { return now.Sub(at) >= refusalEvery })
	if _, lately := d.refused[node]; lately {
		return false
	}
	d.refused[node] = now
	return true
}

// governor names the living node whose agent the process is or descends from.
func governor(dirs session.Dirs, p *peer.Peer) (node string, err error) {
	up, err := host.Ancestors(p.PID)
	if err != nil {
		return "", err
	}
	for _, a := range append(up, p.Process().ID()) {
		dir := dirs.Node(session.NodeID(a.PID, a.Start))
		held, err := host.Held(dir.Lock())
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if held {
			return dir.ID(), nil
		}
	}
	if !p.Process().Alive() {
		return "", errors.New("it has ended")
	}
	return "", nil
}

// attach serves a face until it leaves.
func (d *desk) attach(ctx context.Context, in *api.Incoming) {
	c := in.Conn
	f, err := c.Receive()
	if err != nil {
		return
	}
	var at api.Attach
	if f.T != api.TAttach {
		_ = c.Refuse(api.CodeBad, "an answerer begins with attach")
		return
	}
	if err := f.Body(&at); err != nil {
		_ = c.Refuse(api.CodeBad, err.Error())
		return
	}
	me := &face{name: faceName(at), pid: in.Peer.PID, conn: c, widest: at.Cap.Width(), faces: at.Faces}
	fields := []review.Field{{Key: review.KeySurface, Value: me.name}, {Key: review.KeyPID, Value: strconv.Itoa(me.pid)}}
	if err := d.record(review.Event{Name: review.SurfaceAttached, Fields: fields}); err != nil {
		_ = c.Refuse(api.CodeUnavailable, "a surface that cannot be recorded is not let in: "+err.Error())
		return
	}
	end := c.Queue()
	defer end()
	d.enter(me)
	d.listen(ctx, me)
	d.leave(me)
	_ = d.record(review.Event{Name: review.SurfaceDetached, Fields: fields})
}

// faceName is how others are told of a face: "terminal pts/3".
func faceName(at api.Attach) string {
	name := at.Surface
	if at.Label != "" {
		name += " " + at.Label
	}
	return ask.ExcerptLine(name, ask.MinExcerpt)
}

// enter makes the face one of those that are told, beginning with a snapshot,
// and announces it: who can answer never grows in silence.
func (d *desk) enter(me *face) {
	d.mu.Lock()
	defer d.mu.Unlock()
	asks := d.board.snapshot(time.Now())
	first, rest := split(asks)
	_ = me.conn.Write(api.TSnapshot, 0, api.Snapshot{Asks: first, Sessions: d.treeLocked()})
	for _, s := range rest {
		_ = me.conn.Write(api.TAsk, 0, s)
	}
	d.faces[me] = true
	d.tellLocked(said{t: api.TNotice, but: me, body: api.Notice{Kind: "surface",
		Text: fmt.Sprintf("a surface was attached to the desk: %s (process %d)", me.name, me.pid)}})
	d.facesChangedLocked()
}

// split cuts off what would not fit in one frame.
func split(asks []api.Shown) (first, rest []api.Shown) {
	size := 0
	for i := range asks {
		if size += len(asks[i].Ask.Raw); size > api.MaxFrame/8 {
			return asks[:i:i], asks[i:]
		}
	}
	return asks, nil
}

func (d *desk) leave(me *face) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.faces, me)
	if me.faces > 0 {
		d.facesChangedLocked()
	}
}

// listen takes what a face says until it ends.
func (d *desk) listen(ctx context.Context, me *face) {
	for ctx.Err() == nil {
		f, err := me.conn.Receive()
		if err != nil {
			return
		}
		switch f.T {
		case api.TAnswer:
			var a ask.Answer
			if err := f.Body(&a); err != nil {
				_ = me.conn.Fail(f.N, api.CodeBad, err.Error())
				continue
			}
			d.answer(me, f.N, a)
		case api.TFaces:
			var x api.Faces
			if err := f.Body(&x); err != nil {
				_ = me.conn.Fail(f.N, api.CodeBad, err.Error())
				continue
			}
			d.mu.Lock()
			me.faces = x.Faces
			d.facesChangedLocked()
			d.mu.Unlock()
		case api.TOnScreen:
			var x api.OnScreen
			if f.Body(&x) == nil {
				d.onScreen(x.Ask)
			}
		case api.THide:
			// One face put it away. The desk keeps it: another face, or the same
			// one later, may want it, and the nodes could not show it again.
		case api.TError, api.TUnknown:
		default:
			_ = me.conn.Unknown(f)
		}
	}
}

// onScreen tells the node that a person can see its ask.
func (d *desk) onScreen(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if node, c := d.board.target(id); c != nil && d.links[node] != nil {
		d.links[node].send(func(a *api.Answerer) error { return a.OnScreen(id) })
	}
}
