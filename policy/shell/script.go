package shell

import (
	"path"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// Env is what the shell starts with.
type Env struct {
	Cwd  string // absolute
	Home string // absolute, "" when it is not known
}

// Script is what a command string says.
type Script struct {
	// Units are the simple commands found, outer before inner.
	Units []Unit
	// Redirs are the redirections to and from files.
	Redirs []Redir
	// Assigns are all assignments: before a command, alone, or by export,
	// declare, env and the like.
	Assigns []Assign
	// Floor says why the text is not one plain literal simple command, ""
	// when it is: then Units[0] is that command, and any further units are
	// what it starts.
	Floor string
	// Doubt says what is not understood outside the words of any unit, "" when
	// there is nothing. What is not understood in a unit, its Doubt says.
	Doubt string
	// Unread is text that could not be parsed. Its suspects are among the
	// units.
	Unread []string
}

// Plain reports whether the script is one plain literal simple command.
func (s *Script) Plain() bool { return s.Floor == "" && len(s.Units) > 0 }

// Unit is one simple command.
type Unit struct {
	// Words are the program and its arguments, never empty.
	Words []Word
	name  string // of the program, "" when it was not looked at
	// Text is where it stands in the source.
	Text string
	// Dir is the directory it runs in, as far as literal cd tell; Lost is
	// true when a cd could not be followed, and Dir is then the last known.
	Dir  string
	Lost bool
	// Alts are directories in which it may run as well: a cd may have failed,
	// or stand in a branch that is not taken.
	Alts []string
	// Doubt says what in it is not understood, "" when all words are Lit or
	// otherwise settled.
	Doubt string
	// Free is true for a command of the shell that only steers it (set -e,
	// exit 1, read line), and for a call of a function whose body is units.
	Free bool
	// Passes is true when it does nothing but start the unit that follows, by
	// options that are all known (timeout, env, sh -c).
	Passes bool
	// Fed is true when its standard input comes from a pipe or a here-document.
	Fed bool
	// Piped is true when it comes from another command.
	Piped bool
	// Stdin is the text of that, as far as it stands in the source.
	Stdin string
	// Outer is the index of the unit that starts this one, -1 for none, and
	// Via that unit's program.
	Outer int
	Via   string
	// At is where its words begin among those of that unit, 0 when they are
	// no part of them.
	At int
	// Depth is how many units start each other down to this one.
	Depth int
	// Remote is true when it runs on another host or in a container: its
	// paths are not ours.
	Remote bool
	// Guess is true when it is only suspected: found in text that cannot be
	// read, or behind options that are not known.
	Guess bool
	// More is true when words that are not known follow (xargs, find -exec).
	More bool
	// Inner says what is not understood in the text that it hands to a shell,
	// "" when all is or when there is none.
	Inner string
	// Assigns is the environment prefix.
	Assigns []Assign
}

// Name is the program without its directory, "" when it is not known.
func (u *Unit) Name() string {
	if u.name != "" {
		return u.name
	}
	return programName(u.Words[0].Text)
}

func programName(s string) string {
	if strings.ContainsRune(s, unknown) {
		return ""
	}
	// In zsh "=rm" is the path of rm.
	s = strings.TrimPrefix(s[strings.LastIndexByte(s, '/')+1:], "=")
	return s
}

// Argv returns the words when all are literal and none is missing.
func (u *Unit) Argv() ([]string, bool) {
	argv := make([]string, len(u.Words))
	for i := range u.Words {
		if !u.Words[i].Lit {
			return nil, false
		}
		argv[i] = u.Words[i].Text
	}
	return argv, !u.More
}

// Redir is a redirection to or from a file; those to no file, as /dev/null,
// are left out.
type Redir struct {
	Target Word
	Write  bool // else it reads
	Dir    string
	Alts   []string
	Lost   bool
}

// Assign sets a variable.
type Assign struct {
	Name  string
	Value Word
	// Unit is the index of the unit it is the environment of, -1 when it is
	// the shell's own.
	Unit int
}

// source is a parser and what it reads from.
type source struct {
	parser *syntax.Parser
	text   strings.Reader
}

var parsers = sync.Pool{New: func() any { return &source{parser: syntax.NewParser(syntax.Variant(syntax.LangBash))} }}

func parse(text string) (*syntax.File, error) {
	p := parsers.Get().(*source)
	defer parsers.Put(p)
	p.text.Reset(text)
	file, err := p.parser.Parse(&p.text, "")
	p.text.Reset("")
	return file, err
}

// Read reads cmd. It always returns a script; what could not be understood is
// named in it.
func Read(cmd string, env Env) *Script { return new(Reader).Read(cmd, env) }

// Reader reads commands one after the other and keeps its memory for the next.
// It is not safe for concurrent use.
type Reader struct {
	script Script
	walker walker
	words  []Word
	used   int
	extras []extra
}

// extra keeps x for a word.
func (r *Reader) extra(x extra) *extra {
	if len(r.extras) == cap(r.extras) {
		r.extras = make([]extra, 0, 16)
	}
	r.extras = append(r.extras, x)
	return &r.extras[len(r.extras)-1]
}

// Read is as the function of that name; what it returns is valid until the
// next call.
func (r *Reader) Read(cmd string, env Env) *Script {
	r.reset()
	s, w := &r.script, &r.walker
	w.reader, w.script, w.env, w.budget = r, s, env, maxScripts
	w.read(cmd, context{dir: clean(env.Cwd), outer: -1})
	if len(s.Units) == 0 {
		w.floor("no command")
	}
	if w.wantFeeds {
		w.feed()
	}
	return s
}

// kept is how many units and words a Reader keeps room for.
const kept = 128

func (r *Reader) reset() {
	units, redirs, assigns := r.script.Units, r.script.Redirs, r.script.Assigns
	r.script, r.walker = Script{}, walker{}
	if cap(units) <= kept && cap(redirs) <= kept && cap(assigns) <= kept {
		r.script.Units, r.script.Redirs, r.script.Assigns = units[:0], redirs[:0], assigns[:0]
	}
	r.used, r.extras = 0, r.extras[:0]
}

// room returns an empty list of words with room for n.
func (r *Reader) room(n int) []Word {
	if r.words == nil {
		r.words = make([]Word, kept)
	}
	if r.used+n > len(r.words) {
		return make([]Word, 0, n)
	}
	out := r.words[r.used : r.used : r.used+n]
	r.used += n
	return out
}

// clean is path.Clean for an absolute name, without work where it is clean.
func clean(name string) string {
	if name != "" && name[0] == '/' && (len(name) == 1 || !strings.Contains(name, "//") && !strings.Contains(name, "/.") && name[len(name)-1] != '/') {
		return name
	}
	return path.Clean("/" + name)
}

// feed suspects the literal texts that a shell may get on standard input.
func (w *walker) feed() {
	feeds := w.feeds
	for _, i := range w.echoes {
		feeds = append(feeds, joined(w.script.Units[i].Words[1:]))
	}
	for _, text := range feeds {
		w.inner(-1, text, context{dir: path.Clean("/" + w.env.Cwd), lost: true, outer: -1, guess: true})
	}
}

// read parses text and walks it. Text within text is read the same way.
func (w *walker) read(text string, c context) {
	if err := Check(text); err != nil {
		w.unread(text, err.Error(), c)
		return
	}
	if w.budget -= len(text); w.budget < 0 {
		w.unread(text, "too much text within text", c)
		return
	}
	if w.plain(text, &c) {
		return
	}
	file, err := parse(text)
	if err != nil {
		w.unread(text, "it cannot be parsed", c)
		return
	}
	outer := w.src
	w.src = text
	w.stmts(file.Stmts, &c)
	w.src = outer
	if len(file.Stmts) > 1 {
		w.floor("several commands")
	}
}

// unread keeps text that cannot be parsed and suspects it.
func (w *walker) unread(text, why string, c context) {
	w.doubt(why)
	w.script.Unread = append(w.script.Unread, text)
	c.guess = true
	for words := range suspects(text) {
		if w.budget >= 0 {
			w.unit(words, words[0].Text, c, nil, "")
			continue
		}
		// No more text within text: what stands behind the wrappers is
		// suspected where it is.
		for len(words) > 1 && (startsOther(programName(words[0].Text)) || strings.HasPrefix(words[0].Text, "-")) {
			words = words[1:]
		}
		w.everywhere(words, c)
	}
}

// everywhere suspects a command at each of words, which are no longer looked
// into.
func (w *walker) everywhere(words []Word, c context) {
	const long = 16
	if w.suspected == nil {
		w.suspected = map[[2]string]bool{}
	}
	for k := range words {
		name := programName(words[k].Text)
		if name == "" || name[0] == '-' {
			continue
		}
		at := [2]string{name}
		if k+1 < len(words) {
			at[1] = words[k+1].Text
		}
		if w.suspected[at] {
			continue
		}
		w.suspected[at] = true
		w.script.Units = append(w.script.Units, Unit{Words: words[k:min(k+long, len(words))], name: name, Text: words[k].Text, Dir: c.dir, Lost: true, Outer: c.outer,
			Via: c.via, Depth: c.depth, Remote: c.remote, Guess: true})
	}
}

// startsOther reports whether a program of this name starts another one that
// its words name.
func startsOther(name string) bool {
	return wrappers[name] != nil || shells[name] || name == "eval" || name == "trap"
}
