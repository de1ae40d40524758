//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/review"
)

// wallStep is added to package time of the programs whose wall clock a test
// sets: a file beside the program says by how many seconds it was set. Nothing
// else of time is touched, as when a person sets a machine's clock. A goroutine
// looks at the file, because Now is called where no stack can grow.
const wallStep = `package time

import "syscall"

var wallStep int64

func init() {
	go func() {
		buf := make([]byte, 4096)
		n, _ := syscall.Readlink("/proc/self/exe", buf)
		for n > 0 && buf[n-1] != '/' {
			n--
		}
		name := string(buf[:n]) + "wallstep"
		for ; ; Sleep(20 * Millisecond) {
			fd, err := open(name)
			if err != nil {
				continue
			}
			n, _ := read(fd, buf)
			closefd(fd)
			v, sign := int64(0), int64(1)
			for _, c := range buf[:n] {
				if c == '-' {
					sign = -1
				} else if '0' <= c && c <= '9' {
					v = 10*v + int64(c-'0')
				}
			}
			wallStep = sign * v
		}
	}()
}
`

// withWallClock builds the binaries with a wall clock of their own.
func withWallClock(t *testing.T) (dir string) {
	t.Helper()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	src := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time")
	b, err := os.ReadFile(src + "/time.go")
	if err != nil {
		t.Fatal(err)
	}
	const before = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(b), before) != 1 {
		t.Fatal("time.Now is not what it was; see where it reads the wall clock now")
	}
	dir = t.TempDir()
	overlay := map[string]map[string]string{"Replace": {src + "/time.go": dir + "/time.go", src + "/wallstep.go": dir + "/wallstep.go"}}
	o, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"time.go": strings.Replace(string(b), before, before+"\tsec += wallStep\n", 1),
		"wallstep.go": wallStep, "overlay.json": string(o)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir+"/bin", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := goTool("build", "-overlay", dir+"/overlay.json", "-o", dir+"/bin/", "permd/cmd/permd", "permd/cmd/permd-hook"); err != nil {
		t.Fatal(err)
	}
	return dir + "/bin"
}

// TestT11WallClockDecidesNothing sets the wall clock of every permd process, in
// the middle of asks, by an hour, a day and ten years, on and back: nobody
// dies of it, nothing times out, nothing is forgotten or remembered too long.
func TestT11WallClockDecidesNothing(t *testing.T) {
	t.Parallel()
	r := New(t)
	r.Bin = withWallClock(t)
	r.Config("ask_timeout = \"10m\"\n")
	r.Policy(rules)
	step := func(d time.Duration) {
		t.Helper()
		fresh := r.Bin + "/.wallstep"
		if err := os.WriteFile(fresh, fmt.Append(nil, int64(d.Seconds())), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(fresh, r.Bin+"/wallstep"); err != nil {
			t.Fatal(err)
		}
	}
	x := &scene{r: r}
	x.lead = r.Agent(AgentOptions{Session: "lead"})
	x.child = r.Agent(AgentOptions{Session: "child", Under: x.lead, Env: below(x.lead)})
	x.back()
	low := r.Agent(AgentOptions{Session: "low", Attended: true, Under: x.child, Env: below(x.child)})
	f := x.begin(low, "touch yes first")
	x.reply(x.shown(), true)
	f.land()
	f = x.begin(low, "touch no denied") // remembered for five minutes
	x.reply(x.shown(), false)
	f.land()
	moves := func() (out []review.Record) {
		for _, l := range r.Records(review.Filter{}) {
			switch l.Event {
			case review.RelayStarted, review.RelayStopped, review.ParentLost, review.NoServingSession, review.ResponseTimedOut, review.AskExpired, review.ChildGone:
				out = append(out, l)
			}
		}
		return out
	}
	// A session finds out at its own calls who serves it now.
	for range 2 {
		x.child.Gate(Bash("make check"))
		low.Gate(Bash("make check"))
	}
	before := len(moves())
	day := 24 * time.Hour
	seen := map[string]bool{}
	for i, d := range []time.Duration{time.Hour, -time.Hour, day, -day, 3650 * day, -3650 * day, 0} {
		f := x.begin(low, fmt.Sprint("touch yes ", i))
		w := x.shown()
		step(d)
		// A node beats every two seconds while it has children; that a beat of
		// before the step is met after it is what this is about.
		time.Sleep(2500 * time.Millisecond)
		if n := len(x.desk.Waiting()); n != 1 {
			t.Fatalf("after a step by %s %d asks wait", d, n)
		}
		if got := x.child.Gate(Bash("make check")); !got.Allowed() {
			t.Errorf("after a step by %s: %+v", d, got)
		}
		if got := low.Gate(Bash("touch no denied")); got.Decision != "deny" || !strings.Contains(got.Reason, "denied") {
			t.Errorf("after a step by %s a denied call is asked again: %+v", d, got)
		}
		x.reply(w, true)
		if d := f.land(); !d.got.Allowed() {
			t.Errorf("after a step: %+v", d)
		}
		for _, l := range r.Records(review.Filter{Session: low.ID()}) {
			seen[l.Time[:4]] = true
		}
	}
	if len(seen) < 3 {
		t.Errorf("the records are of the years %v: the clock was not set", seen)
	}
	for _, l := range moves()[before:] {
		t.Errorf("a step of the clock did something: %s", l.Raw)
	}
	a := newAudit(r)
	a.noAllowWithoutRecord(x.done)
	a.oneDecision(nil)
	r.verify()
}

// TestT11ParentDies kills the parent's node, and the parent's agent, while an
// ask of a child with a dialog of its own waits there: the child asks here, at
// once, and is never allowed by the dead.
func TestT11ParentDies(t *testing.T) {
	t.Parallel()
	r := New(t)
	x := &scene{r: r}
	x.lead = r.Agent(AgentOptions{Session: "lead"})
	x.child = r.Agent(AgentOptions{Session: "child", Attended: true, Env: []string{"PERMD_PARENT_SESSION=claude-lead"}})
	var slowest time.Duration
	for i := range 60 {
		x.back()
		f := x.begin(x.child, fmt.Sprint("touch yes ", i))
		w := x.shown()
		begin := time.Now()
		if i%3 == 2 {
			x.lead.Kill()
		} else {
			syscall.Kill(r.nodePID(x.lead.Node()), syscall.SIGKILL)
		}
		d := f.land()
		slowest = max(slowest, time.Since(begin))
		if d.err != nil || d.got.Decision != "ask" {
			t.Fatalf("round %d: %+v", i, d)
		}
		x.deaths = append(x.deaths, death{x.lead.Node(), r.uptime()})
		if v, err := x.desk.Answer(ask.AllowAnswer(w.Ask)); err == nil && v.Verdict == api.VerdictAccepted {
			t.Errorf("the dead took an answer: %+v", v)
		}
		if i%3 == 2 {
			x.lead = r.Agent(AgentOptions{Session: "lead"})
		}
	}
	t.Logf("the slowest child asked here %s after its parent's end", slowest.Round(time.Millisecond))
	a := newAudit(r)
	a.noAllowWithoutRecord(x.done)
	a.oneDecision(x.deaths)
	for _, l := range a.all {
		if l.Session == x.child.ID() && decides(l) && allows(l) {
			t.Errorf("allowed: %s", l.Raw)
		}
	}
}

// TestT11StoppedParent stops the parent while asks of headless children wait
// there: they are refused in time, naming it, and what is answered after it
// goes on has no effect.
func TestT11StoppedParent(t *testing.T) {
	t.Parallel()
	r := New(t)
	x := &scene{r: r}
	x.lead = r.Agent(AgentOptions{Session: "lead"})
	x.lead.Send("SessionStart", nil)
	x.desk = r.Attach(x.lead.Node(), nil)
	var children []*Agent
	for i := range 8 {
		children = append(children, r.Agent(AgentOptions{Session: fmt.Sprint("c", i), Under: x.lead, Env: below(x.lead)}))
	}
	node := r.nodePID(x.lead.Node())
	for round := range 2 {
		var list []*flight
		for i, c := range children {
			list = append(list, x.begin(c, fmt.Sprint("touch yes ", round, i)))
		}
		r.Until("the asks at the lead", 10*time.Second, func() bool { return len(x.desk.Waiting()) == len(children) })
		shown := x.desk.Waiting()
		x.lead.Signal(syscall.SIGSTOP)
		syscall.Kill(node, syscall.SIGSTOP)
		begin := time.Now()
		for _, f := range list {
			d := f.land()
			if d.err != nil || d.got.Decision != "deny" || !strings.Contains(d.got.Reason, "claude-lead") || strings.Contains(d.got.Reason, "user") {
				t.Errorf("a child of a stopped parent: %+v", d)
			}
		}
		took := time.Since(begin)
		// Five seconds without a beat, two of grace, and the looks between.
		if took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
		syscall.Kill(node, syscall.SIGCONT)
		x.lead.Signal(syscall.SIGCONT)
		for _, s := range shown {
			x.desk.Answer(ask.AllowAnswer(s.Ask)) // whatever it hears, nobody waits any more
		}
		r.Until("the asks to leave the surface", 10*time.Second, func() bool { return len(x.desk.Waiting()) == 0 })
		t.Logf("refused %s after the stop", took.Round(time.Millisecond))
	}
	r.Until("the parent to be believed again", 20*time.Second, func() bool {
		f := x.begin(children[0], "touch yes again")
		ended := make(chan done, 1)
		go func() { ended <- f.land() }()
		for {
			select {
			case d := <-ended:
				return d.got.Allowed()
			case <-time.After(5 * time.Millisecond):
				for _, s := range x.desk.Waiting() {
					x.desk.Answer(ask.AllowAnswer(s.Ask))
				}
			}
		}
	})
	a := newAudit(r)
	a.noAllowWithoutRecord(x.done)
	for _, d := range x.done {
		if d.got.Allowed() && d.command != "touch yes again" {
			t.Errorf("let run: %+v", d)
		}
	}
}

// TestT11PIDUsedAgain gives a dead parent's process id to another agent. It is
// another node: no child of the dead one is decided there.
func TestT11PIDUsedAgain(t *testing.T) {
	inner(t, syscall.CLONE_NEWPID|syscall.CLONE_NEWNS, func(t *testing.T, inside bool) {
		const last = "/proc/sys/kernel/ns_last_pid"
		if inside {
			if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
				t.Logf("process ids cannot be given again here: %v", err)
				inside = false
			}
		}
		if !inside {
			// The next best: the same id cannot be had, so the parent's name is
			// given to whoever comes next.
			t.Log("with another process id")
		}
		r := New(t)
		lead := r.Agent(AgentOptions{Session: "lead"})
		lead.Send("SessionStart", nil)
		first := r.Attach(lead.Node(), nil)
		child := r.Agent(AgentOptions{Session: "child", Env: []string{"PERMD_PARENT_SESSION=" + lead.Node()}})
		f := child.BeginGate(Bash("touch yes"))
		r.Until("the ask at the lead", 5*time.Second, func() bool { return len(first.Waiting()) == 1 })
		lead.Kill()
		if got, err := f.Answer(); err != nil || got.Allowed() {
			t.Errorf("the parent died: %+v, %v", got, err)
		}
		r.Until("the dead parent's node to end", 5*time.Second, func() bool { return len(r.Nodes()) == 1 })
		if inside {
			if err := os.WriteFile(last, fmt.Append(nil, lead.PID-1), 0); err != nil {
				t.Fatal(err)
			}
		}
		// A start time has a resolution of ten milliseconds.
		time.Sleep(20 * time.Millisecond)
		other := r.Agent(AgentOptions{Session: "other"})
		if inside && other.PID != lead.PID {
			t.Fatalf("process id %d, want %d again", other.PID, lead.PID)
		}
		other.Send("SessionStart", nil)
		second := r.Attach(other.Node(), AllowAll)
		if other.Node() == lead.Node() {
			t.Fatal("both have the same node id")
		}
		for range 2 {
			if got := child.Gate(Bash("touch yes")); got.Allowed() || !strings.Contains(got.Reason, lead.Node()) {
				t.Errorf("decided by a stranger: %+v", got)
			}
		}
		if n := len(r.Records(review.Filter{Session: child.ID(), Event: "forwarded_permission.approved"})); n != 0 {
			t.Errorf("%d approvals", n)
		}
		if n := len(second.Waiting()); n != 0 {
			t.Errorf("%d asks at the stranger", n)
		}
	})
}
