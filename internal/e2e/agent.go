package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"permd/api"
	"permd/internal/host"
	"permd/session"
)

// AgentOptions say how an agent is started.
type AgentOptions struct {
	// Session is the client's own id.
	Session string
	// Env is added to the agent's environment: who its parent is.
	Env []string
	// Attended makes it a terminal client with a dialog of its own.
	Attended bool
	// Mode is the client's permission mode, "default" if empty.
	Mode string
	// Under starts it as a child process of another agent.
	Under *Agent
	// Bin is another installation of the binaries, "" for the rig's.
	Bin string
}

type agentSpec struct {
	Hook, Root, Cwd, Session, Mode, Sock string
	Attended                             bool
}

// Agent is one agent process.
type Agent struct {
	r       *Rig
	Session string
	PID     int
	Start   uint64
	sock    string
	cmd     *exec.Cmd // nil for a child of another agent
}

// ID is the agent's session as permd names it, Node its node's id.
func (a *Agent) ID() string   { return session.ID("claude", a.Session) }
func (a *Agent) Node() string { return session.NodeID(a.PID, a.Start) }

// agentRequest is one line to an agent; agentReply the line back.
type agentRequest struct {
	Op    string // hook, spawn, run, wire
	Gate  bool
	Stdin string
	Spec  *agentSpec
	Env   []string
	Args  []string
}

type agentReply struct {
	Code           int
	Stdout, Stderr string
	PID            int
	Err            string
}

// Agent starts an agent process.
func (r *Rig) Agent(o AgentOptions) *Agent {
	r.T.Helper()
	if o.Mode == "" {
		o.Mode = "default"
	}
	if o.Bin == "" {
		o.Bin = r.Bin
	}
	n := r.agents.Add(1)
	spec := agentSpec{Hook: o.Bin + "/permd-hook", Root: r.Root, Cwd: r.Work, Session: o.Session, Attended: o.Attended, Mode: o.Mode,
		Sock: filepath.Join(r.Root, fmt.Sprintf("a%d", n))}
	a := &Agent{r: r, Session: o.Session, sock: spec.Sock}
	if o.Under != nil {
		rep, err := o.Under.call(agentRequest{Op: "spawn", Spec: &spec, Env: o.Env})
		if err != nil {
			r.T.Fatal(err)
		}
		a.PID = rep.PID
	} else {
		c, err := startAgent(spec, o.Env)
		if err != nil {
			r.T.Fatal(err)
		}
		a.cmd, a.PID = c, c.Process.Pid
	}
	r.T.Cleanup(a.Kill)
	var err error
	if a.Start, err = host.StartTime(a.PID); err != nil {
		r.T.Fatal(err)
	}
	r.mu.Lock()
	r.started = append(r.started, a)
	r.mu.Unlock()
	r.Until("agent "+o.Session+" to listen", 10*time.Second, func() bool {
		c, err := net.Dial("unix", a.sock) // the file is there a moment before it listens
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
	return a
}

func startAgent(spec agentSpec, env []string) (*exec.Cmd, error) {
	self, err := program()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	c := exec.Command(self)
	c.Env = append(append(cleanEnv(), agentEnv+"="+string(b)), env...)
	c.Stderr = os.Stderr
	return c, c.Start()
}

// cleanEnv is the environment without what would name a parent.
func cleanEnv() []string {
	var out []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "PERMD_") && !strings.HasPrefix(e, "CLAUDE") && !strings.HasPrefix(e, "TMUX") {
			out = append(out, e)
		}
	}
	return out
}

// Signal sends a signal to the agent, by its pid.
func (a *Agent) Signal(s syscall.Signal) {
	if st, err := host.StartTime(a.PID); err == nil && st == a.Start {
		syscall.Kill(a.PID, s)
	}
}

// Kill ends the agent with SIGKILL and waits for it, if it is our child.
func (a *Agent) Kill() {
	a.Signal(syscall.SIGKILL)
	if a.cmd != nil {
		a.cmd.Wait()
	}
}

// call sends one request and waits for the reply.
func (a *Agent) call(q agentRequest) (agentReply, error) {
	p, err := a.begin(q)
	if err != nil {
		return agentReply{}, err
	}
	return p.wait()
}

// Pending is a hook call that has not returned.
type Pending struct{ c net.Conn }

func (a *Agent) begin(q agentRequest) (*Pending, error) {
	c, err := net.Dial("unix", a.sock)
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(c).Encode(q); err != nil {
		c.Close()
		return nil, err
	}
	return &Pending{c}, nil
}

func (p *Pending) wait() (agentReply, error) {
	defer p.c.Close()
	var r agentReply
	if err := json.NewDecoder(p.c).Decode(&r); err != nil {
		return r, fmt.Errorf("the agent ended: %w", err)
	}
	if r.Err != "" {
		return r, errors.New(r.Err)
	}
	return r, nil
}

// Withdraw does what a client does when its person presses Esc: the hook gets
// SIGTERM.
func (p *Pending) Withdraw() { p.c.Close() }

// agentMain is an agent process: it listens for requests, and does what a
// client does.
func agentMain() int {
	var spec agentSpec
	if err := json.Unmarshal([]byte(os.Getenv(agentEnv)), &spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Unsetenv(agentEnv)
	l, err := net.Listen("unix", spec.Sock)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		go func() {
			defer c.Close()
			var q agentRequest
			if json.NewDecoder(c).Decode(&q) != nil {
				return
			}
			json.NewEncoder(c).Encode(spec.do(q, c))
		}()
	}
}

func (s agentSpec) do(q agentRequest, c net.Conn) (r agentReply) {
	switch q.Op {
	case "spawn":
		cmd, err := startAgent(*q.Spec, q.Env)
		if err != nil {
			return agentReply{Err: err.Error()}
		}
		go cmd.Wait()
		return agentReply{PID: cmd.Process.Pid}
	case "hook":
		return s.hook(q, c)
	case "ticket":
		return ticket(q.Stdin)
	case "run":
		return s.program(q)
	case "wire":
		return s.wire(q)
	}
	return agentReply{Err: "unknown op"}
}

// hook starts the hook as Claude does, below a shell, with its variables.
func (s agentSpec) hook(q agentRequest, c net.Conn) agentReply {
	gate := ""
	if q.Gate {
		gate = " --gate"
	}
	cmd := exec.Command("/bin/sh", "-c", "'"+s.Hook+"' --root '"+s.Root+"'"+gate+" claude || exit $?")
	attended, entry := "0", "sdk-cli"
	if s.Attended {
		attended, entry = "1", "cli"
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("CLAUDE_PID=%d", os.Getpid()), "CLAUDE_CODE_ENTRYPOINT="+entry,
		"CLAUDE_CODE_SESSION_ATTENDED="+attended, "CLAUDE_PROJECT_DIR="+s.Cwd, "CLAUDE_CODE_SESSION_ID="+s.Session)
	cmd.Dir = s.Cwd
	cmd.Stdin = strings.NewReader(q.Stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		return agentReply{Err: err.Error()}
	}
	var once sync.Once
	done := make(chan struct{})
	go func() { // the tester hung up: the person pressed Esc
		var b [1]byte
		if _, err := c.Read(b[:]); err != nil {
			select {
			case <-done:
			default:
				once.Do(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) })
			}
		}
	}()
	err := cmd.Wait()
	close(done)
	var x *exec.ExitError
	if err != nil && !errors.As(err, &x) {
		return agentReply{Err: err.Error()}
	}
	return agentReply{Code: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String()}
}

// Ticket gets a one-time ticket from the agent's node, as a spawner below the
// agent does.
func (a *Agent) Ticket(t interface{ Fatal(...any) }) string {
	rep, err := a.call(agentRequest{Op: "ticket", Stdin: a.r.Dirs.Node(a.Node()).Sock()})
	if err != nil {
		t.Fatal(err)
	}
	return rep.Stdout
}

func ticket(sock string) agentReply {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	c, err := api.DialControl(ctx, sock, "e2e")
	if err != nil {
		return agentReply{Err: err.Error()}
	}
	defer c.Close()
	var tk api.Ticket
	if err := c.Call(ctx, api.OpTicket, api.TicketArgs{}, &tk); err != nil {
		return agentReply{Err: err.Error()}
	}
	return agentReply{Stdout: tk.Ticket}
}
