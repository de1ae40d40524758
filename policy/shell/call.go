package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

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
