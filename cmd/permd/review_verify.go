package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"permd/review"
)

// logLine is one log's state.
func logLine(l review.LogReport) string {
	state := "ended without a closing head"
	switch {
	case l.Live:
		state = "being written"
	case l.Closed:
		state = "closed"
	}
	return fmt.Sprintf("%s: %d records in %d files, %s", l.Writer, l.Records, l.Files, state)
}

func reviewVerify(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify",
		Short: "Check every log and the ledger",
		Long: "verify checks the hash chain of every log and what the ledger says of each.\n\n" +
			"Exit codes: 0 intact, 1 tampered, 2 incomplete or not readable.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			r, err := review.Verify(d.Review())
			if errors.Is(err, fs.ErrNotExist) {
				return &exitError{2, errors.New("there is no record at " + d.Review())}
			}
			if err != nil {
				return &exitError{2, err}
			}
			if asJSON {
				if err := json.NewEncoder(a.out).Encode(r); err != nil {
					return err
				}
			} else {
				for _, l := range r.Logs {
					fmt.Fprintln(a.out, logLine(l))
				}
				fmt.Fprintln(a.out, r.String())
			}
			switch r.Status {
			case review.Intact:
				return nil
			case review.Tampered:
				return &exitError{1, nil}
			}
			return &exitError{2, nil}
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
