package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/review"
	"permd/review/story"
)

func reviewShow(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show ASK",
		Short: "Tell the whole story of one ask, over all sessions that it passed",
		Long: "show prints who asked for what, over which sessions it went, who could answer, who\n" +
			"answered, also late, who decided, and what came of it, as a timeline. ASK is the ask's\n" +
			"id or the end of it, or the client's own id of the call. Times are apart by the clock of the machine's boot, which setting\n" +
			"the wall clock does not move.\n\n" +
			"Exit codes: 0 told, 1 no such ask, 2 used wrongly or not readable.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			x, err := tellAsk(d.Review(), args[0])
			if err != nil {
				return noRecord(err)
			}
			if asJSON {
				return json.NewEncoder(a.out).Encode(jsonStory(x))
			}
			a.printStory(x)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// tellAsk finds the one ask whose id ends with end, and its story.
func tellAsk(dir, end string) (*story.Ask, error) {
	if end == "" {
		return nil, usage("show needs the id of an ask, or its end")
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	if id, err := askOfCall(dir, end); err != nil {
		return nil, err
	} else if id != "" {
		end = id
	}
	var b story.Builder
	var ids []string
	writers := map[string]bool{}
	err := review.Scan(dir, review.Filter{AskEnd: end}, func(r review.Record) error {
		if r.Err != nil || r.Ask == "" {
			return nil
		}
		if ids = addTo(ids, r.Ask); len(ids) > 10 {
			return usage("many asks end with %s; give more of the id", ask.Quote(end))
		}
		writers[r.Writer] = true
		b.Add(r)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(ids) == 0:
		return nil, &exitError{1, fmt.Errorf("no ask on the record ends with %s; find one with: permd review query", ask.Quote(end))}
	}
	for _, id := range ids {
		if id == end {
			ids = []string{id}
		}
	}
	if len(ids) > 1 {
		return nil, usage("several asks end with %s: %s", ask.Quote(end), ask.VisibleLine(strings.Join(ids, " ")))
	}
	// Who could answer is told by the surfaces that had come to these nodes.
	for _, w := range sortedKeys(writers) {
		err := review.Scan(dir, review.Filter{Writer: w, Event: "surface."}, func(r review.Record) error {
			b.Add(r)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return b.Ask(ids[0]), nil
}

// askOfCall gives the ask about a call that the client has named so, "" if
// there is none. A client that names two calls alike is told of the last.
func askOfCall(dir, call string) (id string, err error) {
	err = review.Scan(dir, review.Filter{Text: call}, func(r review.Record) error {
		if r.Err == nil && r.Ask != "" && r.Action != nil && r.Action.Call == call {
			id = r.Ask
		}
		return nil
	})
	return id, err
}

func sortedKeys(m map[string]bool) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return sorted(out)
}

func (a *app) printStory(x *story.Ask) {
	p := func(k, format string, v ...any) { fmt.Fprintf(a.out, "%-9s %s\n", k, fmt.Sprintf(format, v...)) }
	p("ask", "%s", ask.VisibleLine(x.ID))
	if x.Action != nil {
		p("call", "%s", story.What(x.Action))
		if x.Action.Cwd != "" {
			p("in", "%s", ask.VisibleLine(x.Action.Cwd))
		}
	}
	if x.Session != "" {
		p("asked by", "%s", ask.VisibleLine(x.Session)+atNode(x.Node))
	}
	if len(x.Path) > 1 {
		p("path", "%s", ask.VisibleLine(strings.Join(x.Path, " → ")))
	}
	switch d := x.Decision; {
	case d == nil:
		p("decided", "by nobody, as far as the record says")
	default:
		how := d.Verdict.String()
		if d.Verdict != ask.Allow && d.Outcome != ask.Answered {
			how = ask.VisibleLine(string(d.Outcome))
		}
		t := how + " by " + story.By(&d.By)
		if d.By.Kind != ask.KindForwarded && d.By.Session != "" && d.By.Session != x.Session {
			t += " at " + ask.VisibleLine(d.By.Session)
		}
		if !d.Confirmed {
			t += "; the asker's own record does not have it"
		}
		if d.Reason != "" {
			t += ": " + ask.VisibleLine(d.Reason)
		}
		p("decided", "%s", t)
	}
	if x.Before != nil {
		p("too late", "%s by %s", x.Before.Verdict, story.By(&x.Before.By))
	}
	p("release", "%s", orDash(strings.ReplaceAll(string(x.Release), "_", " ")))
	p("effect", "%s", orDash(ask.VisibleLine(strings.ReplaceAll(x.Effect, "_", " "))))
	fmt.Fprintln(a.out)
	wide := 0
	for _, s := range x.Steps {
		wide = max(wide, len([]rune(s.Who)))
	}
	for _, s := range x.Steps {
		t := s.Text
		if len(s.Surfaces) > 0 {
			t += " (" + strings.Join(s.Surfaces, ", ") + ")"
		}
		fmt.Fprintf(a.out, "%s  %+7d ms  %-*s  %s\n", clock(s.At), s.After.Milliseconds(), wide, s.Who, t)
	}
}

func atNode(n string) string {
	if n == "" {
		return ""
	}
	return " (node " + ask.VisibleLine(n) + ")"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// The JSON of a story.
type (
	storyJSON struct {
		Ask      string         `json:"ask"`
		Session  string         `json:"session,omitempty"`
		Node     string         `json:"node,omitempty"`
		Path     []string       `json:"path"`
		Action   *review.Action `json:"action,omitempty"`
		Decision *decisionJSON  `json:"decision"`
		Before   *decisionJSON  `json:"overtaken,omitempty"`
		Release  story.Release  `json:"release"`
		Effect   string         `json:"effect"`
		Steps    []stepJSON     `json:"steps"`
	}
	decisionJSON struct {
		Verdict   ask.Verdict `json:"verdict"`
		Outcome   ask.Outcome `json:"outcome"`
		By        ask.By      `json:"by"`
		Reason    string      `json:"reason,omitempty"`
		Time      time.Time   `json:"time"`
		Confirmed bool        `json:"confirmed"`
	}
	stepJSON struct {
		Time     time.Time   `json:"time"`
		AfterMS  int64       `json:"after_ms"`
		Writer   string      `json:"writer"`
		Seq      uint64      `json:"seq"`
		Event    review.Name `json:"event"`
		Who      string      `json:"who"`
		Text     string      `json:"text"`
		By       *ask.By     `json:"by,omitempty"`
		Surfaces []string    `json:"surfaces,omitempty"`
	}
)

func jsonStory(x *story.Ask) storyJSON {
	out := storyJSON{Ask: x.ID, Session: x.Session, Node: x.Node, Path: x.Path, Action: x.Action, Decision: jsonDecision(x.Decision),
		Before: jsonDecision(x.Before), Release: x.Release, Effect: x.Effect, Steps: []stepJSON{}}
	if out.Path == nil {
		out.Path = []string{}
	}
	for _, s := range x.Steps {
		out.Steps = append(out.Steps, stepJSON{s.At, s.After.Milliseconds(), s.Writer, s.Seq, s.Event, s.Who, s.Text, s.By, s.Surfaces})
	}
	return out
}

func jsonDecision(d *story.Decision) *decisionJSON {
	if d == nil {
		return nil
	}
	return &decisionJSON{d.Verdict, d.Outcome, d.By, d.Reason, d.At, d.Confirmed}
}
