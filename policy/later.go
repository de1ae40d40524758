package policy

import (
	"path"
	"slices"
	"strings"

	"permd/policy/paths"
	"permd/policy/shell"
)

// later says why a subject drives a terminal or runs at another time, where
// nobody judges it: then no rule with a pattern, no grant and no mode allows
// it. "" for everything else.
func (j *judge) later(s *subject) string {
	switch s.kind {
	case kindCommand:
		switch {
		case j.takesHome(s):
			return takesHome
		case j.madeHere(s):
			return madeHere
		case j.strangeGit(s):
			return strangeGit
		}
		return laterCommand(j.unit(s))
	case kindPath:
		if s.how&accessWrite == 0 {
			return ""
		}
		home := j.in.Action.Home
		for _, name := range []string{s.place.Given, s.place.Real} {
			if why := laterFile(name, home); why != "" {
				return why
			}
		}
	}
	return ""
}

const (
	drives  = "it types into, or reads from, another terminal"
	runs    = "it makes something run later, where it is not judged"
	traces  = "it takes control of another process"
	hosts   = "it gives a container files of this machine"
	readsIn = "the file is run or obeyed later by another program"

	madeHere   = "it runs a file that the same text makes or changes, and what that is then is not known"
	strangeGit = "git would take this directory, or one above it, for a repository of its own and run what the settings in it say"
	takesHome  = "it would make the home directory, or one above it, a repository: everything below would count as its project"
)

// madeHere reports whether the program of s, or the script of its interpreter,
// is a file that another part of the text makes, changes or links.
func (j *judge) madeHere(s *subject) bool {
	u := j.unit(s)
	if u.Remote {
		return j.namedElsewhere(s)
	}
	if len(j.subjects) < 3 {
		return false
	}
	var runs []string
	if name := u.Words[0].Text; strings.Contains(name, "/") {
		runs = append(runs, j.known(name, u.Dir)[0].Given)
	}
	if name := u.Name(); interpreters[name] || name == "." || name == "source" {
		for _, t := range interpreted(name, u.Words[1:]) {
			if t.how == accessRead {
				runs = append(runs, j.known(t.word.Text, u.Dir)[0].Given)
				break
			}
		}
	}
	if runs == nil {
		return false
	}
	made := j.madeFiles()
	for _, name := range runs {
		if unit, ok := made[name]; ok && unit != s.unit {
			return true
		}
	}
	return false
}

// severalMake is the unit of a file that more than one makes.
const severalMake = -2

// madeFiles are the files that parts of the text write, and the unit that does.
func (j *judge) madeFiles() map[string]int {
	if j.made != nil {
		return j.made
	}
	j.made = map[string]int{}
	for i := range j.subjects {
		p := &j.subjects[i]
		if p.kind != kindPath || p.how&accessWrite == 0 {
			continue
		}
		for _, name := range [...]string{p.place.Given, p.place.Real} {
			if by, ok := j.made[name]; ok && by != p.unit {
				j.made[name] = severalMake
			} else {
				j.made[name] = p.unit
			}
		}
	}
	return j.made
}

// namedElsewhere is madeHere on another machine, whose files are not known:
// another part of the text there has the program among its words.
func (j *judge) namedElsewhere(s *subject) bool {
	name := j.unit(s).Words[0].Text
	if !strings.Contains(name, "/") {
		return false
	}
	for i := range j.script.Units {
		if o := &j.script.Units[i]; i != s.unit && o.Remote {
			for _, w := range o.Words[1:] {
				if path.Clean(w.Text) == path.Clean(name) {
					return true
				}
			}
		}
	}
	return false
}

// strangeGit reports whether git, where s runs it, finds a directory with the
// files of a repository before it comes to the project's own. Such files have
// harmless names, so that writing them is not asked about.
func (j *judge) strangeGit(s *subject) bool {
	u := j.unit(s)
	lister, ok := j.in.View.(paths.Lister)
	if u.Name() != "git" || u.Remote || !ok || j.in.Node != Origin {
		return false
	}
	const levels, most = 16, 4096
	for _, dir := range append([]string{u.Dir}, u.Alts...) {
		for n := 0; n < levels && len(dir) > 1 && dir != j.anchors.Project.Given && dir != j.anchors.Project.Real; n++ {
			strange, seen := j.strange[dir]
			if !seen {
				names, _, err := lister.List(dir, most)
				strange = err == nil && slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, "HEAD") })
				if j.strange == nil {
					j.strange = map[string]bool{}
				}
				j.strange[dir] = strange
			}
			if strange {
				return true
			}
			dir = path.Dir(dir)
		}
	}
	return false
}

// takesHome reports whether s makes a repository of the home directory or of
// one above it.
func (j *judge) takesHome(s *subject) bool {
	u := j.unit(s)
	if u.Remote || !(u.Name() == "git" && hasWord(u.Words[1:], "init", "clone") || u.Name() == "jj" || u.Name() == "hg" || u.Name() == "svn") {
		return false
	}
	at := []string{u.Dir}
	for i := range j.subjects {
		if p := &j.subjects[i]; p.kind == kindPath && p.unit == s.unit {
			at = append(at, p.place.Given, p.place.Real)
		}
	}
	home := j.in.Action.Home
	for _, dir := range at {
		if home != "" && dir != "" && (paths.Under(dir, home) || paths.Under(dir, j.anchors.Home.Real)) {
			return true
		}
	}
	return false
}

// terminalVerbs are what tmux and zellij may be asked without driving anything.
var terminalVerbs = map[string]map[string]bool{
	"tmux": {"ls": true, "list-sessions": true, "lsw": true, "list-windows": true, "lsp": true, "list-panes": true, "list-clients": true, "lsc": true,
		"has": true, "has-session": true, "info": true, "show-environment": true, "showenv": true, "show-options": true, "show": true, "list-commands": true,
		"lscm": true, "list-keys": true, "lsk": true, "capture-pane": true, "capturep": true, "kill-session": true, "kill-window": true, "kill-pane": true,
		"select-window": true, "select-pane": true, "rename-window": true, "rename-session": true, "-V": true},
	"zellij": {"list-sessions": true, "ls": true, "setup": true, "--version": true},
	"screen": {"-ls": true, "-list": true, "-v": true, "--version": true},
}

// laterPrograms are programs of this kind whatever their words are.
var laterPrograms = map[string]string{
	"xdotool": drives, "ydotool": drives, "wtype": drives, "dotool": drives, "xte": drives, "osascript": drives, "reptyr": drives, "dtach": drives,
	"abduco": drives, "ttyecho": drives, "writevt": drives,
	"at": runs, "batch": runs, "systemd-run": runs, "launchctl": runs, "anacron": runs, "incrontab": runs, "schtasks": runs, "pm2": runs, "supervisorctl": runs,
	"busctl": runs, "dbus-send": runs, "gdbus": runs, "qdbus": runs, "gcore": traces, "py-spy": traces, "pyrasite": traces,
}

// laterCommand is later for a command.
func laterCommand(u *shell.Unit) string {
	name, args := u.Name(), u.Words[1:]
	if why := laterPrograms[name]; why != "" {
		return why
	}
	if verbs := terminalVerbs[name]; verbs != nil {
		return laterTerminal(name, args, verbs)
	}
	switch name {
	case "crontab":
		if len(args) == 1 && args[0].Text == "-l" {
			return ""
		}
		return runs
	case "systemctl":
		if hasWord(args, "enable", "start", "restart", "link", "edit", "set-environment", "import-environment", "reenable") {
			return runs
		}
	case "direnv", "mise":
		if hasWord(args, "allow", "permit", "edit", "trust") {
			return readsIn
		}
	case "pre-commit", "lefthook", "husky":
		if hasWord(args, "install", "init-templatedir", "add", "set") {
			return readsIn
		}
	case "kill", "pkill", "killall", "skill":
		if opensDebugger(args) {
			return traces
		}
	case "dlv", "jdb":
		if hasWord(args, "attach", "-attach") {
			return traces
		}
	case "node":
		if hasWord(args, "inspect") && hasWord(args, "-p") {
			return traces
		}
	case "gdb", "lldb", "strace", "ltrace", "dtrace", "bpftrace", "rr", "perf":
		if attaches(args) {
			return traces
		}
	case "kitty", "kitten", "wezterm":
		if hasWord(args, "@", "cli", "send-text", "launch", "spawn") {
			return drives
		}
	case "docker", "podman", "nerdctl":
		if mounts(args) {
			return hosts
		}
	case "git":
		return laterGit(args)
	}
	return ""
}

// opensDebugger reports whether a signal is one on which node and others open
// a port for a debugger.
func opensDebugger(args []shell.Word) bool {
	for i, a := range args {
		s := strings.ToUpper(a.Text)
		if i > 0 && (args[i-1].Text == "-s" || args[i-1].Text == "--signal" || args[i-1].Text == "-n") {
			s = "-" + s
		}
		_, s, _ = strings.Cut(s, "-")
		s = strings.TrimPrefix(strings.TrimPrefix(s, "-SIGNAL="), "S")
		switch strings.TrimPrefix(s, "IG") {
		case "USR1", "10", "30":
			return isOption(a.Text) || i > 0 && isOption(args[i-1].Text)
		}
	}
	return false
}

func hasWord(args []shell.Word, words ...string) bool {
	for _, a := range args {
		for _, w := range words {
			if a.Text == w {
				return true
			}
		}
	}
	return false
}

// laterTerminal finds the verbs of a terminal multiplexer; tmux takes several,
// separated by ";".
func laterTerminal(name string, args []shell.Word, verbs map[string]bool) string {
	if len(args) == 0 {
		return drives
	}
	verb := true
	for i := 0; i < len(args); i++ {
		s := args[i].Text
		switch {
		case s == ";" || s == `\;`:
			verb = true
		case !verb:
		case verbs[s]:
			verb = false
		case name == "tmux" && (s == "-L" || s == "-S" || s == "-f"):
			i++
		case name == "tmux" && len(s) == 2 && strings.Contains("-2-8-C-u-v-q-N", s):
		default:
			return drives
		}
	}
	return ""
}

func attaches(args []shell.Word) bool {
	for i, a := range args {
		s := a.Text
		switch {
		case s == "--pid" || s == "--attach-pid" || s == "attach" || strings.HasPrefix(s, "--pid="):
			return true
		case isOption(s) && s[1] != '-' && strings.HasSuffix(strings.TrimRight(s, "0123456789"), "p"):
			return true // -p 12, -fp12
		case i == len(args)-1 && isNumber(s):
			return true // gdb PROGRAM PID
		}
	}
	return false
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// mounts reports whether a container gets at the host: its files, its
// devices or its processes.
func mounts(args []shell.Word) bool {
	if !hasWord(args, "run", "create") {
		return false
	}
	for i, a := range args {
		name, value, _ := strings.Cut(a.Text, "=")
		next := ""
		if i+1 < len(args) {
			next = args[i+1].Text
		}
		switch name {
		case "--privileged", "--device", "--cap-add", "--volumes-from", "--security-opt":
			return true
		case "--pid", "--ipc", "--uts", "--network", "--net", "--userns":
			if value == "host" || next == "host" {
				return true
			}
		case "--mount":
			if strings.Contains(value+next, "bind") {
				return true
			}
		case "--volume", "-v":
			if v := value + next; hostPath(v) {
				return true
			}
		}
		if strings.HasPrefix(name, "-v") && len(name) > 2 && hostPath(a.Text[2:]) {
			return true
		}
	}
	return false
}

// hostPath reports whether a volume is a directory of this machine and not a
// named one.
func hostPath(v string) bool {
	return strings.HasPrefix(v, "/") || strings.HasPrefix(v, ".") || strings.HasPrefix(v, "~") || strings.ContainsRune(v, '\uFFFD')
}

// armedKeys are git settings under which git runs a program or fetches from
// elsewhere.
var armedKeys = []string{"core.", "alias.", "credential.", "diff.", "filter.", "merge.", "pager.", "init.templatedir", "include", "url.", "gpg.",
	"sequence.", "protocol.", "submodule.", "remote.", "browser.", "man.", "mergetool.", "difftool.", "interactive.", "uploadpack.", "ssh.", "trailer.", "sendemail.", "hook.", "fsmonitor.", "http.", "tar.", "web.", "imap.", "instaweb.", "pack.", "receive.", "safe."}

// laterGit finds settings that arm later git commands.
func laterGit(args []shell.Word) string {
	for len(args) > 0 && args[0].Text != "config" {
		if !isOption(args[0].Text) {
			if args[0].Text == "maintenance" && hasWord(args, "start", "register") || hasWord(args, "--template", "--separate-git-dir") {
				return readsIn
			}
			for _, a := range args {
				if strings.HasPrefix(a.Text, "--template=") || strings.HasPrefix(a.Text, "--separate-git-dir=") {
					return readsIn
				}
			}
			return ""
		}
		if s := args[0].Text; (s == "-C" || s == "-c" || s == "--git-dir" || s == "--work-tree") && len(args) > 1 {
			args = args[1:]
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return ""
	}
	args = args[1:]
	var words []string
	for _, a := range args {
		switch s := a.Text; {
		case s == "-e" || s == "--edit" || s == "edit":
			return readsIn
		case s == "--get" || s == "--get-all" || s == "--list" || s == "-l" || s == "list" || s == "get" || s == "--get-regexp" || s == "--unset" || s == "unset":
			return ""
		case isOption(s) || s == "set":
		default:
			words = append(words, strings.ToLower(s))
		}
	}
	if len(words) < 2 {
		return ""
	}
	for _, k := range armedKeys {
		for _, w := range words {
			if strings.HasPrefix(w, k) {
				return readsIn
			}
		}
	}
	return ""
}

// laterBases are files that another program runs or obeys, in any directory.
var laterBases = map[string]bool{
	".envrc": true, ".mcp.json": true, ".gitlab-ci.yml": true, "Jenkinsfile": true, "azure-pipelines.yml": true, ".pre-commit-config.yaml": true,
	"lefthook.yml": true, ".lefthook.yml": true, ".travis.yml": true, "bitbucket-pipelines.yml": true, ".gitmodules": true, ".gitconfig": true,
	".tmux.conf": true, ".screenrc": true, ".exrc": true, ".nvimrc": true, ".vimrc": true, ".drone.yml": true, ".woodpecker.yml": true, "appveyor.yml": true,
	".git": true, ".lldbinit": true, ".gdbinit": true,
}

// laterDirs are directories of such files, and laterIn what in them counts,
// "" for all.
var laterDirs = map[string]string{
	".git": "", ".husky": "", ".circleci": "", ".devcontainer": "", ".githooks": "", ".buildkite": "", ".woodpecker": "", ".forgejo": "", ".gitea": "",
	".github": "workflows actions", ".vscode": "tasks.json launch.json settings.json extensions.json mcp.json", ".idea": "runConfigurations workspace.xml externalTools",
	".zed": "tasks.json settings.json", ".cursor": "mcp.json hooks.json hooks", ".cargo": "config config.toml",
}

// homeLater are such files below the home directory.
var homeLater = []string{".config/systemd/", ".config/autostart/", ".config/git/", ".config/tmux/", ".config/nvim/", ".local/bin/", "bin/", ".ssh/",
	"Library/LaunchAgents/", ".local/share/applications/", ".local/share/systemd/"}

// terminalDevice reports whether a device is another terminal, or types keys.
func terminalDevice(name string) bool {
	return strings.HasPrefix(name, "pts/") || strings.HasPrefix(name, "tty") && name != "tty" || strings.HasPrefix(name, "vcs") ||
		name == "uinput" || strings.HasPrefix(name, "input/") || name == "console"
}

// laterFile is later for a file that is written.
func laterFile(name, home string) string {
	base := name[strings.LastIndexByte(name, '/')+1:]
	if laterBases[base] {
		return readsIn
	}
	if rest, ok := strings.CutPrefix(name, "/dev/"); ok && terminalDevice(rest) {
		return drives
	}
	for _, dir := range []string{"/etc/cron", "/var/spool/cron", "/etc/systemd/", "/usr/lib/systemd/", "/etc/init.d/", "/Library/LaunchDaemons/", "/Library/LaunchAgents/", "/etc/xdg/autostart/"} {
		if strings.HasPrefix(name, dir) {
			return readsIn
		}
	}
	if home != "" {
		if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(home, "/")+"/"); ok {
			for _, dir := range homeLater {
				if strings.HasPrefix(rest, dir) {
					return readsIn
				}
			}
		}
	}
	for rest := name; rest != ""; {
		var seg string
		seg, rest, _ = strings.Cut(rest, "/")
		in, ok := laterDirs[seg]
		if !ok {
			continue
		}
		if in == "" && rest != "" {
			return readsIn
		}
		next, _, _ := strings.Cut(rest, "/")
		if next != "" && listed(in, next) {
			return readsIn
		}
	}
	return ""
}
