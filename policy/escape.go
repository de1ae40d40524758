package policy

import (
	"strings"

	"permd/policy/shell"
)

const escapeText = "an option of this command runs another program or writes a file; only a rule for exactly this command covers it"

// escapeOptions are long options with which a well-known program runs another
// one, or writes where its rule does not say. A rule with a star in it does
// not cover them.
var escapeOptions = map[string]string{
	"tar":   "--checkpoint-action --to-command --use-compress-program --rmt-command --rsh-command --info-script --new-volume-script",
	"rsync": "--rsh --rsync-path", "go": "-exec -toolexec -vettool",
	"npm": "--script-shell --node-options --userconfig --globalconfig",
	"zip": "-TT --unzip-command", "curl": "--config", "wget": "--use-askpass --config",
	"make": "SHELL --file --makefile --eval", "gcc": "-wrapper -specs -fplugin", "g++": "-wrapper -specs -fplugin", "clang": "-fplugin",
	"vim": "--cmd", "nvim": "--cmd", "man": "--pager", "less": "--log-file", "ip": "-batch", "openssl": "-engine",
	"sudo": "--edit --shell --login --chroot --host", "env": "--split-string", "xargs": "--arg-file --open-tty",
}

// escapeLetters are such options of one letter.
var escapeLetters = map[string]string{
	"tar": "IF", "rsync": "e", "scp": "SoF", "ssh": "oF", "curl": "K", "make": "f", "vim": "cSu", "nvim": "cSu",
	"man": "PH", "less": "oO", "tcpdump": "z", "hostname": "Fb", "sudo": "esiRh", "env": "SP", "xargs": "ao",
}

// escapes says that an option of u does more than its program's name tells. A
// program that only reads may have the options that are listed for it, those
// that read more than its words name among them.
func escapes(u *shell.Unit) string {
	name, args := u.Name(), ownArgs(u.Name(), u.Words[1:])
	switch name {
	case "env", "sudo", "doas":
		if armsEnvironment(args) {
			return escapeText
		}
	case "git":
		if gitEscapes(args) {
			return escapeText
		}
		return ""
	case "find":
		for _, a := range args {
			if listed("-delete -fprint -fprint0 -fprintf -fls", a.Text) {
				return escapeText
			}
		}
		return ""
	}
	for _, a := range args {
		if escapeOption(escapeOptions[name], escapeLetters[name], a.Text) {
			return escapeText
		}
	}
	if interpreters[name] && u.Fed && u.Stdin == "" && !shell.IsShell(name) && readsProgram(args) {
		return "it runs a program that comes through a pipe, and is not known"
	}
	if name == "." || name == "source" || interpreters[name] {
		for _, a := range args {
			if s := a.Text; s == "/dev/stdin" || strings.HasPrefix(s, "/dev/fd/") || strings.HasPrefix(s, "/proc/") && strings.Contains(s, "/fd/") {
				return "it runs a program that comes through a descriptor, and is not known"
			}
		}
	}
	if !listed(plainReaders, name) {
		return ""
	}
	d := readers[name]
	r, ok := d.parse(args)
	if ok && (name == "sed" || d == awk) {
		ok = d.check(&r)
	}
	if !ok {
		return escapeText
	}
	return ""
}

// plainReaders only read, but for some of their options: of these none but
// the listed ones are covered. What other readers could be told is harmless.
const plainReaders = "sort rg grep egrep fgrep tree uniq xxd file date jq sed awk gawk mawk nawk fd fdfind lsof ss"

// ownArgs are the words of a program that starts another one which are its
// own: what it starts is judged for itself.
func ownArgs(name string, args []shell.Word) []shell.Word {
	own, known := ownOptions[name]
	if !known {
		return args
	}
	left := own.operands
	for i := 0; i < len(args); i++ {
		s := args[i].Text
		switch {
		case s == "--":
			return args[:i]
		case isOption(s):
			if len(s) == 2 && strings.IndexByte(own.values, s[1]) >= 0 || listed(own.long, s) {
				i++
			}
		case own.assigns && strings.Contains(s, "="):
		case left == 0:
			return args[:i]
		default:
			left--
		}
	}
	return args
}

// ownOptions are the options with a value of programs that start another one.
var ownOptions = map[string]struct {
	values, long string
	operands     int
	assigns      bool
}{
	"sudo": {values: "CDghpRrTtUu", long: "--close-from --chdir --group --host --prompt --chroot --role --command-timeout --type --other-user --user", assigns: true},
	"doas": {values: "aCu"}, "env": {values: "uCSaP", long: "--unset --chdir --split-string --argv0", assigns: true},
	"ssh": {values: "BbcDEeFIiJLlmOopQRSWw", operands: 1}, "nice": {values: "n"}, "timeout": {values: "ks", operands: 1}, "xargs": {values: "adEILnPsR"},
}

// plainVariables change how programs print, not what they do.
var plainVariables = map[string]bool{"TZ": true, "LANG": true, "LANGUAGE": true, "NO_COLOR": true, "FORCE_COLOR": true, "CLICOLOR": true, "TERM": true, "COLUMNS": true, "LINES": true, "CI": true}

// armsEnvironment reports whether words set a variable that may make the
// program after them another one.
func armsEnvironment(args []shell.Word) bool {
	for _, a := range args {
		name, _, ok := strings.Cut(a.Text, "=")
		if ok && shell.ValidName(name) && !plainVariables[name] && !strings.HasPrefix(name, "LC_") {
			return true
		}
	}
	return false
}

func escapeOption(list, letters, s string) bool {
	name, _, _ := strings.Cut(s, "=")
	for o := range strings.FieldsSeq(list) {
		abbreviates := strings.HasPrefix(o, "--") && len(name) > 4 && strings.HasPrefix(o, name)
		if name == o && (isOption(s) || name != s) || abbreviates {
			return true
		}
	}
	if letters == "" || !isOption(s) || s[1] == '-' {
		return false
	}
	if strings.IndexByte(letters, s[1]) >= 0 {
		return true
	}
	// Several short options in one word.
	const most = 5
	return len(s) <= most && strings.ContainsAny(s[1:], letters) && strings.Trim(s[1:], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

func gitEscapes(args []shell.Word) bool {
	sub := ""
	for i, a := range args {
		s := a.Text
		name, _, glued := strings.Cut(s, "=")
		switch name {
		case "--upload-pack", "--receive-pack", "--exec", "--ext-diff", "--textconv", "--output", "--open-files-in-pager", "--extcmd", "--tool", "--template", "--output-directory":
			return true
		}
		switch {
		case sub == "" && (strings.HasPrefix(s, "-c") || name == "--config-env" || name == "--exec-path" && glued):
			return true
		case strings.Contains(s, "ext::") || strings.Contains(s, "fd::"):
			return true
		case sub == "rebase" && s == "-x", sub == "grep" && strings.HasPrefix(s, "-O"), sub == "difftool" && s == "-x":
			return true
		}
		if sub != "" || isOption(s) || i > 0 && gitTakesWord(args[i-1].Text) {
			continue
		}
		switch sub = s; sub {
		case "filter-branch", "daemon", "instaweb", "send-email", "imap-send":
			return true
		}
	}
	return false
}

// gitTakesWord reports whether git's own option s is followed by its value.
func gitTakesWord(s string) bool {
	switch s {
	case "-C", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--attr-source":
		return true
	}
	return false
}
