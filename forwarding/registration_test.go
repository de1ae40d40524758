package forwarding_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"permd/api"
	"permd/ask"
	"permd/forwarding"
)

// A claimed parent carries the ask to a person, and its own rules allow
// nothing; what the child says of its own proof does not count.
func TestClaimedParent(t *testing.T) {
	for kind, want := range map[ask.Kind]ask.Verdict{
		ask.KindRule: ask.Deny, ask.KindGrant: ask.Deny, ask.KindBaseline: ask.Deny, ask.KindMode: ask.Deny, ask.KindLink: ask.Deny,
		ask.KindDefault: ask.Deny, ask.KindTimeout: ask.Deny, ask.KindUser: ask.Allow, ask.KindDevice: ask.Allow, ask.KindClientDialog: ask.Allow,
	} {
		t.Run(string(kind), func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				var in forwarding.Incoming
				lead := w.node("lead", func(c context.Context, i forwarding.Incoming) ask.Decision { in = i; return allowBy(kind)(c, i) })
				lead.server.SetServing([]string{"lead"})
				d, err := w.node("claimed", nil).childOf("lead").parent("lead").Authorize(t.Context(), newAsk(t, "claimed", "ask-1"))
				if err != nil || d.Verdict != want {
					t.Fatalf("%+v, %v", d, err)
				}
				if in.Verified || in.Child.Proof != "" || !in.Ask.Header.Claimed() {
					t.Fatalf("%+v", in)
				}
			})
		})
	}
}

func TestClaimBecomesProved(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		confirmed := false
		lead := w.node("lead", allowBy(ask.KindRule), func(c *forwarding.Config) {
			c.Proofs.Confirmed = func(s, p string) bool { return confirmed && s == "claimed" && p == "lead" }
		})
		lead.server.SetServing([]string{"lead"})
		p := w.node("claimed", nil).childOf("lead").parent("lead")
		d, err := p.Authorize(t.Context(), newAsk(t, "claimed", "ask-1"))
		if err != nil || d.Verdict != ask.Deny {
			t.Fatalf("%+v, %v", d, err)
		}
		confirmed = true
		lead.server.Reprove()
		synctest.Wait()
		d, err = p.Authorize(t.Context(), newAsk(t, "claimed", "ask-2"))
		if err != nil || d.Verdict != ask.Allow {
			t.Fatalf("%+v, %v", d, err)
		}
	})
}

func TestProofs(t *testing.T) {
	for name, c := range map[string]struct {
		proofs forwarding.Proofs
		want   string
	}{
		"none":        {forwarding.Proofs{}, ""},
		"descends":    {forwarding.Proofs{Descends: func(api.Register, forwarding.Caller) bool { return true }}, forwarding.ByDescent},
		"not":         {forwarding.Proofs{Descends: func(api.Register, forwarding.Caller) bool { return false }}, ""},
		"announced":   {forwarding.Proofs{Announced: func(_ api.Register, s api.ChildSession) bool { return s.Parent == "lead" }}, forwarding.ByAnnouncement},
		"confirmed":   {forwarding.Proofs{Confirmed: func(_, p string) bool { return p == "lead" }}, forwarding.ByPerson},
		"ticket":      {forwarding.Proofs{Ticket: func(string, api.Register) (string, bool) { return "lead", true }}, forwarding.ByTicket},
		"bad ticket":  {forwarding.Proofs{Ticket: func(string, api.Register) (string, bool) { return "lead", false }}, ""},
		"for another": {forwarding.Proofs{Ticket: func(string, api.Register) (string, bool) { return "lead.x", true }}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				lead := w.node("lead", allowBy(ask.KindRule), func(cfg *forwarding.Config) { cfg.Proofs = c.proofs })
				conn, there := newPipe()
				n := &node{w: w, pid: 7, alive: true}
				done := make(chan error, 1)
				go func() { done <- lead.server.Child(context.Background(), there, n.caller()) }()
				reg := api.Register{Node: "c", Instance: "c-1", PID: 7, Start: 1, Ticket: "00ff", Sessions: []api.ChildSession{{Session: "c", Parent: "lead", FoundBy: "env"}}}
				if err := conn.Write(api.TRegister, 1, reg); err != nil {
					t.Fatal(err)
				}
				f, err := conn.Read()
				if err != nil || f.T != api.TRegistered || f.N != 1 {
					t.Fatal(f, err)
				}
				var r api.Registered
				if err := ask.Decode(f.B, 1<<20, &r); err != nil {
					t.Fatal(err)
				}
				got := ""
				if len(r.Verified) == 1 {
					got = r.Verified[0].How
				}
				if got != c.want || len(r.Key) != 64 {
					t.Fatalf("%+v", r)
				}
				conn.Close()
				<-done
			})
		})
	}
}

func TestRegistrationIsRefused(t *testing.T) {
	good := api.Register{Node: "c", Instance: "c-1", PID: 7, Start: 1, Sessions: []api.ChildSession{{Session: "c", Parent: "lead", FoundBy: "env"}}}
	for name, c := range map[string]struct {
		t      string
		body   any
		caller func(*forwarding.Caller)
		code   string
	}{
		"not a register":  {api.TWake, nil, nil, api.CodeBad},
		"no body":         {api.TRegister, nil, nil, api.CodeBad},
		"other body":      {api.TRegister, map[string]any{"node": "c", "extra": 1}, nil, api.CodeBad},
		"the node itself": {api.TRegister, func() api.Register { r := good; r.Node = "lead"; return r }(), nil, api.CodeBad},
		"another user":    {api.TRegister, good, func(c *forwarding.Caller) { c.UID++ }, api.CodePeer},
		"a dead process":  {api.TRegister, good, func(c *forwarding.Caller) { c.Alive = func() bool { return false } }, api.CodePeer},
		"second holder of the node": {api.TRegister, func() api.Register { r := good; r.Node = "held"; return r }(),
			nil, api.CodeBusy},
		"second holder of a session": {api.TRegister, func() api.Register {
			r := good
			r.Sessions = []api.ChildSession{{Session: "held", Parent: "lead", FoundBy: "env"}}
			return r
		}(), nil, api.CodeBusy},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				lead := w.node("lead", allowBy(ask.KindRule))
				held := w.node("held", nil).childOf("lead")
				if err := held.links.Connect(t.Context(), "lead"); err != nil {
					t.Fatal(err)
				}
				conn, there := newPipe()
				caller := (&node{w: w, pid: 7, alive: true}).caller()
				if c.caller != nil {
					c.caller(&caller)
				}
				done := make(chan error, 1)
				go func() { done <- lead.server.Child(context.Background(), there, caller) }()
				if err := conn.Write(c.t, 9, c.body); err != nil {
					t.Fatal(err)
				}
				f, err := conn.Read()
				if err != nil || f.T != api.TRefused || f.N != 9 {
					t.Fatal(f, err)
				}
				var r api.Refused
				if err := ask.Decode(f.B, 1<<16, &r); err != nil || r.Code != c.code || r.Text == "" {
					t.Fatalf("%+v, %v", r, err)
				}
				var refused *api.Refused
				if err := <-done; !errors.As(err, &refused) {
					t.Fatal(err)
				}
				if len(lead.server.Children()) != 1 {
					t.Fatalf("%+v", lead.server.Children())
				}
				synctest.Wait()
				w.mustLog(forwarding.EventRefusedChild, "")
			})
		})
	}
}

// The same process may register again; a dead holder does not block its id.
func TestRegisterAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		cause := make(chan error, 1)
		lead := w.node("lead", waits(cause))
		lead.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		r := start(t.Context(), child.parent("lead"), newAsk(t, "child", "ask-1"))
		synctest.Wait()
		register := func(n *node) (*pipe, string) {
			conn, there := newPipe()
			go lead.server.Child(context.Background(), there, n.caller())
			reg := api.Register{Node: "child", Instance: "child-2", PID: 7, Start: 1, Sessions: []api.ChildSession{{Session: "child", Parent: "lead", FoundBy: "x"}}}
			if err := conn.Write(api.TRegister, 1, reg); err != nil {
				t.Fatal(err)
			}
			f, err := conn.Read()
			if err != nil {
				t.Fatal(err)
			}
			return conn, f.T
		}
		// Another process while the first is alive: no.
		other := &node{w: w, pid: 77, alive: true}
		conn, got := register(other)
		if got != api.TRefused {
			t.Fatal(got)
		}
		conn.Close()
		// The same process: yes, and what it asked before is withdrawn.
		conn, got = register(child)
		if got != api.TRegistered {
			t.Fatal(got)
		}
		if err := <-cause; err == nil || !strings.Contains(err.Error(), "again") {
			t.Fatal(err)
		}
		var lost *forwarding.ParentLostError
		if res := <-r; !errors.As(res.err, &lost) || res.d.Verdict != ask.Deny {
			t.Fatalf("%+v", res)
		}
		// Another process once the first is dead: yes.
		child.mu.Lock()
		child.alive = false
		child.mu.Unlock()
		conn2, got := register(other)
		if got != api.TRegistered {
			t.Fatal(got)
		}
		conn.Close()
		conn2.Close()
	})
}

// The list of a child's sessions changes while it is registered.
func TestSessionsChange(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		lead := w.node("lead", allowBy(ask.KindRule))
		lead.server.SetServing([]string{"lead"})
		child := w.node("child", nil).childOf("lead")
		if err := child.links.Connect(t.Context(), "lead"); err != nil {
			t.Fatal(err)
		}
		p := child.parent("lead")
		p.Session = "late"
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if d, err := p.Authorize(ctx, newAsk(t, "late", "ask-1")); err == nil {
			t.Fatalf("%+v", d)
		}
		w.mustLog(forwarding.EventRefusedMail, "not registered")
		child.mu.Lock()
		child.sess = append(child.sess, api.ChildSession{Session: "late", Parent: "lead", FoundBy: "x"}, api.ChildSession{Session: "stray", Parent: "stranger", FoundBy: "x"})
		child.mu.Unlock()
		child.links.Changed()
		synctest.Wait()
		if d, err := p.Authorize(t.Context(), newAsk(t, "late", "ask-2")); err != nil || d.Verdict != ask.Allow {
			t.Fatalf("%+v, %v", d, err)
		}
		var names []string
		for _, c := range lead.server.Children() {
			names = append(names, c.Session)
		}
		if !slices.Equal(names, []string{"child", "late"}) {
			t.Fatal(names)
		}
	})
}
