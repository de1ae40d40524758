package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/review"
	"permd/review/story"
)

func reviewQuery(a *app) *cobra.Command {
	var f filterFlags
	var asJSON, loose bool
	c := &cobra.Command{
		Use:   "query",
		Short: "Find records of all sessions",
		Long: "query prints the records of all writers that all the given flags take, in the order of\n" +
			"their times. --decision and --decider take the record of the node that decided, so\n" +
			"each ask once; permd review show tells the whole story of an ask, by its id or the\n" +
			"end of it that the table shows. --json prints the lines as they are written.\n\n" +
			"--undecided finds what was run and has no decision on the record: what the client ran\n" +
			"past permd, while permd was paused, and in sessions that permd only observes.\n\n" +
			"Exit codes: 0 found, 1 nothing found, 2 used wrongly or not readable.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			filter, err := f.filter(d.Review(), time.Now())
			if err != nil {
				return err
			}
			if loose && (filter.Decision != "" || filter.Decider != "" || filter.Event != "") {
				return usage("--undecided does not go with --decision, --decider or --event")
			}
			if _, err := os.Stat(d.Review()); err != nil {
				return noRecord(err)
			}
			t := table{app: a, json: asJSON}
			if loose {
				err = undecided(d.Review(), filter, t.row)
			} else {
				err = review.Scan(d.Review(), filter, t.row)
			}
			if err == nil && t.rows == 0 {
				return &exitError{1, nil}
			}
			return noRecord(err)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the records as they are written")
	c.Flags().BoolVar(&loose, "undecided", false, "only what was run without a decision")
	return c
}

// undecided gives fn the records of what was run and nobody decided. It reads
// from the beginning, since a decision may be older than what is asked for.
func undecided(dir string, f review.Filter, fn func(review.Record) error) error {
	var u story.Undecided
	return review.Scan(dir, review.Filter{Writer: f.Writer, Events: story.UndecidedEvents()}, func(r review.Record) error {
		if r.Err == nil && u.Add(&r) && f.Match(&r) {
			return fn(r)
		}
		return nil
	})
}

// table prints records as they come, so it keeps none.
type table struct {
	app  *app
	json bool
	rows int
}

func (t *table) row(r review.Record) error {
	t.rows++
	if t.json {
		return t.app.rawLine(r)
	}
	if t.rows == 1 {
		if err := t.line("TIME", "WHAT HAPPENED", "SESSION", "ASK", "CALL", "BY"); err != nil {
			return err
		}
	}
	if r.Err != nil {
		_, err := fmt.Fprintln(t.app.out, recordLine(r))
		return err
	}
	by := deciderOf(&r)
	if r.Reason != "" {
		by = strings.TrimSpace(by + " (" + ask.VisibleLine(r.Reason) + ")")
	}
	what := story.What(r.Action)
	if what == "" {
		what = factsOf(&r)
	}
	return t.line(localTime(r.Time), happened(&r), ask.VisibleLine(r.Session), shortAsk(r.Ask), what, by)
}

func (t *table) line(when, what, session, id, call, by string) error {
	_, err := fmt.Fprintln(t.app.out, strings.TrimRight(fmt.Sprintf("%-23s  %-20s  %-20s  %-12s  %-40s  %s", when, what, session, id, call, by), " "))
	return err
}

// happened is a record's event in a word or two.
func happened(r *review.Record) string {
	if v, ok := r.Decides(); ok {
		if v != ask.Allow && r.Outcome != "" && r.Outcome != ask.Answered {
			return ask.VisibleLine(string(r.Outcome))
		}
		return v.String()
	}
	t := ask.VisibleLine(string(r.Event))
	for _, p := range []string{"forwarded_permission.", "permission_request."} {
		t = strings.TrimPrefix(t, p)
	}
	if r.Event == review.Effect {
		t += " " + ask.VisibleLine(r.Field(review.KeyEffect))
	}
	return t
}

// factsOf are the facts of a record that is about no call, the telling ones.
func factsOf(r *review.Record) string {
	var w []string
	for _, k := range []review.Key{review.KeyTargetSession, review.KeySurface, review.KeyGrant, review.KeyNode, review.KeyClient,
		review.KeyMode, review.KeyCall, review.KeyPath, review.KeyDifference, review.KeyMessage, review.KeyCause} {
		if v := r.Field(k); v != "" {
			w = append(w, ask.VisibleLine(string(k)+"="+v))
		}
	}
	return strings.Join(w, " ")
}

// shortAsk is the end of an ask's id, which show takes for the whole.
func shortAsk(id string) string {
	if i := strings.LastIndexByte(id, '-'); i >= 0 && len(id)-i > 8 {
		id = id[i+1:]
	}
	return ask.VisibleLine(id)
}
