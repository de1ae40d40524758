package policy

import "permd/policy/paths"

// Pattern writes the words of a command as the pattern that matches exactly
// that command.
func Pattern(argv []string) string { return quoteArgv(argv) }

// At returns p with the places of its path rules looked up now, for judging
// many actions of one project: without it each decision looks them up.
func (p *Policy) At(view paths.View, project, home string) *Policy {
	return p.rebound(view, project, home)
}
