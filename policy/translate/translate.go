// Package translate makes permd's rules of what other agents' clients call
// permissions: Claude Code, Codex, Gemini CLI, opencode, and pi with its
// permission extension.
//
// It promises never to be wider than the source meant. What the source allows
// is allowed only as far as permd's words certainly say no more; what it denies
// or asks about is carried at least as widely, and where permd has no words for
// it, more widely, down to the whole tool. What could not be carried, or is
// carried wider, is told with its place and why. A file that cannot be read
// whole translates to nothing: what it forbids would be lost.
//
// The sources disagree about which rule counts: in Claude Code and Codex the
// strictest, in opencode and pi the last that matches, in Gemini CLI the one
// with the highest priority. permd's is the strictest; what a later or higher
// rule takes out of an earlier one becomes an exception of that one.
//
// It does not carry modes, sandboxes or trust: they stay the client's own. It
// reads no file and changes none.
package translate

import (
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"

	"permd/ask"
	"permd/policy"
)

// Source is a settings file.
type Source struct {
	// Name is where it lies, absolute: it says in which directory its
	// relative names are.
	Name string
	Data []byte
}

// MaxSource is the most bytes of one file.
const MaxSource = 1 << 20

// Rule is a rule and the entry that it stands for.
type Rule struct {
	ask.Rule
	From string
}

// Loss is an entry that is not carried as it stands.
type Loss struct {
	File  string `json:"file"`
	Entry string `json:"entry"`
	// Why says what permd's rules say instead, or what to do.
	Why string `json:"why"`
}

// Result is a translation.
type Result struct {
	Client string
	Files  []string
	Rules  []Rule
	Losses []Loss
}

// Clients are those that can be translated.
func Clients() []string { return []string{"claude", "codex", "gemini", "opencode", "pi"} }

// ErrClient is wrapped when the client is not one of [Clients].
var ErrClient = errors.New("the client is not known")

// Translate translates the settings of client, the files in the order in which
// the client lets later ones override earlier ones. An error means that a file
// could not be understood, and then there is no translation.
func Translate(client string, files ...Source) (*Result, error) {
	t := &translation{res: &Result{Client: client}}
	var read func(Source) error
	switch client {
	case "claude":
		read = t.claude
	case "codex":
		read = t.codex
	case "gemini":
		read = t.gemini
	case "opencode":
		read = t.opencode
	case "pi":
		read = t.pi
	default:
		return nil, fmt.Errorf("%w: %s; it is one of %s", ErrClient, ask.Quote(client), strings.Join(Clients(), ", "))
	}
	for _, f := range files {
		if len(f.Data) > MaxSource {
			return nil, fmt.Errorf("%s has %d bytes, at most %d are read", f.Name, len(f.Data), MaxSource)
		}
		t.file = f.Name
		t.res.Files = append(t.res.Files, f.Name)
		if err := read(f); err != nil {
			return nil, fmt.Errorf("%s: %w; nothing was translated", f.Name, err)
		}
	}
	t.settle()
	return t.res, nil
}

// TOML is the translation as a rule file, with each entry beside its rule.
func (r *Result) TOML() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Translated from the settings of %s:\n", r.Client)
	for _, f := range r.Files {
		fmt.Fprintf(&b, "#   %s\n", comment(f))
	}
	b.WriteString("# Where no rule speaks, permd asks.\n")
	last := ""
	for i := range r.Rules {
		b.WriteByte('\n')
		if from := r.Rules[i].From; from != last {
			fmt.Fprintf(&b, "# %s\n", comment(from))
			last = from
		}
		b.Write(policy.Format(nil, []ask.Rule{r.Rules[i].Rule}))
	}
	return []byte(b.String())
}

func comment(s string) string { return ask.ExcerptLine(s, 200) }

// translation is one being made.
type translation struct {
	res   *Result
	file  string
	lists []*list // of entries that are held against each other
}

func (t *translation) lose(entry, format string, a ...any) {
	t.res.Losses = append(t.res.Losses, Loss{File: t.file, Entry: ask.ExcerptLine(entry, 200), Why: fmt.Sprintf(format, a...)})
}

// project is the directory whose settings name is, as far as the name tells.
func project(name string, dirs ...string) string {
	dir := path.Dir(name)
	for _, d := range dirs {
		if path.Base(dir) == d {
			return path.Dir(dir)
		}
	}
	return dir
}

// entry is one permission of a source.
type entry struct {
	file, from string
	verdict    ask.Verdict
	// narrow are matchers that together say no more than the entry, wide ones
	// that say no less. An entry that allows is carried by the narrow ones.
	narrow, wide []ask.Rule
	// whyNarrow says why narrow lacks some of it or all, whyWide what wide has
	// beyond it.
	whyNarrow, whyWide string
	// note is told whatever the verdict.
	note   string
	reason string
	all    bool // it matches everything of its list
}

// list are entries about the same kind of call.
type list struct {
	strictest bool // else the last that matches
	entries   []entry
}

func (t *translation) list(strictest bool) *list {
	l := &list{strictest: strictest}
	t.lists = append(t.lists, l)
	return l
}

func (t *translation) add(l *list, e entry) {
	e.file = t.file
	l.entries = append(l.entries, e)
}

// settle makes rules of all entries.
func (t *translation) settle() {
	seen := map[string]bool{}
	emit := func(e *entry, r ask.Rule) {
		r.Client, r.Action, r.Reason = t.res.Client, e.verdict, e.reason
		key := string(policy.Format(nil, []ask.Rule{r}))
		if !seen[key] {
			seen[key] = true
			t.res.Rules = append(t.res.Rules, Rule{r, e.from})
		}
	}
	for _, l := range t.lists {
		for i := range l.entries {
			t.settleEntry(l, i, emit)
		}
	}
	sort.SliceStable(t.res.Losses, func(i, k int) bool { return t.res.Losses[i].File < t.res.Losses[k].File })
}

func (t *translation) settleEntry(l *list, i int, emit func(*entry, ask.Rule)) {
	e := &l.entries[i]
	t.file = e.file
	if e.note != "" {
		t.lose(e.from, "%s", e.note)
	}
	if l.overruled(i) {
		return
	}
	if e.verdict == ask.Allow {
		n := 0
		for _, m := range e.narrow {
			if why := t.valid(ask.Allow, m); why != "" {
				e.whyNarrow = why
				continue
			}
			emit(e, m)
			n++
		}
		switch {
		case n == 0 && e.whyNarrow == "":
			t.lose(e.from, "not allowed: permd has no rule that says just this; it asks")
		case n == 0:
			t.lose(e.from, "not allowed, permd asks: %s", e.whyNarrow)
		case e.whyNarrow != "":
			t.lose(e.from, "allowed in part: %s", e.whyNarrow)
		}
		return
	}
	if e.verdict == ask.Prompt && e.all && !l.allowsBefore(i) {
		return // permd asks where no rule speaks
	}
	for _, m := range e.wide {
		if why := t.valid(e.verdict, m); why != "" {
			t.lose(e.from, "carried as %s for the whole tool, if there is one of that name: %s; put it into your own words", e.verdict, why)
			if m = whole(m); t.valid(e.verdict, m) != "" {
				continue // no tool has such a name
			}
		}
		if !l.strictest {
			t.except(l, i, &m)
		}
		emit(e, m)
	}
	if e.whyWide != "" {
		t.lose(e.from, "%s more than it says: %s", map[ask.Verdict]string{ask.Deny: "denies", ask.Prompt: "asks"}[e.verdict], e.whyWide)
	}
}

// overruled reports whether a later entry decides all that entry i could.
func (l *list) overruled(i int) bool {
	if l.strictest {
		return false
	}
	for _, later := range l.entries[i+1:] {
		if later.all && (later.verdict <= l.entries[i].verdict || len(later.narrow) > 0) {
			return true
		}
	}
	return false
}

func (l *list) allowsBefore(i int) bool {
	for k := range i {
		if l.entries[k].verdict > l.entries[i].verdict {
			return true
		}
	}
	return false
}

// except takes out of m what later entries of the list let through.
func (t *translation) except(l *list, i int, m *ask.Rule) {
	left := 0
	for k := i + 1; k < len(l.entries); k++ {
		later := &l.entries[k]
		if later.verdict <= l.entries[i].verdict {
			continue
		}
		for _, x := range later.narrow {
			if apart(&x, m) {
				continue
			}
			c := *m
			c.Except = append(append([]ask.Rule(nil), m.Except...), x)
			if len(c.Except) > ask.MaxExcept || t.valid(l.entries[i].verdict, c) != "" {
				left++
				continue
			}
			m.Except = c.Except
		}
	}
	if left > 0 {
		t.lose(l.entries[i].from, "%d later entries are no exceptions of it, since permd could not be certain of them: what they let through, this entry decides", left)
	}
}

// apart reports whether two matchers certainly never match the same.
func apart(a, b *ask.Rule) bool {
	if a.Server != "" && b.Server != "" {
		return a.Server != b.Server
	}
	if a.Command == "" || b.Command == "" {
		return false
	}
	x, y := strings.Fields(a.Command), strings.Fields(b.Command)
	for i := range min(len(x), len(y)) {
		if strings.ContainsAny(x[i]+y[i], "*'") || strings.HasPrefix(x[i], "-") || strings.HasPrefix(y[i], "-") {
			return false
		}
		if x[i] != y[i] {
			return true
		}
	}
	return false
}

// valid says why permd has no rule v for m, "" when it has.
func (t *translation) valid(v ask.Verdict, m ask.Rule) string {
	m.Action, m.Client = v, t.res.Client
	_, err := policy.Decode("rule", policy.Format(nil, []ask.Rule{m}), policy.LayerUser)
	var ps policy.Problems
	if errors.As(err, &ps) && len(ps) > 0 {
		return ps[0].Text
	}
	return ""
}

// whole is the matcher of everything of m's tool.
func whole(m ask.Rule) ask.Rule {
	switch {
	case m.Tool != "":
		return ask.Rule{Tool: m.Tool}
	case m.Command != "":
		return ask.Rule{Tool: "bash"}
	case m.Server != "" || m.Name != "":
		return ask.Rule{Tool: "mcp"}
	case m.Domain != "":
		return ask.Rule{Tool: "webfetch"}
	}
	return ask.Rule{Tool: "write"}
}
