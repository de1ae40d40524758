package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/policy"
	"permd/policy/shell"
	"permd/review"
	"permd/review/story"
)

func reviewStats(a *app) *cobra.Command {
	var f filterFlags
	var asJSON bool
	var top int
	c := &cobra.Command{
		Use:   "stats",
		Short: "Count what asks most, what is denied, and what a rule would have saved",
		Long: "stats counts asks, each once, by how they ended and who decided, and the kinds of calls\n" +
			"that people were asked about most and that were denied. For a kind of call that was\n" +
			"always allowed, and that a narrow rule can name, it shows the rule; whether to write\n" +
			"it is yours: permd policy edit.\n\n" +
			"Exit codes: 0 counted, 1 there was no ask, 2 used wrongly or not readable.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			if top < 1 {
				return usage("--top %d: want at least 1", top)
			}
			filter, err := f.filter(d.Review(), time.Now())
			if err != nil {
				return err
			}
			if _, err := os.Stat(d.Review()); err != nil {
				return noRecord(err)
			}
			s := story.Stats{Kind: kindOf}
			err = review.Scan(d.Review(), filter, func(r review.Record) error {
				s.Add(&r)
				return nil
			})
			if err != nil {
				return noRecord(err)
			}
			if asJSON {
				err = json.NewEncoder(a.out).Encode(jsonStats(&s, top))
			} else {
				a.printStats(&s, top)
			}
			if err == nil && s.Asks == 0 {
				return &exitError{1, nil}
			}
			return err
		},
	}
	c.Flags().StringVar(&f.Session, "session", "", "only asks of this session, or that passed it")
	c.Flags().StringVar(&f.tree, "tree", "", "only of this session and all that ever relayed to it or to one below it")
	c.Flags().StringVar(&f.Tool, "tool", "", "only calls of this tool")
	f.addTimes(c)
	c.Flags().IntVar(&top, "top", 10, "how many kinds of calls to show")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// plainWords are commands whose text is a pattern for itself alone.
var plainWords = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+( [A-Za-z0-9_./:=@%+,-]+)*$`)

// kindOf names the calls that are like a: for a command its program and
// subcommand where policy knows them, for files their directory.
func kindOf(a *review.Action) string {
	if r, ok := ruleFor(a); ok {
		switch {
		case r.Command != "":
			return r.Command
		case r.Domain != "":
			return a.ClientTool + " " + r.Domain
		}
		return "mcp " + r.Server + " " + r.Name
	}
	switch {
	case a.Command != "":
		return a.Command
	case len(a.Paths) > 0:
		return string(a.Tool) + " " + path.Dir(a.Paths[0].Given) + "/"
	}
	return flat(string(a.Tool) + " " + a.ClientTool + " " + a.Agent + a.Name)
}

// ruleFor is a narrow rule that allows calls like a, where there is one: for a
// program and its subcommand with any further words, for a plain command
// itself, for a tool of a server, for a host.
func ruleFor(a *review.Action) (ask.Rule, bool) {
	r := ask.Rule{Action: ask.Allow}
	switch {
	case a.Tool == ask.ToolBash:
		s := shell.Read(a.Command, shell.Env{Cwd: a.Cwd})
		if len(s.Units) != 1 {
			return r, false
		}
		argv, ok := s.Units[0].Argv()
		if !ok || strings.Join(argv, " ") != a.Command || !plainWords.MatchString(a.Command) {
			return r, false
		}
		if r.Command, ok = policy.Subcommand(argv); !ok {
			r.Command = a.Command
		}
		return r, true
	case a.Tool == ask.ToolMCP && a.Server != "" && a.Name != "" && !strings.ContainsAny(a.Server+a.Name, "*["):
		r.Tool, r.Server, r.Name, r.Source = "mcp", a.Server, a.Name, a.Source
		return r, true
	case a.Tool == ask.ToolWebFetch:
		if u, err := url.Parse(a.URL); err == nil && u.Hostname() != "" && !strings.Contains(u.Hostname(), "*") {
			r.Tool, r.Domain = string(ask.ToolWebFetch), u.Hostname()
			return r, true
		}
	}
	return r, false
}

// savedRule is the rule that would have saved questions, as text; "" if there
// is none that policy takes without a warning, or it would save one question.
func savedRule(c *story.Count) string {
	if story.Saved(c) < 2 {
		return ""
	}
	r, ok := ruleFor(c.Example)
	if !ok {
		return ""
	}
	text := policy.Format(nil, []ask.Rule{r})
	faults, warnings := policy.Lint(policy.Text{Name: "suggestion", Data: text})
	if len(faults) > 0 || len(warnings) > 0 {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// saving are the kinds of calls that a rule would have saved questions for.
func saving(s *story.Stats, top int) (out []*story.Count) {
	for _, c := range s.Kinds(story.Saved) {
		if len(out) < top && savedRule(c) != "" {
			out = append(out, c)
		}
	}
	return out
}

var howWords = []struct {
	how  story.How
	text string
}{
	{story.ByRecord, "allowed without a question"}, {story.Ruled, "denied without a question"},
	{story.ByPerson, "allowed by a person"}, {story.NoByPerson, "denied by a person"},
	{story.Unanswered, "not answered"}, {story.TakenBack, "taken back by the client"}, {story.Watched, "only observed"},
}

func (a *app) printStats(s *story.Stats, top int) {
	fmt.Fprintf(a.out, "%d asks of %d sessions\n", s.Asks, s.Sessions)
	for _, h := range howWords {
		if n := s.How[h.how]; n > 0 {
			fmt.Fprintf(a.out, "%7d %s\n", n, h.text)
		}
	}
	if s.Asks == 0 {
		return
	}
	var by []string
	for _, k := range slices.SortedFunc(maps.Keys(s.By), func(x, y ask.Kind) int { return s.By[y]*1000 - s.By[x]*1000 + strings.Compare(string(x), string(y)) }) {
		by = append(by, fmt.Sprintf("%s %d", ask.VisibleLine(string(k)), s.By[k]))
	}
	fmt.Fprintln(a.out, "decided by", strings.Join(by, ", "))
	if s.OtherKinds > 0 {
		fmt.Fprintf(a.out, "%d calls are counted above and not below: they say not what they are, or there were too many kinds\n", s.OtherKinds)
	}
	if list := first(s.Kinds((*story.Count).Questions), top); len(list) > 0 {
		fmt.Fprintf(a.out, "\nWhat asks most\n%9s %8s %7s %11s  %s\n", "questions", "allowed", "denied", "unanswered", "call")
		for _, c := range list {
			fmt.Fprintf(a.out, "%9d %8d %7d %11d  %s\n", c.Questions(), c.How[story.ByPerson], c.How[story.NoByPerson], c.How[story.Unanswered], ask.ExcerptLine(c.Kind, 120))
		}
	}
	if list := first(s.Kinds((*story.Count).Denied), top); len(list) > 0 {
		fmt.Fprintf(a.out, "\nWhat is denied\n%9s  %s\n", "denied", "call, by")
		for _, c := range list {
			fmt.Fprintf(a.out, "%9d  %s, %s\n", c.Denied(), ask.ExcerptLine(c.Kind, 120), deniers(c))
		}
	}
	if list := saving(s, top); len(list) > 0 {
		fmt.Fprint(a.out, "\nWhat a rule would have saved\n")
		for _, c := range list {
			fmt.Fprintf(a.out, "%9d questions, all answered with yes:\n", story.Saved(c))
			for line := range strings.Lines(savedRule(c)) {
				fmt.Fprintln(a.out, "            "+ask.VisibleLine(strings.TrimRight(line, "\n")))
			}
		}
	}
}

func deniers(c *story.Count) string {
	var out []string
	for _, who := range slices.Sorted(maps.Keys(c.Deniers)) {
		out = append(out, fmt.Sprintf("%s (%d)", who, c.Deniers[who]))
	}
	return strings.Join(out, ", ")
}

func first(list []*story.Count, n int) []*story.Count { return list[:min(n, len(list))] }

// The JSON of the counts.
type (
	statsJSON struct {
		Asks     int               `json:"asks"`
		Sessions int               `json:"sessions"`
		How      map[story.How]int `json:"how"`
		By       map[ask.Kind]int  `json:"by"`
		Other    int               `json:"other_kinds"`
		Asked    []countJSON       `json:"asks_most"`
		Denied   []countJSON       `json:"denied"`
		Saved    []savedJSON       `json:"rule_would_have_saved"`
	}
	countJSON struct {
		Call       string         `json:"call"`
		Questions  int            `json:"questions"`
		Allowed    int            `json:"allowed"`
		Denied     int            `json:"denied"`
		Unanswered int            `json:"unanswered"`
		Deniers    map[string]int `json:"denied_by,omitempty"`
	}
	savedJSON struct {
		Call      string `json:"call"`
		Questions int    `json:"questions"`
		Rule      string `json:"rule"`
	}
)

func jsonStats(s *story.Stats, top int) statsJSON {
	out := statsJSON{Asks: s.Asks, Sessions: s.Sessions, How: s.How, By: s.By, Other: s.OtherKinds,
		Asked: []countJSON{}, Denied: []countJSON{}, Saved: []savedJSON{}}
	count := func(c *story.Count) countJSON {
		return countJSON{c.Kind, c.Questions(), c.How[story.ByPerson], c.Denied(), c.How[story.Unanswered], c.Deniers}
	}
	for _, c := range first(s.Kinds((*story.Count).Questions), top) {
		out.Asked = append(out.Asked, count(c))
	}
	for _, c := range first(s.Kinds((*story.Count).Denied), top) {
		out.Denied = append(out.Denied, count(c))
	}
	for _, c := range saving(s, top) {
		out.Saved = append(out.Saved, savedJSON{c.Kind, story.Saved(c), savedRule(c)})
	}
	return out
}
