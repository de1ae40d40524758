package story

import (
	"slices"
	"strings"

	"permd/ask"
	"permd/review"
)

// maxKinds bounds how many kinds of calls are counted apart. What comes after
// them is counted in Stats.OtherKinds.
const maxKinds = 5000

// Stats counts asks, each once, as the asker's own node saw it end. Set Kind,
// then Add records in the order of [review.Scan].
type Stats struct {
	// Kind gives calls that are alike one name, which is not empty.
	Kind func(*review.Action) string

	Asks     int
	Sessions int
	// How counts how asks ended.
	How map[How]int
	// By counts who decided, by kind.
	By map[ask.Kind]int
	// OtherKinds is how many asks came when there were too many kinds.
	OtherKinds int

	kinds    map[string]*Count
	sessions map[string]bool
	handed   map[writersAsk]*review.Action // left to the client's own dialog, not ended
	settled  map[writersAsk]bool           // by the client's own dialog, before its effect
}

// How an ask ended.
type How string

// The ways in which an ask ends.
const (
	ByRecord   How = "allowed_unasked"  // rules, grants, the baseline or a mode allowed it
	Ruled      How = "denied_unasked"   // they denied it, or permd itself
	ByPerson   How = "allowed_by_human" // a person at a surface, a device or the client's dialog
	NoByPerson How = "denied_by_human"
	Unanswered How = "unanswered" // nobody could answer, or did in time
	TakenBack  How = "withdrawn"
	Watched    How = "observed" // permd decided nothing in that session
)

// Count is what became of one kind of calls.
type Count struct {
	Kind string
	// Example is one such call.
	Example *review.Action
	How     map[How]int
	// Deniers are who denied it, in words, with how often.
	Deniers map[string]int
}

// Questions is how often somebody had to be asked.
func (c *Count) Questions() int {
	return c.How[ByPerson] + c.How[NoByPerson] + c.How[Unanswered]
}

// Denied is how often it was denied.
func (c *Count) Denied() int { return c.How[NoByPerson] + c.How[Ruled] }

// Add takes a record.
func (s *Stats) Add(r *review.Record) {
	if r.Err != nil || r.Ask == "" || len(r.Path) > 0 {
		return
	}
	k := writersAsk{r.Writer, r.Ask}
	switch r.Event {
	case review.HandedToClientDialog:
		if s.handed == nil {
			s.handed, s.settled = map[writersAsk]*review.Action{}, map[writersAsk]bool{}
		}
		s.handed[k] = r.Action
		return
	case review.Effect:
		action, settled := s.handed[k], s.settled[k]
		delete(s.handed, k)
		delete(s.settled, k)
		if _, decides := r.Decides(); decides && !settled {
			s.count(r, action, ByPerson)
		}
		return
	}
	how, ends := ends(r)
	if !ends {
		return
	}
	if r.By.Decider().Kind == ask.KindClientDialog && how == ByPerson {
		if s.settled == nil {
			s.settled = map[writersAsk]bool{}
		}
		s.settled[k] = true
	}
	s.count(r, r.Action, how)
}

// ends says whether r, at the asker's node, ends an ask, and how. That a
// decision of another node was acted on is not a second end.
func ends(r *review.Record) (How, bool) {
	switch {
	case r.By == nil:
		return "", false
	case r.Event == review.AskObserved:
		return Watched, true
	}
	verdict, decides := r.Decides()
	if r.Event == review.ResponseReceived || r.Event == review.ResponseTimedOut {
		decides = true
		if r.Verdict != nil && r.Outcome == ask.Answered {
			verdict = *r.Verdict
		}
	}
	if !decides {
		return "", false
	}
	kind := r.By.Decider().Kind
	person := r.By.Person() || kind == ask.KindClientDialog
	switch {
	case kind == ask.KindWithdrawn:
		return TakenBack, true
	case kind == ask.KindTimeout || kind == ask.KindUnavailable:
		return Unanswered, true
	case verdict == ask.Allow && person:
		return ByPerson, true
	case verdict == ask.Allow:
		return ByRecord, true
	case person:
		return NoByPerson, true
	}
	return Ruled, true
}

func (s *Stats) count(r *review.Record, a *review.Action, how How) {
	s.Asks++
	if s.How == nil {
		s.How, s.By, s.kinds, s.sessions = map[How]int{}, map[ask.Kind]int{}, map[string]*Count{}, map[string]bool{}
	}
	s.How[how]++
	if how == Watched {
		return // it says what would have been
	}
	s.By[r.By.Decider().Kind]++
	if len(s.sessions) < maxKinds && !s.sessions[r.Session] {
		s.sessions[r.Session] = true
		s.Sessions++
	}
	if a == nil {
		s.OtherKinds++
		return
	}
	name := s.Kind(a)
	c := s.kinds[name]
	if c == nil {
		if len(s.kinds) >= maxKinds {
			s.OtherKinds++
			return
		}
		c = &Count{Kind: name, Example: a, How: map[How]int{}, Deniers: map[string]int{}}
		s.kinds[name] = c
	}
	c.How[how]++
	if how == NoByPerson || how == Ruled {
		c.Deniers[By(r.By)]++
	}
}

// Kinds gives the counts that a function takes, those of which it gives most
// first; it takes what it gives more than 0.
func (s *Stats) Kinds(of func(*Count) int) []*Count {
	var out []*Count
	for _, c := range s.kinds {
		if of(c) > 0 {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *Count) int {
		if d := of(b) - of(a); d != 0 {
			return d
		}
		return strings.Compare(a.Kind, b.Kind)
	})
	return out
}

// Saved is how many questions a rule that allows this kind of call would have
// saved: all of them if each was answered with yes, else none.
func Saved(c *Count) int {
	if c.How[NoByPerson] > 0 || c.How[Ruled] > 0 {
		return 0
	}
	return c.How[ByPerson]
}
