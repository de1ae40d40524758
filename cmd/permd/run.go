package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"permd/api"
	"permd/clients/claude"
	claudeset "permd/clients/claude/settings"
	"permd/hook"
	"permd/internal/host"
	"permd/session"
)

func init() { commands = append(commands, runCommand) }

type runOptions struct {
	parent   string
	ticketFD int
	pane     string
}

func runCommand(a *app) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run [flags] -- CMD [ARG...]",
		Short: "Start an agent under permd",
		Long: "run makes sure of a node for this process, hands it the named parent, and becomes the\n" +
			"agent: no wrapper stays. For Claude Code it passes the hooks with --settings, so they\n" +
			"survive changed files. With --pane, inside a governed session in tmux, the agent gets a\n" +
			"pane of its own and is announced to that session as its child.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.pane != "" {
				return a.runPane(cmd.Context(), o, args)
			}
			return a.run(cmd.Context(), o, args)
		},
	}
	c.Flags().SetInterspersed(false)
	c.Flags().StringVar(&o.parent, "parent", "", "the session that answers for this one; \"none\" for no parent")
	c.Flags().IntVar(&o.ticketFD, "ticket-fd", -1, "read a one-time ticket of the parent from this descriptor")
	c.Flags().StringVar(&o.pane, "pane", "", "start in a new tmux pane: split or window")
	c.Flags().Lookup("pane").NoOptDefVal = "split"
	return c
}

// clientOf names the client a command starts.
func clientOf(cmd string) (string, error) {
	base := filepath.Base(cmd)
	if _, ok := codecs[base]; ok {
		return base, nil
	}
	return "", usage("permd run knows %s; %q is none of them", strings.Join(clientNames(), ", "), base)
}

func clientNames() []string {
	var names []string
	for n := range codecs {
		if n != demoClient {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

func (a *app) run(ctx context.Context, o runOptions, args []string) error {
	client, err := clientOf(args[0])
	if err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return &exitError{1, err}
	}
	argv, err := a.agentArgs(client, args)
	if err != nil {
		return err
	}
	d, err := a.dirs()
	if err != nil {
		return err
	}
	start, err := host.StartTime(os.Getpid())
	if err != nil {
		return err
	}
	agent := hook.Agent{Client: client, PID: os.Getpid(), Start: start}
	if err := hook.Ensure(a.root, agent); err != nil {
		return &exitError{1, err}
	}
	launch := api.LaunchArgs{Parent: o.parent, FoundBy: "flag"}
	if o.parent == "" {
		launch.Parent, launch.FoundBy = os.Getenv(session.EnvParent), session.EnvParent
	}
	if launch.Parent == "" {
		launch.FoundBy = ""
	}
	if launch.Ticket, err = readTicket(o.ticketFD); err != nil {
		return &exitError{1, err}
	}
	id := session.NodeID(agent.PID, agent.Start)
	if err := tell(ctx, d.Node(id), launch); err != nil {
		return &exitError{1, err}
	}
	// The variable was consumed; what the agent starts is below the agent.
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, session.EnvParent+"=") || strings.HasPrefix(e, session.EnvSession+"=")
	})
	env = append(env, session.EnvSession+"="+id)
	return &exitError{1, fmt.Errorf("%s: %w", path, syscall.Exec(path, argv, env))}
}

// agentArgs are the agent's arguments with what puts it under permd.
func (a *app) agentArgs(client string, args []string) ([]string, error) {
	if client != claude.Name {
		return args, nil
	}
	hookPath, err := hookBeside(true)
	if err != nil {
		return nil, &exitError{1, err}
	}
	if off := claudeset.Off(args[1:], os.Environ()); off != "" {
		return nil, usage("with %s Claude runs no hook, also none that permd run passes; start it without, or have root write the hooks that survive it: permd setup claude --system", off)
	}
	for _, x := range args[1:] {
		if x == "--" {
			break
		}
		if x == "--settings" || strings.HasPrefix(x, "--settings=") {
			return nil, usage("permd run passes its hooks with --settings, which can be given only once; put your own into a settings file")
		}
	}
	flag, err := claudeset.Flag(hookPath, a.root)
	if err != nil {
		return nil, err
	}
	return append([]string{args[0], "--settings", flag}, args[1:]...), nil
}

// tell hands the launcher's facts to the node.
func tell(ctx context.Context, n session.Node, l api.LaunchArgs) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := api.DialControl(ctx, n.Sock(), version)
	if err != nil {
		return fmt.Errorf("the node does not answer: %w", err)
	}
	defer c.Close()
	return c.Call(ctx, api.OpLaunch, l, nil)
}

// readTicket reads a ticket from an inherited descriptor and closes it, so
// that the agent does not get it.
func readTicket(fd int) (string, error) {
	if fd < 0 {
		return "", nil
	}
	f := os.NewFile(uintptr(fd), "ticket")
	if f == nil {
		return "", errors.New("--ticket-fd: no such descriptor")
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 129))
	if err != nil {
		return "", fmt.Errorf("--ticket-fd: %w", err)
	}
	t := strings.TrimSpace(string(b))
	if len(t) != 64 {
		return "", errors.New("--ticket-fd: no ticket there")
	}
	return t, nil
}

// runPane opens a pane with the agent in it and tells the surrounding
// session's node to expect that process.
func (a *app) runPane(ctx context.Context, o runOptions, args []string) error {
	if _, err := clientOf(args[0]); err != nil {
		return err
	}
	if os.Getenv("TMUX") == "" {
		return usage("--pane needs tmux")
	}
	verb := map[string]string{"split": "split-window", "window": "new-window"}[o.pane]
	if verb == "" {
		return usage("--pane is %q; use split or window", o.pane)
	}
	d, err := a.dirs()
	if err != nil {
		return err
	}
	lead := governedBy(d)
	if lead == "" || lead == "unknown" {
		return usage("--pane announces a child of the session it runs in, and this is none; start the agent in the pane itself with permd run")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := []string{verb, "-d", "-P", "-F", "#{pane_pid}", "--", self}
	if a.root != "" {
		cmd = append(cmd, "--root", a.root)
	}
	cmd = append(cmd, "run", "--parent", lead, "--")
	out, err := exec.CommandContext(ctx, "tmux", append(cmd, args...)...).Output()
	if err != nil {
		return fmt.Errorf("tmux %s: %w", verb, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return fmt.Errorf("tmux named no process: %w", err)
	}
	start, err := host.StartTime(pid)
	if err != nil {
		return fmt.Errorf("the pane ended at once: %w", err)
	}
	c, err := api.DialControl(ctx, d.Node(lead).Sock(), version)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Call(ctx, api.OpTicket, api.TicketArgs{PID: pid, Start: start}, nil); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "started in a pane, process %d, below %s\n", pid, lead)
	return nil
}
