package shell

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// walker collects what a text would start. It is the only writer of its
// script.
type walker struct {
	script *Script
	env    Env
	src    string
	budget int
	// vars are the literal values that the text gives to variables, in order.
	vars map[string][]string
	// feeds are literal texts that a shell reading standard input might get.
	feeds     []string
	wantFeeds bool
	// guessed are the words from which on a command was suspected: each is
	// suspected once, or two guesses at every step would double the work.
	guessed map[*Word]bool
}

func (w *walker) floor(why string) {
	if w.script.Floor == "" {
		w.script.Floor = why
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

// stmts walks statements that run one after the other in the shell of c.
func (w *walker) stmts(list []*syntax.Stmt, c *context) {
	for _, s := range list {
		w.stmt(s, c)
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
	if d.dir != c.dir || d.lost {
		c.lost = true
	}
}

func (w *walker) stmt(s *syntax.Stmt, c *context) {
	if s.Background || s.Coprocess || s.Disown {
		w.floor("a background command")
		d := *c
		c = &d
	}
	if s.Negated {
		w.floor("a negation")
	}
	for _, r := range s.Redirs {
		w.redirect(r, c)
	}
	if s.Cmd != nil {
		w.command(s.Cmd, c)
	}
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
			w.stmts(x.Cond, c)
			w.maybe(x.Then, c)
		}
	case *syntax.WhileClause:
		w.floor("a loop")
		w.maybe(x.Cond, c)
		w.maybe(x.Do, c)
	case *syntax.ForClause:
		w.floor("a loop")
		if it, ok := x.Loop.(*syntax.WordIter); ok {
			for _, item := range it.Items {
				w.within(item, c)
				if v := w.word(item); !v.Unknown() {
					w.set(it.Name.Value, v.Text)
				}
			}
		} else {
			w.within(x.Loop, c)
		}
		w.maybe(x.Do, c)
	case *syntax.CaseClause:
		w.floor("a condition")
		w.within(x.Word, c)
		for _, item := range x.Items {
			for _, p := range item.Patterns {
				w.within(p, c)
			}
			w.maybe(item.Stmts, c)
		}
	case *syntax.FuncDecl:
		w.floor("a function")
		d := *c
		d.lost = true
		w.stmt(x.Body, &d)
	case *syntax.DeclClause:
		w.floor("a declaration")
		w.declaration(x, c)
	case *syntax.TimeClause:
		w.floor("time")
		if x.Stmt != nil {
			w.stmt(x.Stmt, c)
		}
	case *syntax.CoprocClause:
		w.floor("a background command")
		d := *c
		w.stmt(x.Stmt, &d)
	case *syntax.TestDecl:
		w.floor("a declaration")
		w.stmt(x.Body, c)
	default: // arithmetic, let and [[ ]] start nothing themselves
		w.floor("an arithmetic or test expression")
		w.within(x, c)
	}
}

func (w *walker) binary(x *syntax.BinaryCmd, c *context) {
	switch x.Op {
	case syntax.Pipe, syntax.PipeAll:
		w.floor("a pipe")
		left, right := *c, *c
		w.stmt(x.X, &left)
		w.stmt(x.Y, &right)
	case syntax.AndStmt:
		w.floor("several commands")
		w.stmt(x.X, c)
		w.stmt(x.Y, c)
	default: // the right side runs where the left side failed
		w.floor("several commands")
		right := *c
		w.stmt(x.X, c)
		before := right
		w.stmt(x.Y, &right)
		if right.dir != before.dir && right.dir != c.dir || right.lost {
			c.lost = true
		}
	}
}

// within finds the commands that expansions in n would run.
func (w *walker) within(n syntax.Node, c *context) {
	if word, ok := n.(*syntax.Word); ok && inert(word) {
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
			w.apart(x.Stmts, c)
			return false
		}
		return true
	})
}

func inert(word *syntax.Word) bool {
	for _, p := range word.Parts {
		switch p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		default:
			return false
		}
	}
	return true
}

func (w *walker) redirect(r *syntax.Redirect, c *context) {
	w.floor("a redirection")
	if r.Word != nil {
		w.within(r.Word, c)
	}
	if r.Hdoc != nil {
		w.within(r.Hdoc, c)
		w.feeds = append(w.feeds, heredoc(w.text(r.Hdoc)))
		return
	}
	if r.Word == nil {
		return
	}
	target := w.word(r.Word)
	write := true
	switch r.Op {
	case syntax.WordHdoc:
		w.feeds = append(w.feeds, target.Text)
		return
	case syntax.Hdoc, syntax.DashHdoc:
		return
	case syntax.RdrIn:
		write = false
	case syntax.DplIn, syntax.DplOut:
		if target.Text == "-" || strings.Trim(strings.TrimSuffix(target.Text, "-"), "0123456789") == "" {
			return // joins two streams
		}
	}
	w.script.Redirs = append(w.script.Redirs, Redir{Target: target, Write: write, Dir: c.dir, Lost: c.lost})
}

// call walks a simple command.
func (w *walker) call(x *syntax.CallExpr, c *context) {
	var assigns []Assign
	for _, a := range x.Assigns {
		w.floor("an assignment")
		assigns = append(assigns, w.assign(a, c)...)
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
	words := make([]Word, 0, len(x.Args))
	for _, arg := range x.Args {
		w.within(arg, c)
		v := w.word(arg)
		if !v.Lit {
			w.floor(v.Why)
			words = append(words, split(v)...)
			continue
		}
		if v.Unknown() {
			w.floor("text that is not UTF-8")
		}
		words = append(words, v)
	}
	if x.Args[0].Lit() == "" {
		w.otherPrograms(x, words, c)
	}
	w.unit(words, w.text(x), *c, assigns)
	w.cd(words, c)
}

// split gives the words that one written word may become: a list in braces,
// or a variable set to several words.
func split(v Word) []Word {
	var texts []string
	switch {
	case v.Why == "a brace expansion":
		texts = braces(v.Text)
	case v.Why == "a variable" && !v.Quoted && strings.ContainsAny(v.Text, " \t\n"):
		texts = strings.Fields(v.Text)
	}
	if len(texts) == 0 {
		return []Word{v}
	}
	words := make([]Word, len(texts))
	for i, s := range texts {
		words[i] = Word{Text: s, Why: v.Why, Src: s}
	}
	return words
}

// braces expands one list in braces, without others in it.
func braces(s string) []string {
	before, rest, ok := strings.Cut(s, "{")
	list, after, closed := strings.Cut(rest, "}")
	if !ok || !closed || strings.ContainsAny(list+after, "{}") || !strings.Contains(list, ",") {
		return nil
	}
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		if s := before + item + after; s != "" {
			out = append(out, s)
		}
	}
	return out
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
	for i := 0; i+1 < len(values); i++ { // the last is in words already
		guess := *c
		guess.guess = true
		w.unit(append(split(Word{Text: values[i], Why: "a variable"}), words[1:]...), w.text(x), guess, nil)
	}
}

func (w *walker) set(name, value string) {
	if w.vars == nil {
		w.vars = map[string][]string{}
	}
	const most = 8
	if v := w.vars[name]; len(v) < most {
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
	if a.Value != nil {
		w.within(a.Value, c)
		out.Value = w.word(a.Value)
	}
	return []Assign{out}
}

// declaration walks export, declare, local, readonly and typeset.
func (w *walker) declaration(x *syntax.DeclClause, c *context) {
	words := []Word{{Text: x.Variant.Value, Lit: true}}
	for _, a := range x.Args {
		for _, set := range w.assign(a, c) {
			w.script.Assigns = append(w.script.Assigns, set)
			if !a.Naked && !set.Value.Unknown() {
				w.set(set.Name, set.Value.Text)
			}
		}
		if a.Name == nil && a.Value != nil {
			w.within(a.Value, c)
			words = append(words, w.word(a.Value))
			continue
		}
		words = append(words, Word{Text: w.text(a)})
	}
	w.unit(words, w.text(x), *c, nil)
}

// cd moves c as a cd or pushd of these words would.
func (w *walker) cd(words []Word, c *context) {
	switch words[0].Text {
	case "cd", "pushd", "chdir":
	case "popd":
		c.lost = true
		return
	default:
		return
	}
	args := words[1:]
	for len(args) > 0 && (args[0].Text == "--" || args[0].Text == "-P" || args[0].Text == "-L") {
		args = args[1:]
	}
	if len(args) == 0 && w.env.Home != "" {
		args = []Word{{Text: w.env.Home, Lit: true}}
	}
	if len(args) != 1 || args[0].Unknown() || args[0].Text == "" || strings.HasPrefix(args[0].Text, "-") ||
		!args[0].Lit && (args[0].Why != "a ~" && args[0].Why != "a variable") {
		c.lost = true
		return
	}
	if to := args[0].Text; path.IsAbs(to) {
		c.dir, c.lost = path.Clean(to), false
	} else if strings.HasPrefix(to, "~") {
		c.lost = true
	} else {
		c.dir = path.Join(c.dir, to)
	}
}
