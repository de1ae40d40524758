package translate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"permd/ask"
)

// dialect is what opencode and pi do differently with the same shape: a map
// from tools to a verdict, or to a map from patterns to verdicts, of which the
// last that matches counts.
type dialect struct {
	// optional says that a final " *" of a command also stands for nothing.
	optional bool
	// tools are the client's names of what permd has words for.
	tools map[string]string
	// allows says that the client allows what nothing speaks of.
	allows bool
}

var opencodeDialect = dialect{allows: true, tools: map[string]string{"bash": "bash", "read": "read", "edit": "write", "write": "write", "patch": "write",
	"webfetch": "webfetch", "websearch": "websearch", "task": "task"}}

var piDialect = dialect{optional: true, tools: map[string]string{"bash": "bash", "read": "read", "edit": "edit", "write": "write"}}

func verdictOf(s string) (ask.Verdict, bool) {
	v, ok := map[string]ask.Verdict{"deny": ask.Deny, "ask": ask.Prompt, "allow": ask.Allow}[s]
	return v, ok
}

// opencode reads an opencode.json, with comments.
func (t *translation) opencode(f Source) error {
	ms, err := members(uncommented(f.Data))
	if err != nil {
		return err
	}
	if raw := get(ms, "permission"); raw != nil {
		if err := t.layered(&opencodeDialect, raw, ""); err != nil {
			return err
		}
	}
	if raw := get(ms, "tools"); raw != nil {
		if err := t.switchedTools(raw, ""); err != nil {
			return err
		}
	}
	for _, key := range []string{"agent", "mode"} {
		raw := get(ms, key)
		if raw == nil {
			continue
		}
		agents, err := members(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		for _, a := range agents {
			own, err := members(a.value)
			if err != nil {
				return fmt.Errorf("%s.%s: %w", key, a.key, err)
			}
			if raw := get(own, "permission"); raw != nil {
				if err := t.layered(&opencodeDialect, raw, a.key); err != nil {
					return fmt.Errorf("%s.%s: %w", key, a.key, err)
				}
			}
			if raw := get(own, "tools"); raw != nil {
				if err := t.switchedTools(raw, a.key); err != nil {
					return fmt.Errorf("%s.%s: %w", key, a.key, err)
				}
			}
		}
	}
	return nil
}

// pi reads the config.json of pi's permission extension, with comments.
func (t *translation) pi(f Source) error {
	ms, err := members(uncommented(f.Data))
	if err != nil {
		return err
	}
	for _, m := range ms {
		switch m.key {
		case "permission":
			if err := t.layered(&piDialect, m.value, ""); err != nil {
				return err
			}
		case "yoloMode":
			if string(m.value) == "true" {
				t.lose("yoloMode", "not carried: modes are for a time, see permd mode")
			}
		case "authorizerChain":
			t.lose(m.key, "not carried: write [[authorizer]] tables of your own")
		case "shellTools":
			t.lose(m.key, "not carried: permd knows the tools of the clients it serves")
		}
	}
	return nil
}

// switchedTools are tools that are on or off.
func (t *translation) switchedTools(raw json.RawMessage, agent string) error {
	ms, err := members(raw)
	if err != nil {
		return fmt.Errorf("tools: %w", err)
	}
	l := t.list(true)
	for _, m := range ms {
		on := false
		if err := json.Unmarshal(m.value, &on); err != nil {
			return fmt.Errorf("tools.%s is not true or false", m.key)
		}
		if !on {
			e := t.toolEntry(&opencodeDialect, m.key)
			e.verdict, e.from = ask.Deny, "tools."+m.key+" false"
			t.add(l, e.forAgent(agent))
		}
	}
	return nil
}

// layered reads a permission map.
func (t *translation) layered(d *dialect, raw json.RawMessage, agent string) error {
	if s, ok := text(raw); ok {
		raw = json.RawMessage(fmt.Sprintf("{%q:%q}", "*", s))
	}
	ms, err := members(raw)
	if err != nil {
		return fmt.Errorf("permission: %w", err)
	}
	if d.allows && agent == "" {
		t.lose("permission", "the client allows what nothing speaks of; permd asks, except for reading inside the project")
	}
	lists := &toolLists{t: t, d: d, agent: agent, of: map[string]*list{}}
	if v := get(ms, "*"); v != nil && !d.allows { // pi: a default, wherever it stands
		if err := lists.star(v); err != nil {
			return err
		}
	}
	for _, m := range ms {
		if m.key == "*" {
			if d.allows {
				if err := lists.star(m.value); err != nil {
					return err
				}
			}
			continue
		}
		patterns := []member{{"*", m.value}}
		if _, ok := text(m.value); !ok {
			if patterns, err = members(m.value); err != nil {
				return fmt.Errorf("permission.%s: %w", m.key, err)
			}
		}
		l := lists.get(m.key)
		for _, p := range patterns {
			v, reason, err := action(p.value)
			if err != nil {
				return fmt.Errorf("permission.%s.%s: %w", m.key, p.key, err)
			}
			e := t.layeredEntry(d, m.key, p.key)
			e.verdict, e.reason, e.from = v, reason, m.key+" "+p.key+" "+v.String()
			t.add(l, e.forAgent(agent))
		}
	}
	lists.rest()
	if get(ms, "external_directory") == nil && agent == "" {
		lists.outside()
	}
	return nil
}

// toolLists are the lists of a permission map, by what permd calls the tool.
type toolLists struct {
	t     *translation
	d     *dialect
	agent string
	of    map[string]*list
	base  *ask.Verdict // of "*", so far
}

// kinds are what "*" stands for.
var kinds = []string{"bash", "read", "write", "mcp", "webfetch", "websearch", "task"}

func (s *toolLists) kind(tool string) string {
	switch ours := s.d.tools[tool]; {
	case ours == "edit":
		return "write"
	case ours != "":
		return ours
	case tool == "mcp" || strings.Contains(tool, "_") && tool != "external_directory":
		return "mcp"
	}
	return tool
}

func (s *toolLists) get(tool string) *list {
	kind := s.kind(tool)
	l := s.of[kind]
	if l == nil {
		l = s.t.list(false)
		s.of[kind] = l
		s.startWith(l, kind)
	}
	return l
}

// startWith gives the list what "*" said before.
func (s *toolLists) startWith(l *list, kind string) {
	for _, k := range kinds {
		if k == kind && s.base != nil && *s.base != ask.Allow {
			m := []ask.Rule{{Tool: kind}}
			e := entry{wide: m, all: true, verdict: *s.base, from: "* " + s.base.String()}
			s.t.add(l, e.forAgent(s.agent))
		}
	}
}

// star takes in "*", which holds for every tool from here on, and in opencode
// for those before it too.
func (s *toolLists) star(raw json.RawMessage) error {
	v, _, err := action(raw)
	if err != nil {
		return fmt.Errorf("permission.*: %w", err)
	}
	s.base = &v
	if v == ask.Allow {
		s.t.lose("* allow", "not allowed, permd asks: it names no tool; allow the tools you mean")
		return nil
	}
	for _, kind := range kinds {
		if l := s.of[kind]; l != nil {
			s.startWith(l, kind)
		}
	}
	return nil
}

// rest denies what only "*" speaks of.
func (s *toolLists) rest() {
	if s.base == nil || *s.base != ask.Deny {
		return
	}
	for _, kind := range kinds {
		s.get(kindTool(s.d, kind))
	}
}

// outside is what holds for files outside the project where the map does not
// speak of them: the clients ask, or do as "*" says.
func (s *toolLists) outside() {
	e := external("*")
	e.verdict, e.from = ask.Prompt, "external_directory, by the client's default"
	if s.base != nil {
		e.verdict = *s.base
	}
	if e.verdict != ask.Allow {
		s.t.add(s.t.list(true), e)
	}
}

// kindTool is a tool of the client that is of that kind.
func kindTool(d *dialect, kind string) string {
	for tool, ours := range d.tools {
		if ours == kind {
			return tool
		}
	}
	return kind
}

// action is a verdict, or one with a reason.
func action(raw json.RawMessage) (ask.Verdict, string, error) {
	s, ok := text(raw)
	reason := ""
	if !ok {
		ms, err := members(raw)
		if err != nil {
			return 0, "", errors.New("it is no verdict")
		}
		s, _ = text(get(ms, "action"))
		reason, _ = text(get(ms, "reason"))
	}
	v, ok := verdictOf(s)
	if !ok {
		return 0, "", fmt.Errorf("%s is no verdict", ask.Quote(s))
	}
	return v, ask.ExcerptLine(reason, 200), nil
}

// forAgent narrows what forbids to an agent. The name of an agent is chosen by
// whoever starts it, so nothing is allowed by it.
func (e entry) forAgent(agent string) entry {
	if agent == "" {
		return e
	}
	e.from, e.all = "agent "+agent+": "+e.from, false
	e.narrow, e.whyNarrow = nil, "the name of an agent is chosen by whoever starts it, so nothing is allowed by it"
	for i := range e.wide {
		e.wide[i].Agent = agent
	}
	return e
}

// toolEntry is a tool as a whole.
func (t *translation) toolEntry(d *dialect, tool string) entry {
	if ours := d.tools[tool]; ours != "" {
		m := []ask.Rule{{Tool: ours}}
		return entry{narrow: m, wide: m, all: true}
	}
	return t.layeredEntry(d, tool, "*")
}

func (t *translation) layeredEntry(d *dialect, tool, pattern string) (e entry) {
	ours := d.tools[tool]
	switch {
	case tool == "*":
		return entry{wide: everything(), whyNarrow: "it names no tool; allow the tools you mean"}
	case tool == "external_directory":
		return external(pattern)
	case tool == "path":
		_, wide, why := crossing(pattern)
		return entry{wide: on("", wide), whyNarrow: "it takes nothing out of another rule", whyWide: why}
	case ours == "bash":
		return commandGlob(pattern, d.optional)
	case ours == "read" || ours == "write" || ours == "edit":
		narrow, wide, why := crossing(pattern)
		e = entry{narrow: on(ours, narrow), wide: on(ours, wide), whyNarrow: why, all: pattern == "*"}
		if e.all {
			e.wide = []ask.Rule{{Tool: ours}}
		}
		return e
	case ours == "webfetch" && pattern != "*":
		return webPattern(pattern)
	case ours == "task" && pattern != "*":
		m := []ask.Rule{{Tool: "task", Agent: pattern}}
		if strings.ContainsAny(pattern, "*?") {
			return entry{wide: []ask.Rule{{Tool: "task"}}, whyNarrow: "an agent is named exactly", whyWide: "every agent, since permd names them exactly"}
		}
		return entry{narrow: m, wide: m}
	case ours != "":
		m := []ask.Rule{{Tool: ours}}
		return entry{narrow: m, wide: m, all: true}
	case tool == "mcp":
		return entry{wide: []ask.Rule{{Tool: "mcp"}}, whyNarrow: "it does not say which server", whyWide: "every server, since it does not say which", all: pattern == "*"}
	case strings.Contains(tool, "_") && !strings.Contains(tool, "?"):
		return underscored(tool, pattern)
	case strings.ContainsAny(tool, "*?"):
		return entry{wide: everything(), whyNarrow: "it names no tool", whyWide: "everything, since it names no tool"}
	}
	own := []ask.Rule{{Tool: tool}}
	if pattern != "*" {
		return entry{wide: own, whyNarrow: "permd has no rule for its pattern", whyWide: "the whole tool, since permd has no rule for its pattern"}
	}
	return entry{narrow: own, wide: own, all: true}
}

// external is about files outside the project.
func external(pattern string) entry {
	if pattern == "*" {
		return entry{wide: []ask.Rule{{Outside: "project"}}, whyNarrow: "permd has no rule that opens every directory; name the ones you mean"}
	}
	_, wide, why := crossing(pattern)
	return entry{wide: on("", wide), whyNarrow: "there a directory is opened for whatever tool is allowed; write a rule with its tool and path", whyWide: why}
}

// webPattern is an address with stars.
func webPattern(p string) entry {
	host := p
	if _, rest, ok := strings.Cut(p, "://"); ok {
		host = rest
	}
	host, _, _ = strings.Cut(host, "/")
	if host == "" || strings.Contains(host, "*") {
		return entry{wide: []ask.Rule{{Tool: "webfetch"}}, whyNarrow: "a rule names hosts, not addresses", whyWide: "every address, since a rule names hosts"}
	}
	return entry{wide: []ask.Rule{{Tool: "webfetch", Domain: host}}, whyNarrow: "a rule for the host " + ask.Quote(host) + " would allow all its pages", whyWide: "the whole host"}
}

// underscored is SERVER_TOOL, where both may have underscores of their own.
func underscored(tool, pattern string) (e entry) {
	if pattern != "*" {
		e.whyNarrow = "permd has no rule for its pattern"
	}
	for i := range len(tool) {
		if tool[i] != '_' || i == 0 || i == len(tool)-1 {
			continue
		}
		server, name := tool[:i], tool[i+1:]
		if strings.Contains(server, "*") {
			break
		}
		m := ask.Rule{Server: server}
		if name != "*" {
			m.Name = name
		}
		e.wide = append(e.wide, m)
	}
	if len(e.wide) == 0 {
		return entry{wide: []ask.Rule{{Tool: "mcp"}}, whyNarrow: "it does not name one server", whyWide: "every server, since it does not name one"}
	}
	if e.whyNarrow == "" {
		e.narrow = e.wide[:1]
	}
	e.note = "carried as tools of the MCP server " + ask.Quote(e.wide[0].Server) + "; if the server has another name, or it is no server, write that"
	return e
}
