package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// walker collects what a text would start. It is the only writer of its
// script.
type walker struct {
	reader *Reader
	script *Script
	env    Env
	src    string
	budget int
	// vars are the literal values that the text gives to variables, in order,
	// certain or not.
	vars map[string][]string
	// feeds are literal texts that a shell reading standard input might get.
	feeds     []string
	echoes    []int // units that print such texts
	wantFeeds bool
	// guessed are the words from which on a command was suspected: each is
	// suspected once, or two guesses at every step would double the work.
	guessed map[*Word]bool
	// seen and suspected are what a long text need not be looked at again for.
	seen      map[place]bool
	suspected map[[2]string]bool
	// rounds is how often bodies of loops were walked.
	rounds int
}

// floor notes why the text is not one plain literal simple command.
func (w *walker) floor(why string) {
	if w.script.Floor == "" {
		w.script.Floor = why
	}
}

// doubt notes what is not understood outside the words of any command.
func (w *walker) doubt(why string) {
	w.floor(why)
	if w.script.Doubt == "" {
		w.script.Doubt = why
	}
}

// text is the source of n.
func (w *walker) text(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from > to || to > len(w.src) {
		return ""
	}
	return w.src[from:to]
}

// stmts walks statements that run one after the other in the shell of c. It
// leaves c as it is when the last one succeeded.
func (w *walker) stmts(list []*syntax.Stmt, c *context) {
	for i, s := range list {
		m := c.mark()
		w.stmt(s, c)
		if i+1 < len(list) {
			c.maybeNot(m)
		}
	}
}

// apart walks statements that run in a shell of their own: their cd ends with
// them.
func (w *walker) apart(list []*syntax.Stmt, c *context) {
	d := *c
	w.stmts(list, &d)
}

// maybe walks statements that may or may not run in the shell of c.
func (w *walker) maybe(list []*syntax.Stmt, c *context) {
	d := *c
	w.stmts(list, &d)
	c.join(&d)
}

func (w *walker) stmt(s *syntax.Stmt, c *context) {
	if s.Background || s.Disown {
		w.floor("a background command")
		d := *c
		c = &d
	}
	if s.Coprocess {
		w.doubt("a coprocess")
		d := *c
		c = &d
	}
	if s.Negated {
		w.floor("a negation")
	}
	fed, piped, stdin := c.fed, c.piped, c.stdin
	for _, r := range s.Redirs {
		w.redirect(r, c)
	}
	if s.Cmd != nil {
		w.command(s.Cmd, c)
	}
	c.fed, c.piped, c.stdin = fed, piped, stdin
}

func (w *walker) command(cmd syntax.Command, c *context) {
	if call, ok := cmd.(*syntax.CallExpr); ok {
		w.call(call, c)
		return
	}
	switch x := cmd.(type) {
	case *syntax.BinaryCmd:
		w.binary(x, c)
	case *syntax.Block:
		w.floor("a group of commands")
		w.stmts(x.Stmts, c)
	case *syntax.Subshell:
		w.floor("a subshell")
		w.apart(x.Stmts, c)
	case *syntax.IfClause:
		w.floor("a condition")
		for ; x != nil; x = x.Else {
			m := c.mark()
			w.stmts(x.Cond, c)
			if len(x.Cond) == 0 { // else
				w.maybe(x.Then, c)
				break
			}
			d := *c
			w.stmts(x.Then, &d)
			c.maybeNot(m)
			c.join(&d)
		}
	case *syntax.WhileClause:
		w.floor("a loop")
		w.loop(x.Cond, x.Do, c)
	case *syntax.ForClause:
		w.floor("a loop")
		w.forClause(x, c)
	case *syntax.CaseClause:
		w.floor("a condition")
		w.loose(x.Word, c)
		for _, item := range x.Items {
			for _, p := range item.Patterns {
				w.loose(p, c)
			}
			w.maybe(item.Stmts, c)
		}
	case *syntax.FuncDecl:
		w.floor("a function")
		w.function(x, c)
	case *syntax.DeclClause:
		w.floor("a declaration")
		w.declaration(x, c)
	case *syntax.TimeClause:
		w.floor("time")
		if x.Stmt != nil {
			w.stmt(x.Stmt, c)
		}
	case *syntax.CoprocClause:
		w.doubt("a coprocess")
		d := *c
		w.stmt(x.Stmt, &d)
	case *syntax.TestDecl:
		w.doubt("a declaration")
		w.stmt(x.Body, c)
	case *syntax.TestClause:
		w.floor("an arithmetic or test expression")
		w.test(x, c)
	case *syntax.ArithmCmd:
		w.floor("an arithmetic or test expression")
		w.within(x, c)
		if !w.arithmetic(x.X, c) {
			w.doubt("an arithmetic expression")
		}
	case *syntax.LetClause:
		w.floor("an arithmetic or test expression")
		w.within(x, c)
		for _, e := range x.Exprs {
			if !w.arithmetic(e, c) {
				w.doubt("an arithmetic expression")
			}
		}
	default:
		w.doubt("an unknown kind of command")
		w.within(x, c)
	}
}

func (w *walker) binary(x *syntax.BinaryCmd, c *context) {
	switch x.Op {
	case syntax.Pipe, syntax.PipeAll:
		w.floor("a pipe")
		w.pipe(x, c)
	case syntax.AndStmt:
		w.floor("several commands")
		w.stmt(x.X, c)
		left := c.vars
		w.stmt(x.Y, c)
		c.conditional(left)
	default: // the right side runs where the left side failed
		w.floor("several commands")
		m := c.mark()
		w.stmt(x.X, c)
		right := *c
		right.maybeNot(m)
		w.stmt(x.Y, &right)
		if leaves(x.Y) { // what follows runs only after success
			c.only(m)
			return
		}
		c.join(&right)
	}
}

// pipe walks a pipeline, without going down into it once for each part.
func (w *walker) pipe(x *syntax.BinaryCmd, c *context) {
	parts := []*syntax.Stmt{x.Y}
	first := x.X
	for {
		b, ok := first.Cmd.(*syntax.BinaryCmd)
		if !ok || b.Op != syntax.Pipe && b.Op != syntax.PipeAll || len(first.Redirs) > 0 || first.Negated || first.Background || first.Coprocess || first.Disown {
			break
		}
		parts, first = append(parts, b.Y), b.X
	}
	parts = append(parts, first)
	d := *c
	for i := len(parts) - 1; i >= 0; i-- {
		n := len(w.script.Units)
		w.stmt(parts[i], &d)
		if i == 0 {
			break
		}
		d = *c
		d.fed, d.piped, d.stdin = true, true, w.printed(n)
	}
	c.afterPipe(&d)
}

// printed is the text that unit n, the only one since, writes, "" when it is not
// known.
func (w *walker) printed(n int) string {
	if len(w.script.Units) != n+1 {
		return ""
	}
	u := &w.script.Units[n]
	if u.name != "echo" && u.name != "printf" {
		return ""
	}
	for i := range u.Words {
		if !u.Words[i].Lit {
			return ""
		}
	}
	return joined(u.Words[1:])
}

// leaves reports whether what follows s does not run.
func leaves(s *syntax.Stmt) bool {
	if b, ok := s.Cmd.(*syntax.Block); ok && len(b.Stmts) > 0 && !s.Background {
		return leaves(b.Stmts[len(b.Stmts)-1])
	}
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || s.Background {
		return false
	}
	name := call.Args[0].Lit()
	return name == "exit" || name == "return"
}

// within finds the commands that expansions in n would run.
func (w *walker) within(n syntax.Node, c *context) {
	if word, ok := n.(*syntax.Word); ok && (inert(word) || usesOnly(word.Parts)) {
		return
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch x := n.(type) {
		case *syntax.CmdSubst:
			w.floor("a command substitution")
			w.apart(x.Stmts, c)
			return false
		case *syntax.ProcSubst:
			w.floor("a process substitution")
			d := *c
			d.fed = x.Op == syntax.CmdOut
			w.stmts(x.Stmts, &d)
			return false
		}
		return true
	})
}

// loose resolves a word that stands outside any command.
func (w *walker) loose(word *syntax.Word, c *context) Word {
	w.within(word, c)
	v := w.word(word, c)
	if !v.Settled() {
		w.doubt(v.Why())
	}
	return v
}

// usesOnly reports whether parts are text and plain variables.
func usesOnly(parts []syntax.WordPart) bool {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.DblQuoted:
			if !usesOnly(p.Parts) {
				return false
			}
		case *syntax.ParamExp:
			if !plainParam(p) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func inert(word *syntax.Word) bool {
	for _, p := range word.Parts {
		switch p := p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				if _, ok := q.(*syntax.Lit); !ok {
					return false
				}
			}
		default:
			return false
		}
	}
	return true
}

// place is a text and where it runs.
type place struct {
	text, dir, stdin string
	fed              bool
}

const maxDifferent = 500 // commands kept though they are written twice

// again reports whether x stands in a long text for the second time, at the
// same place, and does nothing to the shell. One unit for it is enough.
func (w *walker) again(x *syntax.CallExpr, c *context) bool {
	if len(w.script.Units) < maxDifferent || len(x.Assigns) > 0 || len(x.Args) == 0 {
		return false
	}
	for _, arg := range x.Args {
		if !inert(arg) {
			return false
		}
	}
	name := x.Args[0].Lit()
	if b := c.vars.find(name + "()"); b != nil && b.body != nil && !b.body.lost && b.body.sure && (b.body.dir != c.dir || len(c.alts) > 0) {
		return false
	}
	if name == "" || affects(name) && !(name == "cd" && c.lost && len(c.trail) > maxTrail) {
		return false
	}
	at := place{w.text(x), c.dir, c.stdin, c.fed}
	if w.seen[at] && c.outer < 0 {
		return true
	}
	if w.seen == nil {
		w.seen = map[place]bool{}
	}
	w.seen[at] = true
	return false
}

// call walks a simple command.
func (w *walker) call(x *syntax.CallExpr, c *context) {
	if w.again(x, c) {
		return
	}
	var assigns []Assign
	doubt := ""
	for _, a := range x.Assigns {
		w.floor("an assignment")
		set := w.assign(a, c)
		assigns = append(assigns, set...)
		switch {
		case len(x.Args) == 0:
			w.own(a, set, c)
		case len(set) != 1 || a.Append || a.Array != nil || a.Index != nil || !HarmlessVariable(set[0].Name) || !plainValue(set[0].Name, set[0].Value):
			doubt = "it sets a variable that programs may obey"
			if len(set) == 1 {
				doubt = "it sets " + set[0].Name
			}
		}
	}
	if len(x.Args) == 0 {
		w.script.Assigns = append(w.script.Assigns, assigns...)
		for _, a := range assigns {
			if !a.Value.Unknown() {
				w.set(a.Name, a.Value.Text)
			}
		}
		return
	}
	words := w.reader.room(len(x.Args))
	for _, arg := range x.Args {
		w.within(arg, c)
		v := w.word(arg, c)
		if v.Why() != "" {
			w.floor(v.Why())
			if v.Why() == "a brace expansion" && !v.Settled() {
				if list := w.braced(arg, c); list != nil {
					for i := range list {
						if !list[i].Settled() && doubt == "" {
							doubt = list[i].Why()
						}
					}
					words = append(words, list...)
					continue
				}
			}
			if !v.Settled() && doubt == "" {
				doubt = v.Why()
			}
			if v.Lit {
				words = append(words, v)
			} else {
				words = append(words, split(v)...)
			}
			continue
		}
		if !v.Lit {
			w.floor("text that is not UTF-8")
			doubt = "text that is not UTF-8"
		}
		words = append(words, v)
	}
	if len(words) == 0 {
		w.doubt("a command of no words")
		return
	}
	if !words[0].Lit && doubt == "" {
		doubt = "which program it is: " + words[0].Why()
	}
	if !words[0].Lit {
		w.otherPrograms(x, words, c)
	}
	n := len(w.script.Units)
	w.unit(words, w.text(x), *c, assigns, doubt)
	w.effects(n, words, c)
}

// split gives the words that one written word may become when it is a
// variable set to several words.
func split(v Word) []Word {
	var texts []string
	if v.Why() == "a variable that may be several words" && !v.Quoted && strings.ContainsAny(v.Text, " \t\n") {
		texts = strings.Fields(v.Text)
	}
	if len(texts) == 0 {
		return []Word{v}
	}
	words := make([]Word, len(texts))
	for i, s := range texts {
		words[i] = Word{Text: s, x: &extra{why: v.Why(), src: s}}
	}
	return words
}

// otherPrograms suspects every value that the text gives to a variable which
// names the program.
func (w *walker) otherPrograms(x *syntax.CallExpr, words []Word, c *context) {
	if len(x.Args[0].Parts) != 1 {
		return
	}
	p, ok := x.Args[0].Parts[0].(*syntax.ParamExp)
	if !ok || p.Param == nil || !plainParam(p) {
		return
	}
	values := w.vars[p.Param.Value]
	for i, v := range values {
		some := noted(v, false, "a variable that may be several words")
		list := split(some)
		if i+1 == len(values) && list[0].Text == words[0].Text || v == "" {
			continue // it is in words already
		}
		guess := *c
		guess.guess = true
		w.unit(append(list, words[1:]...), w.text(x), guess, nil, "")
	}
}

func (w *walker) set(name, value string) {
	if w.vars == nil {
		w.vars = map[string][]string{}
	}
	const most = 8
	v := w.vars[name]
	if v == nil {
		v = make([]string, 0, 4)
	}
	if len(v) < most && !slices.Contains(v, value) {
		w.vars[name] = append(v, value)
	} else if len(v) > 0 && v[len(v)-1] != value && slices.Contains(v, value) {
		v = slices.DeleteFunc(v, func(s string) bool { return s == value })
		w.vars[name] = append(v, value)
	}
}

func (w *walker) assign(a *syntax.Assign, c *context) []Assign {
	if a.Index != nil {
		w.within(a.Index, c)
	}
	if a.Array != nil {
		w.within(a.Array, c)
	}
	if a.Name == nil {
		return nil
	}
	out := Assign{Name: a.Name.Value, Unit: -1}
	out.Value.Lit = a.Value == nil && !a.Naked
	if a.Value != nil {
		w.within(a.Value, c)
		out.Value = w.word(a.Value, c)
	}
	return []Assign{out}
}

// own sets a variable of the shell itself.
func (w *walker) own(a *syntax.Assign, set []Assign, c *context) {
	switch {
	case len(set) != 1 || !localName(set[0].Name) && !HarmlessVariable(set[0].Name):
		why := "it sets a variable that programs may obey"
		if len(set) == 1 {
			why = "it sets " + set[0].Name
		}
		w.doubt(why)
		if len(set) == 1 && set[0].Value.Lit {
			c.bind(set[0].Name, set[0].Value)
		}
	case a.Array != nil || a.Index != nil:
		w.doubt("an array")
	case !set[0].Value.Settled():
		w.doubt(set[0].Value.Why())
		c.unsure(set[0].Name)
	case a.Append:
		c.unsure(set[0].Name)
	default:
		v := set[0].Value
		if v.Open == OpenWords {
			v.Open = OpenWord
		}
		if v.Glob() != "" && !v.Split {
			v = Word{Open: OpenWord} // a pattern is not expanded here but where it is used
		}
		c.bind(set[0].Name, v)
	}
}

const maxTrail = 64 // directories left by one script

// cd moves c as a cd or pushd of these words would.
func (w *walker) cd(words []Word, c *context) {
	args := words[1:]
	for len(args) > 0 && (args[0].Text == "--" || args[0].Text == "-P" || args[0].Text == "-L") {
		args = args[1:]
	}
	if len(args) == 0 && w.env.Home != "" {
		args = []Word{{Text: w.env.Home, Lit: true}}
	}
	if len(c.trail) <= maxTrail {
		c.trail = append(append(c.trail, c.dir), c.alts...)
	}
	c.trailLost = c.trailLost || c.lost
	if len(args) != 1 || args[0].Unknown() || args[0].Text == "" || strings.HasPrefix(args[0].Text, "-") || !args[0].Lit {
		c.lost = true
		return
	}
	to := args[0].Text
	// No script goes to so many places, or so deep.
	const longest = 512
	if len(to)+len(c.dir) > longest || len(c.trail) > maxTrail {
		c.lost, c.trailLost = true, true
		return
	}
	if path.IsAbs(to) {
		c.dir, c.alts, c.lost = path.Clean(to), nil, false
		return
	}
	c.dir = path.Join(c.dir, to)
	alts := slices.Clone(c.alts)
	for i := range alts {
		alts[i] = path.Join(alts[i], to)
	}
	c.alts = alts
}

// noFiles are targets of redirections that keep or show nothing elsewhere.
var noFiles = map[string]bool{"/dev/null": true, "/dev/stdin": true, "/dev/stdout": true, "/dev/stderr": true, "/dev/zero": true, "/dev/fd/0": true, "/dev/fd/1": true, "/dev/fd/2": true}

func (w *walker) redirect(r *syntax.Redirect, c *context) {
	w.floor("a redirection")
	if r.Word != nil {
		w.within(r.Word, c)
	}
	if r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" {
		w.doubt("a redirection that sets a variable")
	}
	if r.Hdoc != nil {
		w.within(r.Hdoc, c)
		w.feeds = append(w.feeds, heredoc(w.text(r.Hdoc)))
		c.fed, c.piped = true, false
		var o builder
		for _, part := range r.Hdoc.Parts {
			w.part(&o, part, c, false, true, false)
		}
		if o.broken {
			w.doubt(o.x.why)
		}
		c.stdin = o.b.String()
		return
	}
	if r.Word == nil {
		return
	}
	target := w.word(r.Word, c)
	if !target.Settled() {
		w.doubt(target.Why())
	}
	write := true
	switch r.Op {
	case syntax.WordHdoc:
		w.feeds = append(w.feeds, target.Text)
		c.fed, c.piped, c.stdin = true, false, target.Text
		return
	case syntax.Hdoc, syntax.DashHdoc:
		c.fed, c.piped, c.stdin = true, false, ""
		return
	case syntax.RdrIn:
		write = false
		c.fed, c.piped, c.stdin = true, false, ""
	case syntax.DplIn, syntax.DplOut:
		if target.Lit && (target.Text == "-" || strings.Trim(strings.TrimSuffix(target.Text, "-"), "0123456789") == "") {
			return // joins two streams
		}
	}
	switch {
	case target.Pipe || target.Lit && noFiles[target.Text]:
		return
	case strings.HasPrefix(target.Text, "/dev/tcp/") || strings.HasPrefix(target.Text, "/dev/udp/"):
		w.doubt("a connection to another machine")
	case target.Glob() != "":
		w.doubt("a redirection to a file name pattern")
	}
	w.script.Redirs = append(w.script.Redirs, Redir{Target: target, Write: write, Dir: c.dir, Alts: c.alts, Lost: c.lost})
}
