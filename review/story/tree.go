package story

import (
	"slices"
	"strings"
	"time"

	"permd/ask"
	"permd/review"
)

// Tree is who is there and who relays to whom, as far as the records say that
// it has taken, in the order of [review.Scan]. Its zero value is ready. It
// keeps what lives, not what was.
//
//	record                    what it does to the tree
//	session.started           the session is there, at the node that wrote it
//	session.ended             it is not; what it relayed ends with it
//	serving_started, _stopped it takes asks of others, or no longer
//	relay_started             it relays to a target; to another one before: no longer
//	relay_stopped             it relays no longer; of another target: nothing
//	request_created           so it does; where nobody can answer no other
//	                          record says so, and then these end it:
//	parent_lost, no_serving_session, waiting, unavailable
//	node.ended, log.head closing, log.resumed unclean
//	                          every session of that node ends
//	child.gone                if that child's node relays to the writer, its
//	                          sessions are lost since then
//	parent_lost               the target is lost since then
//	anything else of a node   its sessions are not lost
type Tree struct {
	places map[place]*Session
	// ended is told of every relay as it ends.
	ended func(Relay)
}

type place struct{ node, session string }

// Session is a session at one node.
type Session struct {
	ID, Node string
	// Client and Agent are as its node told them.
	Client, Agent string
	Started       time.Time
	// Root is the session inside whose process it runs as a subagent, or "".
	Root string
	// Parent is whom it relays to, since Since and found by FoundBy; "" when it
	// does not relay.
	Parent  string
	FoundBy string
	Since   time.Time
	// ByAsks: that it relays is known from its asks alone.
	ByAsks bool
	// Serving says that it takes asks of others.
	Serving bool
	// Lost is when others saw it go without a word of its own; zero: it did not.
	Lost time.Time
	// Unserved: it relays to a session that is not there or does not serve.
	Unserved bool
}

// Change is one thing that changed in the tree.
type Change struct {
	Time          time.Time
	Session, Node string
	// Text is what happened, in a sentence without its subject.
	Text string
}

// Relay is a time in which a session relayed its asks to another. To is zero
// while it lasts.
type Relay struct {
	Session, Node, Parent string
	From, To              time.Time
	// Lost: how it ended is only known from others.
	Lost bool
}

// Events are the beginnings of the names of all events that a tree takes.
func Events() []string {
	return []string{"session.", "node.", "child.gone", "log.", "forwarded_permission.serving_", "forwarded_permission.relay_",
		"forwarded_permission.parent_lost", "forwarded_permission.no_serving_session",
		string(review.RequestCreated), string(review.AskWaiting), string(review.AskUnavailable)}
}

// Add takes a record and says what it changed, if anything.
func (t *Tree) Add(r *review.Record) (Change, bool) {
	if r.Err != nil {
		return Change{}, false
	}
	when := at(r)
	c := Change{Time: when, Session: ask.VisibleLine(r.Session), Node: ask.VisibleLine(r.Writer)}
	target := ask.VisibleLine(r.Field(review.KeyTargetSession))
	if !strings.HasPrefix(string(r.Event), "log.") && r.Event != review.Gap {
		t.heard(r.Writer)
	}
	switch r.Event {
	case review.SessionStarted:
		s := t.place(r)
		if s.Started.IsZero() {
			s.Started = when
		}
		s.Client, s.Agent, s.Root = r.Field(review.KeyClient), r.Field(review.KeyAgentName), r.Field(review.KeyParent)
		c.Text = "begins"
		if s.Root != "" {
			c.Text = "begins as a subagent of " + ask.VisibleLine(s.Root)
		}
	case review.SessionEnded:
		if !t.end(r.Writer, r.Session, when, false) {
			return c, false
		}
		c.Text = "ends"
	case review.ServingStarted:
		t.place(r).Serving = true
		c.Text = "takes asks of others"
	case review.ServingStopped:
		t.place(r).Serving = false
		c.Text = "no longer takes asks of others"
	case review.RelayStarted:
		s := t.place(r)
		switch {
		case s.Parent != r.Field(review.KeyTargetSession):
			t.stop(s, when, false)
			s.Parent, s.Since = r.Field(review.KeyTargetSession), when
		case !s.ByAsks:
			return c, false // told twice
		}
		s.FoundBy, s.ByAsks = r.Field(review.KeyFoundBy), false
		c.Text = "relays to " + target
		if s.FoundBy != "" {
			c.Text += ", found by " + ask.VisibleLine(s.FoundBy)
		}
	case review.RequestCreated:
		who := acting(r)
		s := t.placeOf(r.Writer, who)
		c.Session = ask.VisibleLine(who)
		if s.Parent == r.Field(review.KeyTargetSession) || s.Parent != "" && !s.ByAsks {
			return c, false
		}
		t.stop(s, when, false)
		s.Parent, s.Since, s.ByAsks = r.Field(review.KeyTargetSession), when, true
		c.Text = "relays to " + target + ", as its ask says"
	case review.AskWaiting, review.AskUnavailable:
		if len(r.Path) > 0 || r.By != nil && r.By.Kind == ask.KindForwarded || !t.asksNoMore(r.Writer, r.Session, "", when) {
			return c, false
		}
		c.Text = "no longer relays: its ask was not sent on"
	case review.RelayStopped:
		s := t.place(r)
		if s.Parent == "" || s.Parent != r.Field(review.KeyTargetSession) {
			return c, false
		}
		t.stop(s, when, false)
		c.Text = because("no longer relays to "+target, r.Reason)
	case review.NodeEnded, review.LogHead, review.LogResumed:
		silent := r.Event != review.NodeEnded
		if r.Event == review.LogHead && r.Field(review.KeyClosing) != "true" || !t.nodeEnds(r.Writer, when, silent) {
			return c, false
		}
		c.Text = "its node ends"
		if silent {
			c.Text = "its node is seen to have ended without a word"
		}
	case review.ChildGone:
		child := r.Field(review.KeyNode)
		if !t.relaysTo(child, r.Writer) || !t.lose(func(p place) bool { return p.node == child }, when) {
			return c, false
		}
		c.Text = because("sees the node "+ask.VisibleLine(r.Field(review.KeyNode))+" below it go", r.Field(review.KeyMessage))
	case review.ParentLost:
		lost := r.Field(review.KeyTargetSession)
		t.asksNoMore(r.Writer, acting(r), lost, when)
		t.lose(func(p place) bool { return p.session == lost && p.node != r.Writer }, when)
		c.Text = because("loses "+target+" while an ask is with it", r.Field(review.KeyMessage))
	case review.NoServingSession:
		t.asksNoMore(r.Writer, acting(r), r.Field(review.KeyTargetSession), when)
		c.Text = "finds that " + target + " does not serve (" + ask.VisibleLine(r.Field(review.KeyServingState)) + ")"
	default:
		return c, false
	}
	return c, true
}

// place gives the session that a record is about, at the node that wrote it.
func (t *Tree) place(r *review.Record) *Session { return t.placeOf(r.Writer, r.Session) }

func (t *Tree) placeOf(node, session string) *Session {
	p := place{node, session}
	s := t.places[p]
	if s == nil {
		if t.places == nil {
			t.places = map[place]*Session{}
		}
		s = &Session{ID: session, Node: node}
		t.places[p] = s
	}
	return s
}

func (t *Tree) stop(s *Session, when time.Time, lost bool) {
	if s.Parent != "" && t.ended != nil {
		to := when
		if lost = lost || !s.Lost.IsZero(); !s.Lost.IsZero() {
			to = s.Lost
		}
		t.ended(Relay{s.ID, s.Node, s.Parent, s.Since, to, lost})
	}
	s.Parent, s.FoundBy, s.Since, s.ByAsks = "", "", time.Time{}, false
}

// asksNoMore ends a relay that is known from asks alone; to a target, or any
// for "".
func (t *Tree) asksNoMore(node, session, target string, when time.Time) bool {
	s := t.places[place{node, session}]
	if s == nil || !s.ByAsks || target != "" && s.Parent != target {
		return false
	}
	t.stop(s, when, false)
	return true
}

func (t *Tree) end(node, session string, when time.Time, lost bool) bool {
	s := t.places[place{node, session}]
	if s == nil {
		return false
	}
	t.stop(s, when, lost)
	delete(t.places, place{node, session})
	return true
}

func (t *Tree) nodeEnds(node string, when time.Time, lost bool) bool {
	any := false
	for _, p := range t.sorted() {
		if p.node == node {
			any = t.end(node, p.session, when, lost) || any
		}
	}
	return any
}

func (t *Tree) lose(which func(place) bool, when time.Time) bool {
	any := false
	for p, s := range t.places {
		if which(p) && s.Lost.IsZero() {
			s.Lost, any = when, true
		}
	}
	return any
}

// relaysTo says whether a session of one node relays to one of another.
func (t *Tree) relaysTo(from, to string) bool {
	for p, s := range t.places {
		if p.node == from && from != to && s.Parent != "" && (s.Parent == to || t.places[place{to, s.Parent}] != nil) {
			return true
		}
	}
	return false
}

// heard: a node that was thought lost has written again.
func (t *Tree) heard(node string) {
	for p, s := range t.places {
		if p.node == node {
			s.Lost = time.Time{}
		}
	}
}

func (t *Tree) sorted() []place {
	all := make([]place, 0, len(t.places))
	for p := range t.places {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b place) int {
		if c := strings.Compare(a.session, b.session); c != 0 {
			return c
		}
		return strings.Compare(a.node, b.node)
	})
	return all
}

// Sessions gives the sessions that are there, sorted by id and node.
func (t *Tree) Sessions() []Session {
	out := []Session{}
	for _, p := range t.sorted() {
		s := *t.places[p]
		s.Unserved = s.Parent != "" && !t.serves(s.Parent)
		out = append(out, s)
	}
	return out
}

// serves says whether a session of this id, or the root of a node of this id,
// takes asks.
func (t *Tree) serves(id string) bool {
	for p, s := range t.places {
		if (p.session == id || p.node == id) && s.Serving && s.Lost.IsZero() {
			return true
		}
	}
	return false
}

// At is the tree at a moment: after all records up to it.
func At(records []review.Record, when time.Time) []Session {
	var t Tree
	for i := range records {
		if r := &records[i]; !at(r).After(when) {
			t.Add(r)
		}
	}
	return t.Sessions()
}

// Relays gives all times in which somebody relayed, in the order in which they
// began.
func Relays(records []review.Record) []Relay {
	var out []Relay
	t := Tree{ended: func(r Relay) { out = append(out, r) }}
	for i := range records {
		t.Add(&records[i])
	}
	for _, s := range t.Sessions() {
		if s.Parent != "" {
			out = append(out, Relay{s.ID, s.Node, s.Parent, s.Since, s.Lost, !s.Lost.IsZero()})
		}
	}
	slices.SortStableFunc(out, func(a, b Relay) int { return a.From.Compare(b.From) })
	return out
}
