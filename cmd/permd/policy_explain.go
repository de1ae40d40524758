package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"permd/ask"
	"permd/internal/host"
	"permd/policy"
	"permd/policy/paths"
	"permd/policy/shell"
	"permd/policy/trial"
	"permd/session"
)

// judging is what the commands share that judge without a node.
type judging struct {
	files   []string // --policy
	cwd     string   // --cwd
	project string   // --project
	client  string   // --client
}

func (j *judging) flags(c *cobra.Command) {
	c.Flags().StringArrayVar(&j.files, "policy", nil, "judge by this rule file alone, without built-in rules or other layers; may be repeated")
	c.Flags().StringVar(&j.cwd, "cwd", "", "directory that the action happens in (default: this one)")
	c.Flags().StringVar(&j.project, "project", "", "the project's directory (default: that of --cwd)")
	c.Flags().StringVar(&j.client, "client", "explain", "client that the action comes from")
}

// court returns what judges, and the place of actions that name none.
func (a *app) court(j *judging) (*trial.Court, trial.Place, error) {
	at := trial.Place{Cwd: j.cwd, Client: j.client}
	d, err := a.dirs()
	if err != nil {
		return nil, at, err
	}
	at.Home = d.Home
	if at.Cwd == "" {
		if at.Cwd, err = os.Getwd(); err != nil {
			return nil, at, &exitError{2, err}
		}
	}
	if at.Cwd, err = filepath.Abs(at.Cwd); err != nil {
		return nil, at, &exitError{2, err}
	}
	k := &trial.Court{Self: selfOf(d), Home: d.Home}
	if len(j.files) > 0 {
		p, err := alone(j.files)
		if err != nil {
			return nil, at, err
		}
		k.Policy = func(string) *policy.Policy { return p }
	} else if k.Policy, err = a.looking(d); err != nil {
		return nil, at, err
	}
	if k.Now.Boot, err = host.BootID(); err != nil {
		return nil, at, &exitError{2, err}
	}
	if k.Now.Up, err = host.Uptime(); err != nil {
		return nil, at, &exitError{2, err}
	}
	return k, at, nil
}

// selfOf is what protects permd itself, as far as it is known without a node.
func selfOf(d session.Dirs) *policy.Self {
	self := policy.Self{Config: d.Config, State: d.State, Run: d.Run, Managed: d.Managed, Root: d.Root}
	if exe, err := os.Executable(); err == nil {
		self.Binaries = []string{exe, filepath.Join(filepath.Dir(exe), "permd-hook")}
	}
	return policy.NewSelf(self, paths.Disk{})
}

// alone is the policy of some files, as a user's rules and nothing else.
func alone(names []string) (*policy.Policy, error) {
	var files []*policy.File
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, &exitError{2, err}
		}
		f, err := policy.Decode(name, b, policy.LayerUser)
		if err != nil {
			return nil, &exitError{1, err}
		}
		files = append(files, f)
	}
	return policy.CompileAlone(files...), nil
}

func policyExplain(a *app) *cobra.Command {
	var j judging
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain [COMMAND LINE]",
		Short: "Say what the rules make of a command, or of actions on standard input",
		Long: "explain judges one command line, or actions read as JSON lines from standard input, and\n" +
			"prints the verdict, the parts of the command as they are understood, and every rule that\n" +
			"spoke with the layer it is of. Nothing is run, nobody is asked, and no node is needed.\n" +
			"Grants and modes of a session are not known here.\n\n" +
			"An action is one of\n" +
			"  {\"tool\":\"bash\",\"command\":\"git push\",\"cwd\":\"/w\",\"project\":\"/w\",\"home\":\"/home/u\"}\n" +
			"  {\"tool\":\"read\",\"path\":\".env\"}       and write, edit\n" +
			"  {\"tool\":\"mcp\",\"server\":\"tracker\",\"name\":\"get_issue\",\"args\":{}}\n" +
			"  {\"tool\":\"webfetch\",\"url\":\"https://example.org/\"}\n" +
			"and may have a file system of its own: \"fs\":{\"symlinks\":{\"/w/out\":\"/srv\"},\"exists\":[\".env\"]}.\n" +
			"A line that cannot be judged gets the verdict deny and an error that names the line.\n\n" +
			"Exit codes: 0 all judged, 1 a line or a rule file is wrong, 2 used wrongly or a file cannot\n" +
			"be read.",
		Example: "  permd policy explain 'git push origin main'\n" +
			"  permd policy explain --policy team.toml 'make deploy'\n" +
			"  echo '{\"tool\":\"read\",\"path\":\".env\"}' | permd policy explain --json",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && term.IsTerminal(int(a.in.Fd())) {
				return usage("there is nothing to explain: give a command line, or actions on standard input")
			}
			k, at, err := a.court(&j)
			if err != nil {
				return err
			}
			print := func(c *trial.Case, r policy.Result) error { return printText(a.out, c, r) }
			if asJSON {
				print = func(c *trial.Case, r policy.Result) error {
					x := trial.AnswerOf(c, r)
					_, err := a.out.Write(x.Wire())
					return err
				}
			}
			if len(args) > 0 {
				c := &trial.Case{Session: "explain", Action: ask.Action{Client: j.client, Tool: ask.ToolBash, ClientTool: string(ask.ToolBash),
					Cwd: at.Cwd, Project: at.Cwd, Home: at.Home, Command: strings.Join(args, " "), Input: []byte("{}")}}
				if j.project != "" {
					c.Action.Project = j.project
				}
				return print(c, k.Judge(c))
			}
			return a.explainLines(k, at, j.project, asJSON, print)
		},
	}
	j.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object an action")
	return c
}

// explainLines judges the actions on standard input. A wrong line is answered
// and counted, and the rest is judged all the same.
func (a *app) explainLines(k *trial.Court, at trial.Place, project string, asJSON bool, print func(*trial.Case, policy.Result) error) error {
	wrong := 0
	err := trial.Lines(a.in, func(n int, line []byte, err error) error {
		var c *trial.Case
		if err == nil {
			c, err = trial.Parse(line, at)
		}
		if err == nil {
			if project != "" && c.Action.Project == at.Cwd {
				c.Action.Project = project
			}
			return print(c, k.Judge(c))
		}
		wrong++
		err = fmt.Errorf("line %d: %w", n, err)
		if asJSON {
			x := trial.Refused(n, err)
			_, err = a.out.Write(x.Wire())
		} else {
			_, err = fmt.Fprintf(a.out, "deny: %s\n\n", ask.VisibleLine(err.Error()))
		}
		return err
	})
	switch {
	case err != nil:
		return &exitError{2, err}
	case wrong > 0:
		return &exitError{1, fmt.Errorf("%d lines of standard input could not be judged", wrong)}
	}
	return nil
}

// printText says for a person what was found and which rules spoke of it.
func printText(w io.Writer, c *trial.Case, r policy.Result) error {
	var b strings.Builder
	b.WriteString(r.Verdict.String())
	if r.Reason != "" {
		b.WriteString(": " + ask.VisibleLine(r.Reason))
	}
	b.WriteByte('\n')
	said := make([]bool, len(r.Reasons))
	if c.Action.Tool == ask.ToolBash {
		s := shell.Read(c.Action.Command, shell.Env{Cwd: c.Action.Cwd, Home: c.Action.Home})
		for i := range s.Units {
			printUnit(&b, s, i)
			for n, x := range r.Reasons {
				if !said[n] && x.Unit == s.Units[i].Text {
					said[n] = true
					printReason(&b, x)
				}
			}
		}
		for _, d := range s.Redirs {
			how := "reads"
			if d.Write {
				how = "writes"
			}
			fmt.Fprintf(&b, "\n  the shell %s %s\n", how, shown(d.Target))
		}
	}
	rest := false
	for n, x := range r.Reasons {
		if said[n] {
			continue
		}
		if !rest {
			b.WriteString("\n  as a whole\n")
			rest = true
		}
		printReason(&b, x)
	}
	if len(r.Paths) > 0 {
		b.WriteString("\n  files\n")
	}
	for _, p := range r.Paths {
		fmt.Fprintf(&b, "     %-9s  %s", p.Access, known(p.Given))
		if p.Real != p.Given {
			fmt.Fprintf(&b, ", which is %s", known(p.Real))
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

func printUnit(b *strings.Builder, s *shell.Script, i int) {
	u := &s.Units[i]
	fmt.Fprintf(b, "\n  %d  %s\n", i+1, ask.ExcerptLine(u.Text, 400))
	var words []string
	for _, w := range u.Words {
		words = append(words, shown(w))
	}
	if u.More {
		words = append(words, "…")
	}
	fmt.Fprintf(b, "     words      %s\n", ask.ExcerptLine(strings.Join(words, " "), 400))
	dir := ask.VisibleLine(u.Dir)
	if u.Lost {
		dir += ", or where a cd leads that could not be followed"
	}
	fmt.Fprintf(b, "     directory  %s\n", dir)
	for _, x := range u.Assigns {
		fmt.Fprintf(b, "     variable   %s=%s\n", ask.VisibleLine(x.Name), shown(x.Value))
	}
	var notes []string
	if u.Outer >= 0 {
		notes = append(notes, fmt.Sprintf("started by %d (%s)", u.Outer+1, ask.VisibleLine(u.Via)))
	}
	if u.Remote {
		notes = append(notes, "on another host or in a container")
	}
	if u.Guess {
		notes = append(notes, "only suspected: the text around it cannot be read")
	}
	if len(notes) > 0 {
		fmt.Fprintf(b, "     note       %s\n", strings.Join(notes, "; "))
	}
}

// shown is a word as the program gets it; what is not known is "…".
func shown(w shell.Word) string {
	t := w.Text
	if t == "" || strings.ContainsAny(t, " \t\n'\"\\|&;<>()$`*?[]#") {
		t = "'" + strings.ReplaceAll(t, "'", `'\''`) + "'"
	}
	return known(t)
}

// known shows a text in which a replacement character stands for what is not
// known.
func known(s string) string { return ask.VisibleLine(strings.ReplaceAll(s, "\uFFFD", "…")) }

func printReason(b *strings.Builder, x policy.Reason) {
	who := string(x.Kind)
	switch {
	case x.Rule != nil:
		who = fmt.Sprintf("%s rule %s:%d", x.Rule.Layer, ask.VisibleLine(x.Rule.File), x.Rule.Line)
	case x.Grant != "":
		who = "grant " + x.Grant
	case x.Kind == ask.KindBaseline:
		who = "built-in rule"
	case x.Kind == ask.KindProtection:
		who = "self-protection"
	case x.Kind == ask.KindDefault:
		who = "default"
	}
	fmt.Fprintf(b, "     %-9s  %s", x.Verdict, who)
	if x.Path != "" {
		fmt.Fprintf(b, ", of %s", ask.VisibleLine(x.Path))
	}
	if x.Text != "" {
		fmt.Fprintf(b, ": %s", ask.VisibleLine(x.Text))
	}
	b.WriteByte('\n')
}
