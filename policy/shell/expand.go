package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// param adds what a variable stands for.
func (k *walker) param(o *builder, p *syntax.ParamExp, c *context, quoted, alone bool) {
	o.why("a variable")
	guess, guessed := k.variable(p, c)
	v, ok := k.value(p, c)
	switch {
	case !ok && mayRun(p):
		o.doubt("a variable in a form that may run what it holds")
	case !ok:
		o.doubt("a variable")
	case v.Lit && (quoted || simple(v.Text)):
		o.write(v.Text)
		return
	case v.Lit && v.Text == "" && !alone:
		return // nothing is left of it
	case v.Lit:
		o.doubt("a variable that may be several words")
	case v.Glob() != "" && alone:
		whole := v
		whole.Split = !quoted
		o.whole = &whole
		o.b.WriteString(v.Text)
		return
	case v.Open == OpenCount:
		o.leave(OpenCount)
		return
	default:
		how := OpenWords
		if quoted {
			how = OpenWord
		}
		if o.leave(how); guessed && !strings.ContainsRune(guess, unknown) {
			o.tries = append(o.tries, guess)
		}
		return
	}
	if guessed {
		o.b.WriteString(guess)
	} else {
		o.b.WriteRune(unknown)
	}
}

// mayRun reports whether the expansion evaluates text as the shell's own: a
// prompt (@P), a subscript or an offset, which are arithmetic, or the name in
// another variable, which may have a subscript.
func mayRun(p *syntax.ParamExp) bool {
	return p.Excl || p.Index != nil || p.Slice != nil || p.Exp != nil && p.Exp.Op == syntax.OtherParamOps
}

// simple reports whether an unquoted variable with this value is one word.
func simple(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-+.,:@/%=", r)) || r == unknown
	}) < 0
}

// value is what p stands for, as far as it is certain.
func (k *walker) value(p *syntax.ParamExp, c *context) (Word, bool) {
	if p.Param == nil || p.Flags != nil || p.NestedParam != nil || p.Excl || p.Width || p.IsSet || len(p.Modifiers) > 0 || p.Names != 0 ||
		p.Split != 0 || p.GlobSubst != 0 || p.RcExpand != 0 {
		return Word{}, false
	}
	name := p.Param.Value
	b := c.vars.find(name)
	digits, shown := shownEnv[name]
	switch {
	case b == nil && !shown:
		return Word{}, false
	case p.Length:
		return Word{Open: OpenCount}, p.Index == nil
	case p.Index != nil:
		return Word{Open: OpenCount}, name == "PIPESTATUS" && k.arithmetic(p.Index, c)
	case p.Exp != nil:
		return k.changed(p, b, c)
	case p.Slice != nil || p.Repl != nil:
		return Word{Open: OpenWord}, true
	case b != nil && c.blind:
		return Word{Open: OpenWord}, true
	case b != nil:
		return b.value, true
	case name == "HOME" && k.env.Home != "":
		return Word{Text: k.env.Home, Lit: true}, true
	case name == "PWD" && !c.lost && len(c.alts) == 0:
		return Word{Text: c.dir, Lit: true}, true
	case digits:
		return Word{Open: OpenCount}, true
	}
	return Word{Open: OpenWord}, true
}

// changed is a variable with something cut off, or with a default.
func (k *walker) changed(p *syntax.ParamExp, b *binding, c *context) (Word, bool) {
	switch p.Exp.Op {
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix, syntax.RemSmallPrefix, syntax.RemLargePrefix:
		if b == nil || !b.value.Lit || c.blind || p.Exp.Word == nil {
			return Word{Open: OpenWord}, true
		}
		return cut(b.value.Text, p.Exp.Op, p.Exp.Word)
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
		syntax.UpperFirst, syntax.UpperAll, syntax.LowerFirst, syntax.LowerAll:
		return Word{Open: OpenWord}, true
	}
	return Word{}, false // := sets it, :? ends the shell, @P runs what it holds
}

// cut removes literal text, or all up to a slash, from s.
func cut(s string, op syntax.ParExpOperator, w *syntax.Word) (Word, bool) {
	what := w.Lit()
	switch {
	case what == "*/" && op == syntax.RemLargePrefix:
		return Word{Text: s[strings.LastIndexByte(s, '/')+1:], Lit: true}, true
	case what == "/*" && op == syntax.RemSmallSuffix:
		if i := strings.LastIndexByte(s, '/'); i >= 0 {
			s = s[:i]
		}
		return Word{Text: s, Lit: true}, true
	case what == "" || strings.ContainsAny(what, `*?[\$`):
		return Word{Open: OpenWord}, true
	case op == syntax.RemSmallSuffix || op == syntax.RemLargeSuffix:
		return Word{Text: strings.TrimSuffix(s, what), Lit: true}, true
	}
	return Word{Text: strings.TrimPrefix(s, what), Lit: true}, true
}

// arithmetic reports whether an expression can only count: its names are
// variables of the text, and it sets no others. The value of a variable is an
// expression too, and may run commands, so that only those are taken whose
// value is known.
func (k *walker) arithmetic(x syntax.ArithmExpr, c *context) bool {
	switch x := x.(type) {
	case nil:
		return true
	case *syntax.BinaryArithm:
		if assigns(x.Op) && !k.sets(x.X, c) {
			return false
		}
		return k.arithmetic(x.X, c) && k.arithmetic(x.Y, c)
	case *syntax.UnaryArithm:
		if (x.Op == syntax.Inc || x.Op == syntax.Dec) && !k.sets(x.X, c) {
			return false
		}
		return k.arithmetic(x.X, c)
	case *syntax.ParenArithm:
		return k.arithmetic(x.X, c)
	case *syntax.Word:
		if len(x.Parts) != 1 {
			return false
		}
		switch p := x.Parts[0].(type) {
		case *syntax.Lit:
			return number64(p.Value) || k.counts(p.Value, c)
		case *syntax.ParamExp:
			v, ok := k.value(p, c)
			return ok && (v.Open == OpenCount || v.Lit && number64(v.Text))
		}
	}
	return false
}

func assigns(op syntax.BinAritOperator) bool {
	switch op {
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn, syntax.AndAssgn, syntax.OrAssgn,
		syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
		return true
	}
	return false
}

// sets makes the variable that x names a number.
func (k *walker) sets(x syntax.ArithmExpr, c *context) bool {
	w, ok := x.(*syntax.Word)
	if !ok || !localName(w.Lit()) {
		return false
	}
	c.bind(w.Lit(), Word{Open: OpenCount})
	return true
}

// counts reports whether the variable name holds a number.
func (k *walker) counts(name string, c *context) bool {
	b := c.vars.find(name)
	if b == nil || c.blind {
		return shownEnv[name] && b == nil
	}
	return b.value.Open == OpenCount || b.value.Lit && number64(b.value.Text)
}

func number64(s string) bool { return s != "" && len(s) < 19 && strings.Trim(s, "0123456789") == "" }

// variable is the value of a plain $NAME when the text tells it, certain or
// not.
func (k *walker) variable(p *syntax.ParamExp, c *context) (string, bool) {
	if p.Param == nil || !plainParam(p) {
		return "", false
	}
	name := p.Param.Value
	if v := k.vars[name]; len(v) > 0 {
		return v[len(v)-1], true
	}
	switch {
	case name == "HOME" && k.env.Home != "":
		return k.env.Home, true
	case name == "PWD":
		return k.env.Cwd, true
	}
	return "", false
}

func plainParam(p *syntax.ParamExp) bool {
	return p.Flags == nil && !p.Excl && !p.Length && !p.Width && !p.IsSet && p.NestedParam == nil && p.Index == nil &&
		len(p.Modifiers) == 0 && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
}
