package desk

import (
	"slices"
	"time"

	"permd/api"
	"permd/ask"
)

// board is what waits at all nodes, in display order. It is pure: every method
// is one step that changes the board and returns what the faces are to be
// told.
//
//	event              the ask is           then                      told
//	arrive             not on the board     it is put by its age      ask
//	arrive             there, same text     the newer node has it     ask, in place
//	arrive             there, other text    it waits behind           –
//	settled, gone      held by that node    it ends, the next behind  settled (ask)
//	                                        it comes forward
//	settled, gone      behind               it is forgotten           –
//	accepted           held by that node    it ends                   settled, but the winner
//
// Two nodes show one ask when its session changed parents and the first node
// does not know yet, or is stuck: then the newer one can act on an answer. Two
// different texts under one id are never exchanged for each other on a screen.
type board struct {
	list []*card
	byID map[string]*card
	past map[string]ending
	ring []string // keys of past, oldest first
}

// keep is how many ended asks are remembered, for late answers.
const keep = 512

// card is one ask. The first holder is the one that is shown.
type card struct {
	id      string
	since   time.Time // when it began to wait, and so its place
	holders []holder
}

// holder is a node that waits for the answer.
type holder struct {
	node  string
	shown api.Shown
	since time.Time // when the ask began to wait
	at    time.Time // when the node told us
}

// ending is how an ask ended at the node that held it.
type ending struct {
	node    string
	settled api.Settled
}

// said is a frame for every face but one.
type said struct {
	t    string
	body any
	but  *face
}

func newBoard() *board {
	return &board{byID: map[string]*card{}, past: map[string]ending{}}
}

// arrive takes an ask that a node shows.
func (b *board) arrive(node string, s api.Shown, now time.Time) []said {
	s.Node = node
	h := holder{node: node, shown: s, at: now, since: now.Add(-time.Duration(s.AgeMS) * time.Millisecond)}
	c := b.byID[s.Ask.Body.ID]
	if c == nil {
		b.place(&card{id: s.Ask.Body.ID, since: h.since, holders: []holder{h}})
		return b.show(s.Ask.Body.ID, now)
	}
	same := c.holders[0].shown.Ask.Digest == s.Ask.Digest
	if c.shows(node) && !same {
		told := b.end(node, api.Settled{Ask: c.id, How: api.SettledCancel, Outcome: ask.Withdrawn, Why: "asked anew with another text"}, nil, now)
		return append(told, b.arrive(node, s, now)...)
	}
	c.holders = slices.DeleteFunc(c.holders, func(x holder) bool { return x.node == node })
	if !same {
		c.holders = append(c.holders, h)
		return nil
	}
	c.holders = slices.Insert(c.holders, 0, h)
	return b.show(c.id, now)
}

// place puts a card on the board, behind those that wait as long or longer.
func (b *board) place(c *card) {
	i := len(b.list)
	for i > 0 && b.list[i-1].since.After(c.since) {
		i--
	}
	b.list = slices.Insert(b.list, i, c)
	b.byID[c.id] = c
}

// show tells the faces of an ask as it stands.
func (b *board) show(id string, now time.Time) []said {
	return []said{{t: api.TAsk, body: b.byID[id].view(now)}}
}

// settled takes a node's word that an ask has ended.
func (b *board) settled(node string, s api.Settled, now time.Time) []said {
	return b.end(node, s, nil, now)
}

// accepted ends an ask that a face of ours answered first. The winner has its
// verdict and is not told.
func (b *board) accepted(node string, s api.Settled, winner *face, now time.Time) []said {
	return b.end(node, s, winner, now)
}

// gone ends every ask that a node held.
func (b *board) gone(node, why string, o ask.Outcome, now time.Time) []said {
	var told []said
	for _, c := range slices.Clone(b.list) {
		told = append(told, b.end(node, api.Settled{Ask: c.id, How: api.SettledCancel, Outcome: o, Why: why}, nil, now)...)
	}
	return told
}

// end takes one node off an ask.
func (b *board) end(node string, s api.Settled, but *face, now time.Time) []said {
	c := b.byID[s.Ask]
	if c == nil {
		return nil
	}
	i := slices.IndexFunc(c.holders, func(h holder) bool { return h.node == node })
	if i < 0 {
		return nil
	}
	c.holders = slices.Delete(c.holders, i, i+1)
	if i > 0 {
		return nil
	}
	b.remember(node, s)
	told := []said{{t: api.TSettled, body: s, but: but}}
	delete(b.byID, c.id)
	b.list = slices.DeleteFunc(b.list, func(x *card) bool { return x == c })
	if len(c.holders) == 0 {
		return told
	}
	c.since = c.holders[0].since
	b.place(c)
	return append(told, b.show(c.id, now)...)
}

func (b *board) remember(node string, s api.Settled) {
	if _, again := b.past[s.Ask]; !again {
		b.ring = append(b.ring, s.Ask)
	}
	b.past[s.Ask] = ending{node, s}
	if len(b.ring) > keep {
		delete(b.past, b.ring[0])
		b.ring = slices.Delete(b.ring, 0, 1)
	}
}

// delivered passes on what an origin did with an answer, if the ask was that
// node's.
func (b *board) delivered(node string, d api.Delivered) []said {
	if e, ok := b.past[d.Ask]; ok && e.node == node || b.holds(node, d.Ask) {
		return []said{{t: api.TDeliver, body: d}}
	}
	return nil
}

func (b *board) holds(node, id string) bool {
	c := b.byID[id]
	return c != nil && slices.ContainsFunc(c.holders, func(h holder) bool { return h.node == node })
}

// target is the node that an answer to id goes to: the one that shows it, or
// the one where it ended, which says who was first. The card is nil for an
// ask that has ended.
func (b *board) target(id string) (node string, c *card) {
	if c := b.byID[id]; c != nil {
		return c.holders[0].node, c
	}
	return b.past[id].node, nil
}

// snapshot is the board as a new face gets it.
func (b *board) snapshot(now time.Time) []api.Shown {
	out := make([]api.Shown, 0, len(b.list))
	for _, c := range b.list {
		out = append(out, c.view(now))
	}
	return out
}

// shows reports whether the ask on the screens is that node's.
func (c *card) shows(node string) bool { return c.holders[0].node == node }

// offer finds a grant that was offered with the ask, nil if there is none.
func (c *card) offer(id string) *ask.Offer {
	offers := c.holders[0].shown.Offers
	for i := range offers {
		if offers[i].ID == id {
			return &offers[i]
		}
	}
	return nil
}

// view is the ask as it stands now: older, and with less time left.
func (c *card) view(now time.Time) api.Shown {
	h := &c.holders[0]
	s := h.shown
	s.AgeMS = max(0, now.Sub(c.since).Milliseconds())
	if left := s.Ask.Header.RemainingMS; left != nil {
		a := *s.Ask
		a.Header.RemainingMS = ask.RemainingMS(time.Duration(*left)*time.Millisecond - now.Sub(h.at))
		s.Ask = &a
	}
	return s
}
