package hookwire

import (
	"errors"
	"strings"
)

// Names are the variables that a hook carries to its node, ascending. The
// environment as a whole holds tokens and stays where it is. What is here
// names sessions, processes, places and terminals, never a secret:
//
//   - what Claude Code, Codex, Gemini, opencode and pi tell about themselves
//     and about the session they belong to; a client that was started by
//     another inherits the other's, which is how a parent is found
//   - the file into which a session start may write exports
//   - the terminal, for showing where a session is and nothing else
//   - permd's own hints at a parent
func Names() []string { return append([]string(nil), names[:]...) }

var names = [...]string{
	"AI_AGENT",
	"CLAUDE_CODE_CHILD_SESSION",
	"CLAUDE_CODE_ENTRYPOINT",
	"CLAUDE_CODE_SESSION_ATTENDED",
	"CLAUDE_CODE_SESSION_ID",
	"CLAUDE_ENV_FILE",
	"CLAUDE_PID",
	"CLAUDE_PROJECT_DIR",
	"CODEX_SESSION_ID",
	"CODEX_THREAD_ID",
	"GEMINI_CWD",
	"GEMINI_PROJECT_DIR",
	"GEMINI_SESSION_ID",
	"OPENCODE_PID",
	"OPENCODE_SESSION_ID",
	"PERMD_PARENT_SESSION",
	"PERMD_SESSION",
	"PERMD_SOCKET",
	"PI_AGENT_ROUTER_PARENT_SESSION_ID",
	"PI_SESSION_ID",
	"PI_SUBAGENT_PARENT_SESSION",
	"TMUX",
	"TMUX_PANE",
}

// Var is one variable.
type Var struct{ Name, Value string }

// Pick returns the variables of env ("NAME=value") that a hook carries,
// ascending by name. Of a name that is there twice the first counts, as for
// getenv. A value longer than MaxText is an error: leaving it out could change
// what the node makes of the call.
func Pick(env []string) ([]Var, error) {
	var vars []Var
	for _, name := range names {
		value, found := lookup(env, name)
		if !found {
			continue
		}
		if len(value) > MaxText {
			return nil, errors.New("the variable " + name + " is longer than the " + limit(MaxText) + " bytes a hook carries; unset or shorten it")
		}
		vars = append(vars, Var{name, value})
	}
	return vars, nil
}

func lookup(env []string, name string) (string, bool) {
	for _, e := range env {
		if len(e) > len(name) && e[len(name)] == '=' && strings.HasPrefix(e, name) {
			return e[len(name)+1:], true
		}
	}
	return "", false
}
