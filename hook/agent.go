package hook

import (
	"errors"
	"strconv"
	"strings"

	"permd/api/hookwire"
	"permd/internal/host"
)

// Agent is one running client program. A node belongs to exactly one.
type Agent struct {
	Client string
	PID    int
	// Start is the process's start time as host.StartTime gives it.
	Start uint64
}

// client is what a client tells its hooks about itself.
type client struct {
	name string
	// pid is the variable that holds the client's process id, and session
	// that of its own session. Codex and pi set none for their hooks: the
	// one a hook sees there was inherited and is a parent's.
	pid, session string
}

var clients = [...]client{
	{"claude", "CLAUDE_PID", "CLAUDE_CODE_SESSION_ID"},
	{"gemini", "", "GEMINI_SESSION_ID"},
	{"opencode", "OPENCODE_PID", ""},
}

func clientOf(name string) client {
	for _, c := range clients {
		if c.name == name {
			return c
		}
	}
	return client{name: name}
}

var errNoAgent = errors.New("the agent that called this hook cannot be told from the process tree; let the agent call it, or a shell below it")

// findAgent finds the client's process among the ancestors of this one: the
// one its variable names, else the nearest that is not a shell. sure says that
// it was the former.
func findAgent(request *hookwire.Request) (agent Agent, sure bool, err error) {
	agent.Client = request.Client
	if variable := clientOf(request.Client).pid; variable != "" {
		pid, err := strconv.Atoi(request.Getenv(variable))
		if err == nil && isAncestor(request.PPID, pid) && !adopts(pid, request.Client) {
			agent.PID, sure = pid, true
		}
	}
	if !sure {
		if agent.PID, err = nearestProgram(request.PPID, request.Client); err != nil {
			return Agent{}, false, err
		}
	}
	agent.Start, err = host.StartTime(agent.PID)
	return agent, sure, err
}

// maxHops bounds a walk up the process tree.
const maxHops = 128

// isAncestor says whether pid is at or above from. The processes in between
// wait for this one, so their numbers are not used again meanwhile.
func isAncestor(from, pid int) bool {
	for range maxHops {
		if from <= 0 {
			return false
		}
		if from == pid {
			return true
		}
		var err error
		if from, err = host.ParentPID(from); err != nil {
			return false
		}
	}
	return false
}

// nearestProgram is the first process at or above from that is not a shell:
// clients run a hook's command line in one.
func nearestProgram(from int, client string) (int, error) {
	for range maxHops {
		if from <= 0 {
			break
		}
		name, err := host.Comm(from)
		if err != nil {
			return 0, err
		}
		if adopts(from, client) {
			break
		}
		if !in(shells[:], name) {
			return from, nil
		}
		if from, err = host.ParentPID(from); err != nil {
			return 0, err
		}
	}
	return 0, errNoAgent
}

// adopts says whether pid is a process that the system gives orphans to, and
// so no agent: the client has ended, and its hook was adopted. A node for it
// would take everything on the machine for a part of its agent. In a container
// the client itself may be process 1.
func adopts(pid int, client string) bool {
	name, err := host.Comm(pid)
	if err != nil || in(inits[:], name) {
		return true
	}
	if pid != 1 || strings.HasPrefix(name, client) {
		return false
	}
	args, err := host.Args(pid)
	if err != nil {
		return true
	}
	for _, a := range args[:min(len(args), 2)] {
		if strings.HasPrefix(a[strings.LastIndexByte(a, '/')+1:], client) {
			return false // an interpreter, with the client as its script
		}
	}
	return true
}

var (
	shells = [...]string{"sh", "bash", "dash", "ash", "busybox", "zsh", "ksh", "mksh", "fish"}
	inits  = [...]string{"systemd", "init", "launchd", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan", "runit", "openrc-init"}
)

func in(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// running says whether the agent's process is still the same one.
func (a Agent) running() error {
	start, err := host.StartTime(a.PID)
	if err == nil && start != a.Start {
		err = host.ErrNoProcess
	}
	if errors.Is(err, host.ErrNoProcess) {
		return errors.New("the agent (process " + strconv.Itoa(a.PID) + ") has ended")
	}
	return err
}
