package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

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
