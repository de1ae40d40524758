package realclient

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// DefaultTime bounds a run that names no time of its own.
const DefaultTime = 40 * time.Second

// Run is one start of the client.
type Run struct {
	Scenario string        // headless: the prompt is "SCENARIO:<this> go"
	Args     []string      // more arguments of the client
	Env      []string      // more variables, "K=V"; a later one wins
	Wrap     []string      // a command that starts the client, for example permd run --
	Dir      string        // working directory; the project if empty
	Time     time.Duration // after it the client is killed; DefaultTime if 0
}

// Result is how a headless run ended.
type Result struct {
	Code    int // exit code; -1 for a signal
	Stdout  string
	Stderr  string
	Took    time.Duration
	Expired bool // killed because its time was over
}

// Process is a headless client that runs, as leader of its own process group.
type Process struct {
	cmd      *exec.Cmd
	rig      *Rig
	ctx      context.Context
	cancel   context.CancelFunc
	out, err *os.File
	began    time.Time
}

// Print runs the client headless (-p) to its end. The test fails if the client
// cannot be started or its time runs out.
func (r *Rig) Print(run Run) Result {
	r.t.Helper()
	res := r.Start(run).Wait()
	if res.Expired {
		r.t.Fatalf("client killed after %v; stdout %q, stderr %q", res.Took, tail([]byte(res.Stdout), 800), tail([]byte(res.Stderr), 800))
	}
	return res
}

// Start starts the client headless. It is killed at the end of its time and at
// the end of the test. Wait must be called.
func (r *Rig) Start(run Run) *Process {
	r.t.Helper()
	argv := append(append([]string{}, run.Wrap...), r.Client.Path, "-p", "SCENARIO:"+run.Scenario+" go")
	argv = append(argv, run.Args...)
	ctx, cancel := context.WithTimeout(r.t.Context(), run.time())
	p := &Process{rig: r, ctx: ctx, cancel: cancel, began: time.Now()}
	p.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	p.cmd.Dir, p.cmd.Env = run.dir(r), r.env(run.Env)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	// Files, not pipes: a grandchild that keeps them open does not hold up Wait.
	p.out, p.err = r.capture("out-*"), r.capture("err-*")
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	if err := p.cmd.Start(); err != nil {
		cancel()
		r.t.Fatalf("start the client: %v", err)
	}
	r.t.Cleanup(cancel)
	return p
}

// Pid is the process id of the client, or of the command that wraps it.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Wait waits for the client to end and ends what is left of its process group.
func (p *Process) Wait() Result {
	p.rig.t.Helper()
	defer p.cancel()
	err := p.cmd.Wait()
	res := Result{Took: time.Since(p.began), Expired: errors.Is(p.ctx.Err(), context.DeadlineExceeded)}
	// The group's id cannot have been given away in this instant.
	if kill := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL); kill != nil && !errors.Is(kill, syscall.ESRCH) && !errors.Is(kill, syscall.EPERM) {
		p.rig.t.Logf("end the client's process group: %v", kill)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !res.Expired {
		p.rig.t.Errorf("wait for the client: %v", err)
	}
	res.Code = p.cmd.ProcessState.ExitCode()
	res.Stdout, res.Stderr = p.rig.captured(p.out), p.rig.captured(p.err)
	return res
}

func (r *Rig) capture(pattern string) *os.File {
	r.t.Helper()
	f, err := os.CreateTemp(r.Tmp, pattern)
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

func (r *Rig) captured(f *os.File) string {
	r.t.Helper()
	defer f.Close()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		r.t.Error(err)
	}
	return string(b)
}

func (run Run) time() time.Duration {
	if run.Time == 0 {
		return DefaultTime
	}
	return run.Time
}

func (run Run) dir(r *Rig) string {
	switch {
	case run.Dir == "":
		return r.Project
	case filepath.IsAbs(run.Dir):
		return run.Dir
	}
	return filepath.Join(r.Project, run.Dir)
}
