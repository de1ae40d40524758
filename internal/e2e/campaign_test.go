//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"permd/desk"
	"permd/internal/host"
	"permd/session"
)

// kills is how many SIGKILLs a campaign sends.
const kills = 200

// seat is a place in the tree of agents. Its agent is killed and replaced.
type seat struct {
	name     string
	under    *seat
	attended bool
	agent    atomic.Pointer[Agent]
}

// campaign is a tree of agents that ask, a person who answers, and somebody
// who kills.
type campaign struct {
	r     *Rig
	t     *testing.T
	rnd   *rand.Rand
	seats []*seat
	desk  *deskProcess

	stop atomic.Bool
	work sync.WaitGroup

	mu     sync.Mutex
	done   []done
	deaths []death
}

// TestSIGKILLCampaign kills agents, nodes, hooks and the desk at random
// moments while asks travel over no, one and two hops.
func TestSIGKILLCampaign(t *testing.T) {
	t.Parallel()
	runCampaign(t, New(t), kills, 150*time.Millisecond)
}

// TestSIGKILLCampaignWithRaceDetector is a short campaign against binaries that
// report data races; the rig fails for what they report.
func TestSIGKILLCampaignWithRaceDetector(t *testing.T) {
	t.Parallel()
	r := New(t)
	r.Bin = r.Root + "/bin"
	c := exec.Command("go", "build", "-race", "-o", r.Bin+"/", "permd/cmd/permd", "permd/cmd/permd-hook")
	c.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	runCampaign(t, r, 30, time.Second) // its nodes start slowly
}

// runCampaign sends so many SIGKILLs, with random pauses of at most pause.
func runCampaign(t *testing.T, r *Rig, kills int, pause time.Duration) {
	r.Config("asks_a_minute = 1000000\n")
	r.Policy(rules)
	seed := r.seed()
	c := &campaign{r: r, t: t, rnd: rand.New(rand.NewPCG(seed, 0))}
	lead := &seat{name: "lead"}
	mid := &seat{name: "mid", under: lead}
	c.seats = []*seat{lead, mid,
		{name: "low", under: mid},
		{name: "pane", under: lead, attended: true},
		{name: "side", under: lead}}
	for _, s := range c.seats {
		c.fill(s)
	}
	c.desk = newDeskProcess(r)
	person := newPerson(r, seed, 12*time.Millisecond)
	person.sit(func() string { return desk.Sock(r.Dirs) })
	person.sit(func() string { return r.Dirs.Node(lead.agent.Load().Node()).Sock() })
	for i, s := range c.seats {
		c.work.Go(func() { c.keepAsking(s, rand.New(rand.NewPCG(seed, uint64(i)+2))) })
	}
	count := map[string]int{}
	for total := 0; total < kills; {
		time.Sleep(time.Duration(c.rnd.Int64N(int64(pause)))) // a random moment, not a wait
		if what := c.kill(); what != "" {
			count[what]++
			total++
		}
	}
	c.stop.Store(true)
	c.work.Wait()
	// After all that, things work.
	for _, s := range c.seats {
		if got := s.agent.Load().Gate(Bash("touch yes at last " + s.name)); !got.Allowed() && !(s.attended && got.Decision == "ask") {
			t.Errorf("%s after the campaign: %+v", s.name, got)
		}
	}
	person.leave()
	c.desk.end()

	r.swept()
	a := newAudit(r)
	allowed := a.noAllowWithoutRecord(c.done)
	a.oneDecision(c.deaths)
	a.whatWasSaid(c.done, c.deaths)
	accepted := a.nothingAcknowledgedIsLost(person.answers())
	a.noAllowAfterDeath(c.done, c.deaths, 3*time.Second)
	a.noTrip()
	rep := r.verify()
	var slowest done
	errs := 0
	for _, d := range c.done {
		if d.err != nil {
			errs++
		}
		if strings.Contains(d.got.Stderr, "DATA RACE") {
			t.Errorf("a hook failed: %s", d.got.Stderr)
		}
		if d.took > slowest.took {
			slowest = d
		}
	}
	hops := a.hops()
	t.Logf("killed %v; %d calls, %d let run, %d without an answer, slowest %s; %d answers accepted; decided over hops %v; record %s",
		count, len(c.done), allowed, errs, slowest.took.Round(time.Millisecond), accepted, hops, rep.Status)
	if slowest.took > 12*time.Second {
		t.Errorf("a call took %s: %+v", slowest.took, slowest)
	}
	if allowed < kills/2 || accepted < kills/2 || hops[0] == 0 || hops[1] < kills/20 || hops[2] < kills/20 {
		t.Error("too little happened for this to show anything")
	}
}

// hops counts what people decided, by how far it had come.
func (a *audit) hops() map[int]int {
	out := map[int]int{}
	for _, x := range a.all {
		if decides(x) && x.By.Person() {
			out[len(x.Path)]++
		}
	}
	return out
}

// keepAsking is what the agent at a seat does, as long as there is one.
func (c *campaign) keepAsking(s *seat, rnd *rand.Rand) {
	for i := 0; !c.stop.Load(); i++ {
		a := s.agent.Load()
		cmd, call := fmt.Sprintf("touch yes-%s-%d", s.name, i), a.named(Bash("")).Call
		switch rnd.IntN(10) {
		case 0, 1:
			cmd = fmt.Sprintf("touch no-%s-%d", s.name, i)
		case 2, 3:
			cmd = "make check"
		case 4:
			cmd = "rm " + s.name
		}
		t := Tool{Name: "Bash", Input: map[string]any{"command": cmd}, Call: call}
		if rnd.IntN(5) == 0 {
			t.Agent = "sub" + s.name
		}
		begin := time.Now()
		d := done{call: call, command: cmd}
		p, err := a.begin(agentRequest{Op: "hook", Gate: true, Stdin: a.event("PreToolUse", &t)})
		if err == nil {
			d.got, err = p.Answer()
		}
		d.err, d.took, d.end = err, time.Since(begin), c.r.uptime()
		c.mu.Lock()
		c.done = append(c.done, d)
		c.mu.Unlock()
		if err != nil {
			time.Sleep(5 * time.Millisecond) // the agent is dead; the killer replaces it
			continue
		}
		if d.got.Allowed() && rnd.IntN(2) == 0 {
			if p, err := a.begin(agentRequest{Op: "hook", Stdin: a.event("PostToolUse", &t)}); err == nil {
				p.Answer()
			}
		}
	}
}

// fill puts a new agent in a seat, below the agent that sits above it now.
func (c *campaign) fill(s *seat) {
	o := AgentOptions{Session: s.name, Attended: s.attended}
	if s.under != nil {
		o.Under = s.under.agent.Load()
		o.Env = below(o.Under)
	}
	s.agent.Store(c.r.Agent(o))
}

// kill sends one SIGKILL and says to what, "" when the victim was gone. Every
// third victim was stopped for a moment before.
func (c *campaign) kill() string {
	s := c.seats[c.rnd.IntN(len(c.seats))]
	a := s.agent.Load()
	switch n := c.rnd.IntN(100); {
	case n < 15:
		if !c.strike(a.PID, func(pid int) bool { st, err := host.StartTime(pid); return err == nil && st == a.Start }, func() {
			c.deaths = append(c.deaths, death{a.Node(), c.r.uptime()}) // its node ends with it
		}) {
			return ""
		}
		if a.cmd != nil {
			a.cmd.Wait()
		}
		c.fill(s)
		return "agent"
	case n < 55:
		f, err := session.ReadFacts(c.r.Dirs.Node(a.Node()))
		if err != nil || !c.strike(f.NodePID, c.ours("node"), func() {
			c.deaths = append(c.deaths, death{f.Node, c.r.uptime()})
		}) {
			return ""
		}
		return "node of " + s.name
	case n < 85:
		list := c.processes("--gate")
		if len(list) == 0 {
			return ""
		}
		if !c.strike(list[c.rnd.IntN(len(list))], c.ours("--gate"), nil) {
			return ""
		}
		return "hook"
	default:
		c.desk.kill()
		c.desk.start()
		return "desk"
	}
}

// strike kills a process after it was pinned and found to be ours, every third
// time after a stop.
func (c *campaign) strike(pid int, ours func(pid int) bool, then func()) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if !ours(pid) {
		return false
	}
	if c.rnd.IntN(3) == 0 {
		unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0)
		time.Sleep(time.Duration(c.rnd.Int64N(int64(60 * time.Millisecond)))) // how long it is stopped
		if c.rnd.IntN(2) == 0 {
			unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0)
			time.Sleep(time.Duration(c.rnd.Int64N(int64(5 * time.Millisecond)))) // how far it gets
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		return false
	}
	if then != nil {
		then()
	}
	return true
}

// ours says whether a process is a permd of this rig's, with that argument.
func (c *campaign) ours(arg string) func(pid int) bool {
	return func(pid int) bool {
		args, err := host.Args(pid)
		return err == nil && len(args) > 0 && strings.HasPrefix(args[0], c.r.Bin+"/") && has(args, c.r.Root) && has(args, arg)
	}
}

func has(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// processes are the permd processes of this rig with that argument.
func (c *campaign) processes(arg string) (out []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	ours := c.ours(arg)
	for _, d := range dirs {
		if b, err := os.ReadFile(d); err == nil && bytes.Contains(b, []byte(c.r.Root)) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(d))); err == nil && ours(pid) {
				out = append(out, pid)
			}
		}
	}
	return out
}
