package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/review"
)

func init() { commands = append(commands, reviewCommand) }

func reviewCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "review",
		Short: "Read and verify the record of who decided what",
	}
	c.AddCommand(reviewTail(a), reviewVerify(a))
	return c
}

func reviewTail(a *app) *cobra.Command {
	var f review.Filter
	var follow, asJSON bool
	var last int
	c := &cobra.Command{
		Use:   "tail",
		Short: "Print the last records of all sessions in time order",
		Long: "tail prints the last records of all sessions, nodes, the desk and commands in the\n" +
			"order of their times. --json prints the lines as they are written.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			print := func(r review.Record) error {
				if asJSON {
					_, err := fmt.Fprintln(a.out, strings.TrimSuffix(string(r.Raw), "\n"))
					return err
				}
				_, err := fmt.Fprintln(a.out, recordLine(r))
				return err
			}
			if !follow {
				err = tailOnce(d.Review(), f, last, asJSON, print)
			} else {
				err = followLast(cmd.Context(), d.Review(), f, last, print)
			}
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return &exitError{1, errors.New("there is no record yet")}
			case errors.Is(err, context.Canceled):
				return nil
			}
			return err
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is added")
	c.Flags().IntVarP(&last, "lines", "n", 20, "how many records to begin with")
	c.Flags().BoolVar(&asJSON, "json", false, "print the records as they are written")
	c.Flags().StringVar(&f.Session, "session", "", "only of this session, or of asks that passed it")
	c.Flags().StringVar(&f.Ask, "ask", "", "only of this ask")
	c.Flags().StringVar(&f.Event, "event", "", "only of this event; with a dot at the end, of all that begin so")
	return c
}

// followLast prints the last n records and goes on with what is added.
func followLast(ctx context.Context, dir string, f review.Filter, n int, print func(review.Record) error) error {
	skip := -n
	if err := review.Scan(dir, f, func(review.Record) error { skip++; return nil }); err != nil {
		return err
	}
	return review.Follow(ctx, dir, f, func(r review.Record) error {
		if skip > 0 {
			skip--
			return nil
		}
		return print(r)
	})
}

// tailOnce prints the last n records. Raw bytes are kept because a record's
// own are only valid during the call.
func tailOnce(dir string, f review.Filter, n int, raw bool, print func(review.Record) error) error {
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	var ring []review.Record
	err := review.Scan(dir, f, func(r review.Record) error {
		if raw {
			r.Raw = append([]byte(nil), r.Raw...)
		}
		if ring = append(ring, r); len(ring) > max(n, 0) {
			ring = ring[1:]
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range ring {
		if err := print(r); err != nil {
			return err
		}
	}
	return nil
}

// recordLine is one record for a person.
func recordLine(r review.Record) string {
	if r.Err != nil {
		return fmt.Sprintf("%s  %s: %v at byte %d of %s", r.Time, r.Writer, r.Err, r.Offset, r.File)
	}
	w := []string{localTime(r.Time), string(r.Event)}
	if r.Session != "" {
		w = append(w, r.Session)
	}
	for _, h := range r.Path {
		w = append(w, "via "+h.Session)
	}
	if r.By != nil {
		w = append(w, "by "+byText(r.By))
	}
	if r.Action != nil {
		what := r.Action.ClientTool
		switch {
		case r.Action.Command != "":
			what += " " + ask.Quote(r.Action.Command)
		case len(r.Action.Paths) > 0:
			what += " " + ask.Quote(r.Action.Paths[0].Given)
		case r.Action.Server != "":
			what += " of " + ask.Quote(r.Action.Server)
		}
		w = append(w, what)
	}
	for _, k := range slices.Sorted(maps.Keys(r.Fields)) {
		w = append(w, k+"="+r.Fields[k])
	}
	if r.Reason != "" {
		w = append(w, "("+r.Reason+")")
	}
	return strings.Join(w, "  ")
}

// byText names a decider, the real one first, then through whom it came.
func byText(b *ask.By) string {
	d := b.Decider()
	t := string(d.Kind)
	switch {
	case d.Rule != nil:
		t += fmt.Sprintf(" %s:%d", d.Rule.File, d.Rule.Line)
	case d.Surface != "":
		t += " " + ask.Quote(d.Surface)
	case d.Grant != "":
		t += " " + d.Grant
	}
	if d.Inferred {
		t += " (inferred)"
	}
	for f := b; f != nil && f.Kind == ask.KindForwarded; f = f.Inner {
		t += " at " + f.Session
	}
	return t
}

func localTime(s string) string {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return s
	}
	return t.Local().Format("2006-01-02 15:04:05.000")
}
