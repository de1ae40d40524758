package policy

import (
	"regexp"
	"strconv"
	"strings"

	"permd/policy/shell"
)

// removes reports whether u takes its operands away, or changes who may use
// them.
func removes(u *shell.Unit) bool {
	switch u.Name() {
	case "rm", "rmdir", "mv", "unlink", "shred", "trash", "chmod", "chown", "chgrp", "chattr", "setfacl", "ln", "truncate":
		return true
	case "find":
		return hasWord(u.Words, "-delete", "-exec", "-execdir")
	case "rsync":
		return hasWord(u.Words, "--delete", "--remove-source-files")
	}
	return false
}

// renames reports whether u gives its operands another name, under which they
// can be changed later: a link, or a mount.
func renames(u *shell.Unit) bool {
	switch u.Name() {
	case "ln", "link", "mount", "bindfs":
		return true
	case "cp":
		for _, a := range u.Words[1:] {
			if s := a.Text; s == "--link" || s == "--symbolic-link" || isOption(s) && s[1] != '-' && strings.ContainsAny(s, "ls") {
				return true
			}
		}
	}
	return false
}

// protectedCommand says why unit i must not run.
func (j *judge) protectedCommand(self *Self, i int) string {
	u := &j.script.Units[i]
	name := u.Name()
	if j.fold {
		name = strings.ToLower(name)
	}
	if u.Remote {
		return ""
	}
	switch {
	case name == "permd" || self.binary(u.Words[0].Text):
		return permdDenied(u.Words[1:])
	case name == "permd-hook":
		return "" // it asks the node, as any hook does
	}
	switch name {
	case "kill", "pkill", "killall", "skill", "snice", "xkill", "killall5":
		return j.kills(self, i, name)
	case "tmux":
		for _, a := range u.Words[1:] {
			if self.pane(a.Text) && (laterTerminal("tmux", u.Words[1:], terminalVerbs["tmux"]) != "" || hasWord(u.Words, "kill-pane", "killp", "kill-window", "killw", "kill-session")) {
				return "it would type into a desk of permd, or end it"
			}
		}
	}
	return switchedOff(u)
}

func (s *Self) binary(word string) bool {
	for _, b := range s.Binaries {
		if b == word && !strings.HasSuffix(b, "permd-hook") {
			return true
		}
	}
	return false
}

// pane reports whether a tmux target may be one of the desk's panes.
func (s *Self) pane(word string) bool {
	word = strings.TrimLeft(strings.TrimPrefix(word, "-t"), "= ")
	for _, p := range s.Panes {
		if word != "" && (word == p || strings.HasSuffix(word, ":"+p) || strings.HasSuffix(word, "."+p)) {
			return true
		}
	}
	return false
}

// freeSubcommands are what agents may ask of permd: they change nothing.
var freeSubcommands = map[string]bool{
	"ask": true, "hook": true, "mcp": true, "acp": true, "status": true, "sessions": true, "asks": true, "doctor": true, "review": true,
	"version": true, "help": true, "run": true, "--help": true, "-h": true, "--version": true,
}

var freePolicy = map[string]bool{"explain": true, "check": true, "test": true, "--help": true, "-h": true, "help": true}

// deniedSubcommand reports whether agents may not run permd SUB.
func deniedSubcommand(sub string) bool { return !freeSubcommands[sub] && sub != "policy" }

// permdSubcommand returns permd's subcommand and what follows it.
func permdSubcommand(args []shell.Word) (sub string, rest []shell.Word) {
	for len(args) > 0 {
		switch s := args[0].Text; {
		case s == "--root" && len(args) > 1:
			args = args[2:]
		case isOption(s) && !freeSubcommands[s]:
			args = args[1:]
		default:
			return s, args[1:]
		}
	}
	return "", nil
}

const permdText = "agents may not use this command of permd; a person runs it in a terminal of their own"

func permdDenied(args []shell.Word) string {
	sub, rest := permdSubcommand(args)
	switch {
	case sub == "":
		return "" // prints its help
	case sub == "policy":
		what, _ := permdSubcommand(rest)
		if what != "" && !freePolicy[what] {
			return permdText
		}
	case deniedSubcommand(sub):
		return permdText
	}
	return ""
}

// permdReads reports whether u is a question to permd that needs no ask.
func permdReads(u *shell.Unit) bool {
	if u.Words[0].Text != "permd" || permdDenied(u.Words[1:]) != "" {
		return false
	}
	sub, rest := permdSubcommand(u.Words[1:])
	if sub == "run" || sub == "acp" {
		return hasWord(rest, "--") // what they start is a command of its own
	}
	for _, a := range rest {
		name, _, _ := strings.Cut(a.Text, "=")
		switch name {
		case "-o", "--out", "--output", "--fix", "--file":
			return false
		}
	}
	return true
}

const killText = "it would end a process of permd"

// kills says whether a command would end a process of permd, by number or by
// name.
func (j *judge) kills(self *Self, i int, name string) string {
	u := &j.script.Units[i]
	named := false // by another command
	by := lookupOf(name, u.Words[1:], self)
	for k, a := range u.Words[1:] {
		s := a.Text
		named = named || a.Unknown() || u.More
		if name == "kill" || name == "skill" {
			if k == 0 && isOption(s) {
				continue // a signal
			}
			if n, err := strconv.Atoi(strings.TrimPrefix(s, "-")); err == nil && (self.pid(n) || s == "-1") {
				return killText
			}
			continue
		}
		if !isOption(s) && j.finds(&by, s) {
			return killText
		}
	}
	if (named || u.More) && j.namesPermd(i) {
		return killText
	}
	if name == "pkill" || name == "killall" || name == "killall5" {
		if everyone(name, u.Words[1:]) {
			return killText
		}
	}
	return ""
}

func (s *Self) pid(n int) bool {
	for _, p := range s.PIDs {
		if p == n {
			return true
		}
	}
	return false
}

// namesPermd reports whether another command of the same line looks permd's
// processes up: kill $(pgrep permd).
func (j *judge) namesPermd(but int) bool {
	if j.lookups == nil {
		j.lookups = []int{}
		for i := range j.script.Units {
			for _, a := range j.script.Units[i].Words {
				if strings.Contains(a.Text, "permd") {
					j.lookups = append(j.lookups, i)
					break
				}
			}
		}
	}
	return len(j.lookups) > 1 || len(j.lookups) == 1 && j.lookups[0] != but
}

// lookup is how pkill or killall finds processes: pkill takes a pattern over
// the name or, with -f, over the whole command line; killall a name, or with
// -r a pattern.
type lookup struct {
	lines []string // what permd's processes look like
	exact bool
}

func lookupOf(program string, args []shell.Word, self *Self) lookup {
	l := lookup{lines: []string{"permd", "permd-hook"}, exact: program == "killall" && !hasWord(args, "-r", "--regexp")}
	full := hasWord(args, "-f", "--full")
	for _, a := range args {
		full = full || len(a.Text) > 1 && a.Text[0] == '-' && a.Text[1] != '-' && len(a.Text) <= 4 && strings.Contains(a.Text, "f")
	}
	if full {
		l.lines = append(l.lines, "permd desk", "permd node")
		for _, b := range self.Binaries {
			l.lines = append(l.lines, b, b+" desk", b+" node")
		}
	}
	return l
}

// finds reports whether the lookup of pattern finds a process of permd.
func (j *judge) finds(l *lookup, pattern string) bool {
	var re *regexp.Regexp
	if !l.exact && pattern != "" {
		re = j.pattern(pattern)
	}
	for _, line := range l.lines {
		if strings.EqualFold(line, pattern) || re != nil && re.MatchString(line) {
			return true
		}
	}
	return false
}

// pattern compiles what an agent wrote as a regular expression, nil when it is
// none or there are too many or too long ones to look at.
func (j *judge) pattern(s string) *regexp.Regexp {
	const longest, most = 256, 64
	if re, ok := j.patterns[s]; ok {
		return re
	}
	if len(s) > longest || len(j.patterns) >= most {
		return nil
	}
	if j.patterns == nil {
		j.patterns = map[string]*regexp.Regexp{}
	}
	re, err := regexp.Compile("(?i)" + s)
	if err != nil {
		re = nil
	}
	j.patterns[s] = re
	return re
}

// everyone reports whether the command ends all of the user's processes: no
// name, but a user, terminal or session.
func everyone(name string, args []shell.Word) bool {
	if name == "killall5" {
		return true
	}
	operands, wide := 0, false
	for i := 0; i < len(args); i++ {
		switch s := args[i].Text; {
		case s == "-u" || s == "-U" || s == "--user" || s == "--euid" || s == "--uid" || s == "-g" || s == "-s" || s == "--session":
			wide = true
			i++
		case strings.HasPrefix(s, "-u") || strings.HasPrefix(s, "-U") || strings.HasPrefix(s, "--user=") || strings.HasPrefix(s, "--euid=") || strings.HasPrefix(s, "--uid="):
			wide = true
		case !isOption(s):
			operands++
		}
	}
	return wide && operands == 0
}
