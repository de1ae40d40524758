package e2e

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
)

// person answers asks at any number of surfaces, each by what its command
// says: one with "yes" in it is allowed, one with "no" is denied, another
// waits. So whatever surface is asked, and how often, the same call has only
// one right answer.
type person struct {
	r     *Rig
	ctx   context.Context
	stop  context.CancelFunc
	sits  sync.WaitGroup
	think time.Duration // the longest that an answer takes

	mu    sync.Mutex
	rnd   *rand.Rand
	given []given
}

// given is one answer and what became of it.
type given struct {
	ask     string
	command string
	allow   bool
	verdict api.AnswerVerdict
	err     error
}

func newPerson(r *Rig, seed uint64, think time.Duration) *person {
	p := &person{r: r, think: think, rnd: rand.New(rand.NewPCG(seed, 1))}
	p.ctx, p.stop = context.WithCancel(context.Background())
	r.T.Cleanup(p.leave)
	return p
}

// leave detaches from every surface and waits for the answers on their way.
func (p *person) leave() {
	p.stop()
	p.sits.Wait()
}

// sit attaches to the socket that sock names now, again whenever the
// connection ends, until the person leaves.
func (p *person) sit(sock func() string) {
	p.sits.Go(func() {
		for p.ctx.Err() == nil {
			p.attend(sock())
			select {
			case <-p.ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
}

func (p *person) attend(sock string) {
	dial, stop := context.WithTimeout(p.ctx, 2*time.Second)
	defer stop()
	c, err := api.DialAnswerer(dial, sock, "e2e", api.Attach{Surface: "terminal", Faces: 1, Cap: ask.ScopeUser})
	if err != nil {
		return // its node or desk is dead at the moment
	}
	defer c.Close()
	c.Run(p.ctx, func(e api.Event) {
		switch e := e.(type) {
		case *api.Snapshot:
			for _, s := range e.Asks {
				p.see(c, s)
			}
		case *api.Shown:
			p.see(c, *e)
		}
	})
}

func (p *person) see(c *api.Answerer, s api.Shown) {
	g := given{ask: s.Ask.Body.ID, command: s.Ask.Body.Action.Command}
	var a ask.Answer
	switch {
	case strings.Contains(g.command, "yes"):
		a, g.allow = ask.AllowAnswer(s.Ask), true
	case strings.Contains(g.command, "no"):
		a = ask.DenyAnswer(s.Ask, "no")
	default:
		return
	}
	p.mu.Lock()
	wait := time.Duration(p.rnd.Int64N(int64(p.think) + 1))
	p.mu.Unlock()
	p.sits.Go(func() {
		select {
		case <-time.After(wait):
		case <-p.ctx.Done():
			return
		}
		ctx, stop := context.WithTimeout(p.ctx, 10*time.Second)
		defer stop()
		g.verdict, g.err = c.Answer(ctx, a)
		p.mu.Lock()
		p.given = append(p.given, g)
		p.mu.Unlock()
	})
}

// answers are those given so far.
func (p *person) answers() []given {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]given(nil), p.given...)
}

func TestAPersonAtTwoSurfaces(t *testing.T) {
	r := New(t)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	p := newPerson(r, 1, time.Millisecond)
	for range 2 {
		p.sit(r.Dirs.Node(a.Node()).Sock)
	}
	r.Until("both surfaces", 5*time.Second, func() bool { return r.faces(a.Node()) == 2 })
	for range 10 {
		if got := a.Gate(Bash("touch yes")); !got.Allowed() {
			t.Errorf("yes: %+v", got)
		}
	}
	if got := a.Gate(Bash("touch no")); got.Decision != "deny" {
		t.Errorf("no: %+v", got)
	}
	p.leave()
	accepted := 0
	for _, g := range p.answers() {
		if g.verdict.Verdict == api.VerdictAccepted {
			accepted++
		}
	}
	if accepted != 11 {
		t.Errorf("%d answers were accepted, want one of each two: %+v", accepted, p.answers())
	}
}

// faces is how many surfaces a node has.
func (r *Rig) faces(node string) int {
	r.T.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	c, err := api.DialControl(ctx, r.Dirs.Node(node).Sock(), "e2e")
	if err != nil {
		return -1
	}
	defer c.Close()
	var st api.Status
	if err := c.Call(ctx, api.OpStatus, nil, &st); err != nil {
		return -1
	}
	return st.Faces
}
