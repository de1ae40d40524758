package policy

import (
	"strings"

	"permd/policy/shell"
)

// spec is what the operands of a program that is no known reader are to it.
type spec struct {
	how  access // of each operand
	last access // of the last one, 0 for the same
	// skip is how many leading operands are no files.
	skip int
	none bool // nothing is a file
}

// specs are the programs whose operands are known, beside the readers. Of any
// other program every word may be a file, read or written.
var specs = map[string]spec{
	"cp": {how: accessRead, last: accessWrite}, "install": {how: accessRead, last: accessWrite}, "rsync": {how: accessRead, last: accessWrite},
	"scp": {how: accessRead, last: accessWrite}, "ln": {how: accessRead, last: accessWrite}, "mv": {how: accessWrite},
	"rm": {how: accessWrite}, "rmdir": {how: accessWrite}, "unlink": {how: accessWrite}, "shred": {how: accessWrite}, "mkdir": {how: accessWrite},
	"touch": {how: accessWrite}, "tee": {how: accessWrite}, "truncate": {how: accessWrite}, "mkfifo": {how: accessWrite}, "trash": {how: accessWrite},
	"chmod": {how: accessWrite}, "chown": {how: accessWrite}, "chgrp": {how: accessWrite}, "chattr": {how: accessWrite},
	"source": {how: accessRead}, ".": {how: accessRead},
	"kill": {none: true}, "pkill": {none: true}, "killall": {none: true}, "pgrep": {none: true}, "pidof": {none: true}, "exit": {none: true},
	"return": {none: true}, "export": {none: true}, "declare": {none: true}, "local": {none: true}, "readonly": {none: true}, "typeset": {none: true},
	"unset": {none: true}, "set": {none: true}, "shift": {none: true}, "wait": {none: true}, "alias": {none: true}, "unalias": {none: true},
	"expr": {none: true}, "let": {none: true}, "read": {none: true}, "trap": {none: true}, "eval": {none: true}, "break": {none: true}, "continue": {none: true},
	"permd": {none: true}, "tmux": {none: true}, "screen": {none: true},
	"less": {how: accessRead}, "more": {how: accessRead}, "bat": {how: accessRead}, "tar": {how: accessAny},
}

// interpreters run their first operand; what else they get may be anything.
var interpreters = map[string]bool{
	"python": true, "python3": true, "python2": true, "node": true, "nodejs": true, "deno": true, "bun": true, "ruby": true, "perl": true, "php": true,
	"lua": true, "Rscript": true, "tsx": true, "ts-node": true, "osascript": true, "java": true, "pwsh": true,
	"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "mksh": true, "ash": true, "fish": true,
}

// touched lists what the words of u may be as files, and whether u certainly
// reads these and does nothing else.
func touched(u *shell.Unit) (touches []touch, reads bool) {
	if u.Remote {
		return nil, false
	}
	t, literal, ok := readCommand(u)
	if ok {
		return t, literal && !u.Guess
	}
	return otherTouched(u), false
}

func otherTouched(u *shell.Unit) []touch {
	name, args := u.Name(), u.Words[1:]
	// The words of go are text only where it reads: it builds into files, and
	// works in the directory that it is told.
	if name == "" || shell.IsWrapper(name) || readers[name] != nil && readers[name].text && name != "go" {
		return nil
	}
	var out []touch
	s, known := specs[name]
	switch {
	case s.none:
		return nil
	case known:
	case name == "git":
		return gitTouched(args)
	case name == "find":
		return findTouched(args)
	case interpreters[name]:
		out = interpreted(name, args)
		if u.Stdin != "" && !shell.IsShell(name) && readsProgram(args) {
			out = inProgram(out, shell.Word{Text: u.Stdin})
		}
		return out
	default:
		s = spec{how: accessAny}
		if d := readers[name]; d != nil && d.script {
			s.skip = 1 // a pattern, though an option is not known
		}
	}
	ops := 0
	for i := range args {
		if isOption(args[i].Text) {
			out = appendOption(out, args[i])
			continue
		}
		if ops++; ops > s.skip {
			out = appendOperand(out, args[i], s.how)
		}
	}
	switch n := len(out); {
	case s.last == 0 || n == 0:
	case intoDirectory(args):
		for i := range out {
			out[i].how |= accessWrite
		}
	case ops > 1:
		out[n-1].how = s.last
	}
	return out
}

// intoDirectory reports whether cp and its like are told where to by an option:
// then any of the words may be the place that is written to.
func intoDirectory(args []shell.Word) bool {
	for i := range args {
		if s := args[i].Text; strings.HasPrefix(s, "--target") || isOption(s) && s[1] != '-' && strings.Contains(s, "t") {
			return true
		}
	}
	return false
}

func isOption(s string) bool { return len(s) > 1 && s[0] == '-' }

// appendOption finds a file within an option: --file=x, -C/x, -I../x.
func appendOption(out []touch, w shell.Word) []touch {
	s := w.Text
	if name, value, ok := strings.Cut(s, "="); ok {
		if !messageOption(name) {
			w.Text = value
			out = appendOperand(out, w, accessAny)
		}
		return out
	}
	if len(s) > 2 && s[1] != '-' && strings.ContainsAny(s[2:], "./~") {
		w.Text = strings.TrimPrefix(s[2:], "@")
		return append(out, touch{word: w, how: accessAny})
	}
	return out
}

func messageOption(name string) bool {
	switch name {
	case "--message", "--grep", "--author", "--format", "--pretty", "--regexp", "--title", "--body", "--description", "--filter", "--query":
		return true
	}
	return false
}

// appendOperand finds the files that an operand may name: itself, and what
// stands behind "=", "@" and ":" in it.
func appendOperand(out []touch, w shell.Word, how access) []touch {
	const longest = 4096
	s := w.Text
	if s == "" || s == "-" || len(s) > longest || strings.Contains(s, "\n") {
		return out
	}
	if scheme, rest, ok := strings.Cut(s, "://"); ok && isScheme(scheme) {
		if scheme == "file" {
			w.Text = rest
			return append(out, touch{word: w, how: how})
		}
		return out
	}
	out = append(out, touch{word: w, how: how})
	if rest, ok := strings.CutPrefix(s, "@"); ok && rest != "" {
		w.Text = rest
		out = append(out, touch{word: w, how: how})
	}
	if name, value, ok := strings.Cut(s, "="); ok && name != "" {
		value = strings.TrimPrefix(value, "@")
		if value != "" {
			w.Text = value
			out = append(out, touch{word: w, how: how})
		}
	}
	if i := strings.LastIndexByte(s, ':'); i > 0 && i+1 < len(s) && !strings.ContainsAny(s, " \t") {
		w.Text = s[i+1:]
		out = append(out, touch{word: w, how: how})
	}
	return out
}

func isScheme(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-") == ""
}

// readsProgram reports whether an interpreter takes its program from standard
// input: it is told of no other.
func readsProgram(args []shell.Word) bool {
	for i := range args {
		if s := args[i].Text; s == "-c" || s == "-e" || s == "-m" || s == "--eval" || s == "-p" || s != "-" && !isOption(s) {
			return false
		}
	}
	return true
}

// interpreted are the files of an interpreter's command line: a program text
// is none, the script is read.
func interpreted(name string, args []shell.Word) []touch {
	var out []touch
	evals := " -c -e -E --eval -p -r "
	if shell.IsShell(name) {
		evals = " -c -lc -ic -ec "
	}
	script := false
	for i := 0; i < len(args); i++ {
		s := args[i].Text
		switch {
		case script:
			out = appendOperand(out, args[i], accessAny)
		case strings.Contains(evals, " "+s+" "):
			if i++; i < len(args) && !shell.IsShell(name) {
				out = inProgram(out, args[i])
			}
			script = true
		case s == "-m":
			i++
			script = true
		case isOption(s):
			out = appendOption(out, args[i])
		default:
			out = append(out, touch{word: args[i], how: accessRead})
			script = true
		}
	}
	return out
}

// findTouched are the files of a find that does more than look: what it is to
// run is a command of its own.
func findTouched(args []shell.Word) []touch {
	var out []touch
	paths := true
	for i := 0; i < len(args); i++ {
		switch s := args[i].Text; {
		case s == "-exec" || s == "-execdir" || s == "-ok" || s == "-okdir":
			return out
		case s == "-fprint" || s == "-fprint0" || s == "-fprintf" || s == "-fls" || s == "-newer" || s == "-samefile" || s == "-files0-from":
			paths = false
			if i+1 < len(args) {
				out = append(out, touch{word: args[i+1], how: accessAny})
			}
		case isOption(s) || s == "(" || s == "!":
			paths = paths && (s == "-H" || s == "-L" || s == "-P")
		case paths:
			out = append(out, touch{word: args[i], how: accessAny})
		}
	}
	return out
}

// gitTouched are the files of a git command line that is no known reader's.
func gitTouched(args []shell.Word) []touch {
	var out []touch
	for len(args) > 0 && isOption(args[0].Text) {
		switch args[0].Text {
		case "-C", "-c", "--git-dir", "--work-tree", "--exec-path", "--namespace", "--config-env":
			if args[0].Text != "-c" && len(args) > 1 {
				out = append(out, touch{word: args[1], how: accessAny})
			}
			args = args[1:]
		default:
			out = appendOption(out, args[0])
		}
		if len(args) > 0 {
			args = args[1:]
		}
	}
	if len(args) == 0 {
		return out
	}
	how := accessAny
	sub := args[0].Text
	switch sub {
	case "add", "commit", "push", "fetch", "pull", "log", "show", "diff", "blame", "grep", "status", "branch", "tag", "remote", "rev-parse", "ls-files":
		how = accessRead
	}
	for i := 1; i < len(args); i++ {
		s := args[i].Text
		switch {
		case messageFlag(sub, s):
			i++
		case isOption(s):
			out = appendOption(out, args[i])
		default:
			out = appendOperand(out, args[i], how)
		}
	}
	return out
}

// messageFlag reports whether the option's value is a text of the subcommand.
func messageFlag(sub, s string) bool {
	switch sub {
	case "commit", "tag", "merge", "stash", "notes", "revert", "cherry-pick":
		if len(s) > 1 && s[0] == '-' && s[1] != '-' && strings.HasSuffix(s, "m") {
			return true
		}
		return s == "--message" || s == "--author" || s == "--trailer" || s == "--date"
	case "log", "grep", "show":
		return s == "--grep" || s == "-S" || s == "-G" || s == "-e" || s == "--author"
	}
	return false
}
