package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/review"
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
			fmt.Fprint(a.out, ask.Visible(p.Text))
			if !yes {
				ok, err := a.confirm("Let this come into force?")
				if err != nil || !ok {
					return &exitError{1, errors.Join(errors.New("nothing was applied"), err)}
				}
			}
			by := "uid " + fmt.Sprint(os.Getuid())
			if u, err := user.Current(); err == nil {
				by = u.Username
			}
			// The record first: rules that loosen without one are what an
			// agent would write.
			if err := a.note(d, review.Event{Name: review.PolicyApplied, By: &ask.By{Kind: ask.KindUser, Surface: "terminal"},
				Fields: []review.Field{{Key: review.KeyDifference, Value: p.Text}}}); err != nil {
				return &exitError{1, err}
			}
			if err := s.Apply(by, p.ID); err != nil {
				return &exitError{1, err}
			}
			fmt.Fprintln(a.out, "applied")
			return nil
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask before applying")
	return c
}
