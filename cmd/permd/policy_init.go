package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"permd/internal/host"
	"permd/policy"
	"permd/session"
)

// starter is the policy that a person begins with.
//
//go:embed starter.toml
var starter []byte

func policyInit(a *app) *cobra.Command {
	var printOnly bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a starter policy, with comments, where your rules lie",
		Long: "init writes a policy to begin with: work inside the project, tests, builds and commits are\n" +
			"allowed, keys and a rewritten history are denied, the rest asks. It asks nothing and never\n" +
			"overwrites a file. The rules hold at once.\n\n" +
			"Exit codes: 0 written, 1 there are rules already, or it is refused, 2 it cannot be written.",
		Example: "  permd policy init\n" +
			"  permd policy init --print > team.toml",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if printOnly {
				_, err := a.out.Write(starter)
				return err
			}
			d, err := a.dirs()
			if err != nil {
				return err
			}
			if err := a.person(d, "permd policy init"); err != nil {
				return err
			}
			name := userRules(d)
			if err := a.begin(d, name); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "wrote %s\nchange it with: permd policy edit\n", name)
			return nil
		},
	}
	c.Flags().BoolVar(&printOnly, "print", false, "print the policy and write nothing")
	return c
}

// userRules is the user's own rule file.
func userRules(d session.Dirs) string { return filepath.Join(d.Config, "policy.toml") }

// begin writes the starter to name and lets it hold. A failure leaves no file
// behind.
func (a *app) begin(d session.Dirs, name string) error {
	if _, err := os.Lstat(name); err == nil {
		return &exitError{1, fmt.Errorf("%s is there already; change it with permd policy edit, or see the starter with permd policy init --print", name)}
	}
	var s *policy.Store
	if _, err := os.Stat(filepath.Join(d.State, "policy-applied")); err == nil {
		s = a.store(d)
		if s.Pending() != nil {
			return &exitError{1, errors.New("an edit of your rules waits; look at it with permd policy apply first")}
		}
	}
	if err := host.MakeDir(d.Config); err != nil {
		return &exitError{2, err}
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &exitError{1, fmt.Errorf("%s is there already", name)}
	}
	if err != nil {
		return &exitError{2, err}
	}
	_, err = f.Write(starter)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil && s != nil {
		err = a.enact(d, s)
	}
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}
