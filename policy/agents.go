package policy

import (
	"strings"

	"permd/policy/shell"
)

// agentPrograms are the clients that permd knows, by the names that they are
// started under.
var agentPrograms = map[string]string{
	"claude": "claude", "claude-code": "claude", "codex": "codex", "gemini": "gemini", "gemini-cli": "gemini", "opencode": "opencode", "opencode-ai": "opencode",
	"pi": "pi", "pi-coding-agent": "pi",
}

// startsAgent returns the client that u starts, "" for none.
func startsAgent(u *shell.Unit) string {
	if u.Remote {
		return ""
	}
	if client := agentPrograms[u.Name()]; client != "" {
		return client
	}
	return agentScript(u)
}

const offText = "it would start an agent whose calls permd does not see"

// offSwitches are options that keep a client from asking permd.
var offSwitches = map[string]map[string]bool{
	"claude":   {"--bare": true, "--safe-mode": true, "--restricted": true, "--setting-sources": true},
	"codex":    {"--dangerously-disable-hooks": true, "--ignore-user-config": true},
	"opencode": {"--pure": true},
	"pi":       {"-ne": true, "--no-extensions": true},
	"gemini":   {},
}

// switchedOff says why u must not start an agent this way.
func switchedOff(u *shell.Unit) string {
	client := startsAgent(u)
	if client == "" {
		return ""
	}
	args := u.Words[1:]
	for i, a := range args {
		name, value, glued := strings.Cut(a.Text, "=")
		if !glued && i+1 < len(args) {
			value = args[i+1].Text
		}
		lower := strings.ToLower(value)
		switch {
		case offSwitches[client][name], abbreviatesOff(client, name):
			return offText
		case client == "claude" && name == "--settings" && !harmlessSettings(lower):
			return offText
		case client == "codex" && name == "--disable" && strings.Contains(lower, "hooks"):
			return offText
		case client == "codex" && (name == "-c" || name == "--config") && codexHooksOff(a.Text, value):
			return offText
		}
	}
	return ""
}

// abbreviatesOff reports whether name may be short for an off switch, as many
// option parsers take it.
func abbreviatesOff(client, name string) bool {
	const least = len("--") + 3
	if len(name) < least || !strings.HasPrefix(name, "--") {
		return false
	}
	for o := range offSwitches[client] {
		if strings.HasPrefix(o, name) && name != "--setting" {
			return true
		}
	}
	return false
}

// harmlessSettings reports whether settings given to claude leave its hooks on.
// A file can say anything by the time it is read, and so can an escape.
func harmlessSettings(lower string) bool {
	if !strings.HasPrefix(strings.TrimSpace(lower), "{") || strings.Contains(lower, "\\") {
		return false
	}
	for _, off := range []string{"disableallhooks", "claude_code_s", "claude_code_r"} {
		if strings.Contains(lower, off) {
			return false
		}
	}
	return true
}

// codexHooksOff reports whether a setting given to codex turns its hooks off.
func codexHooksOff(word, next string) bool {
	for _, s := range []string{word, next} {
		s = strings.ToLower(strings.ReplaceAll(s, " ", ""))
		if strings.Contains(s, "hooks=false") || strings.Contains(s, "hooks={}") || strings.Contains(s, "hooks.") && strings.Contains(s, "=false") {
			return true
		}
	}
	return false
}

// homesOfClients are variables that move a client's settings to a place where
// permd is not installed. The ones in movesAll move more than clients, and
// matter only where an agent is started.
var homesOfClients = map[string]bool{
	"CLAUDE_CONFIG_DIR": true, "CODEX_HOME": true, "OPENCODE_CONFIG": true, "OPENCODE_CONFIG_DIR": true, "OPENCODE_CONFIG_CONTENT": true,
	"PI_CODING_AGENT_DIR": true, "GEMINI_CLI_SYSTEM_SETTINGS_PATH": true, "GEMINI_CLI_SYSTEM_DEFAULTS_PATH": true, "GEMINI_CLI_HOME": true, "GEMINI_CONFIG_DIR": true,
}

var movesAll = map[string]bool{"HOME": true, "XDG_CONFIG_HOME": true}

// switchesOff are variables with which a client runs no hook of a user.
var switchesOff = map[string]bool{"CLAUDE_CODE_SIMPLE": true, "CLAUDE_CODE_SAFE_MODE": true, "CLAUDE_CODE_RESTRICTED": true}

const movedText = "it would move an agent's settings to where permd is not installed"

// movedConfig says why the assignments of a script must not be made.
func movedConfig(s *shell.Script) string {
	agent := false
	for i := range s.Units {
		agent = agent || startsAgent(&s.Units[i]) != ""
	}
	for _, a := range s.Assigns {
		if homesOfClients[a.Name] || agent && movesAll[a.Name] {
			return movedText
		}
		if switchesOff[a.Name] {
			return offText
		}
	}
	// export NAME=value as words, as behind a wrapper.
	const near = 64 // each wrapper is a unit, and sees its own
	for i := range s.Units {
		u := &s.Units[i]
		if !u.Guess && !shell.IsWrapper(u.Name()) {
			continue
		}
		for _, w := range u.Words[1:min(len(u.Words), near)] {
			if name, _, ok := strings.Cut(w.Text, "="); ok && homesOfClients[name] {
				return movedText
			} else if ok && switchesOff[name] {
				return offText
			}
		}
	}
	return ""
}
