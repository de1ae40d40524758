package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// affects reports whether a command of this name may change the shell itself.
func affects(name string) bool {
	switch name {
	case "cd", "pushd", "popd", "chdir", "eval", "source", ".", "exit", "return", "break", "continue", "shift", "wait", "set", "hash", "read", "unset", "printf",
		"mapfile", "readarray", "getopts", "let", "vared", "zparseopts", "sysread", "zstyle", "print", "alias", "unalias", "shopt", "setopt", "unsetopt", "enable",
		"emulate", "zmodload", "autoload", "bind", "complete", "compdef", "ulimit", "umask", "trap", "disable", "unhash", "unfunction", "functions",
		"command", "builtin", "noglob", "nocorrect", "-", "exec", "echo":
		return true
	}
	return false
}

// effects applies to c what unit n, a simple command of these words, does to
// the shell itself.
func (w *walker) effects(n int, words []Word, c *context) {
	if !words[0].Lit {
		return
	}
	name, args := words[0].Text, words[1:]
	if b := c.vars.find(name + "()"); b != nil {
		w.script.Units[n].Free = b.value.Lit
		w.called(b, c)
		c.blind = c.blind || !b.quiet
		c.lost = c.lost || !b.still
	}
	switch name {
	case "cd", "pushd", "chdir":
		w.cd(words, c)
	case "popd":
		c.trailLost = c.trailLost || c.lost
		if len(c.trail) <= maxTrail {
			c.trail = append(append(c.trail, c.dir), c.alts...)
		}
		c.lost = true
	case "eval":
		w.anyCalled(c)
		c.blind, c.lost = true, true
	case "source", ".":
		w.anyCalled(c)
		c.blind = true
	case "exit", "return", "break", "continue", "shift", "wait":
		w.free(n, counts(args))
	case "jobs", "times":
		w.free(n, len(args) == 0)
	case "set":
		w.free(n, setsOptions(args))
	case "hash":
		w.free(n, len(args) == 1 && args[0].Text == "-r")
	case "read":
		w.free(n, w.readNames(args, c))
	case "unset":
		ok := len(args) > 0
		for _, a := range args {
			ok = ok && a.Lit && localName(a.Text)
			if ok {
				c.unsure(a.Text)
			}
		}
		w.free(n, ok)
	case "printf":
		if len(args) > 0 && (strings.HasPrefix(args[0].Text, "-v") || args[0].Open > OpenCount && args[0].Head() == "") {
			w.unsureUnit(n, "it sets a variable")
		}
	case "mapfile", "readarray", "getopts", "let", "vared", "zparseopts", "sysread", "zstyle", "print":
		w.unsureUnit(n, "it sets a variable")
	case "alias", "unalias", "shopt", "setopt", "unsetopt", "enable", "emulate", "zmodload", "autoload", "bind", "complete", "compdef", "ulimit", "umask", "trap", "disable", "unhash", "unfunction", "functions":
		w.unsureUnit(n, "it changes what the shell does with what follows")
	}
	for k := n + 1; k < len(w.script.Units); k++ {
		if u := &w.script.Units[k]; u.Outer == n && (name == "command" || name == "builtin" || name == "noglob" || name == "nocorrect" || name == "-") {
			w.effects(k, u.Words, c)
			return
		}
	}
}

// free says that unit n, a command of the shell itself, does nothing but
// steer it; or else that it is not understood.
func (w *walker) free(n int, ok bool) {
	if ok {
		w.script.Units[n].Free = true
		return
	}
	w.unsureUnit(n, "it may change what the shell does with what follows")
}

func (w *walker) unsureUnit(n int, why string) {
	w.floor(why)
	if w.script.Units[n].Doubt == "" {
		w.script.Units[n].Doubt = why
	}
}

func counts(args []Word) bool {
	for _, a := range args {
		if !(a.Lit && (number64(a.Text) || strings.HasPrefix(a.Text, "%")) || a.Open == OpenCount) {
			return false
		}
	}
	return true
}

// setsOptions reports whether set only makes the shell stop at errors or show
// what it does.
func setsOptions(args []Word) bool {
	for i := 0; i < len(args); i++ {
		s := args[i].Text
		if !args[i].Lit || len(s) < 2 || s[0] != '-' && s[0] != '+' || strings.Trim(s[1:], "euxEo") != "" {
			return false
		}
		if strings.Contains(s, "o") {
			if i++; i == len(args) {
				return false
			}
			switch args[i].Text {
			case "pipefail", "errexit", "nounset", "xtrace":
			default:
				return false
			}
		}
	}
	return len(args) > 0
}

// readNames applies read to c; false when it may set a variable that is
// obeyed.
func (w *walker) readNames(args []Word, c *context) bool {
	names := 0
	for i := 0; i < len(args); i++ {
		s := args[i].Text
		switch {
		case !args[i].Settled():
			return false
		case names == 0 && args[i].Lit && (s == "-r" || s == "-s" || s == "-rs" || s == "-sr" || s == "-e"):
		case names == 0 && args[i].Lit && (s == "-p" || s == "-d" || s == "-n" || s == "-N" || s == "-t" || s == "-u" || s == "-rp" || s == "-rd" || s == "-rn"):
			i++
		case args[i].Lit && localName(s):
			names++
			c.unsure(s)
		default:
			return false
		}
	}
	return names > 0
}

// declaration walks export, declare, local, readonly and typeset.
func (w *walker) declaration(x *syntax.DeclClause, c *context) {
	words := []Word{{Text: x.Variant.Value, Lit: true}}
	doubt := ""
	not := func(why string) {
		if doubt == "" {
			doubt = why
		}
	}
	for _, a := range x.Args {
		for _, set := range w.assign(a, c) {
			w.script.Assigns = append(w.script.Assigns, set)
			if !a.Naked && !set.Value.Unknown() {
				w.set(set.Name, set.Value.Text)
			}
			switch exports := x.Variant.Value == "export"; {
			case a.Array != nil || a.Index != nil || a.Append:
				not("an array")
			case exports && a.Naked && localName(set.Name):
			case exports && !(HarmlessVariable(set.Name) && plainValue(set.Name, set.Value)), !exports && !localName(set.Name):
				not("it sets " + set.Name)
			case !set.Value.Settled() && !a.Naked:
				not(set.Value.Why())
			case set.Value.Open != Closed || set.Value.Glob() != "" || a.Naked:
				c.unsure(set.Name)
			default:
				c.bind(set.Name, set.Value)
			}
		}
		if a.Name == nil && a.Value != nil {
			w.within(a.Value, c)
			words = append(words, w.word(a.Value, c))
			not("an option of " + x.Variant.Value)
			continue
		}
		words = append(words, noted(w.text(a), true, "a declaration"))
	}
	switch x.Variant.Value {
	case "export", "declare", "local", "typeset":
	default:
		not("a declaration")
	}
	n := w.unit(words, w.text(x), *c, nil, doubt)
	w.script.Units[n].Free = doubt == "" && len(x.Args) > 0
}

// test walks [[ … ]] as the command "[" of its words.
func (w *walker) test(x *syntax.TestClause, c *context) {
	words := []Word{noted("[", true, "a test")}
	doubt := ""
	add := func(word *syntax.Word) Word {
		w.within(word, c)
		v := w.word(word, c)
		if v.Glob() != "" { // matched with text, not with files
			v.Lit, v.x = true, nil
		}
		if !v.Settled() && doubt == "" {
			doubt = v.Why()
		}
		words = append(words, v)
		return v
	}
	sign := func(s string) { words = append(words, Word{Text: s, Lit: true}) }
	var walk func(e syntax.TestExpr)
	walk = func(e syntax.TestExpr) {
		switch e := e.(type) {
		case *syntax.Word:
			add(e)
		case *syntax.ParenTest:
			walk(e.X)
		case *syntax.UnaryTest:
			sign(e.Op.String())
			if e.Op == syntax.TsVarSet || e.Op == syntax.TsRefVar {
				doubt = "a test of a variable"
			}
			walk(e.X)
		case *syntax.BinaryTest:
			walk(e.X)
			sign(e.Op.String())
			n := len(words)
			walk(e.Y)
			switch e.Op {
			case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
				// Both sides are expressions, and an expression may run commands.
				for _, v := range []Word{words[n-2], words[len(words)-1]} {
					if v.Open != OpenCount && !(v.Lit && number64(strings.TrimPrefix(v.Text, "-"))) {
						doubt = "an arithmetic expression"
					}
				}
			}
		}
	}
	walk(x.X)
	words = append(words, Word{Text: "]", Lit: true})
	w.unit(words, w.text(x), *c, nil, doubt)
}
