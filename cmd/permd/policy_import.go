package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/policy/translate"
)

// imported is a translation for programs.
type imported struct {
	Rules  []ask.Rule       `json:"rules"`
	Losses []translate.Loss `json:"losses"`
}

// ownSettings are where each client keeps a user's settings, below the home
// directory, in the order in which they are read.
var ownSettings = map[string][]string{
	"claude":   {".claude/settings.json"},
	"codex":    {".codex/config.toml", ".codex/rules/*.rules"},
	"gemini":   {".gemini/settings.json", ".gemini/policies/*.toml"},
	"opencode": {".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"},
	"pi":       {".pi/agent/extensions/pi-permission-system/config.json"},
}

func policyImport(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "import CLIENT [FILE...]",
		Short: "Translate the permissions of another client's settings into rules",
		Long: "import reads the permissions in your settings of " + strings.Join(translate.Clients(), ", ") + ",\n" +
			"or in the files given, and prints them as permd's rules. Nothing is written. The clients\n" +
			"disagree about which rule counts (the strictest, the last, the highest); that is translated,\n" +
			"not copied. The rules are never wider than the settings meant: what could not be carried, or\n" +
			"only by denying more, is told on standard error with the reason.\n\n" +
			"Exit codes: 0 translated, 1 a file is not understood and nothing was translated, 2 used\n" +
			"wrongly or a file cannot be read.",
		Example: "  permd policy import claude > imported.toml\n" +
			"  permd policy import opencode opencode.json",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			client, names := args[0], args[1:]
			patterns, ok := ownSettings[client]
			if !ok {
				return usage("the client %s is not known; it is one of %s", ask.Quote(client), strings.Join(translate.Clients(), ", "))
			}
			if len(names) == 0 {
				for _, p := range patterns {
					found, err := filepath.Glob(filepath.Join(d.Home, p))
					if err != nil {
						return &exitError{2, err}
					}
					names = append(names, found...)
				}
				if len(names) == 0 {
					return &exitError{2, fmt.Errorf("there are no settings at %s; name a file", filepath.Join(d.Home, patterns[0]))}
				}
			}
			files, err := settingsFiles(names)
			if err != nil {
				return &exitError{2, err}
			}
			r, err := translate.Translate(client, files...)
			if err != nil {
				return &exitError{1, err}
			}
			if asJSON {
				out := imported{Rules: []ask.Rule{}, Losses: append([]translate.Loss{}, r.Losses...)}
				for i := range r.Rules {
					out.Rules = append(out.Rules, r.Rules[i].Rule)
				}
				return json.NewEncoder(a.out).Encode(out)
			}
			if _, err := a.out.Write(r.TOML()); err != nil {
				return &exitError{2, err}
			}
			for _, l := range r.Losses {
				fmt.Fprintf(a.err, "%s: %s\n    %s\n", l.File, l.Entry, l.Why)
			}
			for _, f := range files {
				if rel, err := filepath.Rel(d.Home, f.Name); err != nil || !strings.HasPrefix(rel, ".") || strings.HasPrefix(rel, "..") {
					fmt.Fprintf(a.err, "%s: a project's settings\n    they are meant for that project: put what you take over into its .permd/policy.toml\n", f.Name)
				}
			}
			fmt.Fprintf(a.err, "%d rules, %d remarks; look at them with: permd policy check FILE\n", len(r.Rules), len(r.Losses))
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print rules and remarks as JSON")
	return c
}

func settingsFiles(names []string) ([]translate.Source, error) {
	var out []translate.Source
	for _, n := range names {
		abs, err := filepath.Abs(n)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(abs)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, err
		case err == nil && !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s is not a regular file", n)
		case err == nil && info.Size() > translate.MaxSource:
			return nil, fmt.Errorf("%s has %d bytes, at most %d are read", n, info.Size(), translate.MaxSource)
		}
		b, err := os.ReadFile(abs)
		if err != nil {
			return nil, err
		}
		out = append(out, translate.Source{Name: abs, Data: b})
	}
	return out, nil
}
