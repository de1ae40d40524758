package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"permd/api"
	"permd/ask"
	"permd/internal/host"
	"permd/policy"
	"permd/review"
	"permd/session"
)

func policyGrants(a *app) *cobra.Command {
	c := &cobra.Command{Use: "grants", Short: "List, show and revoke what people granted"}
	var asJSON bool
	list := &cobra.Command{
		Use:   "list",
		Short: "List the grants of all sessions",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			kept, now, err := keptGrants(d)
			if err != nil {
				return err
			}
			if asJSON {
				all := []ask.Grant{}
				for _, k := range kept {
					all = append(all, k.Grant)
				}
				return json.NewEncoder(a.out).Encode(api.Grants{Grants: all})
			}
			for _, k := range kept {
				left := "until the session ends"
				if l, ok := k.Left(now); ok {
					left = "for " + l.Round(time.Second).String()
				}
				fmt.Fprintf(a.out, "%s  %s of %s  %s  by %s, %s\n", k.Grant.ID, k.Grant.Scope, k.Grant.Session, ask.VisibleLine(policy.Line(&k.Grant.Rule)), byText(&k.Grant.By), left)
			}
			if len(kept) == 0 {
				fmt.Fprintln(a.out, "nothing is granted")
			}
			return nil
		},
	}
	list.Flags().BoolVar(&asJSON, "json", false, "print JSON")
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
