package policy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"permd/ask"
)

// Bounds of a rule file.
const (
	MaxFile   = 1 << 20
	MaxRules  = 5000
	maxText   = 4096
	maxExcept = 64
	maxSample = 64
)

// File is one rule file, read.
type File struct {
	Name  string
	Layer Layer
	// Default is the verdict where no rule matches, nil when the file does
	// not say.
	Default *ask.Verdict
	// Links are the file's authorizers, in order.
	Links []Link
	rules []*rule
}

// Rules returns the file's rules as values, in order.
func (f *File) Rules() []ask.Rule {
	out := make([]ask.Rule, len(f.rules))
	for i, r := range f.rules {
		out[i] = r.Rule
	}
	return out
}

// Decode reads a rule file. On an error, which is [Problems], the file is
// returned all the same with the rules that have no fault: what they deny can
// be held while the rest is broken.
func Decode(name string, data []byte, layer Layer) (*File, error) {
	d := &decoder{file: &File{Name: name, Layer: layer}, data: data}
	d.all()
	if len(d.problems) > 0 {
		return d.file, d.problems
	}
	return d.file, nil
}

// all reads the whole text and puts what is wrong with it in order.
func (d *decoder) all() {
	switch {
	case len(d.data) > MaxFile:
		d.wholeFile(fmt.Sprintf("the file has %d bytes, at most %d are allowed; split it into files of policy.d", len(d.data), MaxFile))
	case bytes.IndexByte(d.data, 0) >= 0:
		d.wholeFile("the file has a NUL byte; it is no text")
	default:
		d.decode()
	}
	sort.SliceStable(d.problems, func(i, j int) bool {
		a, b := d.problems[i], d.problems[j]
		return a.Line < b.Line || a.Line == b.Line && a.Col < b.Col
	})
}

type decoder struct {
	file     *File
	data     []byte
	lines    []int // offsets of line starts
	problems Problems
	parser   unstable.Parser
	top      map[string]position
	drafts   []*draft
	links    []*linkDraft
}

// draft is a rule as written, with the place of each key.
type draft struct {
	rule     ask.Rule
	at       position
	keys     map[string]position
	except   []*draft
	examples []example
	bad      bool
	isExcept bool
}

func (d *decoder) wholeFile(text string) {
	d.problems = append(d.problems, Problem{File: d.file.Name, Text: text})
}

func (d *decoder) problem(p position, format string, a ...any) {
	d.problems = append(d.problems, Problem{File: d.file.Name, Line: p.line, Col: p.col, Text: fmt.Sprintf(format, a...)})
}

func (d *decoder) decode() {
	d.lines = []int{0}
	for i, c := range d.data {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	// The whole document first: TOML's own errors, duplicate keys among them.
	var any map[string]any
	if err := toml.Unmarshal(d.data, &any); err != nil {
		d.syntax(err)
	}
	d.parser.Reset(d.data)
	d.top = map[string]position{}
	var cur *draft
	var link *linkDraft
	for d.parser.NextExpression() {
		e := d.parser.Expression()
		switch e.Kind {
		case unstable.KeyValue:
			switch {
			case link != nil:
				d.linkMember(link, e)
			case cur != nil:
				d.member(cur, e)
			default:
				d.topLevel(e)
			}
		case unstable.ArrayTable, unstable.Table:
			if link = d.linkTable(e); link == nil {
				cur = d.table(e)
			}
		}
		if len(d.drafts) > MaxRules {
			d.problem(d.drafts[MaxRules].at, "more than %d rules; split the file", MaxRules)
			return
		}
	}
	if err := d.parser.Error(); err != nil && len(d.problems) == 0 {
		d.wholeFile(err.Error())
	}
	for _, r := range d.drafts {
		d.finish(r)
	}
	for _, l := range d.links {
		d.finishLink(l)
	}
}

func (d *decoder) syntax(err error) {
	var at *toml.DecodeError
	if errors.As(err, &at) {
		line, col := at.Position()
		d.problem(position{line, col}, "%s", strings.TrimPrefix(ask.Visible(at.Error()), "toml: "))
		return
	}
	d.wholeFile(ask.Visible(err.Error()))
}

func (d *decoder) pos(n *unstable.Node) position {
	off := int(n.Raw.Offset)
	i := sort.SearchInts(d.lines, off+1) - 1
	return position{i + 1, off - d.lines[i] + 1}
}

// key returns the parts of a key and where it stands.
func (d *decoder) key(n *unstable.Node) (parts []string, at position) {
	it := n.Key()
	for it.Next() {
		if parts == nil {
			at = d.pos(it.Node())
		}
		parts = append(parts, string(it.Node().Data))
	}
	return parts, at
}

// linkTable starts an authorizer, nil for any other table.
func (d *decoder) linkTable(n *unstable.Node) *linkDraft {
	parts, at := d.key(n)
	if n.Kind != unstable.ArrayTable || strings.Join(parts, ".") != "authorizer" {
		return nil
	}
	l := &linkDraft{at: at, keys: map[string]position{}}
	d.links = append(d.links, l)
	return l
}

// table starts a rule or an exception.
func (d *decoder) table(n *unstable.Node) *draft {
	parts, at := d.key(n)
	name := strings.Join(parts, ".")
	r := &draft{at: at, keys: map[string]position{}}
	switch {
	case n.Kind == unstable.ArrayTable && name == "rule":
		d.drafts = append(d.drafts, r)
	case n.Kind == unstable.ArrayTable && name == "rule.except":
		r.isExcept = true
		if len(d.drafts) == 0 {
			d.problem(at, "an exception without a rule; [[rule.except]] follows its [[rule]]")
			return r
		}
		last := d.drafts[len(d.drafts)-1]
		if _, twice := last.keys["except"]; twice && len(last.except) > 0 && !last.except[0].isExcept {
			d.problem(at, "except is written twice")
		}
		last.keys["except"] = at
		last.except = append(last.except, r)
	case name == "rule", name == "authorizer":
		d.problem(at, "[%s] is one table, and there may be several; write [[%s]]", name, name)
		r.bad = true
	default:
		d.problem(at, "%s", unknownWord("table", name, []string{"rule", "rule.except", "authorizer"}))
		r.bad = true
	}
	return r
}

func (d *decoder) topLevel(n *unstable.Node) {
	parts, at := d.key(n)
	name := strings.Join(parts, ".")
	if name != "default" {
		if slices.Contains(ruleKeys, parts[0]) {
			d.problem(at, "%q belongs to a rule; write [[rule]] above it", cut(name))
			return
		}
		d.problem(at, "%s", unknownWord("key", name, []string{"default", "rule"}))
		return
	}
	s, ok := d.text(n.Value(), name)
	if !ok {
		return
	}
	v, ok := d.verdict(s, d.pos(n.Value()))
	if !ok {
		return
	}
	if d.file.Layer == LayerProject && v == ask.Allow {
		d.problem(d.pos(n.Value()), `a project's file may only tighten: its default is "ask" or "deny"`)
		return
	}
	if d.file.Default != nil {
		v = v.Stricter(*d.file.Default)
	}
	d.file.Default = &v
}

func (d *decoder) verdict(s string, at position) (ask.Verdict, bool) {
	var v ask.Verdict
	if err := v.UnmarshalText([]byte(s)); err != nil {
		d.problem(at, "%s", unknownWord("verdict", s, []string{"deny", "ask", "allow"}))
		return ask.Deny, false
	}
	return v, true
}

// text is the string value of a key.
func (d *decoder) text(v *unstable.Node, key string) (string, bool) {
	if v.Kind != unstable.String {
		what := "a text in quotes"
		if v.Kind == unstable.Array {
			what += ", not a list; write one rule for each entry"
		} else {
			what += fmt.Sprintf(", not a value of type %s", strings.ToLower(v.Kind.String()))
		}
		d.problem(d.valuePos(v), "%q takes %s", key, what)
		return "", false
	}
	s := string(v.Data)
	if len(s) > maxText {
		d.problem(d.valuePos(v), "%q has %d bytes, at most %d are allowed", key, len(s), maxText)
		return "", false
	}
	return s, true
}

// valuePos is where a value stands. The parser keeps no range for a list or a
// table; their first member's place is the nearest.
func (d *decoder) valuePos(v *unstable.Node) position {
	for n := v; n.Valid(); n = n.Child() {
		if n.Raw.Length > 0 || n.Raw.Offset > 0 {
			return d.pos(n)
		}
		if n.Child() == nil {
			break
		}
	}
	return d.pos(v)
}
