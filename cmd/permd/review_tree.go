package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/review"
	"permd/review/story"
)

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

func reviewTree(a *app) *cobra.Command {
	var f filterFlags
	var at string
	var asJSON, changes bool
	c := &cobra.Command{
		Use:   "tree",
		Short: "Show who relayed to whom at a moment, or every change of it",
		Long: "tree shows the sessions that were there at a moment and who relayed its asks to whom,\n" +
			"from the record alone. --changes prints instead every change in the time between\n" +
			"--since and --until: what began and ended, relayed and served, and what was lost.\n\n" +
			"Exit codes: 0 shown, 1 there was nobody or no change, 2 used wrongly or not readable.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			if changes && at != "" {
				return usage("--at does not go with --changes; use --since and --until")
			}
			if !changes && (f.since != "" || f.until != "" || f.Session != "") {
				return usage("--since, --until and --session go with --changes; use --at for a moment")
			}
			now := time.Now()
			filter, err := f.filter(d.Review(), now)
			if err != nil {
				return err
			}
			if _, err := os.Stat(d.Review()); err != nil {
				return noRecord(err)
			}
			if changes {
				return noRecord(a.printChanges(d.Review(), filter, asJSON))
			}
			when, err := moment("--at", at, now)
			if err != nil {
				return err
			}
			list, err := treeAt(d.Review(), when)
			if err != nil {
				return noRecord(err)
			}
			return a.printTree(list, asJSON)
		},
	}
	c.Flags().StringVar(&at, "at", "", "the moment: a time, a date, today, tuesday, 2h ago as 2h (now)")
	c.Flags().BoolVar(&changes, "changes", false, "print every change instead")
	c.Flags().StringVar(&f.Session, "session", "", "with --changes: only of this session")
	f.addTimes(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON: one object a session or a change")
	return c
}

// treeAt gives the tree after all records up to a moment; zero is now.
func treeAt(dir string, when time.Time) ([]story.Session, error) {
	var t story.Tree
	f := review.Filter{Events: story.Events()}
	if !when.IsZero() {
		f.Until = when.Add(1)
	}
	err := review.Scan(dir, f, func(r review.Record) error {
		t.Add(&r)
		return nil
	})
	return t.Sessions(), err
}

type sessionJSON struct {
	Session  string     `json:"session"`
	Node     string     `json:"node"`
	Client   string     `json:"client,omitempty"`
	Agent    string     `json:"agent,omitempty"`
	Root     string     `json:"root,omitempty"`
	Started  *time.Time `json:"started,omitempty"`
	Parent   string     `json:"relays_to,omitempty"`
	FoundBy  string     `json:"found_by,omitempty"`
	Since    *time.Time `json:"relays_since,omitempty"`
	Unserved bool       `json:"unserved,omitempty"`
	Serving  bool       `json:"serving"`
	Lost     *time.Time `json:"lost,omitempty"`
}

func maybe(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (a *app) printTree(list []story.Session, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(a.out)
		for _, s := range list {
			err := enc.Encode(sessionJSON{s.ID, s.Node, s.Client, s.Agent, s.Root, maybe(s.Started), s.Parent, s.FoundBy, maybe(s.Since), s.Unserved, s.Serving, maybe(s.Lost)})
			if err != nil {
				return err
			}
		}
	} else {
		a.drawTree(list)
	}
	if len(list) == 0 {
		return &exitError{1, nil}
	}
	return nil
}

// drawTree draws those who decide at home with all that relay to them below.
func (a *app) drawTree(list []story.Session) {
	below := map[int][]int{}
	var tops []int
	for i, s := range list {
		up := -1
		for j, p := range list {
			// The one who serves goes before another of the same name.
			if s.Parent != "" && j != i && (p.ID == s.Parent || p.Node == s.Parent && p.Root == "") && (up < 0 || p.Serving && !list[up].Serving) {
				up = j
			}
		}
		if up < 0 {
			tops = append(tops, i)
		} else {
			below[up] = append(below[up], i)
		}
	}
	drawn := map[int]bool{}
	var draw func(i, depth int)
	draw = func(i, depth int) {
		if drawn[i] {
			return
		}
		drawn[i] = true
		fmt.Fprintln(a.out, strings.Repeat("  ", depth)+placeLine(&list[i], depth > 0))
		for _, c := range below[i] {
			draw(c, depth+1)
		}
	}
	for _, i := range tops {
		draw(i, 0)
	}
	for i := range list { // what only a circle holds
		draw(i, 0)
	}
}

func placeLine(s *story.Session, under bool) string {
	v := ask.VisibleLine
	t := v(s.ID) + " (node " + v(s.Node)
	if s.Client != "" {
		t += ", " + v(s.Client)
	}
	t += ")"
	switch {
	case s.Parent == "":
		t += " decides here"
	case under:
		t += " relays since " + clock(s.Since)
	default:
		t += " relays to " + v(s.Parent) + " since " + clock(s.Since)
	}
	if s.FoundBy != "" {
		t += ", found by " + v(s.FoundBy)
	}
	if s.Unserved {
		t += "; " + v(s.Parent) + " does not serve"
	}
	if s.Serving {
		t += ", takes asks of others"
	}
	if !s.Lost.IsZero() {
		t += "; not heard of since " + clock(s.Lost)
	}
	return t
}

// printChanges prints how the tree changed. It follows it from the beginning,
// since what something changes depends on what was before.
func (a *app) printChanges(dir string, f review.Filter, asJSON bool) error {
	var t story.Tree
	n := 0
	enc := json.NewEncoder(a.out)
	err := review.Scan(dir, review.Filter{Events: story.Events(), Until: f.Until}, func(r review.Record) error {
		c, changed := t.Add(&r)
		if !changed || !f.Match(&r) {
			return nil
		}
		n++
		if asJSON {
			return enc.Encode(struct {
				Time    time.Time   `json:"time"`
				Session string      `json:"session,omitempty"`
				Node    string      `json:"node"`
				Event   review.Name `json:"event"`
				Text    string      `json:"text"`
			}{c.Time, c.Session, c.Node, r.Event, c.Text})
		}
		who := c.Session
		if who == "" {
			who = "node " + c.Node
		}
		_, err := fmt.Fprintf(a.out, "%s  %-20s  %s\n", clock(c.Time), who, c.Text)
		return err
	})
	if err == nil && n == 0 {
		return &exitError{1, nil}
	}
	return err
}
