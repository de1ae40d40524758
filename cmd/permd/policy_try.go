package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/policy"
	"permd/policy/trial"
)

// tried is what came of testing rules.
type tried struct {
	Files    int       `json:"files"`
	Examples int       `json:"examples"`
	Cases    int       `json:"cases"`
	Wrong    []wrongly `json:"wrong"`
}

// wrongly is a case that did not get what it wants, or cannot be read.
type wrongly struct {
	File    string        `json:"file"`
	Line    int           `json:"line"`
	ID      string        `json:"id,omitempty"`
	Want    []ask.Verdict `json:"want,omitempty"`
	Verdict ask.Verdict   `json:"verdict"`
	Text    string        `json:"text"`
}

func policyTry(a *app) *cobra.Command {
	var j judging
	var asJSON bool
	c := &cobra.Command{
		Use:   "test [CASES...]",
		Short: "Try rules on the examples in them and on files of cases",
		Long: "test judges the match and not_match examples of the rule files in force, or of those given\n" +
			"with --policy, and then every line of the files of cases: the actions that \"permd policy\n" +
			"explain\" reads, each with \"want\", the verdict that is right, or a list of them. \"-\" is\n" +
			"standard input. Nothing is run and nobody is asked.\n\n" +
			"Exit codes: 0 all right, 1 something is not, 2 used wrongly or a file cannot be read.",
		Example: "  permd policy test\n" +
			"  permd policy test --policy team.toml team-cases.jsonl\n" +
			"  echo '{\"want\":\"deny\",\"tool\":\"read\",\"path\":\"~/.ssh/id_ed25519\"}' | permd policy test -",
		RunE: func(_ *cobra.Command, args []string) error {
			out := tried{Wrong: []wrongly{}}
			d, err := a.dirs()
			if err != nil {
				return err
			}
			files := asUser(j.files)
			if len(files) == 0 {
				if files, err = ruleFiles(d); err != nil {
					return &exitError{2, err}
				}
			}
			texts, err := readTexts(files)
			if err != nil {
				return err
			}
			faults, n := policy.Examine(texts...)
			if faults != nil {
				return &exitError{1, faults}
			}
			out.Files, out.Examples = len(files), n
			k, at, err := a.court(&j)
			if err != nil {
				return err
			}
			for _, name := range args {
				if err := a.tryFile(k, at, name, &out); err != nil {
					return err
				}
			}
			if asJSON {
				err = json.NewEncoder(a.out).Encode(out)
			} else {
				for _, w := range out.Wrong {
					fmt.Fprintf(a.out, "%s:%d: %s\n", w.File, w.Line, w.Text)
				}
				_, err = fmt.Fprintf(a.out, "%d rule files, %d examples and %d cases, %d wrong\n", out.Files, out.Examples, out.Cases, len(out.Wrong))
			}
			if err == nil && len(out.Wrong) > 0 {
				return &exitError{1, nil}
			}
			return err
		},
	}
	j.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// tryFile judges the lines of one file of cases.
func (a *app) tryFile(k *trial.Court, at trial.Place, name string, out *tried) error {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return &exitError{2, err}
		}
		defer f.Close()
		in = f
	}
	wrong := func(w wrongly) { out.Wrong = append(out.Wrong, w) }
	err := trial.Lines(in, func(n int, line []byte, err error) error {
		out.Cases++
		var c *trial.Case
		if err == nil {
			c, err = trial.Parse(line, at)
		}
		if err == nil && c.Want == nil {
			err = fmt.Errorf(`the case has no "want"; write "want":"deny", "ask" or "allow"`)
		}
		if err != nil {
			wrong(wrongly{File: name, Line: n, Text: ask.VisibleLine(err.Error())})
			return nil
		}
		r := k.Judge(c)
		if c.Right(r.Verdict) {
			return nil
		}
		var want []string
		for _, v := range c.Want {
			want = append(want, v.String())
		}
		text := fmt.Sprintf("%s, want %s", r.Verdict, strings.Join(want, " or "))
		if r.Reason != "" {
			text += ": " + r.Reason
		}
		if c.ID != "" {
			text = c.ID + ": " + text
		}
		wrong(wrongly{File: name, Line: n, ID: c.ID, Want: c.Want, Verdict: r.Verdict, Text: ask.VisibleLine(text)})
		return nil
	})
	if err != nil {
		return &exitError{2, err}
	}
	return nil
}

// asUser are files taken for a user's rules.
func asUser(names []string) []ruleFile {
	var out []ruleFile
	for _, n := range names {
		out = append(out, ruleFile{n, policy.LayerUser})
	}
	return out
}

// readTexts reads rule files as they are written.
func readTexts(files []ruleFile) ([]policy.Text, error) {
	var out []policy.Text
	for _, f := range files {
		b, err := os.ReadFile(f.name)
		if err != nil {
			return nil, &exitError{2, err}
		}
		out = append(out, policy.Text{Name: f.name, Data: b, Layer: f.layer})
	}
	return out, nil
}
