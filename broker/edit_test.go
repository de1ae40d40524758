package broker

import (
	"errors"
	"testing"

	"permd/api"
	"permd/ask"
)

// TestEditedGrants: an edited rule is kept only where the deciding node says
// that it is no wider; a refused one changes nothing and the ask waits on.
func TestEditedGrants(t *testing.T) {
	narrower := func(offered, edited ask.Rule) error {
		switch edited.Command {
		case "make test":
			return nil
		case "boom":
			panic("boom")
		}
		return errors.New("wider than " + offered.Command)
	}
	rule := func(command string) *ask.Rule {
		return &ask.Rule{Action: ask.Allow, Tool: "bash", Command: command, Client: "claude"}
	}
	deny := rule("make test")
	deny.Action = ask.Deny
	for _, c := range []struct {
		why      string
		offer    string
		edit     *ask.GrantEdit
		narrower func(a, b ask.Rule) error
		want     string
	}{
		{"as offered", "s", &ask.GrantEdit{}, narrower, api.VerdictAccepted},
		{"narrower", "s", &ask.GrantEdit{Rule: rule("make test")}, narrower, api.VerdictAccepted},
		{"for an hour", "s", &ask.GrantEdit{ExpiresMS: 3600_000}, nil, api.VerdictAccepted},
		{"wider", "s", &ask.GrantEdit{Rule: rule("make *")}, narrower, api.VerdictInvalid},
		{"a check that fails", "s", &ask.GrantEdit{Rule: rule("boom")}, narrower, api.VerdictInvalid},
		{"nobody to judge it", "s", &ask.GrantEdit{Rule: rule("make test")}, nil, api.VerdictInvalid},
		{"a deny", "s", &ask.GrantEdit{Rule: deny}, narrower, api.VerdictInvalid},
		{"a time before now", "s", &ask.GrantEdit{ExpiresMS: -1}, narrower, api.VerdictInvalid},
		{"no grant taken", "", &ask.GrantEdit{Rule: rule("make test")}, narrower, api.VerdictInvalid},
	} {
		t.Run(c.why, func(t *testing.T) {
			inWorld(t, func(w *world) {
				f, r := w.desk()
				a := newAsk(t, "a", "make test")
				p := w.put(w.ctx, Request{Ask: a, Decider: "lead", Offers: offers(), Narrower: c.narrower})
				n := ask.AllowAnswer(a)
				if c.offer != "" {
					n = taking(t, f.shown[0], c.offer)
				}
				n.Grant = c.edit
				verdictIs(t, r.Answer(n), c.want)
				if c.want != api.VerdictAccepted {
					if !p.waits() {
						t.Error("a refused answer ended the ask")
					}
					w.Withdraw("a", "enough")
					if d := p.wait(t); d.Grant != nil {
						t.Errorf("kept %+v", d.Grant)
					}
					return
				}
				g := p.wait(t).Grant
				if g == nil || g.ExpiresMS != c.edit.ExpiresMS || (g.Rule.Client == "claude") != (c.edit.Rule != nil) {
					t.Errorf("grant %+v", g)
				}
			})
		})
	}
}
