package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/internal/host"
	"permd/session"
)

func init() { commands = append(commands, demoAgentCommand) }

// demoStep is one thing a demo agent does: an action it asks for, a child it
// starts and waits for, or a file of the demo it waits for.
type demoStep struct {
	command string
	read    string
	child   string
	await   string
}

// demoRoles are the agents of the demo. Every command is harmless, and runs
// for real only after permd let it go.
var demoRoles = map[string][]demoStep{
	"lead":   {{command: "touch shared.txt"}, {child: "sub"}},
	"sub":    {{command: "touch shared.txt"}, {command: "touch sub.txt"}, {child: "subsub"}},
	"subsub": {{read: "README"}, {command: "touch shared.txt"}, {command: "touch subsub.txt"}, {command: "rm shared.txt"}},
	// With --kill-lead: the subagent goes on while its lead dies and returns.
	"lead-dies":  {{child: "sub-stays"}},
	"lead-again": {{await: "sub-stays.done"}},
	"sub-stays":  {{command: "touch before.txt"}, {command: "touch during.txt"}, {await: leadServes}, {command: "touch after.txt"}},
}

func demoAgentCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "demo-agent ROLE DIR",
		Short:  "One agent of the demo",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			steps, ok := demoRoles[args[0]]
			if !ok {
				return usage("the demo has no role %q", args[0])
			}
			g := &demoAgent{app: a, role: args[0], dir: args[1], out: cmd.ErrOrStderr()}
			return g.run(cmd.Context(), steps)
		},
	}
}

type demoAgent struct {
	app  *app
	role string
	dir  string
	out  interface{ Write([]byte) (int, error) }
	call int
}

// name is the client's own session id: a lead that comes back is the same
// session in another process.
func (g *demoAgent) name() string { return strings.SplitN(g.role, "-", 2)[0] }

func (g *demoAgent) run(ctx context.Context, steps []demoStep) error {
	if _, err := g.hook(ctx, demoEvent{Event: "start"}); err != nil {
		return err
	}
	if err := g.mark("ready"); err != nil {
		return err
	}
	for _, s := range steps {
		var err error
		switch {
		case s.child != "":
			err = g.startChild(ctx, s.child)
		case s.await != "":
			err = awaitFile(ctx, filepath.Join(g.dir, s.await))
		default:
			err = g.act(ctx, s)
		}
		if err != nil {
			return err
		}
	}
	return g.mark("done")
}

// mark tells the demo how far this agent is.
func (g *demoAgent) mark(what string) error {
	start, err := host.StartTime(os.Getpid())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(g.dir, g.role+"."+what), fmt.Appendf(nil, "%d %d\n", os.Getpid(), start), 0o600)
}

// act asks for one action and does it when it was let go.
func (g *demoAgent) act(ctx context.Context, s demoStep) error {
	g.call++
	e := demoEvent{Event: "gate", Call: fmt.Sprintf("%s-%d", g.role, g.call), Command: s.command, Read: s.read}
	r, err := g.hook(ctx, e)
	if err != nil {
		return err
	}
	what := s.command + s.read
	if r.Verdict != ask.Allow {
		fmt.Fprintf(g.out, "%-7s was refused %q: %s\n", g.name(), what, r.Reason)
		return nil
	}
	if s.command != "" {
		w := strings.Fields(s.command)
		c := exec.CommandContext(ctx, w[0], w[1:]...)
		c.Dir = g.dir
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", what, err, out)
		}
	}
	fmt.Fprintf(g.out, "%-7s did %q\n", g.name(), what)
	e.Event = "ran"
	_, err = g.hook(ctx, e)
	return err
}

// hook calls permd as every client does: a process of its own, the event on
// its standard input.
func (g *demoAgent) hook(ctx context.Context, e demoEvent) (demoReply, error) {
	e.Session, e.Cwd = g.name(), g.dir
	in, err := ask.Encode(e)
	if err != nil {
		return demoReply{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return demoReply{}, err
	}
	args := []string{"hook", "--root", g.app.root}
	if e.Event == "gate" {
		args = append(args, "--gate")
	}
	c := exec.CommandContext(ctx, self, append(args, demoClient)...)
	c.Stdin = bytes.NewReader(in)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	var r demoReply
	if err := c.Run(); err != nil {
		var x *exec.ExitError
		if errors.As(err, &x) && x.ExitCode() == 2 {
			r.Reason = strings.TrimSpace(errs.String())
			return r, nil
		}
		return r, fmt.Errorf("hook: %w: %s", err, errs.String())
	}
	if e.Event != "gate" {
		return r, nil
	}
	return r, ask.Decode(out.Bytes(), ask.MaxMessage, &r)
}

// startChild starts another agent as a process below this one and waits for
// its end. The child is told whose it is the way every agent's children are.
func (g *demoAgent) startChild(ctx context.Context, role string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, self, "--root", g.app.root, "demo-agent", role, g.dir)
	c.Env = append(os.Environ(), session.EnvSession+"="+session.ID(demoClient, g.name()))
	c.Stderr = os.Stderr
	return c.Run()
}

// awaitFile waits until path exists.
func awaitFile(ctx context.Context, path string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
