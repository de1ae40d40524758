package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// context is what a part of the text inherits from where it stands.
type context struct {
	// dir is the directory, alts are others that it may be as well, and lost
	// says that it may be any.
	dir  string
	alts []string
	lost bool
	// trail are the directories left so far: a command that failed may have
	// left c in one of them.
	trail     []string
	trailLost bool

	vars *binding
	// iffy are variables set only if what stands before them succeeded.
	iffy  []string
	blind bool // what variables hold is not known

	fed    bool // standard input comes from elsewhere
	piped  bool
	stdin  string
	posix  bool // a plain sh
	outer  int
	via    string
	depth  int
	remote bool
	guess  bool
}

// maxAlts is how many directories a command may run in and still be judged.
const maxAlts = 6

// also adds a directory in which c may be.
func (c *context) also(dir string) {
	if dir == c.dir || slices.Contains(c.alts, dir) {
		return
	}
	if len(c.alts) >= maxAlts {
		c.lost = true
		return
	}
	c.alts = append(slices.Clip(c.alts), dir)
}

// mark is a point on the way of a context.
type mark struct {
	trail, iffy int
	lost        bool
}

func (c *context) mark() mark { return mark{len(c.trail), len(c.iffy), c.trailLost} }

// maybeNot makes c what it may be when some command since m has failed: still
// in a directory left, and without a variable set.
func (c *context) maybeNot(m mark) {
	c.lost = c.lost || c.trailLost && !m.lost
	for _, dir := range c.trail[m.trail:] {
		c.also(dir)
	}
	for _, name := range c.iffy[m.iffy:] {
		c.unsure(name)
	}
}

// afterPipe is what c is behind a pipeline whose last part was right: zsh runs it
// in the shell itself, others do not.
func (c *context) afterPipe(right *context) {
	c.forget(right)
	if right.dir != c.dir || right.lost {
		if len(c.trail) <= maxTrail {
			c.trail = append(c.trail, right.dir)
		}
		c.also(right.dir)
	}
}

// conditional notes the variables set since left: they are set only if what
// stands before them succeeded.
func (c *context) conditional(left *binding) {
	for b := c.vars; b != left && b != nil && len(c.iffy) < 64; b = b.up {
		c.iffy = append(c.iffy, b.name)
	}
}

// only says that what follows runs only if nothing since m has failed.
func (c *context) only(m mark) {
	c.trail, c.iffy, c.trailLost = c.trail[:m.trail], c.iffy[:m.iffy], m.lost
}

// join adds where d is to where c may be.
func (c *context) join(d *context) {
	n := min(len(c.trail), len(d.trail))
	c.lost = c.lost || d.lost || d.trailLost && !c.trailLost
	c.trailLost = c.trailLost || d.trailLost
	c.also(d.dir)
	for _, dir := range d.alts {
		c.also(dir)
	}
	for _, dir := range d.trail[n:] {
		c.also(dir)
		if len(c.trail) <= maxTrail {
			c.trail = append(c.trail, dir)
		}
	}
	c.forget(d)
}

// moved reports whether c may be elsewhere than before.
func (c *context) moved(before *context) bool {
	return c.dir != before.dir || c.lost != before.lost || len(c.trail) != len(before.trail) || len(c.alts) != len(before.alts)
}

// loop walks what runs again and again.
func (w *walker) loop(cond, body []*syntax.Stmt, c *context) {
	d := *c
	for name, counts := range w.assigned(cond, body) {
		if b := d.vars.find(name); counts && b != nil && w.counts(name, &d) {
			d.bind(name, Word{Open: OpenCount})
		} else {
			d.unsure(name)
		}
	}
	units, redirs := len(w.script.Units), len(w.script.Redirs)
	w.stmts(cond, &d)
	w.stmts(body, &d)
	if d.moved(c) { // the second time it begins elsewhere
		w.lose(span{units, len(w.script.Units)}, span{redirs, len(w.script.Redirs)})
		c.lost = true
	}
	c.join(&d)
}

// maySet reports whether a text may set a variable other than by a loop.
func maySet(text string) bool {
	if strings.Count(text, "for") > 1 {
		return true
	}
	for _, s := range [...]string{"=", "++", "--", "read", "unset", "mapfile", "getopts", "printf", "wait", "let"} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// assigned are the variables that statements set anywhere, and whether each
// is only set to numbers.
func (w *walker) assigned(lists ...[]*syntax.Stmt) map[string]bool {
	if !maySet(w.src) {
		return nil
	}
	var out map[string]bool
	add := func(name string, counts bool) {
		if out == nil {
			out = map[string]bool{}
		}
		before, seen := out[name]
		out[name] = counts && (before || !seen)
	}
	for _, list := range lists {
		for _, s := range list {
			syntax.Walk(s, func(n syntax.Node) bool {
				switch x := n.(type) {
				case *syntax.Assign:
					if x.Name != nil {
						_, counts := soleArithmetic(x.Value)
						add(x.Name.Value, counts)
					}
				case *syntax.WordIter:
					add(x.Name.Value, false)
				case *syntax.BinaryArithm:
					if w, ok := x.X.(*syntax.Word); ok && assigns(x.Op) {
						add(w.Lit(), true)
					}
				case *syntax.UnaryArithm:
					if w, ok := x.X.(*syntax.Word); ok {
						add(w.Lit(), true)
					}
				case *syntax.CallExpr:
					if len(x.Args) > 0 && sets[x.Args[0].Lit()] {
						for _, a := range x.Args[1:] {
							add(a.Lit(), false)
						}
					}
				}
				return true
			})
		}
	}
	return out
}

// sets are commands that set the variables which their words name.
var sets = map[string]bool{"read": true, "unset": true, "mapfile": true, "readarray": true, "getopts": true, "printf": true, "wait": true, "let": true}

func soleArithmetic(w *syntax.Word) (*syntax.ArithmExp, bool) {
	if w == nil || len(w.Parts) != 1 {
		return nil, false
	}
	x, ok := w.Parts[0].(*syntax.ArithmExp)
	return x, ok
}

const (
	maxItems  = 64  // of a list over which a loop is walked item by item
	maxRounds = 256 // of all loops together
)

func (w *walker) forClause(x *syntax.ForClause, c *context) {
	it, ok := x.Loop.(*syntax.WordIter)
	if !ok {
		loop, _ := x.Loop.(*syntax.CStyleLoop)
		w.within(x.Loop, c)
		if loop == nil || !w.arithmetic(loop.Init, c) || !w.arithmetic(loop.Cond, c) || !w.arithmetic(loop.Post, c) {
			w.doubt("an arithmetic expression")
		}
		w.loop(nil, x.Do, c)
		return
	}
	name := it.Name.Value
	if x.Select {
		w.doubt("a menu")
	}
	if !localName(name) {
		w.doubt("it sets " + name)
	}
	items := make([]Word, 0, len(it.Items))
	literal := len(it.Items) > 0
	for _, item := range it.Items {
		w.within(item, c)
		v := w.word(item, c)
		from := len(items)
		items = append(items, v)
		if v.Why() == "a brace expansion" && !v.Settled() {
			if some := w.braced(item, c); some != nil {
				items = append(items[:from], some...)
			}
		}
		for _, v := range items[from:] {
			if !v.Unknown() {
				w.set(name, v.Text)
			}
			if !v.Settled() {
				w.doubt(v.Why())
			}
			literal = literal && (v.Lit || v.Glob() != "")
		}
	}
	if !literal || len(items) > maxItems || w.rounds+len(items) > maxRounds {
		d := *c
		d.unsure(name)
		w.loop(nil, x.Do, &d)
		c.join(&d)
		return
	}
	w.rounds += len(items)
	names := w.assigned(x.Do)
	delete(names, name)
	d := *c
	for i, v := range items {
		for n := range names {
			d.unsure(n)
		}
		item := Word{Text: v.Text, Lit: v.Lit}
		if glob := v.Glob(); glob != "" {
			item.x = &extra{glob: glob}
		}
		d.bind(name, item)
		m := d.mark()
		w.stmts(x.Do, &d)
		if i+1 < len(items) {
			d.maybeNot(m)
		}
	}
	c.join(&d)
}

// function walks the body of a function. What it does when it is called
// depends on where that is.
func (w *walker) function(x *syntax.FuncDecl, c *context) {
	d := *c
	d.blind = true
	d.vars = &binding{name: "", up: d.vars}
	units, redirs := len(w.script.Units), len(w.script.Redirs)
	start := d.vars
	before := d
	if x.Name == nil || len(x.Names) > 0 {
		w.doubt("a function without a name")
	} else if obeyed(x.Name.Value) {
		w.doubt("a function named " + x.Name.Value)
	}
	w.stmt(x.Body, &d)
	if x.Name != nil {
		// A call leaves the shell as it was only if the body sets nothing and
		// goes nowhere.
		c.vars = &binding{name: x.Name.Value + "()", value: Word{Lit: true}, quiet: d.vars == start, still: !d.moved(&before),
			body: &body{dir: c.dir, sure: !c.lost && len(c.alts) == 0, units: span{units, len(w.script.Units)}, redirs: span{redirs, len(w.script.Redirs)}}, up: c.vars}
	}
}

// body is where what a function does stands among the units.
type body struct {
	dir           string // where it was defined, if that is sure
	sure          bool
	units, redirs span
	lost          bool
}

type span struct{ from, to int }

// lose says that units run in a directory that is not known.
func (w *walker) lose(units, redirs span) {
	for i := units.from; i < units.to; i++ {
		w.script.Units[i].Lost = true
	}
	for i := redirs.from; i < redirs.to; i++ {
		w.script.Redirs[i].Lost = true
	}
}

// called notes that the function b may be called in c: its body was read where
// it was defined.
func (w *walker) called(b *binding, c *context) {
	f := b.body
	if f == nil || f.lost || f.sure && !c.lost && len(c.alts) == 0 && c.dir == f.dir {
		return
	}
	f.lost = true
	w.lose(f.units, f.redirs)
}

// anyCalled is called for every function that c knows.
func (w *walker) anyCalled(c *context) {
	lost := context{lost: true}
	for b, n := c.vars, 0; b != nil && n < 1000; b, n = b.up, n+1 {
		w.called(b, &lost)
	}
}
