package broker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"permd/api"
	"permd/ask"
)

// TestOrderOfChecks: each answer fails at one check and also at every later
// one; the verdict names the first, nothing changes, the answerer stays.
func TestOrderOfChecks(t *testing.T) {
	inWorld(t, func(w *world) {
		f, phone := w.phone()
		_, gone := w.register(Identity{Name: "gone", Kind: KindSurface, Faces: 1})
		gone.Close()
		_, forgotten := w.register(Identity{Name: "forgotten", Kind: KindDevice, Faces: 1})
		forgotten.Distrust()
		_, watcher := w.register(Identity{Name: "watcher", Kind: KindSurface, Cap: ask.ScopeUser})
		_, away := w.register(Identity{Name: "away", Kind: KindSurface, Faces: 1})
		_, desk := w.desk()
		a := newAsk(t, "a", "make test")
		p := w.put(w.ctx, Request{Ask: a, Offers: offers()})
		away.Hide("a")

		bad := ask.AllowAnswer(a)
		bad.Items[0].Picks = []string{"always"}
		bad.Offer, bad.OfferDigest = "p", &a.Digest
		foreign := bad
		foreign.Digest[3] ^= 1
		unknown := foreign
		unknown.Ask = "nobody"
		wide := ask.AllowAnswer(a)
		wide.Offer, wide.OfferDigest = "p", &a.Digest
		for _, c := range []struct {
			name string
			r    *Registration
			n    ask.Answer
			want string
		}{
			{"not registered", gone, unknown, api.VerdictNotTrusted},
			{"not trusted", forgotten, unknown, api.VerdictNotTrusted},
			{"unknown ask", watcher, unknown, api.VerdictUnknownAsk},
			{"no face", watcher, foreign, api.VerdictNotOffered},
			{"hidden", away, foreign, api.VerdictNotOffered},
			{"wrong digest", phone, foreign, api.VerdictWrongDigest},
			{"invalid", phone, bad, api.VerdictInvalid},
			{"too wide for a phone", phone, wide, api.VerdictScope},
			{"offers not as shown", desk, wide, api.VerdictInvalid},
		} {
			v := c.r.Answer(c.n)
			if v.Verdict != c.want || v.Ask != c.n.Ask || v.Text == "" || v.Winner != "" {
				t.Errorf("%s: %+v, want %s", c.name, v, c.want)
			}
		}
		if len(w.log.refusals) != 9 || len(w.log.records) != 0 {
			t.Errorf("%d refusals and %d records", len(w.log.refusals), len(w.log.records))
		}
		synctest.Wait()
		if !p.waits() {
			t.Fatal("a refused answer ended the ask")
		}
		// The answerer that was refused is still in.
		verdictIs(t, phone.Answer(ask.DenyAnswer(a, "use the Makefile")), api.VerdictAccepted)
		if d := p.wait(t); d.Reason != "use the Makefile" || !d.By.Person() {
			t.Errorf("decision %+v", d)
		}
		same(t, "the winner is told no settlement", f.ends())
		// Late: first still what each check says, then who was first.
		verdictIs(t, desk.Answer(foreign), api.VerdictWrongDigest)
		v := desk.Answer(ask.AllowAnswer(a))
		if v.Verdict != api.VerdictTooLate || v.Winner != "SHA256:f00d" {
			t.Errorf("late: %+v", v)
		}
		_, returned := w.desk() // a phone that reconnects after the end hears who won
		verdictIs(t, returned.Answer(ask.AllowAnswer(a)), api.VerdictTooLate)
	})
}

// TestScopes: what each kind of answerer is shown and may give.
func TestScopes(t *testing.T) {
	for _, c := range []struct {
		id    Identity
		shown string
	}{
		{Identity{Kind: KindSurface, Cap: ask.ScopeUser}, "s t p"},
		{Identity{Kind: KindSurface, Cap: ask.ScopeTree}, "s t"},
		{Identity{Kind: KindSurface}, ""},
		{Identity{Kind: KindSurface, Cap: "galaxy"}, ""},
		{Identity{Kind: KindDevice, Cap: ask.ScopeUser}, "s"},
		{Identity{Kind: KindDevice, Cap: ask.ScopeOnce}, ""},
		{Identity{Kind: KindDialog, Cap: ask.ScopeUser}, ""},
	} {
		t.Run(string(c.id.Kind)+" "+string(c.id.Cap), func(t *testing.T) {
			for _, o := range offers() {
				inWorld(t, func(w *world) {
					c.id.Name, c.id.Faces = "x", 1
					f, r := w.register(c.id)
					a := newAsk(t, "a", "make test")
					p := w.put(w.ctx, Request{Ask: a, Decider: "lead", Offers: offers(), Timeout: time.Hour})
					var ids []string
					for _, s := range f.shown[0].Offers {
						ids = append(ids, s.ID)
					}
					if got := strings.Join(ids, " "); got != c.shown {
						t.Errorf("shown %q, want %q", got, c.shown)
					}
					v := r.Answer(taking(t, f.shown[0], o.ID))
					if !strings.Contains(c.shown, o.ID) {
						verdictIs(t, v, api.VerdictScope)
						w.Withdraw("a", "enough")
						p.wait(t)
						return
					}
					verdictIs(t, v, api.VerdictAccepted)
					d := p.wait(t)
					g := d.Grant
					if g == nil || g.Scope != o.Scope || g.By.Surface != "x" || g.Rule.Command != "make test" {
						t.Fatalf("grant %+v", g)
					}
					want := map[ask.Scope][2]string{ask.ScopeSession: {"child", ""}, ask.ScopeTree: {"lead", ""},
						ask.ScopeProject: {"", "/home/dev/proj"}}[o.Scope]
					if g.Session != want[0] || g.Project != want[1] {
						t.Errorf("grant of scope %s for session %q, project %q", g.Scope, g.Session, g.Project)
					}
				})
			}
		})
	}
}

// TestGrantThatCannotBeKept: an offer that makes no valid grant is refused,
// not turned into a plain allow.
func TestGrantThatCannotBeKept(t *testing.T) {
	inWorld(t, func(w *world) {
		f, r := w.desk()
		a := newAsk(t, "a", "make test")
		b := a.Body
		act := *b.Action
		act.Project = ""
		b.Action = &act
		a, err := ask.Seal(b)
		if err != nil {
			t.Fatal(err)
		}
		p := w.put(w.ctx, Request{Ask: a, Offers: offers()})
		verdictIs(t, r.Answer(taking(t, f.shown[0], "p")), api.VerdictInvalid)
		verdictIs(t, r.Answer(taking(t, f.shown[0], "s")), api.VerdictAccepted)
		if d := p.wait(t); d.Grant == nil {
			t.Error("no grant")
		}
	})
}

// TestAnswers: every legal answer to a permission and to a question becomes
// the decision it says.
func TestAnswers(t *testing.T) {
	pick := func(a *ask.Ask, option string) ask.Answer {
		return ask.Answer{Ask: a.Body.ID, Digest: a.Digest, Outcome: ask.Answered,
			Items: []ask.ItemAnswer{{Item: "q", Picks: []string{option}}}}
	}
	for _, c := range []struct {
		name    string
		a       *ask.Ask
		n       func(*ask.Ask) ask.Answer
		verdict ask.Verdict
		outcome ask.Outcome
	}{
		{"allow", newAsk(t, "a", "make"), ask.AllowAnswer, ask.Allow, ask.Answered},
		{"deny", newAsk(t, "a", "make"), func(a *ask.Ask) ask.Answer { return ask.DenyAnswer(a, "no") }, ask.Deny, ask.Answered},
		{"choice", newQuestion(t, "a"), func(a *ask.Ask) ask.Answer { return pick(a, "red") }, ask.Allow, ask.Answered},
		{"declined", newQuestion(t, "a"), func(a *ask.Ask) ask.Answer {
			return ask.Answer{Ask: "a", Digest: a.Digest, Outcome: ask.Declined}
		}, ask.Deny, ask.Declined},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, r := w.phone()
				other, _ := w.desk()
				p := w.put(w.ctx, Request{Ask: c.a, Decider: "lead"})
				verdictIs(t, r.Answer(c.n(c.a)), api.VerdictAccepted)
				d := p.wait(t)
				if d.Verdict != c.verdict || d.Outcome != c.outcome || d.Answer == nil || d.By.Kind != ask.KindDevice ||
					d.By.Session != "lead" || d.WaitMS != nil {
					t.Errorf("decision %+v", d)
				}
				synctest.Wait()
				s := other.settled[0]
				if s.Allowed != (c.verdict == ask.Allow) || s.Outcome != c.outcome || s.Surface != "SHA256:f00d" {
					t.Errorf("the desk was told %+v", s)
				}
			})
		})
	}
}

// TestSurfacesCannotEnd: no answerer can say that time ran out or that permd
// failed, and none can allow by anything but the option.
func TestSurfacesCannotEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		_, r := w.desk()
		a := newAsk(t, "a", "make")
		p := w.put(w.ctx, Request{Ask: a})
		for _, o := range []ask.Outcome{"", ask.Declined, ask.Dismissed, ask.Stopped, ask.TimedOut, ask.Withdrawn,
			ask.Unavailable, ask.Failed, ask.Answered, "yes"} {
			verdictIs(t, r.Answer(ask.Answer{Ask: "a", Digest: a.Digest, Outcome: o}), api.VerdictInvalid)
		}
		two := ask.AllowAnswer(a)
		two.Items[0].Picks = []string{ask.OptionAllow, ask.OptionDeny}
		verdictIs(t, r.Answer(two), api.VerdictInvalid)
		w.Withdraw("a", "enough")
		p.wait(t)
	})
}
