package claudecheck

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/internal/e2e"
	"permd/internal/host"
	"permd/internal/realclient"
	"permd/internal/standin"
	"permd/session"
)

// killNode ends the node of an agent with SIGKILL, and waits until it is gone.
func (g *governed) killNode(pid int) {
	g.t.Helper()
	dir := g.permd.Dirs.Node(g.node(pid))
	f, err := session.ReadFacts(dir)
	if err != nil {
		g.t.Fatal(err)
	}
	g.kill(f.NodePID)
	g.WaitFor("the node's lock to be free", limit, func() bool {
		held, err := host.Held(dir.Lock())
		return err != nil || !held
	})
}

func (g *governed) kill(pid int) {
	g.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		g.t.Errorf("kill %d: %v", pid, err)
	}
}

// hooks are the processes of permd-hook of this place that wait, shells not
// among them.
func (g *governed) hooks() []int {
	g.t.Helper()
	return slices.DeleteFunc(g.processes("permd-hook"), func(pid int) bool {
		args, err := host.Args(pid)
		return err != nil || len(args) == 0 || !strings.HasSuffix(args[0], "/permd-hook")
	})
}

// follower is a desk that comes back to its agent's node however often that
// dies.
type follower struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	allowed map[string]bool // commands it allowed
	conn    *api.Answerer   // nil while there is none
}

// follow attaches a follower that answers each ask by what decide says of its
// command.
func (g *governed) follow(pid int, decide func(command string) bool) *follower {
	g.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{cancel: cancel, allowed: map[string]bool{}}
	sock := g.permd.Dirs.Node(g.node(pid)).Sock()
	f.ended.Go(func() {
		again := time.NewTicker(5 * time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil {
			f.attend(ctx, sock, decide)
			<-again.C
		}
	})
	g.t.Cleanup(f.close)
	return f
}

func (f *follower) attend(ctx context.Context, sock string, decide func(string) bool) {
	c, err := api.DialAnswerer(ctx, sock, "test", api.Attach{Surface: "desk", Faces: 1, Cap: ask.ScopeOnce})
	if err != nil {
		return
	}
	defer c.Close()
	f.set(c)
	defer f.set(nil)
	answer := func(s api.Shown) {
		a := ask.DenyAnswer(s.Ask, "an odd one")
		if command := s.Ask.Body.Action.Command; decide(command) {
			a = ask.AllowAnswer(s.Ask)
			f.mu.Lock()
			f.allowed[command] = true // from here on it may run, whatever is killed
			f.mu.Unlock()
		}
		_, _ = c.Answer(ctx, a) // a node that is killed meanwhile gives no verdict
	}
	_ = c.Run(ctx, func(e api.Event) {
		switch e := e.(type) {
		case *api.Snapshot:
			for _, s := range e.Asks {
				answer(s)
			}
		case *api.Shown:
			answer(*e)
		}
	})
}

func (f *follower) set(c *api.Answerer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conn = c
}

// drop ends the connection as the death of the desk would.
func (f *follower) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn != nil {
		f.conn.Close()
	}
}

func (f *follower) mayRun(command string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.allowed[command]
}

func (f *follower) close() {
	f.cancel()
	f.drop()
	f.ended.Wait()
}

// One client, and at each point of a call's life something is killed: what was
// not allowed does not run, what was allowed is not held against the session,
// and afterwards calls are decided again.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	const busy = "touch ran-1 && while [ ! -e go-1 ]; do sleep 0.05; done"
	g := govern(t, place{config: "client_dialog = \"off\"\n"}, map[string][]standin.Step{
		"rule": {standin.Bash("touch ran-rule"), standin.Bash("touch ran-bad")},
		"ask":  {standin.Bash("touch ran-1")},
		"busy": {standin.Bash(busy)},
	})
	term := g.Terminal(realclient.Run{Time: 3 * realclient.DefaultTime})
	for _, point := range []struct {
		name, scenario string
		kill           func(desk *e2e.Surface) // once the call waits, or runs
		allow          bool                    // the desk allows before it
		told           string                  // to the model, of the call
	}{
		{"node, between calls", "", func(*e2e.Surface) { g.killNode(term.Pid()) }, false, ""},
		{"node, while the call waits", "ask", func(*e2e.Surface) { g.killNode(term.Pid()) }, false, "the node ended"},
		{"hook, while the call waits", "ask", func(*e2e.Surface) { g.killHook() }, false, "permd unavailable"},
		{"desk, while the call waits", "ask", func(d *e2e.Surface) { d.Close() }, false, "nobody can answer any more"},
		{"node, while the call runs", "busy", func(*e2e.Surface) { g.killNode(term.Pid()) }, true, ""},
		{"desk, while the call runs", "busy", func(d *e2e.Surface) { d.Close() }, true, ""},
	} {
		desk := g.desk(term.Pid(), nil)
		n := len(g.Model.Told())
		if point.scenario != "" {
			term.Say("SCENARIO:" + point.scenario + " go")
			a := g.next(desk)
			if point.allow {
				g.answer(desk, ask.AllowAnswer(a))
				g.WaitFor("the call to run", limit, func() bool { return g.ran() == "ran-1" })
			}
		}
		point.kill(desk)
		if point.scenario == "busy" {
			g.writeProject("go-1", "")
		}
		if point.scenario != "" {
			g.WaitFor(point.name+": what the model is told", limit, func() bool { return len(g.Model.Told()) > n })
			if told := g.Model.Told()[n]; !strings.Contains(told, point.told) {
				t.Errorf("%s: the model was told %q, want %q in it", point.name, told, point.told)
			}
			n++
		}
		if got := g.ran() == "ran-1"; got != point.allow {
			t.Errorf("%s: ran %q", point.name, g.ran())
		}
		desk.Close()
		g.tidy("ran-1", "go-1")
		term.WaitUntil("the prompt", idle)
		term.Say("SCENARIO:rule go")
		g.WaitFor(point.name+": calls to be decided again", limit, func() bool { return len(g.Model.Told()) == n+2 })
		if g.ran() != "ran-rule" || !strings.Contains(g.Model.Told()[n+1], "not for agents") {
			t.Errorf("%s: afterwards ran %q, told %q", point.name, g.ran(), g.Model.Told()[n:])
		}
		g.tidy("ran-rule")
		term.WaitUntil("the prompt", idle)
	}
	term.Close()
	g.wentWell()
}

// The shell around the hook is killed with it: then the client knows of no
// guard, and its own base, which setup set, is to ask.
func TestKilledShellFallsBackToThePrompt(t *testing.T) {
	t.Parallel()
	g := govern(t, place{config: "client_dialog = \"off\"\n"}, simple(standin.Bash("touch ran-1"), standin.Bash("touch ran-rule")))
	term := g.Terminal(realclient.Run{})
	desk := g.desk(term.Pid(), nil)
	term.Say("SCENARIO:x go")
	g.next(desk)
	for _, pid := range g.processes("permd-hook", "permd unavailable") { // the guard stands in the shell's arguments
		g.kill(pid)
	}
	g.killHook()
	term.WaitScreen(dialog, "touch ran-1")
	if g.ran() != "" {
		t.Errorf("ran %q", g.ran())
	}
	term.Answer("Escape", dialog)
	term.Close()
	g.wentWell()
}

// killHook kills the one hook that waits.
func (g *governed) killHook() {
	g.t.Helper()
	g.WaitFor("a hook to wait", limit, func() bool { return len(g.hooks()) == 1 })
	g.kill(g.hooks()[0])
}

func (g *governed) tidy(names ...string) {
	g.t.Helper()
	for _, n := range names {
		if err := os.Remove(filepath.Join(g.Project, n)); err != nil && !os.IsNotExist(err) {
			g.t.Error(err)
		}
	}
}

// idle says whether the client waits for its person's words.
func idle(screen string) bool { return !strings.Contains(screen, "esc to interrupt") }

// A node that dies while the client's dialog is open takes nothing along: the
// person's yes counts, and is not held against the session.
func TestNodeKilledBehindTheDialog(t *testing.T) {
	t.Parallel()
	g := govern(t, place{}, simple(standin.Bash("touch ran-1"), standin.Bash("touch ran-rule")))
	term := g.Terminal(realclient.Run{})
	desk := g.desk(term.Pid(), nil)
	term.Say("SCENARIO:x go")
	term.WaitScreen(dialog, "touch ran-1")
	a := g.next(desk)
	g.killNode(term.Pid())
	if g.ran() != "" {
		t.Errorf("ran %q", g.ran())
	}
	term.Answer("1", "touch ran-1\n")
	term.WaitScreen(standin.Done)
	if g.ran() != "ran-1 ran-rule" {
		t.Errorf("ran %q; told %q", g.ran(), g.told())
	}
	term.Close()
	g.wentWell()
	if tale := g.tale(a.Body.ID); !slices.Contains(tale, "effect ran client_dialog inferred") {
		t.Errorf("the record of the call: %q", tale)
	}
}

// Node, hook and desk are killed at random moments of many calls.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	const calls = 40
	var steps []standin.Step
	for i := range calls {
		steps = append(steps, standin.Bash(fmt.Sprintf("touch ran-%d", i)))
	}
	last := standin.Bash("touch ran-rule")
	last.Delay = time.Second // the killing has ended by then
	steps = append(steps, last, standin.Bash("touch ran-bad"))
	g := govern(t, place{hold: true}, simple(steps...))
	p := g.Start(realclient.Run{Scenario: "x", Time: 3 * realclient.DefaultTime})
	even := func(command string) bool {
		return strings.HasSuffix(command, "0") || strings.HasSuffix(command, "2") || strings.HasSuffix(command, "4")
	}
	desk := g.follow(p.Pid(), even)
	g.release()

	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	kills := map[string]int{}
	dir := g.permd.Dirs.Node(g.node(p.Pid()))
	pause := time.NewTimer(0)
	defer pause.Stop()
	for len(g.Model.Told()) < calls {
		<-pause.C
		switch r.IntN(4) {
		case 0:
			if f, err := session.ReadFacts(dir); err == nil && syscall.Kill(f.NodePID, syscall.SIGKILL) == nil {
				kills["node"]++
			}
		case 1:
			for _, pid := range g.hooks() {
				if syscall.Kill(pid, syscall.SIGKILL) == nil {
					kills["hook"]++
				}
			}
		case 2:
			desk.drop()
			kills["desk"]++
		}
		pause.Reset(time.Duration(r.IntN(150)) * time.Millisecond)
	}
	res := p.Wait()
	t.Logf("killed %v; ran %d", kills, len(g.Ran()))
	if res.Code != 0 || !strings.Contains(res.Stdout, standin.Done) {
		t.Errorf("the client ended with %+v", res)
	}
	for _, name := range g.Ran() {
		if name != "ran-rule" && !desk.mayRun("touch "+name) {
			t.Errorf("%s ran and was never allowed", name)
		}
	}
	if !slices.Contains(g.Ran(), "ran-rule") || slices.Contains(g.Ran(), "ran-bad") {
		t.Errorf("afterwards: ran %q", g.ran())
	}
	desk.close()
	g.wentWell()
}
