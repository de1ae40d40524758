package shell

import (
	"strings"
	"sync"
)

// Variables. To set one may turn a known program into another (PATH,
// LD_PRELOAD, GIT_SSH, PAGER, IFS), so the names that may be set are listed,
// and all others are not understood.

// harmlessEnv are variables of the environment that change how programs print
// or count, not what they run, read or write.
var harmlessEnv = map[string]bool{
	"TZ": true, "LANG": true, "LANGUAGE": true, "NO_COLOR": true, "FORCE_COLOR": true, "CLICOLOR": true, "CLICOLOR_FORCE": true, "TERM": true, "COLORTERM": true,
	"COLUMNS": true, "LINES": true, "CI": true, "NODE_ENV": true, "RUST_BACKTRACE": true, "RUST_LOG": true, "GOOS": true, "GOARCH": true, "CGO_ENABLED": true,
	"PYTHONUNBUFFERED": true, "PYTHONDONTWRITEBYTECODE": true, "PYTHONHASHSEED": true, "DEBIAN_FRONTEND": true, "GOMAXPROCS": true, "GOTRACEBACK": true,
	"DEBUG": true, "VERBOSE": true, "CARGO_TERM_COLOR": true, "PY_COLORS": true, "LOG_LEVEL": true,
}

// HarmlessVariable reports whether a program may be given the variable name
// without becoming another one.
func HarmlessVariable(name string) bool {
	return harmlessEnv[name] || name == "LC_ALL" || strings.HasPrefix(name, "LC_") && ValidName(name)
}

// plainValue reports whether v, the value of such a variable, is no path into
// which a library could be led.
func plainValue(name string, v Word) bool {
	if !v.Lit {
		return false
	}
	if strings.HasPrefix(name, "RUST_LOG") || name == "DEBUG" {
		return !strings.ContainsAny(v.Text, "\n")
	}
	for i := range len(v.Text) {
		c := v.Text[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_-+.,:@ =/", c) >= 0) {
			return false
		}
	}
	return !strings.HasPrefix(v.Text, "/") && !strings.HasPrefix(v.Text, ":/") && !strings.Contains(v.Text, "..")
}

// localWords are what names of a script's own variables are made of: parts
// joined by "_", with digits behind. No variable that a shell or a program
// obeys is made of these alone.
var localWords = sync.OnceValue(func() map[string]bool {
	return wordSet("a b c d e f g h i j k l m n o p q r s t u v w x y z " +
		"acc all arg args base before body after branch branches bytes char chars cmd code col cols commit commits content count cur current d1 data date day dest diff dir dirs doc docs " +
		"dst elapsed end entry err errors ext fail failed field file filename files first flag fmt found from full got greeting hash head hits home host id idx in index " +
		"input item items job jobs key keys kind kinds label lang last left len length level limit line lines list loop max message min missing mod mode module msg name names " +
		"new next now num number o old opt opts ok old out output pair part parts pass passed pattern pct pid pkg pkgs port pos prefix prev ref remaining repo repos report req res response result results ret " +
		"retry rest right root row rows run sec secs seconds section sha sha1 sha256 size sorted src start state step str string sub suffix sum svc service tag tags target targets temp test tests text " +
		"time title tmp to token tokens total tries tool tools try txt type url user val value values var version want word words x1 year")
})

// localUpper are such names in capitals; fewer, since those in capitals may be
// in the environment.
var localUpper = sync.OnceValue(func() map[string]bool {
	return wordSet("A B C D E F G I J K L M N O P Q R S T U V W X Y Z " +
		"BASE BRANCH COMMIT COUNT DATE DEST DIR DIRS DST END ERR EXIT FILE FILES FOUND ID IDX ITEM LINE LIST MSG NAME NAMES NUM OUT OUTPUT PART PREFIX RC RESULT ROOT SHA SIZE SRC " +
		"START STATUS SUM TAG TARGET TEST TESTS TEXT TITLE TOTAL VAL VALUE VERSION")
})

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// localName reports whether name can only be a script's own variable.
func localName(name string) bool {
	if name == "_" {
		return true
	}
	words, upper := localWords(), localUpper()
	for part := range strings.SplitSeq(name, "_") {
		bare := strings.TrimRight(part, "0123456789")
		if !words[part] && !words[bare] && !upper[part] && !upper[bare] {
			return false
		}
	}
	return name != ""
}

// shownEnv are variables of the environment that hold no secret, so that a
// command may print them; true for those that are digits only.
var shownEnv = map[string]bool{
	"HOME": false, "PWD": false, "OLDPWD": false, "USER": false, "LOGNAME": false, "SHELL": false, "PATH": false, "LANG": false, "TERM": false, "TMPDIR": false,
	"HOSTNAME": false, "UID": true, "EUID": true, "RANDOM": true, "SECONDS": true, "LINENO": true, "PPID": true, "BASHPID": true, "SHLVL": true,
	"EPOCHSECONDS": true, "BASH_VERSION": false, "ZSH_VERSION": false, "GOPATH": false, "GOROOT": false, "NODE_ENV": false, "VIRTUAL_ENV": false, "CI": false,
	"PIPESTATUS": true, "COLUMNS": true, "LINES": true, "?": true, "#": true, "$": true, "!": true,
}

// binding is a variable or, with "()" behind its name, a function that the
// text has set, in a list from the latest to the first.
type binding struct {
	name  string
	value Word
	// quiet and still are true for a function that sets no variable and goes
	// nowhere.
	quiet, still bool
	body         *body
	up           *binding
}

func (b *binding) find(name string) *binding {
	for ; b != nil; b = b.up {
		if b.name == name {
			return b
		}
	}
	return nil
}

// bind sets a variable for what follows in c.
func (c *context) bind(name string, value Word) {
	c.vars = &binding{name: name, value: value, up: c.vars}
}

// forget makes what d has set, and c had not, uncertain in c: d may have run
// or not.
func (c *context) forget(d *context) {
	start, most := c.vars, 64
	for b := d.vars; b != nil && b != start; b = b.up {
		if most--; most < 0 {
			c.blind = true
			return
		}
		if v := c.vars.find(b.name); v == nil || v.value.Lit || v.value.Glob() != "" {
			c.mayHave(b)
		}
	}
	c.blind = c.blind || d.blind
}

// mayHave makes b, a variable or a function, one that may be set or not.
func (c *context) mayHave(b *binding) {
	c.unsure(b.name)
	c.vars.body = b.body
}

// unsure makes what the variable holds text that is not known.
func (c *context) unsure(name string) { c.bind(name, Word{Open: OpenWord}) }

// obeyed are names whose meaning this package knows; a function of that name
// would change what it has read.
func obeyed(name string) bool {
	switch name {
	case "cd", "pushd", "popd", "chdir", "eval", "source", ".", "read", "export", "declare", "local", "readonly", "typeset", "unset", "set", "exit", "return",
		"find", "fd", "fdfind", "git", "su", "script", "parallel", "kubectl", "oc", "pnpm", "yarn", "npm", "permd", "trap", "test", "[", "shift", "wait", "break", "continue",
		"cat", "true", "false", ":":
		return true
	}
	return startsOther(name) || containers[name]
}
