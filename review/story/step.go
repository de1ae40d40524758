package story

import (
	"strings"
	"time"

	"permd/ask"
	"permd/review"
)

// tell fills in what each step says.
func (b *Builder) tell(a *Ask) {
	for i := range a.Steps {
		s := &a.Steps[i]
		s.At = at(&s.Record)
		s.After = time.Duration(s.BootMS-a.Steps[0].BootMS) * time.Millisecond
		s.Who = who(s)
		s.Text = sentence(&s.Record)
		if s.Event == review.AskWaiting || s.Event == review.ForwardedPrompted {
			s.Surfaces = b.attached(s.Writer, s.Seq)
		}
	}
}

func who(s *Step) string {
	switch s.Event {
	case review.AnswerDelivered, review.AnswerLate, review.AnswerInvalid, review.AnswerForeign, review.MailRefused:
		return "node " + s.Writer // they name the origin, or nobody
	}
	if w := acting(&s.Record); w != "" {
		return ask.VisibleLine(w)
	}
	return "node " + s.Writer
}

// attached are the surfaces of a node just before one of its records. A node
// tells how many of a name there are.
func (b *Builder) attached(writer string, seq uint64) []string {
	var names []string
	for _, c := range b.surfaces[writer] {
		if c.seq >= seq {
			break
		}
		at := -1
		for i, n := range names {
			if n == c.name {
				at = i
			}
		}
		switch {
		case c.came && at < 0:
			names = append(names, c.name)
		case !c.came && at >= 0:
			names = append(names[:at], names[at+1:]...)
		}
	}
	for i := range names {
		names[i] = ask.VisibleLine(names[i])
	}
	return names
}

// sentence says what a record about an ask tells, without its subject.
func sentence(r *review.Record) string {
	f := func(k review.Key) string { return ask.VisibleLine(r.Field(k)) }
	surface := func() string {
		if s := r.Field(review.KeySurface); s != "" {
			return ask.Quote(s)
		}
		return "a surface"
	}
	switch r.Event {
	case review.RequestCreated:
		return "relays it to " + f(review.KeyTargetSession)
	case review.AskWaiting:
		if r.Field(review.KeyMode) == "paused" {
			return "leaves it to the client: permd is paused"
		}
		return because("waits for whoever can answer here", r.Reason)
	case review.ForwardedPrompted:
		return "puts it to whoever can answer here"
	case review.ResponseReceived, review.ResponseTimedOut:
		return because("hears from "+f(review.KeyTargetSession)+": "+decided(r), r.Reason)
	case review.NoServingSession:
		return "finds that " + f(review.KeyTargetSession) + " does not serve (" + f(review.KeyServingState) + ")"
	case review.ParentLost:
		return because("loses "+f(review.KeyTargetSession)+" before it decided", r.Field(review.KeyMessage))
	case review.AskApproved, review.AskSessionApproved, review.AskAutoApproved, review.AskDenied, review.AskBlocked,
		review.ForwardedApproved, review.ForwardedAutoApproved, review.ForwardedDenied, review.ForwardedAutoDenied:
		t := decided(r)
		if g := r.Field(review.KeyGrant); g != "" {
			t += ", remembered for the " + f(review.KeyScope) + " as grant " + f(review.KeyGrant)
		}
		return because(t, r.Reason)
	case review.AskExpired, review.AskWithdrawn, review.AskUnavailable, review.AskDismissed, review.ForwardedEnded:
		return because("ends without a yes: "+ended(r), r.Reason)
	case review.HandedToClientDialog:
		return "leaves it to the client's own dialog"
	case review.WithdrawnByClient:
		return "sees that the client took the call back"
	case review.Released:
		return "judges it again and lets it run"
	case review.ReleaseRefused:
		return because("does not let it run after all", r.Field(review.KeyMessage)+r.Reason)
	case review.Effect:
		return because(effect(r), r.Reason)
	case review.AnswerLate:
		t := "hears a late answer from " + surface()
		if w := r.Field(review.KeyWinner); w != "" {
			t += ", after " + ask.Quote(w)
		}
		return because(t+"; it changes nothing", r.Reason)
	case review.AnswerInvalid:
		return because("hears an answer from "+surface()+" that does not fit; it changes nothing", r.Reason)
	case review.AnswerForeign:
		return because("hears an answer from "+surface()+", who was not asked; it changes nothing", r.Reason)
	case review.AnswerDelivered:
		how := map[string]string{"released": "learns that the asker acted on it", "refused": "learns that the asker did not let it run after all",
			"too_late": "learns that the asker had gone on without it", "sent": "has sent its answer to the client"}[r.Field(review.KeyDelivered)]
		if how == "" {
			how = "learns what became of it: " + f(review.KeyDelivered)
		}
		return because(how, r.Field(review.KeyMessage))
	case review.GrantGiven, review.SessionRecorded:
		return "keeps grant " + f(review.KeyGrant) + " for the " + f(review.KeyScope)
	case review.AskObserved:
		v := "deny it"
		if r.Verdict != nil {
			v = map[ask.Verdict]string{ask.Allow: "allow it", ask.Prompt: "ask"}[*r.Verdict]
		}
		if v == "" {
			v = "deny it"
		}
		return because("only observes here; it would "+v+", by "+By(r.By), r.Reason)
	case review.ChainConsulted:
		return because("asks link "+f(review.KeyLinks)+": "+f(review.KeyCode), r.Reason)
	case review.ChainDelegated:
		return "leaves the chain to whoever it relays to"
	case review.LinkNote:
		return because("has a note of link "+f(review.KeyLinks), r.Field(review.KeyMessage))
	}
	return because(ask.VisibleLine(string(r.Event)), r.Reason)
}

func decided(r *review.Record) string {
	d := decision(withBy(r))
	t := "denied"
	switch {
	case d.Verdict == ask.Allow:
		t = "allowed"
	case d.Outcome != ask.Answered && d.Outcome != "":
		t = ask.VisibleLine(strings.ReplaceAll(string(d.Outcome), "_", " "))
	}
	if r.By == nil {
		return t
	}
	return t + " by " + By(r.By)
}

func withBy(r *review.Record) *review.Record {
	if r.By != nil {
		return r
	}
	c := *r
	c.By = &ask.By{}
	return &c
}

func ended(r *review.Record) string {
	t := strings.ReplaceAll(string(r.Outcome), "_", " ")
	if t == "" {
		t = strings.TrimPrefix(string(r.Event), "permission_request.")
	}
	t = ask.VisibleLine(t)
	if r.By != nil && r.By.Person() {
		t += " by " + By(r.By)
	}
	return t
}

func effect(r *review.Record) string {
	t := map[string]string{"ran": "sees that it ran", "failed": "sees that it ran and failed",
		"not_seen": "never saw it run"}[r.Field(review.KeyEffect)]
	if t == "" {
		t = "sees an effect: " + ask.VisibleLine(r.Field(review.KeyEffect))
	}
	if c := r.Field(review.KeyExitCode); c != "" {
		t += " with exit code " + ask.VisibleLine(c)
	}
	if r.By != nil {
		t += ", let run by " + By(r.By)
	}
	return t
}
