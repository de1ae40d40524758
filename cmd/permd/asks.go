package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"permd/api"
	"permd/ask"
	"permd/session"
)

func init() { commands = append(commands, asksCommand) }

// waitingAsk is one ask as permd asks --json prints it.
type waitingAsk struct {
	ID      string     `json:"id"`
	Node    string     `json:"node"`
	Session string     `json:"session"`
	Client  string     `json:"client"`
	Agent   string     `json:"agent,omitempty"`
	Path    []ask.Hop  `json:"path"`
	Title   string     `json:"title"`
	Cause   string     `json:"cause,omitempty"`
	Tool    ask.Tool   `json:"tool,omitempty"`
	Text    string     `json:"text,omitempty"`
	Cwd     string     `json:"cwd,omitempty"`
	Risk    ask.Risk   `json:"risk,omitempty"`
	AgeMS   int64      `json:"age_ms"`
	Denied  int        `json:"denied,omitempty"`
	Digest  ask.Digest `json:"digest"`
}

func asksCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "asks",
		Short: "List what waits for an answer, oldest first",
		Long: "asks lists what waits at every node. It works without a desk, and only looks: answer at a\n" +
			"desk (permd desk) or where the agent asks.\n\n" +
			"Exit codes: 0 listed, also when nothing waits, 1 something does not answer, 2 used wrongly.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			list, problems := everyAsk(cmd.Context(), d)
			if asJSON {
				err = json.NewEncoder(a.out).Encode(struct {
					Asks []waitingAsk `json:"asks"`
				}{list})
			} else {
				for _, l := range askLines(list) {
					fmt.Fprintln(a.out, l)
				}
			}
			for _, p := range problems {
				fmt.Fprintln(a.err, "permd: "+p)
			}
			if err == nil && len(problems) > 0 {
				err = &exitError{Code: 1}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// everyAsk asks all living nodes what waits there, oldest first.
func everyAsk(ctx context.Context, d session.Dirs) (list []waitingAsk, problems []string) {
	list = []waitingAsk{}
	nodes, err := livingNodes(d)
	if err != nil {
		return list, []string{err.Error()}
	}
	for _, n := range nodes {
		var s api.Snapshot
		if err := callNode(ctx, d, n, api.OpAsks, nil, &s); err != nil {
			problems = append(problems, "node "+n+" does not answer: "+ask.ExcerptLine(err.Error(), 200))
			continue
		}
		for _, x := range s.Asks {
			list = append(list, waitingOf(n, x))
		}
	}
	slices.SortStableFunc(list, func(a, b waitingAsk) int { return int(b.AgeMS - a.AgeMS) })
	return list, problems
}

func waitingOf(node string, s api.Shown) waitingAsk {
	b := &s.Ask.Body
	w := waitingAsk{ID: b.ID, Node: node, Session: b.From.Session, Client: b.From.Client, Agent: b.From.Agent,
		Path: s.Ask.Header.Path, Title: b.Title, Cause: b.Cause, Risk: b.Risk, AgeMS: s.AgeMS, Denied: s.Denied, Digest: s.Ask.Digest}
	if w.Path == nil {
		w.Path = []ask.Hop{}
	}
	if a := b.Action; a != nil {
		w.Tool, w.Cwd = a.Tool, a.Cwd
		switch {
		case a.Command != "":
			w.Text = a.Command
		case a.URL != "":
			w.Text = a.URL
		case a.MCP != nil:
			w.Text = a.MCP.Server + " " + a.MCP.Name
		case len(a.Paths) > 0:
			w.Text = a.Paths[0].Given
		}
	}
	return w
}

// askLines are three lines an ask: who, what, where. Long texts lose their
// middle; the desk shows them whole.
func askLines(list []waitingAsk) []string {
	if len(list) == 0 {
		return []string{"nothing waits"}
	}
	var out []string
	for _, w := range list {
		path := []string{w.Session}
		for _, h := range w.Path {
			step := h.Session
			if h.Claimed {
				step += " (its parent is only claimed)"
			}
			if h.Session == w.Session && h.Claimed {
				path[0] = step
			} else if h.Session != w.Session {
				path = append(path, step)
			}
		}
		out = append(out,
			fmt.Sprintf("%s  %s  waits %s", w.ID, strings.Join(path, " → "), (time.Duration(w.AgeMS)*time.Millisecond).Round(time.Second)),
			"    "+ask.ExcerptLine(w.Title+": "+w.Text, 200),
			"    in "+ask.ExcerptLine(w.Cwd, 200))
	}
	return out
}
