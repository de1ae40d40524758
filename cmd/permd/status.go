package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"permd/api"
	"permd/ask"
	"permd/session"
)

func init() { commands = append(commands, statusCommand) }

// overall is what permd status prints as JSON.
type overall struct {
	// Desk is nil when no desk process runs.
	Desk    *api.Status  `json:"desk"`
	Nodes   []api.Status `json:"nodes"`
	Waiting int          `json:"waiting"`
	// Problems are what could not be reached, in words.
	Problems []string `json:"problems,omitempty"`
}

func statusCommand(a *app) *cobra.Command {
	var asJSON, short bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show what runs and how much waits for an answer",
		Long: "status asks every living node and the desk process.\n\n" +
			"--short prints one line for a status bar, such as that of tmux, and nothing at all when\n" +
			"nothing waits and nothing is wrong:\n\n" +
			"  set -g status-right '#(permd status --short)'\n\n" +
			"Exit codes: 0 everything was reached, 1 something does not answer, 2 used wrongly.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON && short {
				return usage("--json and --short exclude each other")
			}
			d, err := a.dirs()
			if err != nil {
				return err
			}
			o := a.overall(cmd.Context(), d)
			switch {
			case asJSON:
				err = json.NewEncoder(a.out).Encode(o)
			case short:
				if l := o.short(); l != "" {
					_, err = fmt.Fprintln(a.out, l)
				}
			default:
				for _, l := range o.lines() {
					fmt.Fprintln(a.out, l)
				}
			}
			if err == nil && len(o.Problems) > 0 {
				err = &exitError{Code: 1}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&short, "short", false, "print one short line for a status bar")
	return c
}

// overall asks the desk and every node. What waits is counted at the nodes, so
// it does not depend on a desk.
func (a *app) overall(ctx context.Context, d session.Dirs) overall {
	o := overall{Nodes: []api.Status{}}
	var st api.Status
	switch err := callDesk(ctx, d, api.OpStatus, &st); {
	case err == nil:
		o.Desk = &st
	case !noDesk(err):
		o.Problems = append(o.Problems, "the desk process does not answer: "+ask.ExcerptLine(err.Error(), 200))
	}
	nodes, err := livingNodes(d)
	if err != nil {
		o.Problems = append(o.Problems, err.Error())
	}
	for _, n := range nodes {
		var st api.Status
		if err := callNode(ctx, d, n, api.OpStatus, nil, &st); err != nil {
			o.Problems = append(o.Problems, "node "+n+" does not answer: "+ask.ExcerptLine(err.Error(), 200))
			continue
		}
		o.Nodes = append(o.Nodes, st)
		o.Waiting += st.Waiting
	}
	return o
}

// short is one line for a status bar, "" when there is nothing to look at.
func (o *overall) short() string {
	paused, mode := false, ""
	for _, n := range o.Nodes {
		paused = paused || n.PausedMS > 0
		for _, m := range n.Modes {
			if mode == "" || m.Mode == "yolo" {
				mode = m.Mode
			}
		}
	}
	switch {
	case o.Waiting > 0:
		return fmt.Sprintf("permd %d waiting", o.Waiting)
	case len(o.Problems) > 0:
		return "permd: trouble"
	case paused:
		return "permd paused"
	case mode != "":
		return "permd " + mode
	}
	return ""
}

func (o *overall) lines() []string {
	var out []string
	switch {
	case o.Desk == nil:
		out = append(out, "desk: not running; open one with: permd desk")
	case o.Desk.Faces == 0:
		out = append(out, fmt.Sprintf("desk: running (process %d), no terminal attached; attach one with: permd desk", o.Desk.PID))
	default:
		out = append(out, fmt.Sprintf("desk: running (process %d), %s attached", o.Desk.PID, count(o.Desk.Faces, "surface")))
	}
	sessions := 0
	for _, n := range o.Nodes {
		sessions += n.Sessions
	}
	out = append(out, fmt.Sprintf("agents: %s, %s", count(len(o.Nodes), "node"), count(sessions, "session")))
	out = append(out, fmt.Sprintf("waiting: %d", o.Waiting))
	for _, n := range o.Nodes {
		if n.PausedMS > 0 {
			out = append(out, fmt.Sprintf("paused: node %s for %s; its client's own prompts decide", n.Node,
				(time.Duration(n.PausedMS)*time.Millisecond).Round(time.Second)))
		}
		if n.Observed > 0 {
			out = append(out, fmt.Sprintf("observed only: %s of node %s; permd decides nothing there, see: permd doctor", count(n.Observed, "session"), n.Node))
		}
		for _, m := range n.Modes {
			whose := "every session of node " + n.Node
			if m.Session != "" {
				whose = "session " + m.Session
			}
			out = append(out, fmt.Sprintf("mode: %s is in mode %s for %s; end it with: permd mode normal", whose, m.Mode,
				(time.Duration(m.LeftMS)*time.Millisecond).Round(time.Second)))
		}
		if n.Policy != "" {
			out = append(out, fmt.Sprintf("policy: node %s keeps the last good one: %s", n.Node, ask.ExcerptLine(n.Policy, 300)))
		}
	}
	for _, p := range o.Problems {
		out = append(out, "problem: "+p)
	}
	return out
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
