package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/policy"
	"permd/policy/paths"
	"permd/review"
	"permd/session"
)

func init() { commands = append(commands, trustCommand) }

func trustCommand(a *app) *cobra.Command {
	var revoke, list, asJSON, yes bool
	c := &cobra.Command{
		Use:   "trust [FILE]",
		Short: "Let a project's own rule file allow things, as it is now",
		Long: "A project's .permd/policy.toml tightens at once. What it would allow counts for nothing\n" +
			"until you trust the file, because whoever can write to the project can write it. trust\n" +
			"shows what the file would allow, and what is different from what you trusted before, and\n" +
			"remembers its content: once it changes, it is untrusted again.\n\n" +
			"FILE is a rule file or a project's directory; without one it is that of the directory you\n" +
			"are in. It is recorded, and only a person's own terminal may do it. --list needs none.\n\n" +
			"Exit codes: 0 done, 1 not confirmed, faults in the file or not trusted, 2 used wrongly.",
		Example: "  permd trust\n  permd trust --revoke ~/src/app\n  permd trust --list --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			switch {
			case list && (revoke || len(args) > 0):
				return usage("--list stands alone")
			case asJSON && !list:
				return usage("--json goes with --list")
			case list:
				return a.trustList(d, asJSON)
			}
			if err := a.person(d, "permd trust"); err != nil {
				return err
			}
			file, err := projectRules(d, args)
			if err != nil {
				return err
			}
			if revoke {
				return a.distrust(d, file)
			}
			return a.trust(d, file, yes)
		},
	}
	c.Flags().BoolVar(&revoke, "revoke", false, "trust the file no longer")
	c.Flags().BoolVar(&list, "list", false, "list what is trusted")
	c.Flags().BoolVar(&asJSON, "json", false, "with --list, print JSON")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask before trusting it")
	return c
}

// projectRules is the rule file that is meant, as a session of the project
// names it.
func projectRules(d session.Dirs, args []string) (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if len(args) > 0 {
		if at, err = filepath.Abs(args[0]); err != nil {
			return "", err
		}
		if fi, err := os.Stat(at); err != nil || !fi.IsDir() {
			// Also a file that is gone: it may still be trusted.
			if filepath.Base(at) != "policy.toml" || filepath.Base(filepath.Dir(at)) != ".permd" {
				return "", usage("%s is no rule file of a project; it is PROJECT/.permd/policy.toml", ask.Quote(args[0]))
			}
			at = filepath.Dir(filepath.Dir(at))
		}
	}
	project, err := policy.ProjectDir(at, d.Home, paths.Disk{})
	if err != nil {
		return "", &exitError{1, err}
	}
	return filepath.Join(project, ".permd", "policy.toml"), nil
}

// whoami names the person, for the record.
func whoami() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprint("uid ", os.Getuid())
}

func (a *app) trust(d session.Dirs, file string, yes bool) error {
	t := policy.OpenTrust(d.State)
	p, err := t.Propose(file, whoami(), time.Now())
	if err != nil {
		return &exitError{1, err}
	}
	list, err := t.List()
	if err != nil {
		return &exitError{1, err}
	}
	for _, x := range list {
		if x.File == file && x.SHA256 == p.SHA256 {
			fmt.Fprintf(a.out, "%s is trusted as it is\n", ask.VisibleLine(file))
			return nil
		}
	}
	fmt.Fprintf(a.out, "%s\n", ask.VisibleLine(file))
	switch {
	case len(p.Rules) == 0:
		return &exitError{1, fmt.Errorf("it allows nothing; its %d other rules hold already, there is nothing to trust", p.Tightens)}
	case p.Text == "":
		fmt.Fprintln(a.out, "it allows what you trusted before; something else in it changed")
	default:
		fmt.Fprint(a.out, p.Text)
	}
	if !yes {
		ok, err := a.confirm("Let it allow this in every session of the project, until it changes?")
		if err != nil || !ok {
			return &exitError{1, errors.Join(errors.New("nothing was trusted"), err)}
		}
	}
	// The record first: a trust without one is what an agent would write.
	if err := a.note(d, review.Event{Name: review.TrustGiven, By: &ask.By{Kind: ask.KindUser, Surface: "terminal"}, Fields: []review.Field{
		{Key: review.KeyRuleFile, Value: file}, {Key: review.KeyPolicyDigest, Value: p.SHA256}, {Key: review.KeyDifference, Value: p.Text}}}); err != nil {
		return &exitError{1, err}
	}
	if err := t.Give(p.Trusted); err != nil {
		return &exitError{1, err}
	}
	fmt.Fprintln(a.out, "trusted")
	return nil
}

func (a *app) distrust(d session.Dirs, file string) error {
	if err := policy.OpenTrust(d.State).Revoke(file); err != nil {
		return &exitError{1, err}
	}
	if err := a.note(d, review.Event{Name: review.TrustRevoked, By: &ask.By{Kind: ask.KindUser, Surface: "terminal"},
		Fields: []review.Field{{Key: review.KeyRuleFile, Value: file}}}); err != nil {
		return &exitError{1, fmt.Errorf("it is not trusted any more, but that could not be recorded: %w", err)}
	}
	fmt.Fprintln(a.out, "not trusted any more")
	return nil
}

// trustedFile is one line of permd trust --list.
type trustedFile struct {
	policy.Trusted
	// State is "holds", "changed" or "gone".
	State string `json:"state"`
}

func (a *app) trustList(d session.Dirs, asJSON bool) error {
	t := policy.OpenTrust(d.State)
	list, err := t.List()
	if err != nil {
		return &exitError{1, err}
	}
	out := []trustedFile{}
	for _, x := range list {
		f := trustedFile{x, "gone"}
		if p, err := t.Propose(x.File, "", time.Now()); err == nil {
			if f.State = "changed"; p.SHA256 == x.SHA256 {
				f.State = "holds"
			}
		} else if _, serr := os.Stat(x.File); serr == nil {
			f.State = "changed"
		}
		out = append(out, f)
	}
	if asJSON {
		return json.NewEncoder(a.out).Encode(struct {
			Trusted []trustedFile `json:"trusted"`
		}{out})
	}
	for _, f := range out {
		fmt.Fprintf(a.out, "%-7s  %s  %d rules, by %s, %s\n", f.State, ask.VisibleLine(f.File), len(f.Rules), ask.VisibleLine(f.By), f.Given)
	}
	if len(out) == 0 {
		fmt.Fprintln(a.out, "no project is trusted")
	}
	return nil
}
