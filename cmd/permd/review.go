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
	"unicode/utf16"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/review"
	"permd/review/story"
)

func init() { commands = append(commands, reviewCommand) }

func reviewCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "review",
		Short: "Read and verify the record of who decided what",
	}
	c.AddCommand(reviewTail(a), reviewQuery(a), reviewShow(a), reviewTree(a), reviewStats(a), reviewExport(a), reviewVerify(a), reviewHead(a))
	return c
}

func reviewTail(a *app) *cobra.Command {
	var f filterFlags
	var follow, asJSON bool
	var last int
	c := &cobra.Command{
		Use:   "tail",
		Short: "Print the last records of all sessions in time order",
		Long: "tail prints the last records of all sessions, nodes, the desk and commands in the\n" +
			"order of their times. --json prints the lines as they are written.\n\n" +
			"Exit codes: 0 printed, 1 there is no record yet, 2 used wrongly or not readable.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			filter, err := f.filter(d.Review(), time.Now())
			if err != nil {
				return err
			}
			if _, err := os.Stat(d.Review()); err != nil && !follow {
				return noRecord(err)
			}
			print := func(r review.Record) error {
				if asJSON {
					return a.rawLine(r)
				}
				_, err := fmt.Fprintln(a.out, recordLine(r))
				return err
			}
			if follow {
				err = review.FollowLast(cmd.Context(), d.Review(), filter, last, print)
			} else {
				err = review.Last(d.Review(), filter, last, print)
			}
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return noRecord(err)
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is added")
	c.Flags().IntVarP(&last, "lines", "n", 20, "how many records to begin with")
	c.Flags().BoolVar(&asJSON, "json", false, "print the records as they are written")
	f.add(c)
	return c
}

// noRecord says in words that there is nothing to read yet, and that a record
// cannot be read.
func noRecord(err error) error {
	var x *exitError
	switch {
	case err == nil || errors.As(err, &x):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return &exitError{1, errors.New("there is no record yet")}
	}
	return &exitError{2, err}
}

// rawLine prints a record as it is written. What could change a terminal is
// escaped, which changes no value.
func (a *app) rawLine(r review.Record) error {
	line := strings.TrimSuffix(string(r.Raw), "\n")
	if r.Err == nil && ask.HiddenCount(line) > 0 {
		line = escapeHidden(line)
	} else if r.Err != nil {
		line = ask.VisibleLine(line)
	}
	_, err := fmt.Fprintln(a.out, line)
	return err
}

// escapeHidden writes the characters of a JSON text that are not seen as
// escapes. They stand only within strings.
func escapeHidden(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case !ask.Hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// recordLine is one record for a person, all that it says on one line.
func recordLine(r review.Record) string {
	if r.Err != nil {
		return fmt.Sprintf("%s  %s: %v at byte %d of %s", ask.VisibleLine(r.Time), r.Writer, r.Err, r.Offset, r.File)
	}
	w := []string{localTime(r.Time), string(r.Event)}
	if r.Session != "" {
		w = append(w, ask.VisibleLine(r.Session))
	}
	for _, h := range r.Path {
		w = append(w, "via "+ask.VisibleLine(h.Session))
	}
	if r.By != nil {
		w = append(w, "by "+byText(r.By))
	}
	if r.Action != nil {
		w = append(w, story.What(r.Action))
	}
	for _, k := range slices.Sorted(maps.Keys(r.Fields)) {
		w = append(w, ask.VisibleLine(k)+"="+ask.VisibleLine(r.Fields[k]))
	}
	if r.Reason != "" {
		w = append(w, "("+ask.VisibleLine(r.Reason)+")")
	}
	return strings.Join(w, "  ")
}

// byText names a decider, the real one first, then through whom it came.
func byText(b *ask.By) string { return story.By(b) }

func localTime(s string) string {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return ask.VisibleLine(s)
	}
	return clock(t)
}

// clock is a time as a person at this machine reads it.
func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000") }
