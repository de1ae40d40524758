package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/internal/host"
	"permd/policy"
	"permd/review"
	"permd/session"
)

// listedGrant is one grant as permd policy grants prints it.
type listedGrant struct {
	ask.Grant
	// Cwd is the directory that a command's grant is for, Pins the files whose
	// content must be as it was.
	Cwd  string   `json:"cwd,omitempty"`
	Pins []string `json:"pins,omitempty"`
	// LeftMS is how long it lives yet, 0 when it does not expire by itself.
	LeftMS int64 `json:"left_ms,omitempty"`
	// Uses is how many calls it let go, LastUsed when, by the record.
	Uses     int    `json:"uses"`
	LastUsed string `json:"last_used,omitempty"`
}

func listed(kept []policy.Kept, now policy.Clock, uses map[string]grantUse) []listedGrant {
	out := []listedGrant{}
	for _, k := range kept {
		u := uses[k.Grant.ID]
		l := listedGrant{Grant: k.Grant, Cwd: k.Cwd, Uses: u.Count, LastUsed: u.Last}
		if left, ok := k.Left(now); ok {
			l.LeftMS = max(left.Milliseconds(), 1)
		}
		for _, p := range k.Pins {
			l.Pins = append(l.Pins, p.Path)
		}
		out = append(out, l)
	}
	return out
}

// whose says for whom a grant is and until when.
func (l *listedGrant) whose() (whose, until string) {
	switch until = "until it is revoked"; l.Scope {
	case ask.ScopeSession, ask.ScopeTree:
		whose, until = string(l.Scope)+" of "+l.Session, "until the session ends"
	case ask.ScopeProject:
		whose = "project " + ask.VisibleLine(l.Project)
	default:
		whose = string(l.Scope)
	}
	if l.LeftMS > 0 {
		until = "for " + (time.Duration(l.LeftMS) * time.Millisecond).Round(time.Second).String()
	}
	return whose, until
}

func (l *listedGrant) used() string {
	if l.Uses == 0 {
		return "never used"
	}
	return "used " + count(l.Uses, "time")
}

// everyGrant reads all grants, with their uses.
func everyGrant(d session.Dirs) ([]listedGrant, error) {
	kept, now, err := keptGrants(d)
	if err != nil {
		return nil, err
	}
	if len(kept) == 0 {
		return []listedGrant{}, nil
	}
	uses, err := grantUses(d)
	if err != nil {
		return nil, err
	}
	return listed(kept, now, uses), nil
}

func policyGrants(a *app) *cobra.Command {
	c := &cobra.Command{Use: "grants", Short: "List, show and revoke what people granted"}
	var asJSON bool
	list := &cobra.Command{
		Use:   "list",
		Short: "List the grants of all sessions, of projects and of yours",
		Long: "list prints each grant with its rule, for whom it is, who gave it, how long it holds and how\n" +
			"often it was used, by the record. permd policy grants show has the rest of one.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			all, err := everyGrant(d)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(a.out).Encode(struct {
					Grants []listedGrant `json:"grants"`
				}{all})
			}
			for i := range all {
				g := &all[i]
				whose, until := g.whose()
				fmt.Fprintf(a.out, "%s  %s  %s  by %s, %s, %s\n", g.ID, whose, ask.VisibleLine(policy.Line(&g.Rule)), byText(&g.By), until, g.used())
			}
			if len(all) == 0 {
				fmt.Fprintln(a.out, "nothing is granted")
			}
			return nil
		},
	}
	list.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	var showJSON bool
	show := &cobra.Command{
		Use:   "show ID",
		Short: "Show one grant: the exact rule, where it holds, what it pins, its uses",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			all, err := everyGrant(d)
			if err != nil {
				return err
			}
			for i := range all {
				if all[i].ID == args[0] {
					return a.showGrant(&all[i], showJSON)
				}
			}
			return &exitError{1, fmt.Errorf("no grant %s; list them with: permd policy grants list", ask.Quote(args[0]))}
		},
	}
	show.Flags().BoolVar(&showJSON, "json", false, "print JSON")
	c.AddCommand(show)
	c.AddCommand(list, &cobra.Command{
		Use:   "revoke ID",
		Short: "Take a grant back; it holds no more from the next call on",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			if err := a.person(d, "permd policy grants revoke"); err != nil {
				return err
			}
			kept, _, err := keptGrants(d)
			if err != nil {
				return err
			}
			for _, k := range kept {
				if k.Grant.ID != args[0] {
					continue
				}
				g, err := policy.OpenGrants(d.State)
				if err != nil {
					return err
				}
				if err := g.Revoke(k.Grant.Session, k.Grant.ID); err != nil {
					return &exitError{1, err}
				}
				fmt.Fprintln(a.out, "revoked")
				return a.note(d, review.Event{Name: review.GrantRevoked, Session: k.Grant.Session,
					Fields: []review.Field{{Key: review.KeyGrant, Value: k.Grant.ID}}})
			}
			return &exitError{1, fmt.Errorf("no grant %s; list them with: permd policy grants list", ask.Quote(args[0]))}
		},
	})
	return c
}

func (a *app) showGrant(g *listedGrant, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(a.out).Encode(g)
	}
	whose, until := g.whose()
	fmt.Fprintf(a.out, "grant   %s\nrule    %s\nfor     %s, %s\ngiven   by %s, %s\n", g.ID, ask.VisibleLine(policy.Line(&g.Rule)), whose, until, byText(&g.By), g.Given)
	if g.Cwd != "" {
		fmt.Fprintf(a.out, "in      %s\n", ask.VisibleLine(g.Cwd))
	}
	for _, p := range g.Pins {
		fmt.Fprintf(a.out, "pins    %s, as it was when it was granted\n", ask.VisibleLine(p))
	}
	if g.LastUsed != "" {
		fmt.Fprintf(a.out, "used    %s, last %s\n", count(g.Uses, "time"), g.LastUsed)
	} else {
		fmt.Fprintln(a.out, "used    never")
	}
	fmt.Fprintf(a.out, "revoke  permd policy grants revoke %s\n", g.ID)
	return nil
}

// keptGrants reads the grants of all sessions. Looking makes nothing: without
// a state directory nothing was ever granted.
func keptGrants(d session.Dirs) ([]policy.Kept, policy.Clock, error) {
	if _, err := os.Stat(d.State); errors.Is(err, fs.ErrNotExist) {
		return nil, policy.Clock{}, nil
	}
	g, err := policy.OpenGrants(d.State)
	if err != nil {
		return nil, policy.Clock{}, err
	}
	boot, err := host.BootID()
	if err != nil {
		return nil, policy.Clock{}, err
	}
	up, err := host.Uptime()
	now := policy.Clock{Boot: boot, Up: up}
	if err != nil {
		return nil, now, err
	}
	kept, err := g.List(now)
	return kept, now, err
}
