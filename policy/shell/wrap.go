package shell

import (
	"path"
	"slices"
	"strings"
)

// unit adds a simple command and what it would start.
func (w *walker) unit(words []Word, text string, c context, assigns []Assign, doubt string) int {
	i := len(w.script.Units)
	for k := range assigns {
		assigns[k].Unit = i
	}
	w.script.Assigns = append(w.script.Assigns, assigns...)
	w.script.Units = append(w.script.Units, Unit{Words: words, name: programName(words[0].Text), Text: text, Dir: c.dir, Alts: c.alts, Lost: c.lost, Outer: c.outer, Via: c.via, Depth: c.depth,
		Remote: c.remote, Guess: c.guess, Fed: c.fed, Piped: c.piped, Stdin: c.stdin, Assigns: assigns, Doubt: doubt})
	w.unwrap(i, c)
	return i
}

// unsettled says what is not understood in the words of a command that others
// start, "" when all is.
func unsettled(words []Word) string {
	if !words[0].Lit {
		return "which program it is: " + words[0].Why()
	}
	for i := range words {
		if !words[i].Settled() {
			return words[i].Why()
		}
	}
	return ""
}

// unwrap adds what unit i starts, if it is a wrapper.
func (w *walker) unwrap(i int, c context) {
	words, name := w.script.Units[i].Words, w.script.Units[i].name
	in := c
	in.outer, in.via, in.depth = i, name, c.depth+1
	args := words[1:]
	switch {
	case name == "":
		return
	case shells[name]:
		w.shell(i, args, in)
		return
	case containers[name] && in.depth <= maxDepth:
		w.container(i, args, in)
		return
	}
	if g := wrappers[name]; g != nil {
		w.wrapper(i, g, name, args, in)
		return
	}
	if in.depth > maxDepth {
		if obeyed(name) {
			w.everywhere(args, in)
		}
		return
	}
	switch name {
	case "eval":
		if len(args) > 0 && args[0].Text == "--" {
			args = args[1:]
		}
		w.inner(i, joined(args), in)
		u := &w.script.Units[i]
		for k := range args {
			if !args[k].Lit && u.Inner == "" {
				u.Inner = args[k].Why()
			}
		}
		u.Passes = u.Inner == "" && u.Words[0].Text == "eval" && len(args) > 0
	case "trap":
		for len(args) > 0 && args[0].Text == "--" {
			args = args[1:]
		}
		if len(args) > 1 && args[0].Text != "-" {
			w.inner(i, joined(args[:1]), in)
		}
	case "find":
		w.find(i, args, in)
	case "fd", "fdfind":
		w.fd(i, args, in)
	case "git":
		w.git(i, args, in)
	case "su", "script":
		for j, a := range args {
			if v, ok := strings.CutPrefix(a.Text, "--command="); ok {
				w.inner(i, v, in)
			} else if (a.Text == "-c" || a.Text == "--command") && j+1 < len(args) {
				w.inner(i, joined(args[j+1:j+2]), in)
			}
		}
	case "parallel":
		end := len(args)
		for j, a := range args {
			if strings.HasPrefix(a.Text, ":::") {
				end = j
				break
			}
		}
		in.guess = true
		w.guesses(args[:end], in)
	case "kubectl", "oc":
		if len(args) > 0 && slices.ContainsFunc(args, func(a Word) bool { return a.Text == "exec" }) {
			in.remote = true
			w.afterDashes(args, in)
		}
	case "pnpm", "yarn", "npm":
		if j := slices.IndexFunc(args, func(a Word) bool { return a.Text == "dlx" || a.Text == "exec" || a.Text == "x" }); j >= 0 {
			w.wrapper(i, wrappers["npx"], "npx", args[j+1:], in)
		}
	case "permd":
		if slices.ContainsFunc(args, func(a Word) bool { return a.Text == "run" || a.Text == "acp" }) {
			w.afterDashes(args, in)
		}
	case "echo", "printf":
		w.echoes = append(w.echoes, i)
	}
}

// maxDepth is how many programs may start each other until plain wrappers are
// no longer units of their own, and others no longer looked into.
const maxDepth = 32

// afterDashes adds the command that follows "--".
func (w *walker) afterDashes(args []Word, in context) {
	for j, a := range args {
		if a.Text == "--" && j+1 < len(args) {
			w.unit(args[j+1:], args[j+1].Text, in, nil, unsettled(args[j+1:]))
			return
		}
	}
	in.guess = true
	if len(args) > 1 {
		w.guesses(args[1:], in)
	}
}

func (w *walker) wrapper(i int, g *grammar, name string, args []Word, in context) {
	p := g.read(args)
	in.remote = in.remote || g.remote
	if p.dir != nil {
		w.cd([]Word{{Text: "cd"}, *p.dir}, &in)
	}
	for k := range p.assigns {
		p.assigns[k].Unit = i
	}
	w.script.Assigns = append(w.script.Assigns, p.assigns...)
	for _, o := range p.opts {
		if o.value != nil && (o.name == g.script || o.name == g.longScript) {
			// What follows the option is appended to the text.
			w.inner(i, strings.Join(append([]string{joined([]Word{*o.value})}, texts(p.rest)...), " "), in)
		}
	}
	if name == "ssh" {
		w.sshOptions(i, p, in)
	}
	if !p.ok {
		in.guess = true
		w.guesses(p.rest, in)
		return
	}
	if p.none || len(p.rest) == 0 {
		return
	}
	if name == "npx" || name == "bunx" || name == "pnpx" {
		if bare := withoutVersion(p.rest[0].Text); bare != p.rest[0].Text {
			p.rest = slices.Clone(p.rest)
			p.rest[0].Text = bare
		}
	}
	if g.shell && !(name == "watch" && (p.has("x") || p.has("exec"))) {
		w.inner(i, joined(p.rest), in)
		return
	}
	for in.depth > maxDepth {
		// Deeper wrappers are passed over, or each of them would be a unit of
		// all the words that follow.
		g := wrappers[programName(p.rest[0].Text)]
		if g == nil || g.shell {
			break
		}
		q := g.read(p.rest[1:])
		if !q.ok || q.none || len(q.rest) == 0 {
			break
		}
		p.rest, in.remote = q.rest, in.remote || g.remote
	}
	if name == "flock" && p.rest[0].Text == "-c" && len(p.rest) > 1 {
		w.inner(i, joined(p.rest[1:2]), in)
		return
	}
	if at := replaced(g, &p); at != "" {
		p.rest = placeholders(p.rest, at)
		g = &grammar{pure: g.pure}
	}
	w.script.Units[i].Passes = g.pure && w.passes(i, &p)
	k := w.unit(p.rest, p.rest[0].Text, in, nil, unsettled(p.rest))
	w.script.Units[k].More = w.script.Units[k].More || g.more
	if outer := w.script.Units[i].Words; len(p.rest) < len(outer) {
		w.script.Units[k].At = len(outer) - len(p.rest)
	}
}

// passes reports whether unit i, a wrapper that was read, changes nothing about
// the command that it starts.
func (w *walker) passes(i int, p *parsed) bool {
	u := &w.script.Units[i]
	if !systems(u.Words[0].Text) {
		return false
	}
	for k := range u.Words[:len(u.Words)-len(p.rest)] {
		if !u.Words[k].Lit {
			return false
		}
	}
	for _, o := range p.opts {
		if strings.Contains(stains, " "+u.Name()+":"+o.name+" ") {
			return false
		}
	}
	for _, a := range p.assigns {
		if !HarmlessVariable(a.Name) || !plainValue(a.Name, a.Value) {
			return false
		}
	}
	return true
}

// stains are options with which a wrapper does something of its own.
const stains = " env:u env:unset env:S env:split-string env:a env:argv0 env:block-signal env:default-signal env:ignore-signal time:o time:output time:f time:format " +
	"exec:a xargs:a xargs:arg-file xargs:p xargs:interactive xargs:o xargs:open-tty xargs:process-slot-var ionice:p ionice:P ionice:u "

// systems reports whether a program is found by its name, or in a directory
// that only root writes.
func systems(name string) bool {
	for _, dir := range [...]string{"/bin/", "/usr/bin/"} {
		if rest, ok := strings.CutPrefix(name, dir); ok {
			name = rest
		}
	}
	return !strings.Contains(name, "/")
}

// replaced is the text that xargs replaces in the words of its command.
func replaced(g *grammar, p *parsed) string {
	if !g.more {
		return ""
	}
	for _, o := range p.opts {
		switch {
		case o.name == "I" && o.value != nil && o.value.Lit:
			return o.value.Text
		case o.name == "i" || o.name == "replace" || o.name == "J" || o.name == "R":
			return "{}"
		}
	}
	return ""
}

// placeholders opens the words in which at stands.
func placeholders(words []Word, at string) []Word {
	out := slices.Clone(words)
	for i := range out {
		if head, _, ok := strings.Cut(out[i].Text, at); ok && out[i].Settled() {
			out[i].Lit, out[i].Open, out[i].x = false, OpenWord, &extra{head: head, why: "what xargs puts in"}
		}
	}
	return out
}

func (p *parsed) has(name string) bool {
	return slices.ContainsFunc(p.opts, func(o option) bool { return o.name == name })
}

// sshOptions finds commands that ssh runs on this side.
func (w *walker) sshOptions(i int, p parsed, in context) {
	in.remote = false
	for _, o := range p.opts {
		if o.name != "o" || o.value == nil {
			continue
		}
		key, cmd, _ := strings.Cut(o.value.Text, "=")
		switch strings.ToLower(key) {
		case "proxycommand", "localcommand", "knownhostscommand":
			w.inner(i, cmd, in)
		}
	}
}

// withoutVersion strips "@1.2" from the name of a package.
func withoutVersion(s string) string {
	if at := strings.LastIndexByte(s, '@'); at > 0 {
		return s[:at]
	}
	return s
}

// guesses suspects a command at the first two words that may begin one, after
// options that are not understood.
func (w *walker) guesses(words []Word, in context) {
	in.guess = true
	n := 0
	for j, a := range words {
		if strings.HasPrefix(a.Text, "-") || a.Unknown() || a.Text == "" {
			continue
		}
		if w.guessed[&words[j]] {
			return // this word and what follows was suspected before
		}
		if w.guessed == nil {
			w.guessed = map[*Word]bool{}
		}
		w.guessed[&words[j]] = true
		if strings.ContainsAny(a.Text, " ;|&\n") {
			w.inner(in.outer, joined(words[j:j+1]), in)
		} else {
			w.unit(words[j:], a.Text, in, nil, "")
		}
		if n++; n == 2 {
			return
		}
	}
}

// shell reads what sh, bash and the like would run.
func (w *walker) shell(i int, args []Word, in context) {
	name := programName(w.script.Units[i].Words[0].Text)
	in.posix = name != "bash" && name != "zsh"
	for j := 0; j < len(args); j++ {
		s := args[j].Text
		if s == "-" || s == "--" {
			break
		}
		if len(s) < 2 || s[0] != '-' && s[0] != '+' {
			return // a script file
		}
		if strings.HasPrefix(s, "--") {
			if s == "--command" || strings.HasPrefix(s, "--command=") { // fish
				w.commandText(i, args[j:], in)
				return
			}
			if s == "--rcfile" || s == "--init-file" {
				j++
			}
			continue
		}
		if s[0] == '-' && strings.Contains(s, "c") {
			w.commandText(i, args[j:], in)
			u := &w.script.Units[i]
			u.Passes = u.Inner == "" && j == 0 && len(args) == 2 && args[0].Lit && args[1].Lit && strings.Trim(s[1:], "celux") == "" &&
				systems(u.Words[0].Text) && name != "fish" && u.Doubt == ""
			return
		}
		if strings.HasSuffix(s, "o") || strings.HasSuffix(s, "O") {
			j++
		}
	}
	w.wantFeeds = true
	if w.script.Units[i].Fed {
		w.script.Units[i].Inner = "what it is fed"
	}
}

// commandText finds the text after -c: the first word that is no option.
func (w *walker) commandText(i int, args []Word, in context) {
	if _, v, ok := strings.Cut(args[0].Text, "="); ok {
		w.inner(i, v, in)
		return
	}
	for j := 1; j < len(args); j++ {
		s := args[j].Text
		if len(s) > 1 && (s[0] == '-' || s[0] == '+') && !strings.ContainsAny(s, " \t\n;") {
			if strings.HasSuffix(s, "o") || strings.HasSuffix(s, "O") {
				j++
			}
			continue
		}
		w.inner(i, joined(args[j:j+1]), in)
		if !args[j].Lit && w.script.Units[i].Inner == "" {
			w.script.Units[i].Inner = args[j].Why()
		}
		return
	}
}

func (w *walker) container(i int, args []Word, in context) {
	for j, a := range args {
		switch a.Text {
		case "exec", "run", "create":
			p := containerGrammar.read(args[j+1:])
			in.remote = true
			if p.ok && len(p.rest) > 0 {
				w.unit(p.rest, p.rest[0].Text, in, nil, unsettled(p.rest))
			} else if !p.ok {
				w.guesses(p.rest, in)
			}
			return
		}
	}
}

func (w *walker) find(i int, args []Word, in context) {
	for j := 0; j < len(args); j++ {
		switch args[j].Text {
		case "-exec", "-execdir", "-ok", "-okdir":
		default:
			continue
		}
		end := j + 1
		for end < len(args) && args[end].Text != ";" && (args[end].Text != "+" || args[end-1].Text != "{}") {
			end++
		}
		if end > j+1 {
			k := w.unit(args[j+1:end], args[j+1].Text, in, nil, unsettled(args[j+1:end]))
			w.script.Units[k].More = true
		}
		j = end
	}
}

func (w *walker) fd(i int, args []Word, in context) {
	for j, a := range args {
		switch a.Text {
		case "-x", "-X", "--exec", "--exec-batch":
			if j+1 < len(args) {
				k := w.unit(args[j+1:], args[j+1].Text, in, nil, unsettled(args[j+1:]))
				w.script.Units[k].More = true
			}
			return
		}
	}
}

// git finds commands in git's own command line: shell aliases, and the
// subcommands that run one.
func (w *walker) git(i int, args []Word, in context) {
	j := 0
	for j < len(args) && strings.HasPrefix(args[j].Text, "-") {
		switch args[j].Text {
		case "-c":
			if j+1 < len(args) {
				if _, v, _ := strings.Cut(args[j+1].Text, "="); strings.HasPrefix(v, "!") {
					w.inner(i, v[1:], in)
				}
			}
			j++
		case "-C", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path", "--super-prefix", "--attr-source":
			if args[j].Text == "-C" && j+1 < len(args) {
				w.cd([]Word{{Text: "cd"}, args[j+1]}, &in)
				w.script.Units[i].Dir, w.script.Units[i].Lost = in.dir, in.lost
			}
			j++
		}
		j++
	}
	if j >= len(args) {
		return
	}
	sub, rest := args[j].Text, args[j+1:]
	for len(rest) > 0 {
		switch {
		case sub == "submodule" && rest[0].Text == "foreach":
			rest = rest[1:]
			for len(rest) > 0 && strings.HasPrefix(rest[0].Text, "-") {
				rest = rest[1:]
			}
			w.inner(i, joined(rest), in)
			return
		case sub == "bisect" && rest[0].Text == "run" && len(rest) > 1:
			w.unit(rest[1:], rest[1].Text, in, nil, unsettled(rest[1:]))
			return
		case sub == "rebase" && (rest[0].Text == "-x" || rest[0].Text == "--exec") && len(rest) > 1:
			w.inner(i, joined(rest[1:2]), in)
		case sub == "rebase" && strings.HasPrefix(rest[0].Text, "--exec="):
			w.inner(i, rest[0].Text[len("--exec="):], in)
		}
		rest = rest[1:]
	}
}

// inner reads text that unit i hands to a shell.
func (w *walker) inner(i int, text string, in context) {
	if text == "" {
		return
	}
	floor, doubt := w.script.Floor, w.script.Doubt
	w.script.Floor, w.script.Doubt = "", ""
	in.dir = path.Clean("/" + in.dir)
	in.vars, in.blind = nil, false
	w.read(text, in)
	if i >= 0 && w.script.Units[i].Inner == "" {
		w.script.Units[i].Inner = w.script.Doubt
	}
	w.script.Floor, w.script.Doubt = floor, doubt
}

// joined is the line that words become when a shell reads them again.
func joined(words []Word) string { return strings.Join(texts(words), " ") }

func texts(words []Word) []string {
	out := make([]string, len(words))
	for i, v := range words {
		out[i] = v.Text
		if !v.Lit && v.Src() != "" && v.Unknown() {
			out[i] = v.Src()
		}
	}
	return out
}
