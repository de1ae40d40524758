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
	"tar": "--checkpoint-action --to-command --use-compress-program --rmt-command --rsh-command --info-script --new-volume-script",
	"rg":  "--pre --hostname-bin", "sort": "--compress-program --output", "rsync": "--rsh --rsync-path", "go": "-exec -toolexec -vettool",
	"npm": "--script-shell --node-options --userconfig --globalconfig", "find": "-delete -fprint -fprint0 -fprintf -fls",
	"fd": "--exec --exec-batch", "fdfind": "--exec --exec-batch", "zip": "-TT --unzip-command", "curl": "--config", "wget": "--use-askpass --config",
	"make": "SHELL --file --makefile --eval", "gcc": "-wrapper -specs -fplugin", "g++": "-wrapper -specs -fplugin", "clang": "-fplugin",
	"vim": "--cmd", "nvim": "--cmd", "man": "--pager", "less": "--log-file", "ip": "-batch", "openssl": "-engine", "jq": "--rawfile --slurpfile", "date": "--set",
}

// escapeLetters are such options of one letter.
var escapeLetters = map[string]string{
	"tar": "IF", "sort": "o", "rsync": "e", "scp": "SoF", "ssh": "oF", "fd": "xX", "fdfind": "xX", "curl": "K", "make": "f", "vim": "cSu", "nvim": "cSu",
	"man": "PH", "less": "oO", "tcpdump": "z", "jq": "L", "date": "s", "hostname": "Fb", "tree": "oR",
}

// escapes says that an option of u does more than its program's name tells.
func escapes(u *shell.Unit) string {
	name, args := u.Name(), u.Words[1:]
	for _, a := range args {
		if escapeOption(escapeOptions[name], escapeLetters[name], a.Text) {
			return escapeText
		}
	}
	switch name {
	case "env", "sudo", "doas":
		if armsEnvironment(args) {
			return escapeText
		}
	case "git":
		if gitEscapes(args) {
			return escapeText
		}
	case "sed", "gsed":
		if sedEscapes(args) {
			return escapeText
		}
	case "awk", "gawk", "nawk", "mawk":
		for _, a := range args {
			if t := a.Text; strings.Contains(t, "system") || strings.ContainsAny(t, "|>") || strings.Contains(t, "getline") || strings.HasPrefix(t, "-i") || strings.HasPrefix(t, "-l") || strings.HasPrefix(t, "-f") {
				return escapeText
			}
		}
	}
	return ""
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

// sedEscapes finds -i, and scripts that write a file or run a command.
func sedEscapes(args []shell.Word) bool {
	script := false
	for i, a := range args {
		s := a.Text
		switch {
		case strings.HasPrefix(s, "-i"), strings.HasPrefix(s, "--in-place"), s == "-f", strings.HasPrefix(s, "--file"), strings.HasPrefix(s, "-s") && strings.Contains(s, "i"):
			return true
		case isOption(s) && strings.HasSuffix(s, "e") && !strings.HasPrefix(s, "--"):
			script = true
			if i+1 < len(args) && sedWrites(args[i+1].Text) {
				return true
			}
		case strings.HasPrefix(s, "-") && !strings.HasPrefix(s, "--") && strings.Contains(s, "i"):
			return true
		case !isOption(s) && !script:
			script = true
			if sedWrites(s) {
				return true
			}
		}
	}
	return false
}

// sedWrites reports whether a sed script may write a file (w, W), read one (r)
// or run a command (e): the letter as a command or as a flag of s///.
func sedWrites(script string) bool {
	if !strings.ContainsAny(script, "weWrR") {
		return false
	}
	for i := 0; i < len(script); i++ {
		if strings.IndexByte("weWrR", script[i]) < 0 {
			continue
		}
		before := strings.TrimRight(script[:i], " \t")
		after := script[i+1:]
		atStart := before == "" || strings.ContainsAny(before[len(before)-1:], "0123456789$/;{}!,\n|#gIpm")
		ends := after == "" || strings.ContainsAny(after[:1], " \t\n;}gIpm/")
		if atStart && ends {
			return true
		}
	}
	return false
}
