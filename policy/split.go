package policy

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"permd/ask"
	"permd/policy/paths"
	"permd/policy/shell"
)

// split takes the action apart into subjects.
func (j *judge) split() {
	a := j.in.Action
	switch a.Tool {
	case ask.ToolBash:
		j.splitCommand()
	case ask.ToolRead, ask.ToolWrite, ask.ToolEdit:
		j.splitPaths()
	case ask.ToolMCP:
		if a.MCP != nil {
			j.subjects = append(j.subjects, subject{kind: kindMCP, unit: -1, mcp: a.MCP, client: a.ClientTool})
			j.splitArguments()
		}
	case ask.ToolWebFetch:
		t := parseTarget(a.URL)
		j.subjects = append(j.subjects, subject{kind: kindWeb, unit: -1, url: t, raw: a.URL, client: a.ClientTool})
		if t.scheme == "file" {
			j.addPath(t.path, "", subject{unit: -1, how: accessRead, needed: true})
		}
	case ask.ToolWebSearch:
		j.subjects = append(j.subjects, subject{kind: kindSearch, unit: -1, client: a.ClientTool})
	case ask.ToolTask:
		j.subjects = append(j.subjects, subject{kind: kindTask, unit: -1, agent: a.Agent, client: a.ClientTool})
	case ask.ToolOther:
		j.subjects = append(j.subjects, subject{kind: kindTool, unit: -1, client: a.ClientTool})
		for _, p := range a.Paths {
			j.addGiven(p, false)
		}
	}
}

func (j *judge) splitPaths() {
	for _, p := range j.in.Action.Paths {
		j.addGiven(p, true)
	}
}

func (j *judge) addGiven(p ask.Path, needed bool) {
	s := subject{unit: -1, how: accessRead, needed: needed, client: j.in.Action.ClientTool}
	switch {
	case p.Access == ask.AccessWrite:
		s.how = accessWrite
	case j.in.Action.ClientTool == "Glob" || j.in.Action.ClientTool == "LS":
		s.how = accessNames
	case j.in.Action.ClientTool == "Grep":
		s.deep, s.hidden = true, true
	}
	j.addPath(p.Given, "", s)
	// Some clients take a name in quotes, or behind an "@", for the file itself.
	if name := strings.TrimPrefix(strings.Trim(p.Given, `'"`), "@"); name != p.Given && name != "" {
		s.needed = false
		j.addPath(name, "", s)
	}
}

const (
	// maxFull is how many commands of one action are judged in full, and how
	// many files of it. What is beyond asks, and rules that forbid are looked
	// for in it as it is written.
	maxFull     = 1000
	maxShown    = 256 // files that a result names
	tooManyText = "more commands or files than are judged at once"
)

// addPath adds one subject for each place that the name may lead to.
func (j *judge) addPath(name, dir string, s subject) {
	s.kind = kindPath
	if s.light = s.light || len(j.subjects) > 3*maxFull; s.light {
		j.crowded = true
		s.place = j.resolver.Written(name, dir)
		j.subjects = append(j.subjects, s)
		return
	}
	for _, pl := range j.known(name, dir) {
		if s.how&accessWrite != 0 && pl.Doubt == "" && j.several(pl.Real) {
			pl.Doubt = "the file has a second name, and that may be any"
		}
		s.place = pl
		j.subjects = append(j.subjects, s)
	}
}

func (j *judge) splitCommand() {
	a := j.in.Action
	j.script = j.reader.Read(a.Command, shell.Env{Cwd: a.Cwd, Home: a.Home})
	n := len(j.script.Units)
	j.units = slices.Grow(j.units, n)[:n]
	clear(j.units)
	j.subjects = slices.Grow(j.subjects, 2*n+2)
	for i := range j.script.Units {
		if o := j.script.Units[i].Outer; o >= 0 && j.units[o].starts == 0 {
			j.units[o].starts = i
		}
	}
	for i := range j.script.Units {
		// Of a long chain of commands that start each other the last one
		// counts: it is not certain, so the whole asks, and to look at all of
		// them would take the square of their number.
		if j.script.Units[i].Depth <= maxCertain || j.units[i].starts == 0 {
			j.splitUnit(i, j.units[i].starts)
		}
	}
	for i := range j.script.Redirs {
		r := &j.script.Redirs[i]
		how := accessRead
		if r.Write {
			how = accessWrite
		}
		j.addWord(&r.Target, r.Dir, r.Alts, r.Lost, subject{unit: -1, how: how, needed: true, client: a.ClientTool})
	}
}

// several reports whether the file name has other names too: to write it
// writes a file that a rule may name otherwise.
func (j *judge) several(name string) bool {
	l, ok := j.in.View.(paths.Linker)
	return ok && j.in.Node == Origin && l.Links(name) > 1
}

// named is a file as a command names it; of very many each is looked at once.
type named struct {
	text, dir, by string
	how           access
}

// addWord adds the places that a word of a command may name.
func (j *judge) addWord(w *shell.Word, dir string, alts []string, lost bool, s subject) {
	if len(j.subjects) > maxFull {
		at := named{text: w.Text, dir: dir, how: s.how}
		if s.unit >= 0 {
			at.by = j.script.Units[s.unit].Name()
		}
		if j.named[at] {
			return
		}
		if j.named == nil {
			j.named = map[named]bool{}
		}
		j.named[at] = true
	}
	rel := !strings.HasPrefix(w.Text, "/")
	s.blur = w.Open > shell.OpenCount || w.Open == shell.OpenCount && w.Head() != "" || lost && rel || w.Lit && w.Split
	j.addPath(w.Text, dir, s)
	if rel && !s.light {
		for _, alt := range alts {
			j.addPath(w.Text, alt, s)
		}
	}
	if w.Guess() != "" {
		s.blur = true
		j.addPath(w.Guess(), dir, s)
	}
}

// maxCertain is how deep in commands that start each other something may stand
// and still be certain.
const maxCertain = 32

func (j *judge) splitUnit(i, starts int) {
	u := &j.script.Units[i]
	client := j.in.Action.ClientTool
	light := len(j.subjects) > 3*maxFull || i > maxFull
	j.crowded = j.crowded || light
	own := *u // without the words of what it starts
	if starts > 0 {
		own.Words = u.Words[:begins(u.Words, &j.script.Units[starts])]
	}
	s := subject{kind: kindCommand, unit: i, client: client, light: light}
	words, why := u.Words, tooManyText
	if !light {
		words, why = j.sureWords(u, u.Words)
	}
	s.why, s.at = why, len(j.subjects)
	if !light && starts > 0 && len(own.Words) < len(u.Words) {
		own.Words, _ = j.sureWords(u, own.Words)
	} else if !light {
		own.Words = words
	}
	if why == "" {
		own.Assigns, own.More = nil, false // they are harmless, and open words
	}
	touches, reads := touched(&own)
	if name := readerName(&own); name == "test" || name == "[" {
		touches = testTouched(own.Words)
		if testRuns(own.Words) {
			s.why = "a test that may run a command"
		}
	}
	s.reader = reads && s.why == ""
	if s.why == "" && !u.Remote {
		if outer := u.Outer; outer >= 0 && u.At > 0 && len(j.units[outer].argv) == u.At+len(words) {
			s.argv = j.units[outer].argv[u.At:] // the same words
		} else {
			s.argv = j.argvOf(words)
		}
		j.units[i].argv = s.argv
		s.bare = j.bareGit(u, s.argv)
	}
	if len(words) != len(u.Words) {
		s.words = words
	}
	if u.Remote {
		s.why = elsewhere(u, s.why)
	}
	j.subjects = append(j.subjects, s)
	for k := range touches {
		t := &touches[k]
		if t.word.Pipe {
			continue
		}
		j.addWord(&t.word, u.Dir, u.Alts, u.Lost, subject{unit: i, light: light, how: t.how, deep: t.deep, hidden: t.hidden, client: client})
	}
	for _, w := range addresses(&own) {
		at := subject{kind: kindWeb, unit: i, light: light, url: parseTarget(w), raw: w, client: client}
		if host, _, ok := strings.Cut(w, open); ok && strings.Count(host, "/") < 3 {
			at.blur = true
		}
		j.subjects = append(j.subjects, at)
	}
	if agent := startsAgent(u); agent != "" {
		j.subjects = append(j.subjects, subject{kind: kindTask, unit: i, light: light, agent: agent, client: client})
	}
}

// elsewhere is what matters of why for a command on another machine, which what
// starts it is judged for: there its files are not known, but what it runs is
// to be.
func elsewhere(u *shell.Unit, why string) string {
	switch {
	case u.Inner != "":
		return u.Inner
	case u.Name() == "." || u.Name() == "source":
		return "it runs a file of another machine"
	case u.Guess || !u.Words[0].Lit:
		return why
	}
	switch why {
	case "a file name pattern", "a ~", "a variable", "a variable that may be several words", "a brace expansion", filesNotKnown:
		return ""
	}
	if strings.HasSuffix(why, mayBeMore) {
		return ""
	}
	return why
}

// argvOf are the words as patterns of rules see them.
func (j *judge) argvOf(words []shell.Word) []string {
	from := len(j.argvs)
	j.argvs = slices.Grow(j.argvs, len(words))[:from+len(words)]
	argv := j.argvs[from:len(j.argvs):len(j.argvs)]
	for i := range words {
		argv[i] = words[i].Text
		if words[i].Open != shell.Closed || words[i].Pipe {
			argv[i] = words[i].Head() + open
		}
	}
	return argv
}

// begins is where the words of a command begin among those of the one that
// starts it, or the end when they are no part of them.
func begins(outer []shell.Word, inner *shell.Unit) int {
	if inner.At > 0 {
		return min(inner.At, len(outer))
	}
	for k := 1; k < len(outer); k++ {
		if &outer[k] == &inner.Words[0] {
			return k
		}
	}
	return len(outer)
}

// addresses are the words of u that are web addresses to it, so that a domain
// that is forbidden is forbidden to commands too where it can be read.
func addresses(u *shell.Unit) []string {
	name := u.Name()
	if d := readers[name]; d != nil || specs[name].none || shell.IsWrapper(name) {
		return nil
	}
	var out []string
	for i := 1; i < len(u.Words); i++ {
		w := u.Words[i].Text
		if name == "git" && i > 1 && messageFlag(u.Words[1].Text, w) {
			i++
			continue
		}
		if j := strings.Index(w, "http"); j >= 0 && strings.Contains(w[j:], "://") && !strings.ContainsAny(w, " \t\n") {
			out = append(out, w[j:])
		}
	}
	return out
}

// splitArguments finds paths among the arguments of an MCP tool, so that what
// is forbidden is forbidden there too. What such a tool does with a path is
// not known; nothing is allowed by it.
func (j *judge) splitArguments() {
	var v any
	if json.Unmarshal(j.in.Action.Input, &v) != nil {
		return
	}
	const most = 64
	how := accessAny
	if readsByName(j.in.Action.MCP.Name) {
		how = accessRead
	}
	n := 0
	var walk func(v any, key string, depth int)
	walk = func(v any, key string, depth int) {
		if n >= most || depth > 8 {
			return
		}
		switch x := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(x)) {
				walk(x[k], k, depth+1)
			}
		case []any:
			for _, y := range x {
				walk(y, key, depth+1)
			}
		case string:
			if name, ok := pathArgument(key, x); ok {
				n++
				j.addPath(name, "", subject{unit: -1, how: how})
			}
		}
	}
	walk(v, "", 0)
}

// readsByName reports whether a tool is called like one that changes nothing.
// It only keeps reading from being denied as if it were writing.
func readsByName(tool string) bool {
	tool = strings.ToLower(tool)
	for _, verb := range []string{"read", "get", "list", "search", "view", "stat", "find", "info", "show"} {
		if strings.HasPrefix(tool, verb) {
			return true
		}
	}
	return false
}

// pathArgument reports whether an argument is a path: by its look, or by its
// name.
func pathArgument(key, value string) (string, bool) {
	if rest, ok := strings.CutPrefix(value, "file://"); ok {
		return rest, true
	}
	if strings.ContainsAny(value, "\n") || len(value) > 4096 || value == "" {
		return "", false
	}
	switch strings.ToLower(key) {
	case "path", "paths", "file", "files", "filename", "file_path", "filepath", "dir", "directory", "source", "destination", "target", "root":
		return value, !strings.Contains(value, "://")
	}
	return value, strings.HasPrefix(value, "/") || strings.HasPrefix(value, "~/")
}
