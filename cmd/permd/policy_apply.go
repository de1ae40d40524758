package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"permd/api"
	"permd/ask"
	"permd/policy"
	"permd/review"
	"permd/session"
)

func policyApply(a *app) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "apply",
		Short: "Let an edit of your rules that loosens come into force",
		Long: "An edit that tightens holds at once. One that loosens waits until you have seen the\n" +
			"difference here, at a terminal of your own. It is recorded.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			if err := a.person(d, "permd policy apply"); err != nil {
				return err
			}
			s := a.store(d)
			p := s.Pending()
			if p == nil {
				if err := s.Problem(); err != nil {
					return &exitError{1, err}
				}
				fmt.Fprintln(a.out, "no edit waits to be applied")
				return nil
			}
			return a.applyShown(d, s, p, yes)
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask before applying")
	return c
}

// applyShown shows what waits and lets it come into force when the person says
// so.
func (a *app) applyShown(d session.Dirs, s *policy.Store, p *policy.Pending, yes bool) error {
	fmt.Fprint(a.out, ask.Visible(p.Text))
	if !yes {
		ok, err := a.confirm("Let this come into force?")
		if err != nil || !ok {
			return &exitError{1, errors.Join(errors.New("nothing was applied"), err)}
		}
	}
	if err := a.apply(d, s, p); err != nil {
		return err
	}
	fmt.Fprintln(a.out, "applied")
	return nil
}

// enact lets what waits come into force: rules that are permd's own.
func (a *app) enact(d session.Dirs, s *policy.Store) error {
	p := s.Pending()
	if p == nil {
		if err := s.Problem(); err != nil {
			return &exitError{1, err}
		}
		return nil
	}
	return a.apply(d, s, p)
}

// apply records p and lets it come into force. The record comes first: rules
// that loosen without one are what an agent would write.
func (a *app) apply(d session.Dirs, s *policy.Store, p *policy.Pending) error {
	if err := a.note(d, review.Event{Name: review.PolicyApplied, By: &ask.By{Kind: ask.KindUser, Surface: "terminal"},
		Fields: []review.Field{{Key: review.KeyDifference, Value: p.Text}}}); err != nil {
		return &exitError{1, err}
	}
	if err := s.Apply(whoami(), p.ID); err != nil {
		return &exitError{1, err}
	}
	tellNodes(d)
	return nil
}

// tellNodes has every node look at its rules: what waits there may be decided
// by them now. One that does not answer looks at its next call.
func tellNodes(d session.Dirs) {
	nodes, err := livingNodes(d)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, n := range nodes {
		_ = callNode(ctx, d, n, api.OpStatus, nil, nil)
	}
}
