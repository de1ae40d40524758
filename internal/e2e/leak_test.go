//go:build linux

package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"permd/review"
)

// TestT17NothingIsLeft puts 10,000 asks through one node, its own and a
// child's, answered in every way, while surfaces and children come and go.
// Afterwards the node has what it had before.
func TestT17NothingIsLeft(t *testing.T) {
	t.Parallel()
	r := New(t)
	r.Config("asks_a_minute = 1000000\n")
	r.Policy(rules)
	// What a node has that did nothing.
	fresh := r.Agent(AgentOptions{Session: "fresh"})
	fresh.Send("SessionStart", nil)
	idle := r.goroutines(fresh)
	fresh.Kill()

	a := r.Agent(AgentOptions{Session: "lead"})
	a.Send("SessionStart", nil)
	asked := 0
	put := func(a *Agent, n int, command string, want func(Answer) bool) {
		t.Helper()
		got, err := a.Wire(wireJob{Count: n, Each: 16, Command: command, First: asked})
		if err != nil {
			t.Fatal(err)
		}
		asked += n
		for _, d := range got {
			if d.Err != "" || !want(d.Answer) {
				t.Fatalf("%s, call %d: %+v", command, d.I, d)
			}
		}
	}
	allowed := Answer.Allowed
	denied := func(a Answer) bool { return a.Decision == "deny" }
	round := func(n int) {
		p := newPerson(r, 1, 0)
		p.sit(r.Dirs.Node(a.Node()).Sock)
		r.Until("the surface", 5*time.Second, func() bool { return r.faces(a.Node()) == 1 })
		put(a, n, "touch yes #", allowed)
		put(a, n/2, "touch no #", denied)
		put(a, n/4, "make check", allowed)
		put(a, n/4, "rm #", denied)
		child := r.Agent(AgentOptions{Session: fmt.Sprint("child", asked), Under: a, Env: below(a)})
		child.Send("SessionStart", nil)
		put(child, n/4, "touch yes #", allowed)
		// Asks whose hooks are taken away.
		for range 10 {
			w := a.BeginGate(Bash("touch maybe"))
			time.Sleep(2 * time.Millisecond) // at any moment of it
			w.Withdraw()
		}
		p.leave()
		put(a, n/4, "touch nobody is there #", denied)
		child.Kill()
		r.Until("the child's node to end", 10*time.Second, func() bool { return len(r.Nodes()) == 1 })
	}
	round(400)
	before := r.measure(a)
	for range 4 {
		round(1000)
	}
	if asked < 10_000 {
		t.Fatalf("only %d asks", asked)
	}
	var after usage
	r.Until("descriptors and files to be as before", 10*time.Second, func() bool {
		after = r.measure(a)
		return after.fds <= before.fds && slices.Equal(after.files, before.files)
	})
	n := r.goroutines(a)
	t.Logf("%d asks: %d descriptors, %d goroutines (%d when new), %d threads (%d), %.1f MiB (%.1f), files %q",
		asked, after.fds, n, idle, after.threads, before.threads, after.rss, before.rss, after.files)
	if n > idle {
		t.Errorf("%d goroutines, a new node has %d", n, idle)
	}
	if grown := after.rss - before.rss; grown > 16 {
		t.Errorf("it grew by %.1f MiB", grown)
	}
	a2 := newAudit(r)
	a2.oneDecision(nil)
	if got := len(r.Records(review.Filter{Event: "gap"})); got != 0 {
		t.Errorf("%d gaps in the record", got)
	}
}

// usage is what a node holds.
type usage struct {
	fds, threads int
	rss          float64 // MiB
	files        []string
}

func (r *Rig) measure(a *Agent) usage {
	r.T.Helper()
	pid := r.nodePID(a.Node())
	u := usage{rss: r.rss(pid)}
	for _, x := range []struct {
		dir string
		n   *int
	}{{"fd", &u.fds}, {"task", &u.threads}} {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", pid, x.dir))
		if err != nil {
			r.T.Fatal(err)
		}
		*x.n = len(list)
	}
	filepath.WalkDir(r.Dirs.Run, func(p string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(r.Dirs.Run, p)
		u.files = append(u.files, name)
		return nil
	})
	return u
}

// rss is a process's resident memory in MiB.
func (r *Rig) rss(pid int) float64 {
	r.T.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		r.T.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")))
			if err != nil {
				r.T.Fatal(err)
			}
			return float64(kb) / 1024
		}
	}
	r.T.Fatal("no VmRSS")
	return 0
}

// goroutines ends a node with SIGQUIT, on which it prints all its goroutines
// to its start log, and counts them.
func (r *Rig) goroutines(a *Agent) int {
	r.T.Helper()
	file := filepath.Join(r.Dirs.Run, "node-start.log")
	if err := os.Truncate(file, 0); err != nil {
		r.T.Fatal(err)
	}
	node := a.Node()
	syscall.Kill(r.nodePID(node), syscall.SIGQUIT)
	r.Until("the node to end", 5*time.Second, func() bool { return !slices.Contains(r.Nodes(), node) })
	b, err := os.ReadFile(file)
	if err != nil {
		r.T.Fatal(err)
	}
	n := strings.Count(string(b), "\ngoroutine ") - strings.Count(string(b), "[GC worker")
	if n == 0 {
		r.T.Fatalf("no goroutines in %q", b)
	}
	return n
}
