package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"permd/api"
	"permd/ask"
	"permd/internal/host"
	"permd/policy"
	"permd/policy/paths"
	"permd/review"
	"permd/session"
)

func init() { commands = append(commands, policyCommand) }

func policyCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Explain, check and apply rules; list and revoke grants",
	}
	c.AddCommand(policyExplain(a), policyCheck(a), policyApply(a), policyGrants(a))
	return c
}

func (a *app) store(d session.Dirs) *policy.Store {
	return policy.OpenStore(policy.Places{Managed: d.Managed, Config: d.Config, State: d.State, Home: d.Home})
}

// looking returns the rules in force for a command that only looks. Before
// any rules were applied it reads the files itself: the first load by a node
// is what applies them, and looking must not.
func (a *app) looking(d session.Dirs) (func(project string) *policy.Policy, error) {
	if _, err := os.Stat(filepath.Join(d.State, "policy-applied")); err == nil {
		return a.store(d).Policy, nil
	}
	list, err := ruleFiles(d)
	if err != nil {
		return nil, err
	}
	var files []*policy.File
	for _, f := range list {
		b, err := os.ReadFile(f.name)
		if err != nil {
			return nil, &exitError{2, err}
		}
		file, err := policy.Decode(f.name, b, f.layer)
		if err != nil {
			return nil, &exitError{1, err}
		}
		files = append(files, file)
	}
	p := policy.Compile(files...)
	return func(string) *policy.Policy { return p }, nil
}

// explained is one judged action.
type explained struct {
	Verdict ask.Verdict       `json:"verdict"`
	Reason  string            `json:"reason,omitempty"`
	Reasons []explainedReason `json:"reasons"`
	Units   []string          `json:"units"`
	Paths   []ask.Path        `json:"paths"`
}

type explainedReason struct {
	Verdict ask.Verdict  `json:"verdict"`
	Kind    ask.Kind     `json:"kind"`
	Rule    *ask.RuleRef `json:"rule,omitempty"`
	Unit    string       `json:"unit,omitempty"`
	Path    string       `json:"path,omitempty"`
	Text    string       `json:"text,omitempty"`
}

// explainInput is one action on standard input.
type explainInput struct {
	Tool    ask.Tool        `json:"tool"`
	Command string          `json:"command"`
	Path    string          `json:"path"`
	Server  string          `json:"server"`
	Name    string          `json:"name"`
	Source  string          `json:"source"`
	URL     string          `json:"url"`
	Args    json.RawMessage `json:"args"`
	Cwd     string          `json:"cwd"`
	Project string          `json:"project"`
	Home    string          `json:"home"`
}

func policyExplain(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain [COMMAND LINE]",
		Short: "Say what the rules make of a command, or of actions on standard input",
		Long: "explain judges one command line, or actions read as JSON lines from standard input, and\n" +
			"prints the verdict with every rule that spoke. Nothing is run and nobody is asked.",
		Example: "  permd policy explain 'git push origin main'\n" +
			"  echo '{\"tool\":\"read\",\"path\":\".env\"}' | permd policy explain --json",
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			cwd, err := os.Getwd()
			if err != nil {
				return err
			}
			rules, err := a.looking(d)
			if err != nil {
				return err
			}
			judge := func(in explainInput) error {
				if in.Cwd == "" {
					in.Cwd = cwd
				}
				if in.Project == "" {
					in.Project = in.Cwd
				}
				if in.Home == "" {
					in.Home = d.Home
				}
				x, err := explain(rules, d, in)
				if err != nil {
					return &exitError{2, err}
				}
				return a.printExplained(x, asJSON)
			}
			if len(args) > 0 {
				return judge(explainInput{Tool: ask.ToolBash, Command: strings.Join(args, " ")})
			}
			return eachLine(a.in, judge)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object an action")
	return c
}

func eachLine(in io.Reader, judge func(explainInput) error) error {
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, ask.MaxBody)
	n := 0
	for sc.Scan() {
		n++
		if strings.TrimSpace(sc.Text()) == "" {
			continue
		}
		var x explainInput
		if err := json.Unmarshal(sc.Bytes(), &x); err != nil {
			return usage("standard input line %d: %v", n, err)
		}
		if err := judge(x); err != nil {
			return err
		}
	}
	return sc.Err()
}

func explain(rules func(project string) *policy.Policy, d session.Dirs, in explainInput) (explained, error) {
	act := ask.Action{Client: "explain", Tool: in.Tool, ClientTool: string(in.Tool), Cwd: in.Cwd, Project: in.Project, Home: in.Home,
		Command: in.Command, URL: in.URL, Input: json.RawMessage("{}")}
	switch in.Tool {
	case ask.ToolRead:
		act.Paths = []ask.Path{{Given: in.Path, Access: ask.AccessRead}}
	case ask.ToolWrite, ask.ToolEdit:
		act.Paths = []ask.Path{{Given: in.Path, Access: ask.AccessWrite}}
	case ask.ToolMCP:
		act.MCP = &ask.MCP{Server: in.Server, Name: in.Name, Source: in.Source}
	case ask.ToolBash, ask.ToolWebFetch, ask.ToolWebSearch, ask.ToolTask:
	default:
		return explained{}, fmt.Errorf("tool %s is not known; use bash, read, write, edit, mcp, webfetch, websearch or task", ask.Quote(string(in.Tool)))
	}
	policy.Complete(&act, paths.Disk{})
	project, _ := policy.ProjectDir(in.Project, in.Home, paths.Disk{})
	boot, err := host.BootID()
	if err != nil {
		return explained{}, err
	}
	up, err := host.Uptime()
	if err != nil {
		return explained{}, err
	}
	self := policy.NewSelf(policy.Self{Config: d.Config, State: d.State, Run: d.Run, Managed: d.Managed}, paths.Disk{})
	r := policy.Decide(policy.Input{Action: &act, Origin: "explain", Here: "explain", Node: policy.Origin, Policy: rules(project),
		Now: policy.Clock{Boot: boot, Up: up}, View: paths.Disk{}, Self: self})
	x := explained{Verdict: r.Verdict, Reason: r.Reason, Units: r.Units, Paths: r.Paths, Reasons: []explainedReason{}}
	for _, y := range r.Reasons {
		x.Reasons = append(x.Reasons, explainedReason{y.Verdict, y.Kind, y.Rule, y.Unit, y.Path, y.Text})
	}
	return x, nil
}

func (a *app) printExplained(x explained, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(a.out).Encode(x)
	}
	fmt.Fprintln(a.out, x.Verdict)
	for _, r := range x.Reasons {
		w := []string{"  " + r.Verdict.String()}
		if r.Rule != nil {
			w = append(w, fmt.Sprintf("%s rule %s:%d", r.Rule.Layer, r.Rule.File, r.Rule.Line))
		} else {
			w = append(w, string(r.Kind))
		}
		if r.Unit != "" {
			w = append(w, ask.Quote(r.Unit))
		}
		if r.Path != "" {
			w = append(w, ask.Quote(r.Path))
		}
		if r.Text != "" {
			w = append(w, ask.VisibleLine(r.Text))
		}
		fmt.Fprintln(a.out, strings.Join(w, "  "))
	}
	return nil
}

func policyCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE...]",
		Short: "Check rule files: every fault with file, line, column and remedy",
		Long: "check reads the rules in force, or the files given as a user's rules.\n\n" +
			"Exit codes: 0 no fault, 1 faults, 2 a file cannot be read.",
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			files := make([]ruleFile, 0, len(args))
			for _, f := range args {
				files = append(files, ruleFile{f, policy.LayerUser})
			}
			if len(args) == 0 {
				if files, err = ruleFiles(d); err != nil {
					return err
				}
			}
			var faults error
			for _, f := range files {
				b, err := os.ReadFile(f.name)
				if err != nil {
					return &exitError{2, err}
				}
				if _, err := policy.Decode(f.name, b, f.layer); err != nil {
					faults = errors.Join(faults, err)
				}
			}
			if faults != nil {
				return &exitError{1, faults}
			}
			fmt.Fprintf(a.out, "%d files, no fault\n", len(files))
			return nil
		},
	}
}

type ruleFile struct {
	name  string
	layer policy.Layer
}

// ruleFiles are the rule files in force here. Looking at them makes nothing.
func ruleFiles(d session.Dirs) ([]ruleFile, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	project, _ := policy.ProjectDir(cwd, d.Home, paths.Disk{})
	var out []ruleFile
	for _, g := range []struct {
		glob  string
		layer policy.Layer
	}{
		{filepath.Join(d.Managed, "*.toml"), policy.LayerManaged},
		{filepath.Join(d.Config, "policy.toml"), policy.LayerUser},
		{filepath.Join(d.Config, "policy.d", "*.toml"), policy.LayerUser},
		{filepath.Join(project, ".permd", "policy.toml"), policy.LayerProject},
	} {
		if g.layer == policy.LayerProject && project == "" {
			continue
		}
		names, err := filepath.Glob(g.glob)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			out = append(out, ruleFile{n, g.layer})
		}
	}
	return out, nil
}

func policyApply(a *app) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "apply",
		Short: "Let an edit of your rules that loosens come into force",
		Long: "An edit that tightens holds at once. One that loosens waits until you have seen the\n" +
			"difference here, at a terminal of your own. It is recorded.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			if err := a.person(d, "permd policy apply"); err != nil {
				return err
			}
			s := a.store(d)
			p := s.Pending()
			if p == nil {
				if err := s.Problem(); err != nil {
					return &exitError{1, err}
				}
				fmt.Fprintln(a.out, "no edit waits to be applied")
				return nil
			}
			fmt.Fprint(a.out, ask.Visible(p.Text))
			if !yes {
				ok, err := a.confirm("Let this come into force?")
				if err != nil || !ok {
					return &exitError{1, errors.Join(errors.New("nothing was applied"), err)}
				}
			}
			by := "uid " + fmt.Sprint(os.Getuid())
			if u, err := user.Current(); err == nil {
				by = u.Username
			}
			// The record first: rules that loosen without one are what an
			// agent would write.
			if err := a.note(d, review.Event{Name: review.PolicyApplied, By: &ask.By{Kind: ask.KindUser, Surface: "terminal"},
				Fields: []review.Field{{Key: review.KeyDifference, Value: p.Text}}}); err != nil {
				return &exitError{1, err}
			}
			if err := s.Apply(by, p.ID); err != nil {
				return &exitError{1, err}
			}
			fmt.Fprintln(a.out, "applied")
			return nil
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask before applying")
	return c
}

func policyGrants(a *app) *cobra.Command {
	c := &cobra.Command{Use: "grants", Short: "List, show and revoke what people granted"}
	var asJSON bool
	list := &cobra.Command{
		Use:   "list",
		Short: "List the grants of all sessions",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			kept, now, err := keptGrants(d)
			if err != nil {
				return err
			}
			if asJSON {
				all := []ask.Grant{}
				for _, k := range kept {
					all = append(all, k.Grant)
				}
				return json.NewEncoder(a.out).Encode(api.Grants{Grants: all})
			}
			for _, k := range kept {
				left := "until the session ends"
				if l, ok := k.Left(now); ok {
					left = "for " + l.Round(time.Second).String()
				}
				fmt.Fprintf(a.out, "%s  %s of %s  %s  by %s, %s\n", k.Grant.ID, k.Grant.Scope, k.Grant.Session, ask.VisibleLine(policy.Line(&k.Grant.Rule)), byText(&k.Grant.By), left)
			}
			if len(kept) == 0 {
				fmt.Fprintln(a.out, "nothing is granted")
			}
			return nil
		},
	}
	list.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(list, &cobra.Command{
		Use:   "revoke ID",
		Short: "Take a grant back; it holds no more from the next call on",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			if err := a.person(d, "permd policy grants revoke"); err != nil {
				return err
			}
			kept, _, err := keptGrants(d)
			if err != nil {
				return err
			}
			for _, k := range kept {
				if k.Grant.ID != args[0] {
					continue
				}
				g, err := policy.OpenGrants(d.State)
				if err != nil {
					return err
				}
				if err := g.Revoke(k.Grant.Session, k.Grant.ID); err != nil {
					return &exitError{1, err}
				}
				fmt.Fprintln(a.out, "revoked")
				return a.note(d, review.Event{Name: review.GrantRevoked, Session: k.Grant.Session,
					Fields: []review.Field{{Key: review.KeyGrant, Value: k.Grant.ID}}})
			}
			return &exitError{1, fmt.Errorf("no grant %s; list them with: permd policy grants list", ask.Quote(args[0]))}
		},
	})
	return c
}

// keptGrants reads the grants of all sessions. Looking makes nothing: without
// a state directory nothing was ever granted.
func keptGrants(d session.Dirs) ([]policy.Kept, policy.Clock, error) {
	if _, err := os.Stat(d.State); errors.Is(err, fs.ErrNotExist) {
		return nil, policy.Clock{}, nil
	}
	g, err := policy.OpenGrants(d.State)
	if err != nil {
		return nil, policy.Clock{}, err
	}
	boot, err := host.BootID()
	if err != nil {
		return nil, policy.Clock{}, err
	}
	up, err := host.Uptime()
	now := policy.Clock{Boot: boot, Up: up}
	if err != nil {
		return nil, now, err
	}
	kept, err := g.List(now)
	return kept, now, err
}
