package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/review"
)

// restarts is how often a node is killed in each state of an ask.
const restarts = 20

// scene is a lead with a surface, a child below it, and what happened.
type scene struct {
	r           *Rig
	lead, child *Agent
	desk        *Surface
	rnd         *rand.Rand

	mu     sync.Mutex
	done   []done
	deaths []death
	given  []given
}

// TestT16Restart kills a node in every state of an ask and goes on with the
// next one: what waited is refused and closed, what was let run does not trip
// the wire, and nothing is decided twice.
func TestT16Restart(t *testing.T) {
	for _, c := range []struct {
		state string
		run   func(*scene, int)
	}{
		{"before the call", (*scene).beforeTheCall},
		{"while policy decides", (*scene).whilePolicyDecides},
		{"waiting at a surface", (*scene).waiting},
		{"while a surface answers", (*scene).whileAnswered},
		{"allowed, not yet run", (*scene).allowedNotRun},
		{"denied", (*scene).denied},
		{"handed to the client's dialog", (*scene).handed},
		{"racing with the client's dialog", (*scene).racing},
		{"waiting at the parent, its own node dies", (*scene).childOfWaiting},
		{"waiting at the parent, the parent's node dies", (*scene).parentOfWaiting},
		{"while the parent's surface answers, either dies", (*scene).whileParentAnswered},
	} {
		t.Run(strings.ReplaceAll(c.state, " ", "-"), func(t *testing.T) {
			t.Parallel()
			r := New(t)
			r.Config("asks_a_minute = 1000000\n")
			r.Policy(rules)
			seed := r.seed()
			s := &scene{r: r, rnd: rand.New(rand.NewPCG(seed, 0))}
			s.lead = r.Agent(AgentOptions{Session: "lead", Attended: strings.Contains(c.state, "client's dialog")})
			s.child = r.Agent(AgentOptions{Session: "child", Under: s.lead, Env: below(s.lead)})
			s.back()
			for i := range restarts {
				c.run(s, i)
				if t.Failed() {
					t.Fatalf("at restart %d", i)
				}
			}
			s.desk.Close()
			r.swept()
			a := newAudit(r)
			a.noAllowWithoutRecord(s.done)
			a.oneDecision(s.deaths)
			a.whatWasSaid(s.done, s.deaths)
			a.nothingAcknowledgedIsLost(s.given)
			a.noTrip()
			a.nothingWaits()
			r.verify()
			if len(s.deaths) < restarts {
				t.Errorf("%d nodes were killed", len(s.deaths))
			}
		})
	}
}

// nothingWaits: every ask that was put to anybody has an end on record, at
// each node that it was put to anybody.
func (a *audit) nothingWaits() {
	type at struct{ writer, ask string }
	open := map[at]review.Record{}
	for _, x := range a.all {
		switch x.Event {
		case review.AskWaiting, review.RequestCreated, review.ForwardedPrompted, review.HandedToClientDialog:
			open[at{x.Writer, x.Ask}] = x
		case review.WithdrawnByClient, review.ResponseReceived, review.ParentLost, review.NoServingSession, review.Released,
			review.ReleaseRefused, review.Effect:
			delete(open, at{x.Writer, x.Ask})
		default:
			if decides(x) || strings.HasPrefix(string(x.Event), "permission_request.") {
				delete(open, at{x.Writer, x.Ask})
			}
		}
	}
	for _, x := range open {
		a.r.T.Errorf("nothing on record ends %s of %s", x.Raw, x.Writer)
	}
}

// back waits until both nodes run and a surface is at the lead's.
func (s *scene) back() {
	s.lead.Send("SessionStart", nil)
	s.child.Send("SessionStart", nil)
	if s.desk != nil {
		s.desk.Close()
	}
	s.desk = s.r.Attach(s.lead.Node(), nil)
}

// die kills the node of a.
func (s *scene) die(a *Agent) {
	s.r.killNode(a.Node())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaths = append(s.deaths, death{a.Node(), s.r.uptime()})
}

// flight is a gate call on its way.
type flight struct {
	s     *scene
	p     *Pending
	tool  Tool
	begin time.Time
}

func (s *scene) begin(a *Agent, command string) *flight {
	t := a.named(Bash(command))
	return &flight{s, a.BeginGate(t), t, time.Now()}
}

// land waits for the hook.
func (f *flight) land() done {
	d := done{call: f.tool.Call, command: f.tool.Input["command"].(string)}
	d.got, d.err = f.p.Answer()
	d.took, d.end = time.Since(f.begin), f.s.r.uptime()
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.s.done = append(f.s.done, d)
	return d
}

// shown waits for the ask on the surface.
func (s *scene) shown() api.Shown {
	s.r.T.Helper()
	s.r.Until("the ask on the desk", 5*time.Second, func() bool { return len(s.desk.Waiting()) == 1 })
	return s.desk.Waiting()[0]
}

// reply answers the ask on the surface.
func (s *scene) reply(x api.Shown, allow bool) {
	a := ask.DenyAnswer(x.Ask, "no")
	if allow {
		a = ask.AllowAnswer(x.Ask)
	}
	g := given{ask: x.Ask.Body.ID, command: x.Ask.Body.Action.Command, allow: allow}
	g.verdict, g.err = s.desk.Answer(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = append(s.given, g)
}

// refusedByNode: a gate whose node was killed stays shut and says why.
func (s *scene) refusedByNode(d done) {
	s.r.T.Helper()
	if d.err != nil || d.got.Allowed() || d.got.Code != 2 || !strings.Contains(d.got.Stderr, "node ended") {
		s.r.T.Errorf("a gate whose node was killed: %+v", d)
	}
}

func (s *scene) pause(most time.Duration) {
	time.Sleep(time.Duration(s.rnd.Int64N(int64(most)))) // a random moment, not a wait
}

func (s *scene) beforeTheCall(i int) {
	s.die(s.lead)
	if d := s.begin(s.lead, "make check").land(); !d.got.Allowed() {
		s.r.T.Errorf("%+v", d)
	}
	if d := s.begin(s.lead, fmt.Sprint("rm ", i)).land(); d.got.Decision != "deny" {
		s.r.T.Errorf("%+v", d)
	}
}

func (s *scene) whilePolicyDecides(i int) {
	f := s.begin(s.lead, "make check")
	s.pause(12 * time.Millisecond)
	s.die(s.lead)
	d := f.land()
	if d.got.Allowed() {
		s.lead.Ran(f.tool)
	} else {
		s.refusedByNode(d)
	}
	s.back()
}

func (s *scene) waiting(i int) {
	f := s.begin(s.lead, fmt.Sprint("touch yes ", i))
	s.shown()
	s.die(s.lead)
	s.refusedByNode(f.land())
	s.back()
	if n := len(s.desk.Waiting()); n != 0 {
		s.r.T.Errorf("%d asks of a dead node are shown", n)
	}
	// Asked again it is a new ask.
	f = s.begin(s.lead, fmt.Sprint("touch yes ", i))
	s.reply(s.shown(), true)
	if d := f.land(); !d.got.Allowed() {
		s.r.T.Errorf("asked again: %+v", d)
	}
}

func (s *scene) whileAnswered(i int) {
	allow := i%2 == 0
	f := s.begin(s.lead, "touch "+map[bool]string{true: "yes ", false: "no "}[allow]+fmt.Sprint(i))
	x := s.shown()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.reply(x, allow)
	}()
	s.pause(5 * time.Millisecond)
	s.die(s.lead)
	d := f.land()
	<-answered
	if d.got.Allowed() {
		s.lead.Ran(f.tool)
	}
	s.back()
}

func (s *scene) allowedNotRun(i int) {
	f := s.begin(s.lead, fmt.Sprint("touch yes ", i))
	s.reply(s.shown(), true)
	if d := f.land(); !d.got.Allowed() {
		s.r.T.Errorf("%+v", d)
	}
	s.die(s.lead)
	s.lead.Ran(f.tool)
	s.back()
}

func (s *scene) denied(i int) {
	cmd := fmt.Sprint("touch no ", i)
	f := s.begin(s.lead, cmd)
	s.reply(s.shown(), false)
	if d := f.land(); d.got.Decision != "deny" {
		s.r.T.Errorf("%+v", d)
	}
	s.die(s.lead)
	s.back()
	// It is never let run for having been forgotten: refused, or asked anew.
	f = s.begin(s.lead, cmd)
	ended := make(chan done, 1)
	go func() { ended <- f.land() }()
	var d done
	s.r.Until("a refusal or an ask", 5*time.Second, func() bool {
		select {
		case d = <-ended:
			return true
		default:
			return len(s.desk.Waiting()) == 1
		}
	})
	if len(s.desk.Waiting()) == 1 {
		s.reply(s.desk.Waiting()[0], false)
		d = <-ended
	}
	if d.got.Decision != "deny" {
		s.r.T.Errorf("asked again: %+v", d)
	}
}

func (s *scene) handed(i int) {
	s.desk.Close() // the person is at the client
	f := s.begin(s.lead, fmt.Sprint("touch yes ", i))
	if d := f.land(); d.got.Decision != "ask" {
		s.r.T.Errorf("%+v", d)
	}
	s.die(s.lead)
	if i%2 == 0 {
		if got, err := s.lead.BeginApproval(f.tool).Answer(); err != nil || got.Decision != "" || got.Code != 0 {
			s.r.T.Errorf("the dialog's hook after a restart: %+v, %v", got, err)
		}
	}
	s.lead.Ran(f.tool)
	s.back()
}

func (s *scene) racing(i int) {
	f := s.begin(s.lead, fmt.Sprint("touch yes ", i))
	if d := f.land(); d.got.Decision != "ask" {
		s.r.T.Errorf("%+v", d)
	}
	p := s.lead.BeginApproval(f.tool)
	s.shown()
	s.die(s.lead)
	if got, err := p.Answer(); err != nil || got.Decision != "" || got.Code != 0 {
		s.r.T.Errorf("the dialog's hook when its node dies: %+v, %v", got, err)
	}
	s.lead.Ran(f.tool) // the person at the dialog decides
	s.back()
}

func (s *scene) childOfWaiting(i int) {
	f := s.begin(s.child, fmt.Sprint("touch yes ", i))
	s.shown()
	s.die(s.child)
	s.refusedByNode(f.land())
	s.r.Until("the ask to leave the parent's surface", 5*time.Second, func() bool { return len(s.desk.Waiting()) == 0 })
	f = s.begin(s.child, fmt.Sprint("touch yes ", i))
	s.reply(s.shown(), true)
	if d := f.land(); !d.got.Allowed() {
		s.r.T.Errorf("asked again: %+v", d)
	}
}

func (s *scene) parentOfWaiting(i int) {
	f := s.begin(s.child, fmt.Sprint("touch yes ", i))
	s.shown()
	s.die(s.lead)
	if i%4 == 3 { // it stays away
		if d := f.land(); d.got.Decision != "deny" || !strings.Contains(d.got.Reason, "claude-lead") || strings.Contains(d.got.Reason, "user") {
			s.r.T.Errorf("%+v", d)
		}
		s.back()
		return
	}
	// It is back within the grace: the ask comes to it again.
	s.back()
	s.reply(s.shown(), true)
	if d := f.land(); !d.got.Allowed() {
		s.r.T.Errorf("%+v", d)
	}
}

func (s *scene) whileParentAnswered(i int) {
	allow := i%2 == 0
	f := s.begin(s.child, "touch "+map[bool]string{true: "yes ", false: "no "}[allow]+fmt.Sprint(i))
	x := s.shown()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.reply(x, allow)
	}()
	s.pause(6 * time.Millisecond)
	if i%4 < 2 {
		s.die(s.lead)
		s.lead.Send("SessionStart", nil)
		s.pause(20 * time.Millisecond)
	} else {
		s.die(s.child)
	}
	<-answered
	s.back()
	ended := make(chan done, 1)
	go func() { ended <- f.land() }()
	var d done
	s.r.Until("an end", 10*time.Second, func() bool {
		for _, w := range s.desk.Waiting() { // it came again
			s.reply(w, allow)
		}
		select {
		case d = <-ended:
			return true
		default:
			return false
		}
	})
	if d.got.Allowed() {
		s.child.Ran(f.tool)
	}
}
