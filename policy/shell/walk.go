package shell

import "mvdan.cc/sh/v3/syntax"

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
