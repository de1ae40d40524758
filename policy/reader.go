package policy

import (
	"strings"

	"permd/policy/shell"
)

// reader is a program that only reads, as long as it gets no other options
// than these. Options are listed, never forbidden: a new one that writes is
// not known, and asks.
type reader struct {
	flags   string // short options without a value
	values  string // short options with a value that is no file
	files   string // short options whose value is a file
	glued   string // short options whose value, if any, is the rest of the word
	long    string // long options without a value
	longVal string // long options with one; "=" or the next word, "[=]" optional
	pairs   string // long options with two values, a name and a text
	digits  bool   // -5
	// Options that read more than the words name. The class "read-only" does
	// not have them; a rule for the program does.
	wideFlags, wideLong, wideVal string
	words                        bool // there are no options: every word is an operand
	// operands
	none   bool   // there are none
	text   bool   // they are no files
	most   int    // at most so many, 0 for any number
	script bool   // the first one is a pattern or a program text …
	unless string // … unless one of these options was given
	names  bool   // it shows names and facts of files, not what is in them
	cwd    bool   // without operands it looks at its directory
	deep   string // options with which it reads whole trees; "*" for always
	hidden string // options with which that includes hidden files; "*" for always
	check  func(r *reading) bool
}

// reading is one command line of a reader, read.
type reading struct {
	opts     []string // as "-x" and "--name"
	values   []optionValue
	wide     bool // an option reads more than the words name
	operands []shell.Word
	files    []shell.Word // values of options that are files
}

type optionValue struct{ name, text string }

// all returns the values of the named options in order.
func (r *reading) all(names string) []string {
	var out []string
	for _, v := range r.values {
		if listed(names, v.name) {
			out = append(out, v.text)
		}
	}
	return out
}

func (r *reading) has(names string) bool {
	for want := range strings.FieldsSeq(names) {
		for _, o := range r.opts {
			if o == want {
				return true
			}
		}
	}
	return false
}

// read reads args by d, not ok when something in them is not known or does
// more than to read.
func (d *reader) read(args []shell.Word) (r reading, ok bool) {
	r, ok = d.parse(args)
	return r, ok && !r.wide && (d.check == nil || d.check(&r))
}

// parse reads args by d, not ok when something in them is not known.
func (d *reader) parse(args []shell.Word) (r reading, ok bool) {
	end := false
	for i := 0; i < len(args); i++ {
		s := args[i].Text
		switch {
		case d.words || end || len(s) < 2 || s[0] != '-':
			r.operands = append(r.operands, args[i])
		case s == "--":
			end = true
		case strings.HasPrefix(s, "--"):
			n, ok := d.longOption(&r, args[i:])
			if !ok {
				return r, false
			}
			i += n
		case d.digits && strings.Trim(s[1:], "0123456789") == "":
			r.opts = append(r.opts, "-#")
		default:
			n, ok := d.bundle(&r, args[i:])
			if !ok {
				return r, false
			}
			i += n
		}
	}
	switch {
	case d.none && len(r.operands) > 0, d.most > 0 && len(r.operands) > d.most:
		return r, false
	}
	return r, true
}

func (d *reader) longOption(r *reading, args []shell.Word) (further int, ok bool) {
	name, value, glued := strings.Cut(args[0].Text, "=")
	switch {
	case listed(d.long, name[2:]):
		r.opts = append(r.opts, name)
		return 0, !glued
	case listed(d.longVal, name[2:]+"[=]"):
		r.opts = append(r.opts, name)
		r.values = append(r.values, optionValue{name, value})
		return 0, true
	case listed(d.wideLong, name[2:]):
		r.opts, r.wide = append(r.opts, name), true
		return 0, !glued
	case listed(d.pairs, name[2:]):
		r.opts = append(r.opts, name)
		return 2, !glued && len(args) > 2
	case listed(d.longVal, name[2:]), listed(d.wideVal, name[2:]):
		r.wide = r.wide || listed(d.wideVal, name[2:])
		if !glued {
			if len(args) < 2 {
				return 0, false
			}
			value, further = args[1].Text, 1
		}
		r.opts = append(r.opts, name)
		r.values = append(r.values, optionValue{name, value})
		return further, true
	}
	return 0, false
}

func (d *reader) bundle(r *reading, args []shell.Word) (further int, ok bool) {
	s := args[0].Text
	for j := 1; j < len(s); j++ {
		c := s[j]
		name := "-" + s[j:j+1]
		r.opts = append(r.opts, name)
		if strings.IndexByte(d.flags, c) >= 0 {
			continue
		}
		if strings.IndexByte(d.wideFlags, c) >= 0 {
			r.wide = true
			continue
		}
		if strings.IndexByte(d.glued, c) >= 0 {
			return 0, true
		}
		file := strings.IndexByte(d.files, c) >= 0
		if !file && strings.IndexByte(d.values, c) < 0 {
			return 0, false
		}
		v := args[0]
		if v.Text = s[j+1:]; v.Text == "" {
			if len(args) < 2 {
				return 0, false
			}
			v, further = args[1], 1
		}
		r.values = append(r.values, optionValue{name, v.Text})
		if file {
			r.files = append(r.files, v)
		}
		return further, true
	}
	return 0, true
}

func listed(list, name string) bool {
	for len(list) > 0 {
		var w string
		w, list, _ = strings.Cut(list, " ")
		if w == name {
			return true
		}
	}
	return false
}

// touch is one file that a command names, and how.
type touch struct {
	word   shell.Word
	how    access
	deep   bool
	hidden bool
}

// touches are the files that the command line reads.
func (d *reader) touches(r *reading) []touch {
	how := accessRead
	if d.names {
		how = accessNames
	}
	deep := d.deep == "*" || d.deep != "" && r.has(d.deep)
	hidden := deep && (d.hidden == "*" || d.hidden != "" && r.has(d.hidden))
	var out []touch
	for _, f := range r.files {
		out = append(out, touch{word: f, how: accessRead})
	}
	ops := r.operands
	if d.text {
		return out
	}
	if d.script && (d.unless == "" || !r.has(d.unless)) && len(ops) > 0 {
		ops = ops[1:]
	}
	for _, o := range ops {
		if o.Text == "-" || o.Text == "" || d.words && (o.Text[0] == '-' || o.Text == "]") {
			continue
		}
		out = append(out, touch{word: o, how: how, deep: deep, hidden: hidden})
	}
	if len(ops) == 0 && (d.cwd || deep) {
		out = append(out, touch{word: shell.Word{Text: ".", Lit: true}, how: how, deep: deep, hidden: hidden})
	}
	return out
}

// readCommand says what u reads, if its program is one that only reads and
// all its options are known. Literal says that this is certain: every word is
// what the program gets.
func readCommand(u *shell.Unit) (touches []touch, literal, ok bool) {
	name, args := readerName(u), u.Words[1:]
	if name == "find" {
		touches, ok = findReader(args)
		return touches, allLiteral(u), ok
	}
	d, args := readerOf(name, args)
	if d == nil {
		return nil, false, false
	}
	r, ok := d.read(args)
	if !ok {
		return nil, false, false
	}
	touches = d.touches(&r)
	if name == "git" {
		touches = withBlobs(touches)
	}
	return touches, allLiteral(u), true
}

func allLiteral(u *shell.Unit) bool {
	if u.More || len(u.Assigns) > 0 {
		return false
	}
	for i := range u.Words {
		if !u.Words[i].Lit {
			return false
		}
	}
	return true
}

// isReader reports whether u is one of the programs that may only read.
func isReader(u *shell.Unit) bool {
	name := readerName(u)
	if name == "find" {
		return true
	}
	d, _ := readerOf(name, u.Words[1:])
	return d != nil
}

// readerName is the program's name if it is found by name or in the system's
// own directories.
func readerName(u *shell.Unit) string {
	name := u.Words[0].Text
	for _, dir := range [...]string{"/bin/", "/usr/bin/"} {
		if rest, ok := strings.CutPrefix(name, dir); ok && !strings.Contains(rest, "/") {
			return rest
		}
	}
	return name
}

// readerOf finds the reader for a program, and the arguments that it is to
// read.
func readerOf(name string, args []shell.Word) (*reader, []shell.Word) {
	switch name {
	case "git":
		return gitReader(args)
	case "gh", "docker", "podman":
		return toolReader(name, args)
	case "npm":
		if len(args) > 0 && npmReaders[args[0].Text] != nil {
			return npmReaders[args[0].Text], args[1:]
		}
	}
	return readers[name], args
}

// withBlobs adds the files that "revision:path" names.
func withBlobs(touches []touch) []touch {
	for _, t := range touches {
		for rest := t.word.Text; ; {
			_, after, ok := strings.Cut(rest, ":")
			if !ok || after == "" {
				break
			}
			w := t.word
			w.Text, rest = after, after
			touches = append(touches, touch{word: w, how: t.how})
		}
	}
	return touches
}

// findTests are what find may look at, and how many words each takes.
var findTests = map[string]int{
	"-empty": 0, "-executable": 0, "-readable": 0, "-writable": 0, "-daystart": 0, "-depth": 0, "-d": 0, "-mount": 0, "-xdev": 0,
	"-noleaf": 0, "-true": 0, "-false": 0, "-print": 0, "-print0": 0, "-prune": 0, "-quit": 0, "-nouser": 0, "-nogroup": 0, "-ls": 0,
	"-not": 0, "-and": 0, "-a": 0, "-or": 0, "-o": 0, "(": 0, ")": 0, "!": 0, ",": 0, "-warn": 0, "-nowarn": 0,
	"-name": 1, "-iname": 1, "-path": 1, "-ipath": 1, "-wholename": 1, "-iwholename": 1, "-regex": 1, "-iregex": 1, "-lname": 1, "-ilname": 1,
	"-type": 1, "-xtype": 1, "-size": 1, "-mtime": 1, "-atime": 1, "-ctime": 1, "-mmin": 1, "-amin": 1, "-cmin": 1, "-newermt": 1,
	"-perm": 1, "-user": 1, "-group": 1, "-uid": 1, "-gid": 1, "-maxdepth": 1, "-mindepth": 1, "-links": 1, "-inum": 1, "-regextype": 1, "-printf": 1,
}

// findReader reads a find that runs, deletes and writes nothing.
func findReader(args []shell.Word) (touches []touch, ok bool) {
	for len(args) > 0 && (args[0].Text == "-H" || args[0].Text == "-P") {
		args = args[1:]
	}
	i := 0
	for ; i < len(args) && !strings.HasPrefix(args[i].Text, "-") && args[i].Text != "(" && args[i].Text != "!"; i++ {
		touches = append(touches, touch{word: args[i], how: accessNames})
	}
	if i == 0 {
		touches = append(touches, touch{word: shell.Word{Text: ".", Lit: true}, how: accessNames})
	}
	for ; i < len(args); i++ {
		n, known := findTests[args[i].Text]
		if !known || i+n >= len(args) {
			return nil, false
		}
		i += n
	}
	return touches, true
}
