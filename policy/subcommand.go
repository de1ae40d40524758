package policy

import (
	"slices"
	"strings"

	"permd/policy/shell"
)

// subcommands are programs of which one call says with its first words what
// it does: "git commit", "npm run build", "docker compose up". A word with a
// "+" needs one more. What runs a program that its arguments name is not
// among them ("git bisect", "npm exec", "go run", "gh alias").
var subcommands = map[string]string{
	"git":       "add am apply blame branch checkout cherry-pick clean clone commit diff fetch grep init log ls-files ls-remote merge mv pull push rebase reset restore revert rm show stash status switch tag worktree+",
	"npm":       "audit ci install ls outdated pack run+ test update view",
	"pnpm":      "audit install list outdated run+ test update",
	"yarn":      "audit install list outdated run+ test upgrade",
	"bun":       "install run+ test",
	"cargo":     "add bench build check clippy doc fetch fmt test tree update",
	"go":        "build fmt get install list mod+ test vet work+",
	"pip":       "check download freeze install list show",
	"pip3":      "check download freeze install list show",
	"uv":        "add lock pip+ sync tree",
	"poetry":    "add install lock show update",
	"docker":    "build images inspect logs ps pull compose+",
	"podman":    "build images inspect logs ps pull",
	"kubectl":   "apply delete describe diff get logs rollout+ top",
	"helm":      "history lint list status template",
	"terraform": "fmt init output plan show validate",
	"gh":        "issue+ pr+ release+ repo+ run+ workflow+",
	"brew":      "info install list search",
	"apt":       "list search show",
	"systemctl": "list-units show status",
}

// subcommandWords is how many of the words say what the program does, 0 when
// that is not known: then only the whole command names one thing.
func subcommandWords(words []string) int {
	if len(words) < 2 {
		return 0
	}
	for s := range strings.FieldsSeq(subcommands[words[0]]) {
		name, more := strings.CutSuffix(s, "+")
		switch {
		case words[1] != name:
		case !more:
			return 2
		case len(words) > 2 && !strings.HasPrefix(words[2], "-"):
			return 3
		}
	}
	return 0
}

// Subcommand returns the pattern for a command with the same program and
// subcommand and any further words ("git commit *"), ok false when there is
// none narrow enough: the program is no wrapper, no interpreter, and not known
// to run what its arguments name; the pattern is never its first word alone.
func Subcommand(argv []string) (pattern string, ok bool) {
	n := subcommandWords(argv)
	if n == 0 || len(argv) <= n {
		return "", false
	}
	return quoteArgv(argv[:n]) + " *", true
}

// subcommand reports whether r names a program and its subcommand, and any
// further words.
func (r *rule) subcommand() bool {
	if r.kind != kindCommand || r.argv == nil || !r.argv.rest || r.argv.any || r.has("path") {
		return false
	}
	var words []string
	for i := range r.argv.words {
		if !r.argv.words[i].literal() {
			return false
		}
		words = append(words, r.argv.words[i].text)
	}
	n := subcommandWords(words)
	return n > 0 && !slices.ContainsFunc(words[:n], func(w string) bool { return strings.HasPrefix(w, "-") })
}

// wide is the rule for the subcommand of a plain command, ok false when there
// is none.
func wide(argv []string, u *shell.Unit) (pattern string, ok bool) {
	if u.Inner != "" || escapes(u) != "" {
		return "", false
	}
	return Subcommand(argv)
}
