// Package e2e runs permd as people do: the real binaries, real processes,
// real sockets and files, with agents that are processes of their own.
//
// Its agents are stand-ins for a client: they speak Claude Code's hook
// dialect and start the hook as the client does. What only the real client
// can show is tested with the real client, in this package too (see
// internal/realclient).
package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/internal/host"
	"permd/review"
	"permd/session"
)

// binEnv names the directory of binaries that are built already.
const binEnv = "PERMD_E2E_BIN"

// agentEnv makes the test binary an agent process.
const agentEnv = "PERMD_E2E_AGENT"

// Main is TestMain's body: the test binary is also the agents.
func Main(m *testing.M, after func(int)) {
	if os.Getenv(agentEnv) != "" {
		os.Exit(agentMain())
	}
	if code, ok := asHelper(); ok {
		os.Exit(code)
	}
	code := m.Run()
	cleanBinaries()
	after(code)
}

var (
	buildOnce sync.Once
	buildDir  string
	buildErr  error
)

// Binaries builds permd and permd-hook once and returns their directory.
func Binaries(t testing.TB) string {
	t.Helper()
	buildOnce.Do(func() {
		if dir := os.Getenv(binEnv); dir != "" {
			buildDir = dir // the process that started this one built them, and removes them
			return
		}
		if buildDir, buildErr = os.MkdirTemp("", "permd-e2e-bin-"); buildErr != nil {
			return
		}
		if buildErr = goTool("build", "-o", buildDir+"/", "permd/cmd/permd", "permd/cmd/permd-hook"); buildErr == nil {
			// The agents are this package's test binary without the race
			// detector: there are many, and they are not what is tested.
			buildErr = goTool("test", "-c", "-vet=off", "-o", filepath.Join(buildDir, agentProgram), "permd/internal/e2e")
		}
	})
	if buildErr != nil {
		t.Fatal(buildErr)
	}
	return buildDir
}

// agentProgram is the agents' program beside the binaries.
const agentProgram = "agent.test"

func goTool(args ...string) error {
	c := exec.Command("go", args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", args[0], err, out)
	}
	return nil
}

// program is what agents and helpers run.
func program() (string, error) {
	if buildDir != "" {
		return filepath.Join(buildDir, agentProgram), nil
	}
	return os.Executable() // an agent that starts another
}

func cleanBinaries() {
	if buildDir != "" && os.Getenv(binEnv) == "" {
		os.RemoveAll(buildDir)
	}
}

// Rig is one user's permd: directories of its own and the binaries.
type Rig struct {
	T    testing.TB
	Bin  string
	Root string
	Work string
	Dirs session.Dirs

	agents, calls atomic.Int64

	mu      sync.Mutex
	started []*Agent
}

// New makes a rig in a short temporary directory: sockets lie in it.
func New(t testing.TB) *Rig {
	t.Helper()
	base := "/tmp"
	if fi, err := os.Stat("/dev/shm"); err == nil && fi.IsDir() {
		base = "/dev/shm"
	}
	root, err := os.MkdirTemp(base, "pe2e-")
	if err != nil {
		t.Fatal(err)
	}
	r := &Rig{T: t, Bin: Binaries(t), Root: root, Work: filepath.Join(root, "work")}
	if r.Dirs, err = session.Find(root); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Dirs.Make(), os.Mkdir(r.Work, 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.clean)
	return r
}

// clean ends what this rig started, by pid, and removes its directory.
func (r *Rig) clean() {
	if b, err := os.ReadFile(filepath.Join(r.Dirs.Run, "node-start.log")); err == nil &&
		(bytes.Contains(b, []byte("DATA RACE")) || bytes.Contains(b, []byte("panic:"))) {
		r.T.Errorf("a node failed: %s", b)
	}
	if r.T.Failed() {
		if b, err := os.ReadFile(filepath.Join(r.Dirs.Run, "node-start.log")); err == nil && len(b) > 0 {
			r.T.Logf("node-start.log:\n%s", b)
		}
		all := r.Records(review.Filter{})
		for _, l := range all[max(0, len(all)-60):] {
			r.T.Logf("%s %s %s %v %v %s", l.Time[11:23], l.Event, l.Session, l.Fields, l.By, l.Reason)
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for _, n := range r.Nodes() {
		if f, err := session.ReadFacts(r.Dirs.Node(n)); err == nil {
			for time.Now().Before(deadline) {
				if held, err := host.Held(r.Dirs.Node(n).Lock()); err != nil || !held {
					break
				}
				time.Sleep(5 * time.Millisecond) // polling for the end of a process that is not our child
			}
			if held, err := host.Held(r.Dirs.Node(n).Lock()); err == nil && held {
				syscall.Kill(f.NodePID, syscall.SIGKILL)
				r.T.Errorf("node %s outlived its agent", n)
			}
		}
	}
	os.RemoveAll(r.Root)
}

// Nodes are the living nodes' ids.
func (r *Rig) Nodes() []string {
	names, _ := os.ReadDir(r.Dirs.Nodes())
	var out []string
	for _, n := range names {
		if held, err := host.Held(r.Dirs.Node(n.Name()).Lock()); err == nil && held {
			out = append(out, n.Name())
		}
	}
	return out
}

// Policy writes the user's rule file.
func (r *Rig) Policy(text string) {
	r.T.Helper()
	if err := os.WriteFile(filepath.Join(r.Dirs.Config, "policy.toml"), []byte(text), 0o600); err != nil {
		r.T.Fatal(err)
	}
}

// Config writes config.toml.
func (r *Rig) Config(text string) {
	r.T.Helper()
	if err := os.WriteFile(filepath.Join(r.Dirs.Config, "config.toml"), []byte(text), 0o600); err != nil {
		r.T.Fatal(err)
	}
}

// Permd runs a command and returns its exit code and output.
func (r *Rig) Permd(args ...string) (code int, out string) {
	r.T.Helper()
	c := exec.Command(r.Bin+"/permd", append([]string{"--root", r.Root}, args...)...)
	b, err := c.CombinedOutput()
	var x *exec.ExitError
	if err != nil && !errors.As(err, &x) {
		r.T.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(b)
}

// Records reads the record of all writers.
func (r *Rig) Records(f review.Filter) []review.Record {
	r.T.Helper()
	var out []review.Record
	err := review.Scan(r.Dirs.Review(), f, func(x review.Record) error {
		x.Raw = append([]byte(nil), x.Raw...)
		out = append(out, x)
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.T.Errorf("reading the record: %v", err)
	}
	return out
}

// Count waits until there are at least want records of an event, which a node
// may still be writing, and returns how many there are.
func (r *Rig) Count(event string, want int) int {
	r.T.Helper()
	n := 0
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if n = len(r.Records(review.Filter{Event: event})); n >= want || time.Now().After(deadline) {
			return n
		}
	}
}

// Until waits until f is true, at most for so long.
func (r *Rig) Until(what string, limit time.Duration, f func() bool) {
	r.T.Helper()
	deadline := time.Now().Add(limit)
	for !f() {
		if time.Now().After(deadline) {
			r.T.Fatalf("waited %s in vain for: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond) // what is waited for happens in other processes
	}
}

// Slowly is Until with a third of a second between two looks.
func (r *Rig) Slowly(what string, limit time.Duration, f func() bool) {
	r.T.Helper()
	deadline := time.Now().Add(limit)
	for !f() {
		if time.Now().After(deadline) {
			r.T.Fatalf("waited %s in vain for: %s", limit, what)
		}
		time.Sleep(300 * time.Millisecond) // the look itself is an act of an agent
	}
}

// Surface is an attached answerer: a person's terminal without a screen.
type Surface struct {
	c     *api.Answerer
	stop  context.CancelFunc
	ended chan struct{}

	mu       sync.Mutex
	asks     []api.Shown
	settled  map[string]api.Settled
	notices  []api.Notice
	sessions api.Sessions
	on       func(api.Shown) *ask.Answer
	Verdicts []api.AnswerVerdict
}

// Attach attaches a surface to one node. answer may be nil, or answer each ask
// as it comes; a nil answer leaves it waiting.
func (r *Rig) Attach(node string, answer func(api.Shown) *ask.Answer) *Surface {
	r.T.Helper()
	s, err := r.tryAttach(r.Dirs.Node(node).Sock(), answer)
	if err != nil {
		r.T.Fatal(err)
	}
	return s
}

func (r *Rig) tryAttach(sock string, answer func(api.Shown) *ask.Answer) (*Surface, error) {
	ctx, stop := context.WithCancel(context.Background())
	c, err := api.DialAnswerer(ctx, sock, "e2e", api.Attach{Surface: "desk", Faces: 1, Cap: ask.ScopeUser})
	if err != nil {
		stop()
		return nil, err
	}
	s := &Surface{c: c, stop: stop, ended: make(chan struct{}), settled: map[string]api.Settled{}, on: answer}
	go func() {
		defer close(s.ended)
		c.Run(ctx, s.event)
	}()
	r.T.Cleanup(s.Close)
	return s, nil
}

// Close detaches the surface.
func (s *Surface) Close() {
	s.stop()
	s.c.Close()
	<-s.ended
}

func (s *Surface) event(e api.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch x := e.(type) {
	case *api.Snapshot:
		s.sessions = x.Sessions
		for _, a := range x.Asks {
			s.shown(a)
		}
	case *api.Shown:
		s.shown(*x)
	case *api.Settled:
		s.settled[x.Ask] = *x
		s.drop(x.Ask)
	case *api.Sessions:
		s.sessions = *x
	case *api.Notice:
		s.notices = append(s.notices, *x)
	}
}

func (s *Surface) shown(a api.Shown) {
	s.asks = append(s.asks, a)
	if s.on == nil {
		return
	}
	if ans := s.on(a); ans != nil {
		go s.Answer(*ans)
	}
}

func (s *Surface) drop(id string) {
	for i, a := range s.asks {
		if a.Ask.Body.ID == id {
			s.asks = append(s.asks[:i], s.asks[i+1:]...)
			return
		}
	}
}

// Answer sends an answer and returns its verdict.
func (s *Surface) Answer(a ask.Answer) (api.AnswerVerdict, error) {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	v, err := s.c.Answer(ctx, a)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Verdicts = append(s.Verdicts, v)
	if v.Verdict == api.VerdictAccepted {
		s.drop(a.Ask)
	}
	return v, err
}

// Waiting returns the asks on the surface.
func (s *Surface) Waiting() []api.Shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]api.Shown(nil), s.asks...)
}

// Notices returns the notices so far.
func (s *Surface) Notices() []api.Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]api.Notice(nil), s.notices...)
}

// Tree returns the sessions as last told.
func (s *Surface) Tree() []api.SessionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]api.SessionState(nil), s.sessions.Sessions...)
}

// AllowAll answers every ask with a plain allow.
func AllowAll(s api.Shown) *ask.Answer { a := ask.AllowAnswer(s.Ask); return &a }

// DenyAll answers every ask with a deny.
func DenyAll(s api.Shown) *ask.Answer { a := ask.DenyAnswer(s.Ask, "no"); return &a }

// nodePID is the process of a node.
func (r *Rig) nodePID(node string) int {
	r.T.Helper()
	f, err := session.ReadFacts(r.Dirs.Node(node))
	if err != nil {
		r.T.Fatal(err)
	}
	return f.NodePID
}

// killNode ends a node with SIGKILL and waits for its end. A call that waits
// meanwhile may have started the next one already.
func (r *Rig) killNode(node string) {
	r.T.Helper()
	p, err := host.OpenProcess(r.nodePID(node))
	if errors.Is(err, host.ErrNoProcess) {
		return
	}
	if err != nil {
		r.T.Fatal(err)
	}
	defer p.Close()
	syscall.Kill(p.PID(), syscall.SIGKILL)
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := p.Wait(ctx); err != nil { // its lock is free now, or another node's
		r.T.Fatalf("the killed node did not end: %v", err)
	}
}
