package policy

import (
	"path"
	"slices"
	"strings"

	"permd/policy/paths"
	"permd/policy/shell"
)

// What is certain of a command. A word may be known though it is not written
// out: a variable that the text sets, a pattern that matches files which are
// there. And it may be open: the output of a command that is judged itself.
// An open word is text; it is certain only where it can be nothing else, no
// option, no program, no path that would have to be judged.

const (
	maxMatches    = 256  // files that the patterns of one action may match
	listBudget    = 4096 // names looked at for that
	mayBeMore     = " where an option or a file may stand"
	filesNotKnown = "which files the pattern matches is not known"
	unreadText    = "part of it cannot be read"
	tooDeepText   = "too many commands that start each other"
)

// sureWords returns the words that a command gets, the names of files in the
// place of patterns; why says what is not certain, "" when all is.
func (j *judge) sureWords(u *shell.Unit, words []shell.Word) (sure []shell.Word, why string) {
	switch {
	case u.Guess:
		return words, unreadText
	case u.Doubt != "":
		return words, u.Doubt
	case u.Depth > maxCertain:
		return words, tooDeepText
	case u.Fed && (u.Piped || u.Stdin == "") && runsInput(u):
		return words, "it runs what it is fed"
	}
	plain := !u.More
	for i := range words {
		plain = plain && words[i].Lit
	}
	if plain {
		return words, ""
	}
	if u.More {
		if d := readers[readerName(u)]; d == nil || !d.words {
			return words, "the words that " + u.Via + " adds" + mayBeMore
		}
		words = append(slices.Clip(words), shell.Further(open, "the words that "+u.Via+" adds"))
	}
	sure = make([]shell.Word, 0, len(words))
	for i := range words {
		w := words[i]
		switch {
		case w.Lit:
		case w.Glob() != "":
			names, not := j.filesOf(u, &w)
			if not != "" {
				return words, not
			}
			sure = append(sure, names...)
			continue
		default:
			if not := openAt(u, words, i); not != "" {
				return words, not
			}
			w.Lit = true
		}
		sure = append(sure, w)
	}
	return sure, ""
}

// runsInput reports whether u takes its program, or a session elsewhere, from
// standard input.
func runsInput(u *shell.Unit) bool {
	name, args := u.Name(), u.Words[1:]
	switch {
	case name == "." || name == "source":
		return len(args) > 0 && standardInput(args[0].Text)
	case name == "ssh" || name == "parallel":
		return len(ownArgs(name, args)) == len(args)
	case !interpreters[name] || shell.IsShell(name): // a shell's input is its Inner
		return false
	}
	for _, a := range args {
		switch s := a.Text; {
		case s == "-" || standardInput(s):
			return true
		case strings.Contains(" -c -e -E --eval -p -r -m -pe -ne ", " "+s+" "), !isOption(s):
			return false
		}
	}
	return true
}

func standardInput(s string) bool {
	switch s {
	case "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0":
		return true
	}
	return false
}

// openAt says why the word at i, which is open or a pipe, may be more than
// text, "" when it cannot.
func openAt(u *shell.Unit, words []shell.Word, i int) string {
	w, name := &words[i], u.Name()
	d := readers[readerName(u)]
	where := w.Why() + mayBeMore
	switch {
	case name == "test" || name == "[":
		return openInTest(words, i)
	case (interpreters[name] || shell.IsShell(name) || name == "." || name == "source") && w.Open != shell.OpenCount:
		for k := 1; k < i; k++ {
			if words[k].Lit && !isOption(words[k].Text) {
				return ""
			}
		}
		return w.Why() + ", and the program runs it"
	case d != nil && d.words:
		return ""
	case w.Open == shell.OpenCount || w.Pipe:
		return ""
	case d != nil && d.check != nil, w.Open == shell.OpenWords:
		return where
	case w.Head() != "" && w.Head()[0] != '-', strings.HasPrefix(w.Head(), "--") && strings.Contains(w.Head(), "="):
		return ""
	}
	prev := words[i-1].Text
	for k := 1; k < i; k++ {
		if words[k].Text == "--" {
			return ""
		}
	}
	if name == "git" && i > 1 && messageFlag(words[1].Text, prev) || messageOption(prev) {
		return ""
	}
	return where
}

// openInTest is openAt for test and [.
func openInTest(words []shell.Word, i int) string {
	w := &words[i]
	const not = "a test of what is not known"
	if w.Open == shell.OpenWords || w.Pipe {
		return not
	}
	if w.Open == shell.OpenCount {
		return ""
	}
	binary := func(s string) bool { return s == "=" || s == "==" || s == "!=" || s == "<" || s == ">" || s == "=~" }
	end := len(words)
	if words[end-1].Text == "]" {
		end--
	}
	switch {
	case i+1 < end && words[i+1].Lit && binary(words[i+1].Text), words[i-1].Lit && i > 1 && binary(words[i-1].Text),
		i > 1 && words[i-1].Lit && (words[i-1].Text == "-n" || words[i-1].Text == "-z" || fileTests[words[i-1].Text]), i == 1 && end == 2:
		return ""
	}
	return not
}

// fileTests are the tests whose word is a file.
var fileTests = map[string]bool{"-a": true, "-b": true, "-c": true, "-d": true, "-e": true, "-f": true, "-g": true, "-G": true, "-h": true, "-k": true, "-L": true,
	"-N": true, "-O": true, "-p": true, "-r": true, "-s": true, "-S": true, "-u": true, "-w": true, "-x": true, "-nt": true, "-ot": true, "-ef": true}

// testTouched are the files of a test.
func testTouched(words []shell.Word) []touch {
	var out []touch
	for i := 1; i < len(words); i++ {
		file := words[i-1].Lit && fileTests[words[i-1].Text] && i > 1
		file = file || i+1 < len(words) && (words[i+1].Text == "-nt" || words[i+1].Text == "-ot" || words[i+1].Text == "-ef")
		if file && words[i].Text != "" && words[i].Text != "]" {
			out = append(out, touch{word: words[i], how: accessNames})
		}
	}
	return out
}

// testRuns reports whether a test may run a command: an array's subscript is
// an expression, and so is a number to zsh.
func testRuns(words []shell.Word) bool {
	for i := 1; i < len(words); i++ {
		switch s := words[i].Text; s {
		case "-v", "-R":
			return true
		case "-eq", "-ne", "-lt", "-le", "-gt", "-ge":
			for _, k := range []int{i - 1, i + 1} {
				if k < len(words) && words[k].Open != shell.OpenCount && !isNumber(strings.TrimPrefix(words[k].Text, "-")) {
					return true
				}
			}
		}
	}
	return false
}

// filesOf returns the names that the pattern w matches where u runs.
func (j *judge) filesOf(u *shell.Unit, w *shell.Word) (names []shell.Word, why string) {
	lister, ok := j.in.View.(paths.Lister)
	if !ok || j.in.Node != Origin || u.Remote || strings.Contains(w.Glob(), "[[") || strings.Contains(w.Glob(), "[=") || strings.Contains(w.Glob(), "[.") {
		return nil, filesNotKnown
	}
	glob := strings.ReplaceAll(w.Glob(), "[!", "[^")
	dirs := []string{"/"}
	rel := !strings.HasPrefix(glob, "/")
	if rel {
		if u.Lost {
			return nil, filesNotKnown
		}
		dirs = append([]string{u.Dir}, u.Alts...)
	}
	unmatched := false // the pattern stays as it is
	g := globber{j: j, lister: lister, segments: strings.Split(strings.TrimPrefix(glob, "/"), "/")}
	for _, dir := range dirs {
		prefix := ""
		if !rel {
			prefix = "/"
		}
		found := len(g.out)
		g.walk(dir, prefix, 0)
		unmatched = unmatched || len(g.out) == found
	}
	if g.failed {
		return nil, filesNotKnown
	}
	for _, n := range g.out {
		switch {
		case n[0] == '-':
			return nil, "a file that the pattern matches has a name like an option"
		case w.Split && strings.ContainsAny(n, " \t\n*?[\\"):
			return nil, "a file that the pattern matches has a name that the shell would split"
		}
		names = append(names, shell.Word{Text: n, Lit: true})
	}
	if unmatched { // what the program makes of it is its own
		if strings.HasPrefix(w.Text, "-") && !strings.HasPrefix(w.Text, "--") {
			return nil, filesNotKnown
		}
		names = append(names, shell.Word{Text: w.Text, Lit: true, Split: true})
	}
	return names, ""
}

// globber looks for the files that a pattern matches.
type globber struct {
	j        *judge
	lister   paths.Lister
	segments []string
	out      []string
	failed   bool
}

// walk goes down from dir; name is what has been matched so far.
func (g *globber) walk(dir, name string, at int) {
	if g.failed || at > 64 {
		g.failed = true
		return
	}
	for at < len(g.segments) && !strings.ContainsAny(g.segments[at], `*?[`) {
		seg := strings.ReplaceAll(g.segments[at], `\`, "")
		name += seg
		dir = join(dir, seg)
		if at++; at < len(g.segments) {
			name += "/"
		}
	}
	if at == len(g.segments) {
		g.add(name)
		return
	}
	seg := strings.ReplaceAll(g.segments[at], "**", "*")
	real := g.j.known(dir, "")
	if len(real) != 1 || !real[0].Sure() {
		g.failed = true
		return
	}
	if g.j.listed > listBudget {
		g.failed = true
		return
	}
	entries, more, err := g.lister.List(real[0].Real, listBudget)
	g.j.listed += len(entries) + 1
	if err != nil {
		return // nothing is there
	}
	for _, e := range entries {
		n := strings.TrimSuffix(e, "/")
		if strings.HasPrefix(n, ".") && !strings.HasPrefix(seg, ".") && !strings.HasPrefix(seg, `\.`) {
			continue
		}
		ok, err := path.Match(seg, n)
		if err != nil {
			g.failed = true
			return
		}
		if !ok {
			continue
		}
		if at+1 == len(g.segments) {
			g.add(name + n)
		} else {
			g.walk(join(dir, n), name+n+"/", at+1)
		}
	}
	g.failed = g.failed || more
}

func (g *globber) add(name string) {
	if len(g.out) >= maxMatches {
		g.failed = true
		return
	}
	g.out = append(g.out, name)
}

func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

// bareGit are the words of a git command without git's own options that only
// say where and how it prints, when it runs inside the project: a rule for
// "git status" is also one for "git -C sub status".
func (j *judge) bareGit(u *shell.Unit, argv []string) []string {
	if u.Words[0].Text != "git" || len(argv) < 3 || argv[1] == "" || argv[1][0] != '-' {
		return nil
	}
	i, moves := 1, false
options:
	for ; i < len(argv); i++ {
		switch argv[i] {
		case "--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs":
		case "-C":
			i++
			moves = true
		default:
			break options
		}
	}
	if i >= len(argv) || strings.HasPrefix(argv[i], "-") || moves && u.Lost {
		return nil
	}
	if moves {
		for _, dir := range append([]string{u.Dir}, u.Alts...) {
			for _, pl := range j.known(dir, "") {
				if !paths.Inside(j.anchors.Project, pl) {
					return nil
				}
			}
		}
	}
	return append([]string{"git"}, argv[i:]...)
}
