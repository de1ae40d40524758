package shell

import "strings"

// grammar is how a wrapper reads its own options before the command that it
// starts. An option that is not listed is not understood.
type grammar struct {
	flags   string // short options without a value
	values  string // short options with a value, glued or the next word
	glued   string // short options whose value can only be glued
	long    string // long options without a value, by spaces
	longVal string // long options with a value, after "=" or the next word
	// longAny takes every other long option as one with a value.
	longAny bool
	// digits takes -5 as an option (nice, head).
	digits bool
	// assigns takes NAME=value words before the command.
	assigns bool
	// operands is how many words of its own stand before the command.
	operands int
	// dir is the short or long option that names the command's directory.
	dir, longDir string
	// none are options with which no command is started.
	none string
	// script is the short option whose value is text for a shell, longScript
	// the long one.
	script, longScript string
	// pure is true for a wrapper that changes only how long, how fast or in
	// which directory the command runs.
	pure bool
	// more is true when the command gets further words.
	more bool
	// shell is true when the words are joined and read by a shell.
	shell bool
	// remote is true when the command runs elsewhere.
	remote bool
}

// parsed is a wrapper's command line, read.
type parsed struct {
	rest    []Word // the command
	assigns []Assign
	dir     *Word
	opts    []option
	none    bool // no command is started
	ok      bool // every option was understood
}

// option is one option as met; Value is nil for those without.
type option struct {
	name  string
	value *Word
}

// read parses words, which begin after the wrapper's name.
func (g *grammar) read(words []Word) parsed {
	p := parsed{ok: true}
	i := 0
	for ; i < len(words); i++ {
		s := words[i].Text
		if s == "--" {
			i++
			break
		}
		if len(s) < 2 || s[0] != '-' {
			break
		}
		if words[i].Unknown() {
			p.ok = false
			break
		}
		took, ok := g.option(&p, words[i:])
		if !ok {
			p.ok = false
			p.rest = words[i+1:]
			return p
		}
		i += took - 1
	}
	for ; g.assigns && i < len(words); i++ {
		name, value, ok := strings.Cut(words[i].Text, "=")
		if !ok || !ValidName(name) {
			break
		}
		v := words[i]
		v.Text = value
		p.assigns = append(p.assigns, Assign{Name: name, Value: v, Unit: -1})
	}
	p.rest = words[min(i+g.operands, len(words)):]
	return p
}

// option reads the option that words begin with and returns how many words it
// took.
func (g *grammar) option(p *parsed, words []Word) (took int, ok bool) {
	s := words[0].Text
	if strings.HasPrefix(s, "--") {
		return g.longOption(p, words)
	}
	if g.digits && strings.Trim(s[1:], "0123456789") == "" {
		return 1, true
	}
	for j := 1; j < len(s); j++ {
		c := s[j : j+1]
		if strings.Contains(g.none, c) {
			p.none = true
		}
		switch {
		case strings.Contains(g.flags, c):
			p.opts = append(p.opts, option{name: c})
		case strings.Contains(g.glued, c):
			return 1, true
		case strings.Contains(g.values, c):
			v := words[0]
			took = 1
			if v.Text = s[j+1:]; v.Text == "" {
				if len(words) < 2 {
					return 1, false
				}
				v, took = words[1], 2
			}
			p.take(c, v, g.dir)
			return took, true
		default:
			return 1, false
		}
	}
	return 1, true
}

func (p *parsed) take(name string, v Word, dir string) {
	p.opts = append(p.opts, option{name, &v})
	if name == dir && dir != "" {
		p.dir = &v
	}
}

func (g *grammar) longOption(p *parsed, words []Word) (took int, ok bool) {
	name, value, glued := strings.Cut(words[0].Text[2:], "=")
	full, takes := g.find(name)
	switch {
	case full == "" && glued && g.longAny:
		return 1, true
	case full == "" && g.longAny:
		full, takes = name, true
	case full == "":
		return 1, false
	}
	if !takes {
		p.opts = append(p.opts, option{name: full})
		return 1, true
	}
	v := words[0]
	took = 1
	if v.Text = value; !glued {
		if len(words) < 2 {
			return 1, false
		}
		v, took = words[1], 2
	}
	p.take(full, v, g.longDir)
	return took, true
}

// find looks a long option up; like getopt it takes a prefix that fits only
// one.
func (g *grammar) find(name string) (full string, takes bool) {
	n := 0
	for i, list := range []string{g.long, g.longVal} {
		for _, o := range strings.Fields(list) {
			if o == name {
				return o, i == 1
			}
			if strings.HasPrefix(o, name) {
				n, full, takes = n+1, o, i == 1
			}
		}
	}
	if n != 1 {
		return "", false
	}
	return full, takes
}

// wrappers are programs that start another program.
var wrappers = map[string]*grammar{
	"sudo": {flags: "AbBEeHiKklnNPSsVv", values: "CDghpRrTtUu", long: "askpass background bell edit preserve-env set-home login list non-interactive no-update remove-timestamp reset-timestamp shell stdin validate version preserve-groups",
		longVal: "close-from chdir group host prompt chroot role command-timeout type other-user user", assigns: true, dir: "D", longDir: "chdir", none: "eklKvV"},
	"doas":  {flags: "nLs", values: "aCu", none: "L"},
	"env":   {pure: true, flags: "i0v", values: "uCSa", long: "ignore-environment null debug list-signal-handling", longVal: "unset chdir split-string argv0 block-signal default-signal ignore-signal", assigns: true, dir: "C", longDir: "chdir", script: "S", longScript: "split-string"},
	"nohup": {pure: true}, "builtin": {pure: true}, "noglob": {pure: true}, "nocorrect": {}, "busybox": {}, "toybox": {}, "torsocks": {}, "torify": {}, "unbuffer": {flags: "p"},
	"-":        {},
	"command":  {pure: true, flags: "pvV", none: "vV"},
	"exec":     {pure: true, flags: "cl", values: "a"},
	"setsid":   {pure: true, flags: "cfw", long: "ctty fork wait"},
	"nice":     {pure: true, values: "n", longVal: "adjustment", digits: true},
	"ionice":   {pure: true, flags: "t", values: "cnpPu", long: "ignore", longVal: "class classdata pid pgid uid"},
	"time":     {pure: true, flags: "apqvV", values: "fo", long: "append portability quiet verbose", longVal: "format output"},
	"timeout":  {pure: true, flags: "fpv", values: "ks", long: "foreground preserve-status verbose", longVal: "kill-after signal", operands: 1},
	"gtimeout": {pure: true, flags: "fpv", values: "ks", long: "foreground preserve-status verbose", longVal: "kill-after signal", operands: 1},
	"stdbuf":   {pure: true, values: "ioe", longVal: "input output error"},
	"chrt":     {flags: "abdfiomrRv", values: "TPD", operands: 1},
	"taskset":  {flags: "ac", long: "all-tasks cpu-list", operands: 1},
	"xargs": {pure: true, flags: "0oprtx", values: "adEILnPsJRS", glued: "eil", long: "null open-tty interactive no-run-if-empty verbose exit show-limits eof replace max-lines",
		longVal: "arg-file delimiter max-args max-procs max-chars process-slot-var", more: true},
	"chroot":           {longVal: "userspec groups", long: "skip-chdir", operands: 1, remote: true},
	"unshare":          {flags: "muinpUCTfrc", values: "SGRw", long: "mount uts ipc net pid user cgroup time fork map-root-user map-current-user", longAny: true, dir: "w"},
	"pkexec":           {long: "disable-internal-agent keep-cwd", longVal: "user"},
	"runuser":          {flags: "lmpfP", values: "ugGcs", long: "login", longVal: "user group supp-group command shell", script: "c", longScript: "command"},
	"caffeinate":       {pure: true, flags: "dimsu", values: "tw"},
	"proxychains":      {flags: "q", values: "f"},
	"proxychains4":     {flags: "q", values: "f"},
	"systemd-run":      {flags: "qGtPdSr", values: "pHMuE", long: "user system scope same-dir pty pipe shell quiet collect wait no-block no-ask-password remain-after-exit send-sighup slice-inherit", longAny: true},
	"strace":           {flags: "cCdDfFhiknqrtTvVwxyYzZ", values: "abeEIoOpPsSuUX", long: "", longAny: true},
	"ltrace":           {flags: "bcCfhiLnrStTV", values: "aADeFlnopsuwx", longAny: true},
	"flock":            {flags: "sxeunoFvhV", values: "wEc", long: "shared exclusive unlock nonblock close no-fork verbose", longVal: "timeout wait conflict-exit-code command", operands: 1, script: "c", longScript: "command"},
	"watch":            {flags: "bcdegptvwxC", values: "niqs", long: "beep color differences errexit chgexit no-title no-wrap precise exec", longVal: "interval equexit", shell: true},
	"ssh":              {flags: "46AaCfGgKkMNnqsTtVvXxYy", values: "BbcDEeFIiJLlmOopQRSWw", operands: 1, shell: true, remote: true},
	"dbus-run-session": {longVal: "config-file dbus-daemon"},
	"npx":              {flags: "yq", values: "pcw", long: "yes no quiet no-install ignore-existing", longVal: "package call workspace", script: "c", longScript: "call"},
	"bunx":             {flags: "y", values: "p", long: "bun silent verbose", longVal: "package"},
	"pnpx":             {flags: "c", long: "shell-mode silent", longVal: "package"},
}

// containers are programs whose exec and run start a command elsewhere.
var containers = map[string]bool{"docker": true, "podman": true, "nerdctl": true}

var containerGrammar = &grammar{flags: "ditPq", values: "aceghlmpuvw", long: "rm privileged init detach interactive tty read-only no-healthcheck publish-all quiet sig-proxy no-TTY",
	longAny: true, operands: 1, remote: true}

// shells read a command line from a word after -c, from a file, or from
// standard input.
var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "mksh": true, "ash": true, "rbash": true, "fish": true, "yash": true}

// IsWrapper reports whether a program of this name does nothing itself but
// start the one that its words name.
func IsWrapper(name string) bool { return wrappers[name] != nil || name == "parallel" }

// IsShell reports whether a program of this name is a shell.
func IsShell(name string) bool { return shells[name] }
