package policy

import (
	"strings"

	"permd/policy/paths"
	"permd/policy/shell"
)

// anything are programs that run what they are given: a rule for one with a
// star allows every program there is.
var anything = map[string]bool{
	"python": true, "python2": true, "python3": true, "node": true, "deno": true, "bun": true, "perl": true, "ruby": true, "php": true, "lua": true, "Rscript": true,
	"osascript": true, "powershell": true, "pwsh": true, "npx": true, "pnpx": true, "bunx": true, "uvx": true, "pipx": true, "awk": true, "gawk": true, "mawk": true,
	"ssh": true, "busybox": true, "toybox": true, "expect": true, "tclsh": true, "make": false,
}

// families are programs of many commands, some of which only read and some of
// which undo work, and one of each as an example.
var families = map[string][2]string{
	"git": {"git log *", "git push --force"}, "gh": {"gh pr view *", "gh repo delete"}, "docker": {"docker ps *", "docker run"},
	"podman": {"podman ps *", "podman run"}, "kubectl": {"kubectl get *", "kubectl delete"}, "helm": {"helm list *", "helm uninstall"},
	"npm": {"npm test", "npm publish"}, "pnpm": {"pnpm test", "pnpm publish"}, "yarn": {"yarn test", "yarn publish"}, "cargo": {"cargo check *", "cargo publish"},
	"pip": {"pip list *", "pip install"}, "uv": {"uv tree *", "uv run"}, "aws": {"aws s3 ls *", "aws s3 rm"}, "gcloud": {"gcloud config list *", "gcloud projects delete"},
	"az": {"az account show *", "az group delete"}, "terraform": {"terraform plan *", "terraform destroy"}, "systemctl": {"systemctl status *", "systemctl stop"},
	"apt": {"apt list *", "apt remove"}, "brew": {"brew list *", "brew uninstall"}, "go": {"go test *", "go run"}, "composer": {"composer show *", "composer require"},
}

// widerThanMeant says what an allow rule allows beyond what it looks like, and which of
// its keys says so.
func widerThanMeant(r *rule) (key, why string) {
	switch r.kind {
	case kindCommand:
		return "command", wideCommand(r)
	case kindPath:
		if r.Tool == "bash" {
			return "", ""
		}
		return "path", widePath(r)
	case kindWeb:
		if r.domain == nil || r.domain.any {
			return "domain", `it allows every host, also one that is given what was read here; name hosts, as in domain = "*.example.org"`
		}
	}
	return "", ""
}

func wideCommand(r *rule) string {
	if r.Class != "" {
		return ""
	}
	if r.argv == nil || r.argv.any {
		return `it allows every command that permd understands; name the commands, as in command = "make test"`
	}
	p := r.argv
	if !p.rest || len(p.words) != 1 {
		return ""
	}
	name := p.words[0].text
	name = name[strings.LastIndexByte(name, '/')+1:]
	if family, ok := families[name]; ok {
		return "it allows every command of " + name + ", " + family[1] + ` among them; name them, as in command = "` + family[0] + `"`
	}
	base := strings.TrimRight(name, "0123456789.")
	switch {
	case shell.IsWrapper(name):
		return name + " runs the command that follows: the rule says nothing of that one, which needs a rule of its own; name the whole command"
	case anything[name] || anything[base] || shell.IsShell(name):
		return name + ` runs whatever text it is given: the rule allows every program there is; name the script, as in command = "` + name + ` scripts/check *"`
	case name == "rm" || name == "dd" || name == "chmod" || name == "chown" || name == "mv":
		return name + " takes any file of any place: the rule allows it outside the project too; name the files"
	case name == "curl" || name == "wget":
		return name + " sends and writes files with the right option; name the address, or leave it to the fetching tool and a domain rule"
	}
	return ""
}

func widePath(r *rule) string {
	if r.Tool == "read" && r.path == nil && r.Outside == "" {
		return `it allows reading every file, keys and passwords too; add path = "<project>/**"`
	}
	if r.Tool == "read" && r.path == nil {
		return `it allows reading every file outside the project, keys and passwords too; add "path"`
	}
	if r.path == nil {
		if r.Outside != "" {
			return `it allows changing every file outside the project; add "path"`
		}
		return `it allows changing every file of yours; add path = "<project>/**"`
	}
	all := literalPart(strings.TrimPrefix(strings.TrimPrefix(r.Path, "~/"), "<home>/")) == "" && strings.HasSuffix(r.Path, "**")
	if !all {
		return ""
	}
	what := "changing"
	if r.Tool == "read" {
		what = "reading"
	}
	switch r.path.Anchor() {
	case paths.AnchorRoot, paths.AnchorAny:
		return "it allows " + what + ` every file there is; name a directory, as in path = "<project>/**"`
	case paths.AnchorHome:
		return "it allows " + what + ` every file of your home; name a directory, as in path = "~/work/**"`
	}
	return ""
}

// narrowerThanMeant says what a rule that forbids lets through although it
// looks as if it did not: an option with words after it.
func narrowerThanMeant(r *rule) string {
	if r.prove || r.argv == nil || r.argv.rest || len(r.argv.words) < 2 {
		return ""
	}
	last := &r.argv.words[len(r.argv.words)-1]
	if !strings.HasPrefix(last.text, "-") || !last.literal() {
		return ""
	}
	return `it says nothing of the command with further words; write command = "` + strings.ReplaceAll(r.Command, `"`, `\"`) + ` *", which in a rule that forbids also matches without any`
}
