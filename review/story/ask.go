package story

import (
	"slices"
	"time"

	"permd/ask"
	"permd/review"
)

// Ask is the story of one ask.
type Ask struct {
	ID string
	// Session asked; its node has this name, "" when the record does not say.
	Session, Node string
	// Path are the sessions that the ask passed, the asker first.
	Path   []string
	Action *review.Action
	// Steps are all records about it, in the order in which they happened.
	Steps []Step
	// Decision is who decided, nil when the record has no decision.
	Decision *Decision
	// Before is a decision that came to nothing because the person at the
	// client's own dialog was faster.
	Before *Decision
	// Release is what became of the call at the origin.
	Release Release
	// Effect is what the client reported: ran, failed, not_seen, or "".
	Effect string
}

// Decision is who decided what.
type Decision struct {
	Verdict ask.Verdict
	Outcome ask.Outcome
	By      ask.By
	Reason  string
	// At is when the node that decided recorded it; when only the asker's
	// record has it, when that heard of it.
	At time.Time
	// Confirmed: the asker's own node has it on its record.
	Confirmed bool
}

// Release is what became of a call. The zero value: the record does not say.
type Release string

// What becomes of a call.
const (
	Released  Release = "released"           // permd let it run
	Refused   Release = "refused"            // it was allowed, and no longer when it was to run
	Denied    Release = "denied"             // it was not let run
	Withdrawn Release = "withdrawn"          // the client took it back
	Handed    Release = "handed_to_client"   // left to the client's own dialog
	Paused    Release = "paused"             // left to the client, permd being paused
	Overtaken Release = "overtaken_by_human" // denied, after the client's own dialog had let it run
	Observed  Release = "observed"           // permd decides nothing in this session
)

// Step is one record of an ask's story.
type Step struct {
	review.Record
	// At is the wall clock, After the time since the first step by the clock of
	// the machine's boot.
	At    time.Time
	After time.Duration
	// Who acts: a session, or the node when the record names none.
	Who string
	// Text is what happened, in a sentence without its subject.
	Text string
	// Surfaces are those that were attached to the node when the ask was put to
	// whoever can answer, as far as the record of surfaces was read.
	Surfaces []string
}

// Builder collects the records of asks. Its zero value is ready.
type Builder struct {
	asks     map[string]*Ask
	seen     map[recordKey]bool
	order    []string
	surfaces map[string][]surfaceChange
}

// recordKey tells records apart. What a line says of its place and of the line
// before it is the same only in a copy.
type recordKey struct {
	writer, ask string
	seq         uint64
	prev        ask.Digest
}

type surfaceChange struct {
	seq  uint64
	name string
	came bool
}

// Add takes a record: those that name an ask, and those of surfaces; it leaves
// all others. Records may come in any order as long as those of one writer
// keep theirs. It keeps what it needs of r.
func (b *Builder) Add(r review.Record) {
	if r.Err != nil {
		return
	}
	r.Raw = nil
	switch r.Event {
	case review.SurfaceAttached, review.SurfaceDetached:
		if b.surfaces == nil {
			b.surfaces = map[string][]surfaceChange{}
		}
		b.surfaces[r.Writer] = append(b.surfaces[r.Writer], surfaceChange{r.Seq, r.Field(review.KeySurface), r.Event == review.SurfaceAttached})
		return
	}
	if r.Ask == "" {
		return
	}
	a := b.asks[r.Ask]
	if a == nil {
		if b.asks == nil {
			b.asks = map[string]*Ask{}
		}
		a = &Ask{ID: r.Ask}
		b.asks[r.Ask] = a
		b.order = append(b.order, r.Ask)
	}
	k := recordKey{r.Writer, r.Ask, r.Seq, r.Prev}
	if b.seen[k] {
		return // the same record once more
	}
	if b.seen == nil {
		b.seen = map[recordKey]bool{}
	}
	b.seen[k] = true
	a.Steps = append(a.Steps, Step{Record: r})
}

// Asks gives the stories in the order in which their asks appeared.
func (b *Builder) Asks() []*Ask {
	out := make([]*Ask, 0, len(b.order))
	for _, id := range b.order {
		out = append(out, b.Ask(id))
	}
	return out
}

// Ask gives the story of one ask, nil when nothing names it.
func (b *Builder) Ask(id string) *Ask {
	kept := b.asks[id]
	if kept == nil {
		return nil
	}
	a := &Ask{ID: id, Steps: slices.Clone(kept.Steps)}
	a.Steps = inOrder(a.Steps)
	a.origin()
	for i := range a.Steps {
		a.take(&a.Steps[i])
	}
	if a.Decision == nil {
		a.hearsay()
	} else {
		a.timed()
	}
	b.tell(a)
	return a
}

// Asks tells all stories of some records.
func Asks(records []review.Record) []*Ask {
	var b Builder
	for _, r := range records {
		b.Add(r)
	}
	return b.Asks()
}

// inOrder merges the steps of all writers by the clock of the boot, which no
// step of the wall clock moves; each writer's own keep their order.
func inOrder(steps []Step) []Step {
	var writers []string
	lists := map[string][]Step{}
	for _, s := range steps {
		if lists[s.Writer] == nil {
			writers = append(writers, s.Writer)
		}
		lists[s.Writer] = append(lists[s.Writer], s)
	}
	slices.Sort(writers)
	out := make([]Step, 0, len(steps))
	for len(out) < len(steps) {
		best := ""
		for _, w := range writers {
			if l := lists[w]; len(l) > 0 && (best == "" || before(&l[0].Record, &lists[best][0].Record)) {
				best = w
			}
		}
		out = append(out, lists[best][0])
		lists[best] = lists[best][1:]
	}
	return out
}

func before(a, b *review.Record) bool {
	if a.BootMS != b.BootMS {
		return a.BootMS < b.BootMS
	}
	return a.Time < b.Time
}

// origin finds who asked and at which node: the first to say that it came to
// it directly; the node that a later hop names, when that one's log is there,
// goes before it.
func (a *Ask) origin() {
	hop, first := "", ""
	for i := range a.Steps {
		r := &a.Steps[i].Record
		if a.Session == "" && begins(r.Event) {
			a.Session = r.Session
		}
		if a.Action == nil && r.Action != nil {
			a.Action = r.Action
		}
		if hop == "" && len(r.Path) > 0 && begins(r.Event) {
			hop = r.Path[0].Node
		}
		if first == "" && len(r.Path) == 0 && begins(r.Event) {
			first = r.Writer
		}
	}
	a.Node = first
	if hop != "" && hop != first && (first == "" || slices.ContainsFunc(a.Steps, func(s Step) bool {
		return s.Writer == hop && len(s.Path) == 0 && begins(s.Event)
	})) {
		a.Node = hop
	}
	a.Path = nil
	longest := []ask.Hop(nil)
	at := ""
	for i := range a.Steps {
		r := &a.Steps[i].Record
		if begins(r.Event) && (len(r.Path) > len(longest) || at == "") {
			longest, at = r.Path, acting(r)
		}
	}
	for _, h := range longest {
		a.Path = append(a.Path, h.Session)
	}
	if at != "" && !slices.Contains(a.Path, at) {
		a.Path = append(a.Path, at)
	}
}

// begins says whether a record of this name is written by a node that the ask
// came to, as opposed to one about an answer.
func begins(n review.Name) bool {
	switch n {
	case review.AnswerDelivered, review.AnswerForeign, review.AnswerInvalid, review.AnswerLate, review.Effect,
		review.GrantGiven, review.GrantRevoked, review.GrantExpired, review.SessionRecorded, review.MailRefused:
		return false
	}
	return true
}

// take follows one step at the asker's node; what others say decides nothing
// here.
func (a *Ask) take(s *Step) {
	r := &s.Record
	if r.Writer != a.Node || len(r.Path) > 0 || a.Session != "" && r.Session != a.Session {
		return
	}
	_, decides := r.Decides()
	switch r.Event {
	case review.ResponseReceived, review.ResponseTimedOut:
		decides = r.By != nil
	case review.AskDenied, review.AskExpired, review.AskUnavailable, review.AskDismissed, review.AskBlocked:
		decides = r.By != nil
		a.release(Denied)
	case review.AskWithdrawn, review.WithdrawnByClient:
		a.release(Withdrawn)
	case review.Released, review.AskAutoApproved:
		a.release(Released)
	case review.ReleaseRefused:
		a.release(Refused)
	case review.HandedToClientDialog:
		a.release(Handed)
	case review.AskObserved:
		a.release(Observed)
	case review.AskWaiting:
		if r.Field(review.KeyMode) == "paused" {
			a.release(Paused)
		}
	case review.Effect:
		a.effect(r, decides)
		return
	}
	if decides && a.Decision == nil {
		a.Decision = decision(r)
		a.Decision.Confirmed = true
	}
}

// release keeps the first word on what became of the call; that it was left to
// the client is not the last one.
func (a *Ask) release(x Release) {
	if a.Release == "" || a.Release == Handed && x != Paused {
		a.Release = x
	}
}

func (a *Ask) effect(r *review.Record, decides bool) {
	if a.Effect != "" {
		return
	}
	a.Effect = r.Field(review.KeyEffect)
	if !decides || a.Decision != nil && a.Decision.Verdict == ask.Allow {
		return
	}
	if a.Decision != nil {
		a.Before = a.Decision
		a.Release = Overtaken
	}
	a.Decision = decision(r)
	a.Decision.Verdict, a.Decision.Outcome, a.Decision.Confirmed = ask.Allow, ask.Answered, true
}

func decision(r *review.Record) *Decision {
	d := &Decision{Outcome: r.Outcome, By: *r.By, Reason: r.Reason, At: at(r)}
	if v, ok := r.Decides(); ok {
		d.Verdict = v
	} else if r.Verdict != nil && *r.Verdict == ask.Allow && r.Outcome == ask.Answered {
		d.Verdict = ask.Allow
	}
	if d.Outcome == "" && d.Verdict == ask.Allow {
		d.Outcome = ask.Answered // what is allowed without a question has none
	}
	return d
}

// hearsay takes the decision from the node that decided when the asker's own
// record has none: an answer before an end without one.
func (a *Ask) hearsay() {
	for i := range a.Steps {
		r := &a.Steps[i].Record
		if _, ok := r.Decides(); !ok || r.Event == review.Effect || !begins(r.Event) || !a.passed(r) {
			continue
		}
		d := decision(r)
		if a.Decision == nil || a.Decision.Outcome != ask.Answered && d.Outcome == ask.Answered {
			a.Decision = d
		}
	}
}

// passed says whether the ask came to the writer of r, as a child's record of
// it says, or as the record itself does when the child's is lost.
func (a *Ask) passed(r *review.Record) bool {
	if r.Writer == a.Node {
		return true
	}
	if len(r.Path) == 0 || r.Path[0].Session != a.Session {
		return false
	}
	own := false // the asker's record is there: then it must name the next hop
	for i := range a.Steps {
		x := &a.Steps[i].Record
		if x.Event != review.RequestCreated {
			continue
		}
		if to := x.Field(review.KeyTargetSession); to == acting(r) || to == r.Writer {
			return true
		}
		own = own || x.Writer == a.Node && len(x.Path) == 0
	}
	return !own
}

// timed dates the decision by the node that made it.
func (a *Ask) timed() {
	d := a.Decision
	real := d.By.Decider()
	if d.By.Kind != ask.KindForwarded {
		return
	}
	for i := range a.Steps {
		r := &a.Steps[i].Record
		if v, ok := r.Decides(); ok && v == d.Verdict && same(r.By, real) {
			d.At = at(r)
			return
		}
	}
}

func same(a, b *ask.By) bool {
	return a.Kind == b.Kind && a.Session == b.Session && a.Surface == b.Surface && a.Grant == b.Grant &&
		(a.Rule == nil) == (b.Rule == nil) && (a.Rule == nil || *a.Rule == *b.Rule)
}
