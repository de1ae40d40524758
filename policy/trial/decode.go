package trial

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"permd/ask"
	"permd/policy/paths"
)

// tools are the neutral kinds of action, and the keys that say something of
// each.
var tools = map[ask.Tool][]string{
	ask.ToolBash:      {"command"},
	ask.ToolRead:      {"path", "paths"},
	ask.ToolWrite:     {"path", "paths"},
	ask.ToolEdit:      {"path", "paths"},
	ask.ToolMCP:       {"server", "name", "source", "args"},
	ask.ToolWebFetch:  {"url"},
	ask.ToolWebSearch: {"query"},
	ask.ToolTask:      {},
	ask.ToolOther:     {"path", "paths", "args"},
}

const toolNames = "bash, read, write, edit, mcp, webfetch, websearch or task"

// everywhere are the keys that any line may have.
var everywhere = []string{"id", "want", "tool", "cwd", "project", "home", "client", "session", "agent", "fs"}

// line is a line as written.
type line struct {
	set  map[string]bool
	text map[string]string // the keys that hold a text
	want []ask.Verdict
	many []string // paths
	args json.RawMessage
	fs   *files
}

// files is a file system as written.
type files struct {
	links  map[string]string
	exists []string
	fold   bool
}

// Parse reads one line. What the line does not say of its place is at's.
func Parse(raw []byte, at Place) (*Case, error) {
	if err := text(raw); err != nil {
		return nil, err
	}
	l := &line{set: map[string]bool{}, text: map[string]string{}}
	err := object(raw, "the line", func(key string, v json.RawMessage) (err error) {
		l.set[key] = true
		switch key {
		case "id", "tool", "cwd", "project", "home", "client", "session", "agent", "command", "path", "server", "name", "source", "url", "query":
			l.text[key], err = str(v)
		case "want":
			l.want, err = verdicts(v)
		case "paths":
			l.many, err = list(v)
		case "args":
			if l.args = ask.Compact(v); len(l.args) == 0 || l.args[0] != '{' {
				err = errors.New("takes an object")
			}
		case "fs":
			l.fs, err = fileSystem(v)
		default:
			return fmt.Errorf("unknown key %s; the keys are %s, and command, path, paths, server, name, source, args, url, query",
				ask.Quote(key), strings.Join(everywhere, ", "))
		}
		if err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l.build(at)
}

// text refuses what is no single line of UTF-8 JSON.
func text(raw []byte) error {
	switch {
	case len(raw) > MaxLine:
		return fmt.Errorf("the line has %d bytes, at most %d are allowed", len(raw), MaxLine)
	case !utf8.Valid(raw):
		return errors.New("the line is not UTF-8")
	}
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > ask.MaxDepth {
				return fmt.Errorf("the line is nested more than %d deep", ask.MaxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// object calls f with each member of the JSON object raw, in order. Keys are
// exact, and none may come twice.
func object(raw []byte, what string, f func(key string, v json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("%s is not a JSON object", what)
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return malformed(what, err)
		}
		key, ok := t.(string)
		if !ok {
			return malformed(what, errors.New("a key is not a text"))
		}
		if seen[key] {
			return fmt.Errorf("the key %s is there twice", ask.Quote(key))
		}
		seen[key] = true
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return malformed(what, err)
		}
		if err := f(key, v); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return malformed(what, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("something follows %s", what)
	}
	return nil
}

func malformed(what string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s ends too early", what)
	}
	return fmt.Errorf("%s is not JSON: %s", what, ask.ExcerptLine(err.Error(), 160))
}

// str is the text v. Half a surrogate pair is refused: what was meant is lost.
func str(v json.RawMessage) (string, error) {
	if len(v) == 0 || v[0] != '"' {
		return "", errors.New("takes a text")
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "", errors.New("is not a text")
	}
	switch {
	case strings.ContainsRune(s, 0):
		return "", errors.New("has a NUL character, which no command, path or address can have")
	case strings.ContainsRune(s, utf8.RuneError) && !bytes.Contains(v, []byte("\uFFFD")) && !bytes.Contains(bytes.ToLower(v), []byte(`\ufffd`)):
		return "", errors.New("has half a character")
	}
	return s, nil
}

func list(v json.RawMessage) ([]string, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(v, &raw); err != nil || raw == nil {
		return nil, errors.New("takes a list of texts")
	}
	out := make([]string, len(raw))
	for i, r := range raw {
		s, err := str(r)
		if err != nil {
			return nil, err
		}
		out[i] = s
	}
	return out, nil
}

func verdicts(v json.RawMessage) ([]ask.Verdict, error) {
	words, err := list(v)
	if err != nil {
		w, err := str(v)
		if err != nil {
			return nil, errors.New("takes a verdict or a list of them")
		}
		words = []string{w}
	}
	if len(words) == 0 {
		return nil, errors.New("is empty; leave it out")
	}
	out := make([]ask.Verdict, len(words))
	for i, w := range words {
		if err := out[i].UnmarshalText([]byte(w)); err != nil {
			return nil, fmt.Errorf("%s is no verdict; it is deny, ask or allow", ask.Quote(w))
		}
	}
	return out, nil
}

func fileSystem(v json.RawMessage) (*files, error) {
	f := &files{links: map[string]string{}}
	err := object(v, "the file system", func(key string, v json.RawMessage) (err error) {
		switch key {
		case "symlinks":
			return object(v, "symlinks", func(name string, v json.RawMessage) (err error) {
				f.links[name], err = str(v)
				if err == nil && f.links[name] == "" {
					err = errors.New("a link leads nowhere")
				}
				return err
			})
		case "exists":
			f.exists, err = list(v)
		case "case_insensitive":
			if err = json.Unmarshal(v, &f.fold); err != nil || string(v) == "null" {
				err = errors.New("case_insensitive takes true or false")
			}
		default:
			err = fmt.Errorf("unknown key %s; the keys are symlinks, exists and case_insensitive", ask.Quote(key))
		}
		return err
	})
	return f, err
}

// build makes the case that the line says.
func (l *line) build(at Place) (*Case, error) {
	c := &Case{ID: l.text["id"], Want: l.want, Session: l.text["session"], Agent: l.text["agent"]}
	if c.Session == "" {
		c.Session = "explain"
	}
	if !ask.ValidID(c.Session) {
		return nil, fmt.Errorf("%s is not a session id", ask.Quote(c.Session))
	}
	a := &c.Action
	a.Tool, a.Client = ask.Tool(l.text["tool"]), l.text["client"]
	a.ClientTool = string(a.Tool)
	allowed, ok := tools[a.Tool]
	switch {
	case !l.set["tool"]:
		return nil, errors.New(`the line has no "tool"; it is ` + toolNames)
	case a.Tool == ask.ToolOther, !ok && (a.Client == "" || a.ClientTool == ""):
		return nil, fmt.Errorf(`tool %s is not known; it is %s, or with a "client" that client's own tool`, ask.Quote(a.ClientTool), toolNames)
	case !ok:
		a.Tool, allowed = ask.ToolOther, tools[ask.ToolOther]
	}
	if a.Client == "" {
		a.Client = at.Client
	}
	for key := range l.set {
		if !slices.Contains(everywhere, key) && !slices.Contains(allowed, key) {
			return nil, fmt.Errorf("%q says nothing of the tool %s", key, ask.Quote(a.ClientTool))
		}
	}
	if err := l.place(a, at); err != nil {
		return nil, err
	}
	if err := l.subject(a); err != nil {
		return nil, err
	}
	if a.Tool == ask.ToolTask {
		c.Agent = ""
	}
	if l.fs != nil {
		c.View, c.Fold = l.fs.view(a.Cwd), l.fs.fold
	}
	return c, nil
}

func (l *line) place(a *ask.Action, at Place) error {
	pick := func(key, otherwise string) string {
		if l.set[key] {
			return l.text[key]
		}
		return otherwise
	}
	a.Cwd = pick("cwd", at.Cwd)
	a.Project, a.Home = pick("project", a.Cwd), pick("home", at.Home)
	for _, d := range []struct{ key, dir string }{{"cwd", a.Cwd}, {"project", a.Project}, {"home", a.Home}} {
		if !path.IsAbs(d.dir) && (d.key == "cwd" || d.dir != "") {
			return fmt.Errorf("%q is %s; it must be an absolute path", d.key, ask.Quote(d.dir))
		}
	}
	return nil
}

// needs are the keys without which nothing is said.
var needs = map[ask.Tool][]string{ask.ToolBash: {"command"}, ask.ToolMCP: {"server", "name"}, ask.ToolWebFetch: {"url"}}

func (l *line) subject(a *ask.Action) error {
	for _, key := range needs[a.Tool] {
		if !l.set[key] {
			return fmt.Errorf("the tool %s needs %q", ask.Quote(a.ClientTool), key)
		}
	}
	a.Command, a.URL, a.Query = l.text["command"], l.text["url"], l.text["query"]
	a.Input = json.RawMessage("{}")
	if l.args != nil {
		a.Input = l.args
	}
	switch a.Tool {
	case ask.ToolMCP:
		a.MCP = &ask.MCP{Server: l.text["server"], Name: l.text["name"], Source: l.text["source"]}
	case ask.ToolTask:
		a.Agent = l.text["agent"]
	case ask.ToolRead, ask.ToolWrite, ask.ToolEdit, ask.ToolOther:
		names := l.many
		if l.set["path"] {
			names = append(names, l.text["path"])
		}
		if len(names) == 0 && a.Tool != ask.ToolOther {
			return fmt.Errorf("the tool %s needs \"path\"", ask.Quote(a.ClientTool))
		}
		access := ask.AccessWrite
		if a.Tool == ask.ToolRead {
			access = ask.AccessRead
		}
		for _, n := range names {
			if n == "" {
				return errors.New("a path is empty")
			}
			a.Paths = append(a.Paths, ask.Path{Given: n, Access: access})
		}
	}
	return nil
}

// view is f as a file system. What it does not name exists and is no link;
// links right below the root count as the system's own.
func (f *files) view(cwd string) paths.View {
	v := paths.Fixed{Links: map[string]string{}}
	for name, target := range f.links {
		name = under(cwd, name)
		v.Links[name] = target
		if path.Dir(name) == "/" {
			v.RootLinks = append(v.RootLinks, name)
		}
	}
	for _, n := range f.exists {
		v.Files = append(v.Files, under(cwd, n))
	}
	return v
}

func under(dir, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(dir, name)
}
