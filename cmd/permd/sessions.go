package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"permd/api"
	"permd/ask"
	"permd/internal/host"
	"permd/session"
)

func init() { commands = append(commands, sessionsCommand) }

func sessionsCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "sessions",
		Short: "Show the tree of sessions: who is alive, who relays to whom, verified or claimed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			all, problems := everySession(cmd.Context(), d)
			if asJSON {
				return json.NewEncoder(a.out).Encode(api.Sessions{Sessions: all})
			}
			for _, l := range treeLines(all) {
				fmt.Fprintln(a.out, l)
			}
			for _, p := range problems {
				fmt.Fprintln(a.err, "permd: "+p)
			}
			if len(all) == 0 && len(problems) == 0 {
				fmt.Fprintln(a.out, "no session is running; start one with: permd run -- claude")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// livingNodes are the ids of nodes whose lock is held.
func livingNodes(d session.Dirs) ([]string, error) {
	names, err := os.ReadDir(d.Nodes())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range names {
		if !session.Valid(n.Name()) {
			continue
		}
		if held, err := host.Held(d.Node(n.Name()).Lock()); err == nil && held {
			out = append(out, n.Name())
		}
	}
	return out, nil
}

// callNode runs one operation at a node.
func callNode(ctx context.Context, d session.Dirs, node, op string, args, result any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := api.DialControl(ctx, d.Node(node).Sock(), version)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Call(ctx, op, args, result)
}

// everySession asks all living nodes. A node that does not answer is a
// problem in words, not an end.
func everySession(ctx context.Context, d session.Dirs) (all []api.SessionState, problems []string) {
	all = []api.SessionState{}
	nodes, err := livingNodes(d)
	if err != nil {
		return all, []string{err.Error()}
	}
	for _, n := range nodes {
		var s api.Sessions
		if err := callNode(ctx, d, n, api.OpSessions, nil, &s); err != nil {
			problems = append(problems, "node "+n+" does not answer: "+err.Error())
			continue
		}
		all = append(all, s.Sessions...)
	}
	return all, problems
}

// treeLines draws the tree: children below the session they relay to, or name.
func treeLines(all []api.SessionState) []string {
	byID := map[string]api.SessionState{}
	alias := map[string]string{}
	for _, s := range all {
		byID[s.ID] = s
		if alias[s.Node] == "" {
			alias[s.Node] = s.ID
		}
	}
	parent := func(s api.SessionState) string {
		p := s.RelaysTo
		if p == "" {
			p = s.Parent
		}
		if r, ok := alias[p]; ok {
			p = r
		}
		if _, ok := byID[p]; !ok || p == s.ID {
			return ""
		}
		return p
	}
	kids := map[string][]string{}
	for _, s := range all {
		kids[parent(s)] = append(kids[parent(s)], s.ID)
	}
	var out []string
	seen := map[string]bool{}
	var draw func(id string, depth int)
	draw = func(id string, depth int) {
		if seen[id] {
			return
		}
		seen[id] = true
		out = append(out, strings.Repeat("  ", depth)+sessionLine(byID[id]))
		slices.Sort(kids[id])
		for _, k := range kids[id] {
			draw(k, depth+1)
		}
	}
	slices.Sort(kids[""])
	for _, id := range kids[""] {
		draw(id, 0)
	}
	for _, s := range all { // a cycle has no root
		draw(s.ID, 0)
	}
	return out
}

func sessionLine(s api.SessionState) string {
	w := []string{s.ID, fmt.Sprintf("(%s, process %d)", s.Client, s.PID)}
	if s.Agent != "" {
		w = append(w, ask.Quote(s.Agent))
	}
	switch {
	case s.RelaysTo != "" && s.Verified:
		w = append(w, "relays to "+s.RelaysTo+" (verified, found by "+s.FoundBy+")")
	case s.RelaysTo != "":
		w = append(w, "relays to "+s.RelaysTo+" (claimed, found by "+s.FoundBy+")")
	case s.Parent != "":
		w = append(w, "names "+s.Parent+" (found by "+s.FoundBy+"), decides itself: "+s.Authority)
	default:
		w = append(w, "decides itself: "+s.Authority)
	}
	if s.Serving {
		w = append(w, "serves")
	}
	if s.Waiting > 0 {
		w = append(w, fmt.Sprintf("%d waiting", s.Waiting))
	}
	if s.PausedMS > 0 {
		w = append(w, "PAUSED for "+(time.Duration(s.PausedMS)*time.Millisecond).Round(time.Second).String())
	}
	if s.Observed {
		w = append(w, "OBSERVED ONLY: permd decides nothing here")
	}
	if s.Lifted != "" {
		w = append(w, "MODE "+s.Lifted+" for "+(time.Duration(s.LiftedMS)*time.Millisecond).Round(time.Second).String())
	}
	if s.Tripped {
		w = append(w, "TRIPPED: ran something that was not let go, asks for everything")
	}
	return strings.Join(w, " · ")
}
