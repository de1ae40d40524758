package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/clients/claude"
	"permd/session"
)

func init() { commands = append(commands, doctorCommand) }

// level says what a finding asks of the person who reads it.
type level string

const (
	levelOK    level = "ok"    // as it should be
	levelNote  level = "note"  // to know: what a client leaves open, or a limit
	levelFix   level = "fix"   // to be put right
	levelBlind level = "blind" // could not be looked at
)

// finding is one thing doctor saw. Everything but ok has a remedy.
type finding struct {
	Area   string `json:"area"`
	Level  level  `json:"level"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// clientReport is what decides whether a client's calls are gated.
type clientReport struct {
	Client  string `json:"client"`
	Path    string `json:"path,omitempty"`
	Version string `json:"version,omitempty"`
	// Hooks are the files in which permd's hooks stand exactly.
	Hooks []string `json:"hooks"`
	// IfHookDies is what Claude does with a call whose hook it gave up.
	IfHookDies dies `json:"if_hook_dies"`
	// Why are the reasons for RUNS.
	Why []string `json:"why,omitempty"`
	// RepositoryCanSwitchOff: a file that comes with a project can switch the
	// hooks off.
	RepositoryCanSwitchOff bool `json:"repository_can_switch_off"`
}

type dies string

const (
	diesAsks dies = "asks"
	diesRuns dies = "RUNS"
)

type doctorReport struct {
	Version  string        `json:"version"`
	Claude   *clientReport `json:"claude,omitempty"`
	Findings []finding     `json:"findings"`
}

// code is the exit code: 1 for something to put right, else 2 for something
// that could not be looked at, else 0.
func (r *doctorReport) code() int {
	code := 0
	for _, f := range r.Findings {
		switch f.Level {
		case levelFix:
			return 1
		case levelBlind:
			code = 2
		}
	}
	return code
}

// doctor looks at one machine. The fields are places, so that tests can have
// their own.
type doctor struct {
	app     *app
	dirs    session.Dirs
	hook    string // permd-hook beside this permd, "" if it is missing
	home    string // holds .claude
	config  string // CLAUDE_CONFIG_DIR, "" without
	managed string // directory of the root-owned settings
	project string // holds the project's .claude
	proc    string // /proc
	// governed names the node whose agent this process runs below, "" for
	// none: then doctor starts no program that it found in PATH.
	governed string

	report doctorReport
}

func doctorCommand(a *app) *cobra.Command {
	var asJSON, live bool
	var client string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether the gate holds, and say what to do where it does not",
		Long: "doctor looks at permd and at each client: are the hooks installed, what happens if one\n" +
			"dies, what can switch them off, do the nodes answer, is the record whole. With --live\n" +
			"it starts the installed client against a stand-in model on this machine and proves\n" +
			"that a call which policy denies is refused, and that the model is told why.\n\n" +
			"Exit codes: 0 all good, 1 something to put right, 2 something could not be looked at.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if client != "" && client != claude.Name {
				return usage("doctor knows %s; %q is not known", claude.Name, client)
			}
			x, err := a.newDoctor()
			if err != nil {
				return err
			}
			if live {
				if err := a.person(x.dirs, "permd doctor --live"); err != nil {
					return err
				}
			}
			if client == "" {
				x.lookAtPermd(cmd.Context())
			}
			x.lookAtClaude(cmd.Context())
			if live {
				x.proveClaude(cmd.Context())
			}
			return x.print(asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&live, "live", false, "prove the gate with the installed client; takes some seconds")
	c.Flags().StringVar(&client, "client", "", "look at this client alone: claude")
	return c
}

func (a *app) newDoctor() (*doctor, error) {
	d, err := a.dirs()
	if err != nil {
		return nil, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, &exitError{2, err}
	}
	hook, err := hookBeside(true)
	if err != nil {
		hook = "" // lookAtPrograms says why
	}
	return &doctor{app: a, dirs: d, hook: hook, home: d.Home, config: os.Getenv("CLAUDE_CONFIG_DIR"), project: cwd, proc: "/proc",
		managed: filepath.Dir(filepath.Dir(managedClaude)), governed: governedBy(d),
		report: doctorReport{Version: version, Findings: []finding{}}}, nil
}

func (x *doctor) add(area string, l level, text, remedy string) {
	x.report.Findings = append(x.report.Findings, finding{area, l, flat(text), remedy})
}

func (x *doctor) ok(area, format string, v ...any) {
	x.add(area, levelOK, fmt.Sprintf(format, v...), "")
}

// print writes the report and returns its exit code as an error.
func (x *doctor) print(asJSON bool) error {
	if asJSON {
		if err := json.NewEncoder(x.app.out).Encode(x.report); err != nil {
			return err
		}
	} else {
		x.printText()
	}
	if code := x.report.code(); code != 0 {
		return &exitError{code, nil}
	}
	return nil
}

// printText shows each area under its name. What comes from files is made
// visible: a settings file may hold anything.
func (x *doctor) printText() {
	area := ""
	for _, f := range x.report.Findings {
		if f.Area != area {
			area = f.Area
			fmt.Fprintln(x.app.out, area)
		}
		fmt.Fprintf(x.app.out, "  %-6s%s\n", f.Level, ask.Visible(f.Text))
		if f.Remedy != "" {
			fmt.Fprintf(x.app.out, "        → %s\n", ask.Visible(f.Remedy))
		}
	}
	c := x.report.Claude
	if c == nil {
		return
	}
	fmt.Fprintf(x.app.out, "%s\n  if the hook dies: %s\n", c.Client, c.IfHookDies)
	for _, w := range c.Why {
		fmt.Fprintf(x.app.out, "    because %s\n", ask.Visible(w))
	}
	off := "no"
	if c.RepositoryCanSwitchOff {
		off = "yes, with disableAllHooks; not in a session that permd run started"
	}
	fmt.Fprintf(x.app.out, "  a file in the repository can switch the hooks off: %s\n", off)
}

// bounded is a context for one look that may hang.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, lookTime)
}
