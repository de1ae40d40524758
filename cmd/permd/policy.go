package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"permd/ask"
	"permd/policy"
	"permd/policy/paths"
	"permd/session"
)

func init() { commands = append(commands, policyCommand) }

func policyCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Explain, check, test and apply rules; list and revoke grants",
	}
	c.AddCommand(policyExplain(a), policyCheck(a), policyTry(a), policyInit(a), policyImport(a), policyEdit(a), policyApply(a), policySuggest(a), policyGrants(a))
	return c
}

func (a *app) store(d session.Dirs) *policy.Store {
	return policy.OpenStore(a.places(d))
}

// looking returns the rules in force for a command that only looks: as a node
// would judge now, and without writing anything. What is wrong with the files
// is told, since a node goes on with the last rules that were good.
func (a *app) looking(d session.Dirs) (func(project string) *policy.Policy, error) {
	p := a.places(d)
	p.ReadOnly = true
	s := policy.OpenStore(p)
	told := map[string]bool{}
	return func(project string) *policy.Policy {
		rules := s.Policy(project)
		if err := s.Problem(); err != nil && !told[err.Error()] {
			told[err.Error()] = true
			fmt.Fprintln(a.err, "permd: "+ask.Visible(err.Error()))
		}
		return rules
	}, nil
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
