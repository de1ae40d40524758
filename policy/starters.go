package policy

import (
	"strings"
	"sync"

	"permd/policy/shell"
)

// startsOthers are programs that start another one in a way of their own, which
// package shell does not read. What their words may start is suspected where a
// rule denies or asks; nothing is allowed by it.
var startsOthers = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq("nsenter setpriv firejail fakeroot proot bwrap valgrind gosu su-exec chpst setuidgid softlimit setarch linux32 linux64 numactl prlimit cgexec faketime rlwrap catchsegv " +
		"eatmydata daemonize start-stop-daemon xvfb-run ssh-agent dbus-launch entr watchexec nodemon cross-env cross-env-shell env-cmd dotenv dotenvx sem hyperfine concurrently expect socat ncat capsh sg script " +
		"runcon ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 ld-linux.so.2 ld-musl-x86_64.so.1 ld-musl-aarch64.so.1 ld.so uv uvx poetry pdm pipenv hatch rye pixi bundle pipx conda mamba micromamba mise asdf " +
		"direnv op aws-vault chamber doppler infisical nix nix-shell devbox flox vagrant limactl lima orb wsl multipass lerna nx rush gdb lldb sqlite3 psql mysql vim nvim vi ex ed emacs tclsh wish dlv " +
		"cargo-watch reflex air") {
		out[w] = true
	}
	return out
})

// started looks for what the command of a subject, a program that starts
// others or runs a text, may start, and tells found of every rule that denies
// or asks about it.
type started struct {
	j *judge
	s *subject
	n int // words looked at
	// doubt is true when something that it may start is not known.
	doubt bool
	found func(*rule)
	// unit, if it is not nil, is told of every command instead.
	unit func(*shell.Unit)
}

// mayStart reports whether u is such a program.
func mayStart(u *shell.Unit) bool {
	name := u.Name()
	return startsOthers()[name] || interpreters[name] && !shell.IsShell(name)
}

// suspectStarted adds the rules that deny or ask about what s may start.
func (j *judge) suspectStarted(s *subject, f *found) {
	g := *f
	a := started{j: j, s: s, found: func(r *rule) { g.add(j, r, s) }}
	a.look()
	*f = g
	if a.doubt && s.why == "" {
		s.why = "what it starts"
	}
}

// protectStarted says why what unit i may start must not run.
func (j *judge) protectStarted(self *Self, i int) (why string) {
	if !mayStart(&j.script.Units[i]) {
		return ""
	}
	a := started{j: j, s: &subject{kind: kindCommand, unit: i}, unit: func(u *shell.Unit) {
		switch {
		case why != "" || u.Words[0].Unknown():
		case u.Name() == "permd" || self.binary(u.Words[0].Text):
			why = permdDenied(u.Words[1:])
		default:
			why = switchedOff(u)
		}
	}}
	a.look()
	return why
}

func (a *started) look() {
	u := a.j.unit(a.s)
	if interpreters[u.Name()] {
		for i := 1; i < len(u.Words); i++ {
			if strings.ContainsAny(u.Words[i].Text, "\"'`(") {
				a.program(u.Words[i].Text)
			}
		}
		a.program(u.Stdin)
		a.doubt = false // a text in quotes may be anything
		return
	}
	const near = 4 // a program's name stands among the first words
	for i, n := 1, 0; i < len(u.Words); i++ {
		s := u.Words[i].Text
		if isOption(s) {
			continue
		}
		n++
		a.doubt = a.doubt || n <= near && (u.Words[i].Unknown() || strings.HasPrefix(s, "/") && strings.ContainsAny(s, "*?["))
		text := strings.TrimLeft(s, ":!.\\ ")
		if !strings.ContainsAny(text, " \t") {
			a.words(u.Words[i:])
			continue
		}
		for _, verb := range []string{"shell ", "spawn ", "EXEC:", "SYSTEM:", "! "} {
			text = strings.TrimPrefix(text, verb)
		}
		a.text(text)
	}
	a.text(strings.ReplaceAll(u.Stdin, "!", "\n"))
}

// mostStarted bounds the words of one command that may begin another one.
const mostStarted = 64

func (a *started) words(words []shell.Word) {
	if a.n++; a.n > mostStarted || len(words) == 0 {
		return
	}
	j, s := a.j, a.s
	guess := shell.Unit{Words: words, Dir: j.unit(s).Dir, Guess: true}
	if startsOthers()[guess.Name()] {
		for i := 1; i < len(words); i++ {
			if !isOption(words[i].Text) {
				a.words(words[i:])
			}
		}
	}
	if a.unit != nil {
		a.unit(&guess)
		return
	}
	rules := j.in.Policy.commands[strings.ToLower(guess.Name())]
	for _, list := range [][]*rule{rules, j.in.Policy.anywhere} {
		for _, r := range list {
			if !r.prove && r.argv != nil && !r.argv.any && r.path == nil && j.ofThisProject(r) && j.concerns(r, s) && r.argv.forbids(&guess, j.fold) && !j.excepted(r, &guess) {
				a.found(r)
			}
		}
	}
}

// excepted reports whether an exception of r is for exactly the words of u.
func (j *judge) excepted(r *rule, u *shell.Unit) bool {
	argv, ok := u.Argv()
	for _, e := range r.except {
		if ok && e.argv != nil && e.argv.permits(argv) {
			return true
		}
	}
	return false
}

// text looks through what a shell may be given.
func (a *started) text(text string) {
	if a.n++; a.n > mostStarted || text == "" {
		return
	}
	script := shell.Read(text, shell.Env{Cwd: a.j.in.Action.Cwd, Home: a.j.in.Action.Home})
	a.doubt = a.doubt || !script.Plain() || len(script.Units) != 1
	for i := range script.Units {
		u := &script.Units[i]
		a.doubt = a.doubt || u.Name() == "" || u.Doubt != "" || strings.ContainsAny(u.Name(), "*?[")
		a.words(u.Words)
	}
}

// program looks for commands in the quoted texts of a program that can start
// one.
func (a *started) program(program string) {
	if !startsProcess(program) {
		return
	}
	var texts []shell.Word
	for rest := program; len(texts) < mostStarted; {
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
		if text := rest[:end]; text != "" {
			texts = append(texts, shell.Word{Text: text, Lit: true})
		}
		rest = rest[end+1:]
	}
	for i := range texts {
		if strings.ContainsAny(texts[i].Text, " \t") {
			a.text(texts[i].Text)
		} else {
			a.words(texts[i:])
		}
	}
}

// startsProcess reports whether a program's text has a word with which it may
// start another one.
func startsProcess(text string) bool {
	lower := strings.ToLower(text)
	for _, w := range []string{"system", "exec", "spawn", "popen", "subprocess", "process", "pty", "fork", "qx", "run", "`", "shell", "$(", "open"} {
		if strings.Contains(lower, w) {
			return true
		}
	}
	return false
}
