package hook

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"permd/internal/host"
	"permd/session"
)

// Ensure makes sure that the agent has a node that takes connections, as a
// hook does. root is "" or absolute. permd run calls it for its own process,
// which is about to become the agent: therefore another process starts the
// node and ends, so that the node is no descendant of the agent, and neither
// is anything that it starts.
func Ensure(root string, agent Agent) error {
	run, err := session.RunDir(root)
	if err != nil {
		return err
	}
	dirs := session.Dirs{Root: root, Run: run}
	c, err := dial(dirs.Node(session.NodeID(agent.PID, agent.Start)))
	switch {
	case err == nil:
		c.close()
		return nil
	case !errors.Is(err, errNoNode):
		return err
	}
	return ensureElsewhere(root, agent)
}

// ensureHere is Ensure in the process that Ensure starts.
func ensureHere(root string, agent Agent) error {
	run, err := session.RunDir(root)
	if err != nil {
		return err
	}
	c, err := start(session.Dirs{Root: root, Run: run}, agent)
	if err != nil {
		return err
	}
	c.close()
	return nil
}

// ensureElsewhere runs ensureHere in a permd-hook of its own. It has a session
// of its own, too: an interrupt from the terminal does not leave half a start.
func ensureElsewhere(root string, agent Agent) error {
	program, err := besideUs("permd-hook")
	if err != nil {
		return err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.New(os.DevNull + ": " + err.Error())
	}
	defer unix.Close(null)
	var pipe [2]int
	if err := cloexecPipe(&pipe); err != nil {
		return errors.New("no pipe: " + err.Error())
	}
	defer unix.Close(pipe[0])
	argv := []string{program, ensureOption + strconv.Itoa(agent.PID) + ":" + strconv.FormatUint(agent.Start, 10)}
	if root != "" {
		argv = append(argv, "--root", root)
	}
	pid, err := syscall.ForkExec(program, append(argv, agent.Client), &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{nodePath},
		Files: []uintptr{uintptr(null), uintptr(null), uintptr(pipe[1])},
		Sys:   host.DetachAttr(),
	})
	_ = unix.Close(pipe[1])
	if err != nil {
		return errors.New(quote(program) + " could not be started: " + err.Error())
	}
	why := readReason(pipe[0])
	var status syscall.WaitStatus
	for {
		_, err = syscall.Wait4(pid, &status, 0, nil)
		if err != syscall.EINTR {
			break
		}
	}
	switch {
	case err != nil:
		return errors.New(quote(program) + ": " + err.Error())
	case status.ExitStatus() == 0:
		return nil
	case why == "":
		return errors.New(quote(program) + " ended without a word")
	}
	return errors.New(why)
}

// readReason reads what a process says until it ends; it has its own limits
// of time.
func readReason(fd int) string {
	var text []byte
	var b [512]byte
	for {
		n, err := unix.Read(fd, b[:])
		switch {
		case err == unix.EINTR:
			continue
		case n <= 0:
			return strings.TrimSpace(string(text))
		}
		text = append(text, b[:min(n, readyLimit-len(text))]...)
	}
}
