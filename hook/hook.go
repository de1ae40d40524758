package hook

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"permd/api/hookwire"
	"permd/session"
)

// refuse is the exit code by which clients are told to stop an action.
const refuse = 2

// Main is permd-hook and permd hook: args without the program's name, env as
// os.Environ gives it, and three open descriptors. It returns the exit code,
// and prints nothing but what the node said or, on standard error, why it
// failed.
func Main(args, env []string, stdin, stdout, stderr int) int {
	o, err := parseArgs(args)
	if err != nil {
		_ = writeAll(stderr, []byte("permd: "+err.Error()+"\n"))
		return refuse
	}
	if o.ensure.PID != 0 {
		if err := ensureHere(o.root, o.ensure); err != nil {
			_ = writeAll(stderr, []byte(err.Error()))
			return refuse
		}
		return 0
	}
	result, err := o.run(args, env, stdin)
	if err == nil {
		err = errors.Join(writeAll(stdout, result.Stdout), writeAll(stderr, result.Stderr))
		if err == nil {
			return result.Code
		}
		err = errors.New("the answer could not be written: " + err.Error())
	}
	if o.gate {
		_ = writeAll(stderr, []byte("permd could not decide this call, so it is refused: "+err.Error()+"\n"))
		return refuse
	}
	_ = writeAll(stderr, []byte("permd: "+err.Error()+"\n"))
	return 0
}

// run carries the call to the node and its answer back.
func (o options) run(args, env []string, stdin int) (hookwire.Result, error) {
	// First of all, so that the client is rid of its input whatever follows.
	input, err := readInput(stdin)
	if err != nil {
		return hookwire.Result{}, err
	}
	request := hookwire.Request{
		Client: o.client,
		Gate:   o.gate,
		PID:    os.Getpid(),
		PPID:   os.Getppid(),
		Args:   args,
		Stdin:  input,
	}
	if request.Env, err = hookwire.Pick(env); err != nil {
		return hookwire.Result{}, err
	}
	// The system's word and not that of PWD. A directory that is gone is "".
	if request.Cwd, err = unix.Getwd(); err != nil {
		request.Cwd = ""
	}
	head, err := request.AppendHead(make([]byte, 0, 2048))
	if err != nil {
		return hookwire.Result{}, err
	}
	run, err := session.RunDir(o.root)
	if err != nil {
		return hookwire.Result{}, err
	}
	c, err := o.reach(session.Dirs{Root: o.root, Run: run}, &request)
	if err != nil || c == nil {
		return hookwire.Result{}, err
	}
	defer c.close()
	if err := c.send(head, input); err != nil {
		return hookwire.Result{}, err
	}
	return c.await()
}

// reach connects to the agent's node, and starts it if there is none. It
// returns nothing at all when there is none and none is to be started.
func (o options) reach(dirs session.Dirs, request *hookwire.Request) (*conn, error) {
	agent, sure, err := findAgent(request)
	if err == nil {
		c, err := dial(dirs.Node(session.NodeID(agent.PID, agent.Start)))
		if err == nil || !errors.Is(err, errNoNode) {
			return c, err
		}
	}
	if !sure {
		// The client could not be told by its process for certain; its
		// session may be bound to a node, which judges who may call.
		if c := dialSession(dirs, request); c != nil {
			return c, nil
		}
	}
	switch {
	case o.noStart:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return start(dirs, agent)
}

// dialSession connects to the node that the client's session was last bound
// to, or returns nil.
func dialSession(dirs session.Dirs, request *hookwire.Request) *conn {
	variable := clientOf(request.Client).session
	if variable == "" {
		return nil
	}
	id := session.ID(request.Client, request.Getenv(variable))
	if id == "" {
		return nil
	}
	node, err := session.Home(dirs, id)
	if err != nil {
		return nil
	}
	c, err := dial(dirs.Node(node))
	if err != nil {
		return nil
	}
	return c
}
