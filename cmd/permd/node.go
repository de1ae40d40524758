package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"permd/clients"
	"permd/clients/claude"
	"permd/internal/host"
	"permd/node"
)

func init() { commands = append(commands, nodeCommand) }

// codecs are the clients this build can speak to.
var codecs = map[string]clients.Codec{claude.Name: claude.Codec{}, demoClient: demoCodec{}}

// Descriptors a starter hands to its node: the lock that keeps other starters
// out, and the pipe on which the starter waits for "ok\n" or the reason why
// not.
const (
	lockFD  = 3
	readyFD = 4
)

func nodeCommand(a *app) *cobra.Command {
	var client string
	var pid int
	var start uint64
	c := &cobra.Command{
		Use:    "node --client NAME --pid PID --start TICKS",
		Short:  "Run the node of one agent process (started by hooks and by permd run)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ready := inherited(readyFD, os.ModeNamedPipe)
			err := a.runNode(cmd, client, pid, start, ready)
			if err != nil && ready != nil {
				fmt.Fprintln(ready, err.Error())
				ready.Close()
			}
			return err
		},
	}
	c.Flags().StringVar(&client, "client", "", "the client's name")
	c.Flags().IntVar(&pid, "pid", 0, "the agent's process id")
	c.Flags().Uint64Var(&start, "start", 0, "the agent's start time, in the system's own ticks")
	return c
}

func (a *app) runNode(cmd *cobra.Command, client string, pid int, start uint64, ready *os.File) error {
	codec, ok := codecs[client]
	if !ok {
		return usage("client %q is not known to this permd", client)
	}
	if err := host.HideMemory(); err != nil {
		return err
	}
	d, err := a.dirs()
	if err != nil {
		return err
	}
	set, err := settings(d)
	if err != nil {
		return err
	}
	starting := inherited(lockFD, 0)
	err = node.Run(cmd.Context(), node.Config{Dirs: d, PID: pid, Start: start, Codec: codec, Settings: set, Build: version,
		Started: func() {
			if ready != nil {
				fmt.Fprintln(ready, "ok")
				ready.Close()
			}
			if starting != nil {
				starting.Close()
			}
		}})
	if errors.Is(err, node.ErrAgentGone) {
		return nil
	}
	return err
}

// inherited is descriptor fd if it is of the given type, else nil: a node that
// a person starts by hand has neither lock nor pipe, and what lies there then
// is not ours to close.
func inherited(fd int, kind os.FileMode) *os.File {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return nil
	}
	want := uint32(unix.S_IFREG)
	if kind&os.ModeNamedPipe != 0 {
		want = unix.S_IFIFO
	}
	if uint32(st.Mode)&unix.S_IFMT != want {
		return nil
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "inherited")
}
