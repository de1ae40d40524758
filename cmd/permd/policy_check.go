package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/policy"
	"permd/policy/paths"
	"permd/session"
)

// checked is what was found in rule files.
type checked struct {
	Files    int           `json:"files"`
	Faults   []ruleFinding `json:"faults"`
	Warnings []ruleFinding `json:"warnings"`
}

type ruleFinding struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Col  int    `json:"col"`
	Kind string `json:"kind,omitempty"`
	Text string `json:"text"`
}

func policyCheck(a *app) *cobra.Command {
	var asJSON, strict bool
	layer := string(policy.LayerUser)
	c := &cobra.Command{
		Use:   "check [FILE...]",
		Short: "Check rule files: every fault with file, line, column and remedy",
		Long: "check reads the rules in force, or the files given. A fault keeps a file from counting: an\n" +
			"unknown key, a rule that can never match or cannot be enforced, a wrong example. A warning is\n" +
			"about a rule that does something else than it looks: it is shadowed by another one, repeats\n" +
			"it, is wider than anybody means, or its exception swallows it or never matches; or about\n" +
			"rules in force that wait for you: an edit to be applied, a project's file to be trusted.\n\n" +
			"Exit codes: 0 no fault, 1 faults, or with --strict warnings, 2 a file cannot be read.",
		Example: "  permd policy check\n" +
			"  permd policy check --strict team.toml",
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			switch policy.Layer(layer) {
			case policy.LayerManaged, policy.LayerUser, policy.LayerProject:
			default:
				return usage("layer %s is not known; it is managed, user or project", ask.Quote(layer))
			}
			var files []ruleFile
			for _, f := range args {
				files = append(files, ruleFile{f, policy.Layer(layer)})
			}
			if len(args) == 0 {
				if files, err = ruleFiles(d); err != nil {
					return &exitError{2, err}
				}
			}
			texts, err := readTexts(files)
			if err != nil {
				return err
			}
			faults, warnings := policy.Lint(texts...)
			if len(args) == 0 {
				warnings = append(warnings, a.waiting(d)...)
			}
			if asJSON {
				out := checked{Files: len(files), Faults: []ruleFinding{}, Warnings: []ruleFinding{}}
				for _, p := range faults {
					out.Faults = append(out.Faults, ruleFinding{p.File, p.Line, p.Col, "", p.Text})
				}
				for _, w := range warnings {
					out.Warnings = append(out.Warnings, ruleFinding{w.File, w.Line, w.Col, string(w.Kind), w.Text})
				}
				if err := json.NewEncoder(a.out).Encode(out); err != nil {
					return err
				}
			} else {
				for _, w := range warnings {
					fmt.Fprintf(a.out, "%s\n", ask.VisibleLine(strings.Replace(w.Error(), ": ", ": warning: ", 1)))
				}
			}
			switch {
			case len(faults) > 0 && asJSON:
				return &exitError{1, nil}
			case len(faults) > 0:
				return &exitError{1, faults}
			case !asJSON:
				fmt.Fprintf(a.out, "%d files, no fault, %d warnings\n", len(files), len(warnings))
			}
			if strict && len(warnings) > 0 {
				return &exitError{1, errors.New("there are warnings, and --strict was given")}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&strict, "strict", false, "take warnings for faults")
	c.Flags().StringVar(&layer, "layer", layer, "whose rules the files given are: managed, user or project")
	return c
}

// waiting is what of the rules in force does not hold until a person says so.
func (a *app) waiting(d session.Dirs) (out []policy.Warning) {
	where := a.places(d)
	where.ReadOnly = true
	s := policy.OpenStore(where)
	cwd, err := os.Getwd()
	if err != nil {
		return nil
	}
	project, _ := policy.ProjectDir(cwd, d.Home, paths.Disk{})
	rules := s.Policy(project)
	if s.Pending() != nil {
		out = append(out, policy.Warning{Kind: "waiting", Problem: policy.Problem{File: userRules(d), Line: 1, Col: 1,
			Text: "an edit that loosens waits, and the old rules hold until then; look at it with: permd policy apply"}})
	}
	if u := rules.Untrusted(); u != nil {
		text := fmt.Sprintf("%d rules that allow count for nothing until you trust this file; look at it with: permd trust", u.Rules)
		if u.Changed {
			text = "it has changed since you trusted it: " + text
		}
		out = append(out, policy.Warning{Kind: "untrusted", Problem: policy.Problem{File: u.File, Line: 1, Col: 1, Text: text}})
	}
	return out
}
