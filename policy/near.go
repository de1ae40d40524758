package policy

import (
	"slices"
	"strings"

	"permd/ask"
	"permd/policy/shell"
)

// Likeness returns two keys by which a call is known again when it comes in
// other words. Two calls with one same key do the same: other blanks, quotes
// or paths to a directory are no other call; it is "" where only equal input
// is the same. Two calls with one near key are of the same kind: the same
// programs with the same subcommands, another content for the same file,
// another tool argument, another page of the same host. Both mean something
// within one session and one client only.
func Likeness(a *ask.Action) (same, near string) {
	var b []string
	switch a.Tool {
	case ask.ToolBash:
		return likeCommand(a)
	case ask.ToolRead, ask.ToolWrite, ask.ToolEdit:
		for _, p := range a.Paths {
			b = append(b, p.Real)
		}
	case ask.ToolMCP:
		if a.MCP != nil {
			b = []string{a.MCP.Server, a.MCP.Name}
		}
	case ask.ToolWebFetch:
		b = []string{parseTarget(a.URL).host}
	case ask.ToolTask:
		b = []string{a.Agent}
	}
	return "", keyOf(append([]string{string(a.Tool), a.ClientTool}, b...))
}

func likeCommand(a *ask.Action) (same, near string) {
	s := shell.Read(a.Command, shell.Env{Cwd: a.Cwd, Home: a.Home})
	plain := s.Plain()
	all := []string{"bash"}
	var kinds []string
	for i := range s.Units {
		u := &s.Units[i]
		argv, ok := u.Argv()
		plain = plain && ok && !u.Lost && !u.Guess
		all = append(all, "unit", u.Dir, u.Stdin)
		all = append(all, argv...)
		kind := u.Name()
		if n := subcommandWords(argv); ok && n > 0 {
			kind = strings.Join(argv[:n], " ")
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	for _, r := range s.Redirs {
		plain = plain && r.Target.Lit && !r.Lost
		how := "<"
		if r.Write {
			how = ">"
		}
		all = append(all, how, r.Dir, r.Target.Text)
	}
	slices.Sort(kinds)
	if plain {
		same = keyOf(all)
	}
	return same, keyOf(append([]string{"bash"}, kinds...))
}

// keyOf joins words so that no two lists make one text.
func keyOf(words []string) string {
	var b strings.Builder
	for _, w := range words {
		b.WriteString(quoteTOML(w))
	}
	return b.String()
}
