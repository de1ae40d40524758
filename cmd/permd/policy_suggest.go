package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/policy"
	"permd/policy/suggest"
)

func policySuggest(a *app) *cobra.Command {
	var asJSON bool
	least, days := 3, 30
	c := &cobra.Command{
		Use:   "suggest",
		Short: "Suggest narrow rules for what you allow again and again, and name rules that never speak",
		Long: "suggest reads the record of what you allowed, judges it again by the rules in force, and\n" +
			"prints rules that would have spared you the questions, each with how often, and your allow\n" +
			"and ask rules that spoke of nothing. The rules are narrow: the command or its subcommand, the\n" +
			"file, the tool of the server, the host. Never what you denied even once. Nothing is changed:\n" +
			"take over what you like with \"permd policy edit\".\n\n" +
			"Exit codes: 0 printed, 1 there is no record yet, 2 used wrongly or it cannot be read.",
		Example: "  permd policy suggest\n" +
			"  permd policy suggest --days 7 --least 5",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if least < 1 || days < 1 {
				return usage("--least and --days are at least 1")
			}
			d, err := a.dirs()
			if err != nil {
				return err
			}
			if _, err := os.Stat(d.Review()); errors.Is(err, fs.ErrNotExist) {
				return &exitError{1, errors.New("there is no record yet")}
			}
			rules, err := a.looking(d)
			if err != nil {
				return err
			}
			since := time.Now().Add(-time.Duration(days) * 24 * time.Hour)
			calls, err := suggest.Record(d.Review(), d.Home, since)
			if err != nil {
				return &exitError{2, err}
			}
			study := suggest.From(calls, rules(""), least)
			if asJSON {
				return json.NewEncoder(a.out).Encode(study)
			}
			_, err = fmt.Fprint(a.out, studyText(study, days, least))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().IntVar(&least, "least", least, "how often you must have allowed it")
	c.Flags().IntVar(&days, "days", days, "how far back to look, in days")
	return c
}

// studyText is a rule file with remarks.
func studyText(s suggest.Study, days, least int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %d calls within %d days, %d of them you were asked about.\n", s.Calls, days, s.Asked)
	if len(s.Suggestions) == 0 {
		fmt.Fprintf(&b, "# Nothing narrow was allowed %d times.\n", least)
	}
	for _, x := range s.Suggestions {
		fmt.Fprintf(&b, "\n# allowed %d times in %d sessions, last on %s\n", x.Times, x.Sessions, x.Last[:min(len(x.Last), len("2006-01-02"))])
		b.Write(policy.Format(nil, []ask.Rule{x.Rule}))
	}
	if len(s.Idle) > 0 {
		b.WriteString("\n# These rules of yours spoke of none of the calls; drop them if they are of no use:\n")
	}
	for _, x := range s.Idle {
		fmt.Fprintf(&b, "#   %s:%d: %s\n", ask.VisibleLine(x.Ref.File), x.Ref.Line, ask.VisibleLine(policy.Line(&x.Rule)))
	}
	return b.String()
}
