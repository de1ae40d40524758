package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/review"
	"permd/review/story"
)

// filterFlags are what the commands that read the record have in common.
type filterFlags struct {
	review.Filter
	tree, since, until string
}

func (f *filterFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.Session, "session", "", "only of this session, or of asks that passed it")
	c.Flags().StringVar(&f.tree, "tree", "", "only of this session and all that ever relayed to it or to one below it")
	c.Flags().StringVar(&f.Ask, "ask", "", "only of this ask")
	c.Flags().StringVar(&f.Event, "event", "", "only of this event; with . or _ at the end, of all that begin so")
	c.Flags().StringVar(&f.Tool, "tool", "", "only calls of this tool, as bash, edit, mcp, or as the client calls it")
	c.Flags().StringVar(&f.Decision, "decision", "", "only decisions: allow, deny, or an outcome as timed_out")
	c.Flags().StringVar(&f.Decider, "decider", "", "only decisions of: person, user, device, rule, grant, ...; or user:desk, rule:FILE:LINE")
	c.Flags().StringVar(&f.Text, "text", "", "only records with this text in the action, the reason or a field")
	f.addTimes(c)
}

func (f *filterFlags) addTimes(c *cobra.Command) {
	c.Flags().StringVar(&f.since, "since", "", "not before: a time, a date, today, tuesday, 2h, 3d")
	c.Flags().StringVar(&f.until, "until", "", "before: the same")
}

// filter is the filter that the flags ask for.
func (f *filterFlags) filter(dir string, now time.Time) (review.Filter, error) {
	out := f.Filter
	switch {
	case out.Decision == "" || out.Decision == "allow" || out.Decision == "deny" || ask.Outcome(out.Decision).Valid():
	default:
		return out, usage("--decision %s: want allow, deny, timed_out, unavailable, withdrawn, dismissed, declined, stopped or failed", ask.Quote(out.Decision))
	}
	var err error
	if out.Since, err = moment("--since", f.since, now); err != nil {
		return out, err
	}
	if out.Until, err = moment("--until", f.until, now); err != nil {
		return out, err
	}
	if f.tree != "" {
		if out.Among, err = below(dir, f.tree); err != nil {
			return out, err
		}
	}
	return out, nil
}

// below gives a session and all that the record has below it, at any time.
func below(dir, top string) ([]string, error) {
	children := map[string][]string{} // of a session or a node
	hosts := map[string][]string{}    // session → its nodes
	f := review.Filter{Events: []string{string(review.RelayStarted), string(review.SessionStarted)}}
	err := review.Scan(dir, f, func(r review.Record) error {
		if r.Err != nil {
			return nil
		}
		hosts[r.Session] = addTo(hosts[r.Session], r.Writer)
		for _, k := range []review.Key{review.KeyTargetSession, review.KeyParent} {
			if p := r.Field(k); p != "" {
				children[p] = addTo(children[p], r.Session)
			}
		}
		return nil
	})
	if err != nil {
		return nil, noRecord(err)
	}
	list := []string{top}
	for i := 0; i < len(list); i++ {
		for _, p := range append([]string{list[i]}, hosts[list[i]]...) {
			for _, c := range children[p] {
				list = addTo(list, c)
			}
		}
	}
	return list, nil
}

func addTo(list []string, s string) []string {
	for _, x := range list {
		if x == s {
			return list
		}
	}
	return append(list, s)
}

// moment reads a time as a person writes it, in this machine's zone: zero for
// nothing.
func moment(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, ok := parseMoment(s, now); ok {
		return t, nil
	}
	return time.Time{}, usage("%s %s: want 2006-01-02T15:04:05Z, \"2006-01-02 15:04\", 2006-01-02, 15:04, now, today, yesterday, a day of the week, or how long ago as 90s, 30m, 2h, 3d",
		flag, ask.Quote(s))
}

func parseMoment(s string, now time.Time) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, true
	}
	for _, layout := range []string{"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, true
		}
	}
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	for _, layout := range []string{"15:04:05.999999999", "15:04"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location()), true
		}
	}
	switch strings.ToLower(s) {
	case "now":
		return now, true
	case "today":
		return midnight, true
	case "yesterday":
		return midnight.AddDate(0, 0, -1), true
	}
	for back := range 7 { // the last one, today included
		if day := midnight.AddDate(0, 0, -back); strings.EqualFold(s, day.Weekday().String()) || strings.EqualFold(s, day.Weekday().String()[:3]) {
			return day, true
		}
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			return now.AddDate(0, 0, -n), true
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), true
	}
	return time.Time{}, false
}

// deciderOf names who decided, and where, if the record is about an ask of
// another session.
func deciderOf(r *review.Record) string {
	if r.By == nil {
		return ""
	}
	t := story.By(r.By)
	if r.By.Kind != ask.KindForwarded && len(r.Path) > 0 && r.By.Session != "" {
		t += " at " + ask.VisibleLine(r.By.Session)
	}
	return t
}
