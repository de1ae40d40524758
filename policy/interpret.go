package policy

import (
	"strings"

	"permd/policy/shell"
)

// inProgram finds the files that the text of a program (python3 -c, node -e)
// may be about: what stands in it in quotes and looks like a path. Nothing is
// allowed by it; what is forbidden is suspected there.
func inProgram(out []touch, text shell.Word) []touch {
	const most = 32
	rest := text.Text
	for n := 0; n < most; {
		open := strings.IndexAny(rest, "\"'`")
		if open < 0 {
			break
		}
		quote := rest[open]
		rest = rest[open+1:]
		end := strings.IndexByte(rest, quote)
		if end < 0 {
			break
		}
		if name := rest[:end]; namesFile(name) {
			out = append(out, touch{word: shell.Word{Text: name, Lit: true}, how: accessAny})
			n++
		}
		rest = rest[end+1:]
	}
	return out
}

// namesFile reports whether a text in quotes looks like the name of a file.
func namesFile(s string) bool {
	const longest = 256
	if len(s) < 2 || len(s) > longest || strings.ContainsAny(s, " \t\n<>*%{}()|;\\,") || strings.Contains(s, "://") {
		return false
	}
	return strings.Contains(s, "/") && s != "//" || s[0] == '~' || s == ".." || s[0] == '.' && strings.Trim(s, ".") != ""
}

// agentScripts are parts of the paths under which the clients' own scripts lie.
var agentScripts = []struct{ part, client string }{
	{"@anthropic-ai/claude-code", "claude"}, {"@openai/codex", "codex"}, {"@google/gemini-cli", "gemini"}, {"opencode-ai", "opencode"}, {"pi-coding-agent", "pi"},
}

// agentScript returns the client whose script an interpreter is told to run.
func agentScript(u *shell.Unit) string {
	name := u.Name()
	if !interpreters[name] || shell.IsShell(name) {
		return ""
	}
	for _, w := range u.Words[1:] {
		for _, a := range agentScripts {
			if strings.Contains(w.Text, a.part) {
				return a.client
			}
		}
		if isOption(w.Text) || w.Text == "run" || w.Text == "x" {
			continue
		}
		return agentPrograms[w.Text[strings.LastIndexByte(w.Text, '/')+1:]]
	}
	return ""
}
