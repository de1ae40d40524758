package node

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"permd/api"
	"permd/ask"
	"permd/broker"
	"permd/review"
)

// watcher is one attached answerer: the desk, or a terminal without a desk.
type watcher struct {
	n    *Node
	c    *api.Conn
	name string
	reg  atomic.Pointer[broker.Registration]
}

var _ broker.Answerer = (*watcher)(nil)

// Ask shows an ask on the surface.
func (w *watcher) Ask(_ context.Context, s api.Shown) error {
	s.Node = w.n.id
	return w.c.Write(api.TAsk, 0, s)
}

// Settled ends it there.
func (w *watcher) Settled(s api.Settled) { w.c.Write(api.TSettled, 0, s) }

// Delivered says what the origin did with an answer.
func (w *watcher) Delivered(d api.Delivered) { w.c.Write(api.TDeliver, 0, d) }

// watch serves one answerer connection.
func (n *Node) watch(ctx context.Context, c *api.Conn) {
	f, err := c.Read()
	if err != nil {
		return
	}
	var a api.Attach
	if f.T != api.TAttach || f.Body(&a) != nil {
		c.Refuse(api.CodeBad, "an answerer begins with attach")
		return
	}
	w := &watcher{n: n, c: c, name: a.Surface}
	flush := c.Queue() // a surface that does not read holds up nobody
	defer flush()
	// The first frame is the snapshot, so it leaves before the broker can
	// show anything; what waits then comes as asks.
	if c.Write(api.TSnapshot, 0, api.Snapshot{Asks: []api.Shown{}, Sessions: n.tree()}) != nil {
		return
	}
	reg, err := n.broker.Register(w, broker.Identity{Name: a.Surface, Kind: broker.KindSurface, Cap: a.Cap, Faces: a.Faces})
	if err != nil {
		c.Refuse(api.CodeBad, err.Error())
		return
	}
	w.reg.Store(reg)
	n.mu.Lock()
	n.watchers[w] = true
	n.mu.Unlock()
	n.record(review.Event{Name: review.SurfaceAttached, Fields: surfaceFields(a)})
	if a.Faces > 0 {
		n.announceSurface(w, a)
	}
	n.facesChanged()
	w.listen(ctx)
	c.Close()
	reg.Close()
	<-reg.Done()
	n.mu.Lock()
	delete(n.watchers, w)
	n.mu.Unlock()
	n.record(review.Event{Name: review.SurfaceDetached, Fields: surfaceFields(a)})
	n.facesChanged()
}

func surfaceFields(a api.Attach) []review.Field {
	return []review.Field{{Key: review.KeySurface, Value: a.Surface}, {Key: review.KeyCount, Value: strconv.Itoa(a.Faces)}}
}

// announceSurface tells all other surfaces of a new one: who can answer should
// never grow in silence.
func (n *Node) announceSurface(w *watcher, a api.Attach) {
	n.record(review.Event{Name: review.SurfaceAnnounced, Fields: surfaceFields(a)})
	n.noticeFrom(w, api.Notice{Kind: "surface", Text: "a surface was attached: " + ask.Quote(a.Surface)})
}

// listen handles what the surface says until it ends.
func (w *watcher) listen(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { w.c.Close() })
	defer stop()
	reg := w.reg.Load()
	for {
		f, err := w.c.Read()
		if err != nil {
			return
		}
		switch f.T {
		case api.TAnswer:
			var a ask.Answer
			v := api.AnswerVerdict{Verdict: api.VerdictInvalid}
			if err := f.Body(&a); err != nil {
				v.Text = err.Error()
				w.n.record(review.Event{Name: review.AnswerInvalid, Reason: v.Text, Fields: []review.Field{{Key: review.KeySurface, Value: w.name}}})
			} else {
				v = reg.Answer(a)
			}
			if w.c.Write(api.TVerdict, f.N, v) != nil {
				return
			}
		case api.TFaces:
			var x api.Faces
			if f.Body(&x) == nil && x.Faces >= 0 {
				reg.SetFaces(x.Faces)
				w.n.facesChanged()
			}
		case api.TOnScreen, api.THide:
			var x api.OnScreen
			if f.Body(&x) != nil {
				continue
			}
			if f.T == api.THide {
				reg.Hide(x.Ask)
			} else {
				reg.OnScreen(x.Ask)
			}
		default:
			if w.c.Unknown(f) != nil {
				return
			}
		}
	}
}

// facesChanged counts the attached faces anew and tells whoever needs to know
// which sessions serve.
func (n *Node) facesChanged() {
	n.mu.Lock()
	faces := 0
	for w := range n.watchers {
		if reg := w.reg.Load(); reg != nil {
			faces += reg.Identity().Faces
		}
	}
	if n.faces > 0 && faces == 0 {
		n.facesLeft = time.Now()
	}
	n.faced = n.faced || faces > 0
	n.faces = faces
	close(n.facesCame)
	n.facesCame = make(chan struct{})
	all := n.ordered()
	n.mu.Unlock()
	for _, s := range all {
		s.sel.Refresh(n.ctx)
	}
	n.changed()
}

// changed publishes the tree: to the surfaces, to registered children, to the
// facts file.
func (n *Node) changed() {
	if n.down != nil {
		n.down.servingChanged()
	}
	if err := n.writeFacts(); err != nil {
		n.warn("", "facts: "+err.Error())
	}
	t := n.tree()
	n.each(nil, func(w *watcher) { w.c.Write(api.TSessions, 0, t) })
}

// notice puts a line on every surface.
func (n *Node) notice(x api.Notice) { n.noticeFrom(nil, x) }

func (n *Node) noticeFrom(but *watcher, x api.Notice) {
	n.each(but, func(w *watcher) { w.c.Write(api.TNotice, 0, x) })
}

// complain shows what went wrong with permd itself; it does not use the log,
// which may be what went wrong.
func (n *Node) complain(text string) { n.notice(api.Notice{Kind: "error", Text: text}) }

func (n *Node) each(but *watcher, f func(*watcher)) {
	n.mu.Lock()
	var all []*watcher
	for w := range n.watchers {
		if w != but {
			all = append(all, w)
		}
	}
	n.mu.Unlock()
	for _, w := range all {
		f(w)
	}
}
