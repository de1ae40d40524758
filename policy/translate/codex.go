package translate

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"permd/ask"
)

// codex reads a .rules file or a config.toml. Of several rules the strictest
// counts.
func (t *translation) codex(f Source) error {
	if strings.HasSuffix(f.Name, ".rules") {
		return t.codexRules(f)
	}
	var c struct {
		ApprovalPolicy any                    `toml:"approval_policy"`
		SandboxMode    string                 `toml:"sandbox_mode"`
		Servers        map[string]codexServer `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal(f.Data, &c); err != nil {
		return fmt.Errorf("it is not TOML: %s", ask.ExcerptLine(err.Error(), 160))
	}
	if c.ApprovalPolicy != nil {
		t.lose(fmt.Sprint("approval_policy ", c.ApprovalPolicy), `not carried: it stays the client's; with permd it is "untrusted", see permd doctor`)
	}
	if c.SandboxMode != "" {
		t.lose("sandbox_mode "+c.SandboxMode, "not carried: the sandbox stays the client's own, beside permd")
	}
	l := t.list(true)
	for _, name := range sorted(c.Servers) {
		s := c.Servers[name]
		for _, tool := range s.Disabled {
			m := []ask.Rule{{Server: name, Name: tool}}
			t.add(l, entry{verdict: ask.Deny, from: "mcp_servers." + name + " disabled_tools " + tool, wide: m})
		}
		if s.Enabled != nil {
			t.add(l, onlyTools(name, *s.Enabled, "mcp_servers."+name+" enabled_tools"))
		}
	}
	return nil
}

type codexServer struct {
	Enabled  *[]string `toml:"enabled_tools"`
	Disabled []string  `toml:"disabled_tools"`
}

// onlyTools denies every tool of a server but these.
func onlyTools(server string, tools []string, from string) entry {
	m := ask.Rule{Server: server}
	for _, tool := range tools {
		m.Except = append(m.Except, ask.Rule{Server: server, Name: tool})
	}
	return entry{verdict: ask.Deny, from: from, wide: []ask.Rule{m}, reason: "only some tools of this server are enabled"}
}

// call is prefix_rule(name = value, …) as written.
type call struct {
	line int
	name string
	args map[string]any // string, []any
}

func (t *translation) codexRules(f Source) error {
	calls, err := readCalls(string(f.Data))
	if err != nil {
		return err
	}
	l := t.list(true)
	for _, c := range calls {
		at := fmt.Sprintf("%s line %d: ", path.Base(f.Name), c.line)
		if c.name != "prefix_rule" {
			t.lose(at+c.name, "not carried: permd finds programs by their names and paths itself")
			continue
		}
		decision, ok := c.args["decision"].(string)
		if !ok && c.args["decision"] == nil {
			decision = "allow"
		}
		v, ok := map[string]ask.Verdict{"allow": ask.Allow, "prompt": ask.Prompt, "forbidden": ask.Deny}[decision]
		if !ok {
			return fmt.Errorf("line %d: the decision is not known", c.line)
		}
		reason, _ := c.args["justification"].(string)
		argvs, err := product(c.args["pattern"])
		if err != nil {
			return fmt.Errorf("line %d: %w", c.line, err)
		}
		for _, argv := range argvs {
			e := commandPrefix(argv)
			e.verdict, e.reason, e.from = v, ask.ExcerptLine(reason, 200), at+decision+" "+strings.Join(argv, " ")
			t.add(l, e)
		}
	}
	return nil
}

// product are the word lists that a pattern with alternatives stands for.
func product(v any) ([][]string, error) {
	const most = 256
	words, ok := v.([]any)
	if !ok || len(words) == 0 {
		return nil, errors.New("the pattern is not a list of words")
	}
	out := [][]string{nil}
	for _, w := range words {
		var either []string
		switch x := w.(type) {
		case string:
			either = []string{x}
		case []any:
			for _, a := range x {
				s, ok := a.(string)
				if !ok {
					return nil, errors.New("an alternative is not a text")
				}
				either = append(either, s)
			}
		}
		var next [][]string
		for _, p := range out {
			for _, s := range either {
				next = append(next, append(p[:len(p):len(p)], s))
			}
		}
		if out = next; len(out) == 0 || len(out) > most {
			return nil, fmt.Errorf("the pattern stands for %d commands, 1 to %d are translated", len(out), most)
		}
	}
	return out, nil
}

// readCalls reads the part of Starlark that rule files are written in: calls
// with named arguments that are texts and lists. Anything else is an error,
// since it might forbid something.
func readCalls(s string) ([]call, error) {
	p := &starlark{s: s, line: 1}
	var out []call
	for {
		p.blanks()
		if p.i == len(p.s) {
			return out, nil
		}
		c := call{line: p.line, name: p.word(), args: map[string]any{}}
		if c.name == "" || !p.take('(') {
			return nil, p.wrong()
		}
		for !p.take(')') {
			name := p.word()
			if name == "" || !p.take('=') || c.args[name] != nil {
				return nil, p.wrong()
			}
			v, err := p.value(0)
			if err != nil {
				return nil, err
			}
			c.args[name] = v
			if !p.take(',') && !p.at(')') {
				return nil, p.wrong()
			}
		}
		out = append(out, c)
	}
}

type starlark struct {
	s    string
	i    int
	line int
}

func (p *starlark) wrong() error { return fmt.Errorf("line %d is not understood", p.line) }

func (p *starlark) blanks() {
	for ; p.i < len(p.s); p.i++ {
		switch p.s[p.i] {
		case '\n':
			p.line++
		case ' ', '\t', '\r':
		case '#':
			for p.i+1 < len(p.s) && p.s[p.i+1] != '\n' {
				p.i++
			}
		default:
			return
		}
	}
}

func (p *starlark) at(c byte) bool {
	p.blanks()
	return p.i < len(p.s) && p.s[p.i] == c
}

func (p *starlark) take(c byte) bool {
	if p.at(c) {
		p.i++
		return true
	}
	return false
}

func (p *starlark) word() string {
	p.blanks()
	from := p.i
	for p.i < len(p.s) && (p.s[p.i] == '_' || 'a' <= p.s[p.i] && p.s[p.i] <= 'z' || 'A' <= p.s[p.i] && p.s[p.i] <= 'Z') {
		p.i++
	}
	return p.s[from:p.i]
}

func (p *starlark) value(depth int) (any, error) {
	p.blanks()
	switch {
	case depth > 8 || p.i == len(p.s):
		return nil, p.wrong()
	case p.take('['):
		list := []any{}
		for !p.take(']') {
			v, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
			if !p.take(',') && !p.at(']') {
				return nil, p.wrong()
			}
		}
		return list, nil
	}
	return p.text()
}

// text is a text in one pair of quotes, with the escapes that JSON has too.
func (p *starlark) text() (string, error) {
	quote := p.s[p.i]
	if quote != '"' && quote != '\'' || strings.HasPrefix(p.s[p.i:], strings.Repeat(string(quote), 3)) {
		return "", p.wrong()
	}
	var raw strings.Builder
	raw.WriteByte('"')
	for p.i++; p.i < len(p.s); p.i++ {
		switch c := p.s[p.i]; {
		case c == quote:
			p.i++
			raw.WriteByte('"')
			var s string
			if json.Unmarshal([]byte(raw.String()), &s) != nil {
				return "", p.wrong()
			}
			return s, nil
		case c == '\n':
			return "", p.wrong()
		case c == '\\' && p.i+1 < len(p.s):
			p.i++
			if p.s[p.i] == '\'' {
				raw.WriteByte('\'')
				continue
			}
			raw.WriteByte('\\')
			raw.WriteByte(p.s[p.i])
		case c == '"':
			raw.WriteString(`\"`)
		default:
			raw.WriteByte(c)
		}
	}
	return "", p.wrong()
}
