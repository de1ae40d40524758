package translate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"permd/ask"
)

// geminiTools are Gemini CLI's names of what permd has words for.
var geminiTools = map[string]string{"run_shell_command": "bash", "ShellTool": "bash", "read_file": "read", "read_many_files": "read", "ReadFileTool": "read",
	"ReadManyFilesTool": "read", "write_file": "write", "WriteFileTool": "write", "replace": "edit", "EditTool": "edit", "web_fetch": "webfetch", "WebFetchTool": "webfetch",
	"google_web_search": "websearch", "WebSearchTool": "websearch"}

// gemini reads a settings.json or a file of the policy engine.
func (t *translation) gemini(f Source) error {
	if strings.HasSuffix(f.Name, ".toml") {
		return t.geminiPolicy(f)
	}
	raw := uncommented(f.Data)
	if _, err := members(raw); err != nil {
		return err
	}
	var top map[string]any // keys are exact: a struct would take other spellings too
	if err := json.Unmarshal(raw, &top); err != nil {
		return notJSON(err)
	}
	c, err := geminiSettings(top)
	if err != nil {
		return err
	}
	l := t.list(true)
	for _, s := range c.allowed {
		e := geminiTool(s)
		e.verdict, e.from = ask.Allow, "tools.allowed "+s
		t.add(l, e)
	}
	for _, s := range c.exclude {
		e := geminiTool(s)
		e.verdict, e.from = ask.Deny, "tools.exclude "+s
		t.add(l, e)
	}
	if c.core != nil {
		t.geminiCore(c.core)
	}
	for _, name := range sorted(c.servers) {
		s := c.servers[name]
		m := []ask.Rule{{Server: name}}
		if s.trust {
			t.add(l, entry{verdict: ask.Allow, from: "mcpServers." + name + " trust", narrow: m})
		}
		for _, tool := range s.exclude {
			t.add(l, entry{verdict: ask.Deny, from: "mcpServers." + name + " excludeTools " + tool, wide: []ask.Rule{{Server: name, Name: tool}}})
		}
		if s.include != nil {
			t.add(l, onlyTools(name, s.include, "mcpServers."+name+" includeTools"))
		}
	}
	for _, name := range c.mcpExcluded {
		t.add(l, entry{verdict: ask.Deny, from: "mcp.excluded " + name, wide: []ask.Rule{{Server: name}}})
	}
	if c.mcpAllowed != nil {
		m := ask.Rule{Server: "*"}
		for _, name := range c.mcpAllowed {
			m.Except = append(m.Except, ask.Rule{Server: name})
		}
		t.add(l, entry{verdict: ask.Deny, from: "mcp.allowed", wide: []ask.Rule{m}, reason: "only some servers are allowed"})
	}
	return nil
}

// geminiConfig is what settings.json says of tools. A list that is there but
// empty is not nil.
type geminiConfig struct {
	core, allowed, exclude  texty
	mcpAllowed, mcpExcluded texty
	servers                 map[string]geminiServer
}

type geminiServer struct {
	trust            bool
	include, exclude texty
}

// geminiSettings reads today's keys and those of before.
func geminiSettings(top map[string]any) (c geminiConfig, err error) {
	list := func(in map[string]any, key string, to *texty) {
		v, there := in[key]
		if !there || err != nil {
			return
		}
		if _, ok := v.([]any); !ok {
			err = fmt.Errorf("it is not JSON as expected: %s is not a list", key)
			return
		}
		if *to == nil {
			*to = texty{}
		}
		err = to.of(v)
	}
	object := func(v any) map[string]any { m, _ := v.(map[string]any); return m }
	tools, mcp := object(top["tools"]), object(top["mcp"])
	list(tools, "core", &c.core)
	list(top, "coreTools", &c.core)
	list(tools, "allowed", &c.allowed)
	list(top, "allowedTools", &c.allowed)
	list(tools, "exclude", &c.exclude)
	list(top, "excludeTools", &c.exclude)
	list(mcp, "allowed", &c.mcpAllowed)
	list(mcp, "excluded", &c.mcpExcluded)
	c.servers = map[string]geminiServer{}
	for name, v := range object(top["mcpServers"]) {
		m, s := object(v), geminiServer{}
		s.trust, _ = m["trust"].(bool)
		list(m, "includeTools", &s.include)
		list(m, "excludeTools", &s.exclude)
		c.servers[name] = s
	}
	return c, err
}

// geminiTool is TOOL or run_shell_command(PREFIX).
func geminiTool(s string) entry {
	tool, spec, has := strings.Cut(s, "(")
	spec, closed := strings.CutSuffix(spec, ")")
	ours, known := geminiTools[tool]
	whole := []ask.Rule{{Tool: ours}}
	if !known {
		whole[0].Tool = tool
	}
	switch {
	case has && ours == "bash" && closed && spec != "":
		return spacedPrefix(spec)
	case has:
		return entry{wide: whole, whyNarrow: "permd has no rule for what stands in the brackets", whyWide: "the whole tool"}
	}
	if known {
		return entry{narrow: inWorkspace(ours), wide: whole}
	}
	return entry{narrow: whole, wide: whole}
}

// inWorkspace is the tool where Gemini CLI lets it work: its tools for files
// do not leave the workspace.
func inWorkspace(ours string) []ask.Rule {
	if ours == "read" || ours == "write" || ours == "edit" {
		return on(ours, []string{"<project>/**"})
	}
	return []ask.Rule{{Tool: ours}}
}

// spacedPrefix is the beginning of a command line, whole words.
func spacedPrefix(s string) entry {
	words := strings.Fields(s)
	for _, w := range words {
		if !plainWord(w) {
			e := entry{whyNarrow: shellText}
			e.wide, e.whyWide = wideCommand(append(words, "*"))
			return e
		}
	}
	if len(words) == 0 {
		m := []ask.Rule{{Tool: "bash"}}
		return entry{narrow: m, wide: m, all: true}
	}
	return commandPrefix(words)
}

// geminiCore denies the tools that are not among core, the only ones that the
// client has.
func (t *translation) geminiCore(core []string) {
	has := map[string]bool{}
	var shell []entry
	for _, s := range core {
		tool, _, brackets := strings.Cut(s, "(")
		if ours := geminiTools[tool]; ours == "bash" && brackets {
			shell = append(shell, geminiTool(s))
		} else {
			has[ours] = true
		}
	}
	for _, tool := range []string{"bash", "read", "write", "webfetch", "websearch"} {
		if has[tool] || tool == "write" && has["edit"] {
			continue
		}
		l := t.list(false)
		t.add(l, entry{verdict: ask.Deny, from: "tools.core without " + tool, wide: []ask.Rule{{Tool: tool}}, reason: "it is none of the tools that are switched on"})
		if tool == "bash" {
			for _, e := range shell {
				// What core names is there, and no more than that is said.
				e.verdict, e.from = ask.Prompt, "tools.core"
				e.wide, e.whyWide = nil, ""
				t.add(l, e)
			}
		}
	}
}

// texty is a text or a list of texts.
type texty []string

func (x *texty) of(v any) error {
	switch v := v.(type) {
	case nil:
	case string:
		*x = texty{v}
	case []any:
		for _, s := range v {
			w, ok := s.(string)
			if !ok {
				return fmt.Errorf("%v is not a text", s)
			}
			*x = append(*x, w)
		}
	default:
		return fmt.Errorf("%v is not a text", v)
	}
	return nil
}

// geminiRule is a rule of the policy engine.
type geminiRule struct {
	Decision, CommandRegex, ArgsPattern, MCPName, Subagent, DenyMessage string

	Priority        int
	modes           bool
	tools, prefixes texty
	verdict         ask.Verdict
}

func geminiRuleOf(v any) (r geminiRule, err error) {
	m, ok := v.(map[string]any)
	if !ok {
		return r, errors.New("it is no table")
	}
	for key, to := range map[string]*string{"decision": &r.Decision, "commandRegex": &r.CommandRegex, "argsPattern": &r.ArgsPattern,
		"mcpName": &r.MCPName, "subagent": &r.Subagent, "deny_message": &r.DenyMessage} {
		if v, there := m[key]; there {
			if *to, ok = v.(string); !ok {
				return r, fmt.Errorf("%s is not a text", key)
			}
		}
	}
	if r.verdict, ok = map[string]ask.Verdict{"deny": ask.Deny, "ask_user": ask.Prompt, "allow": ask.Allow}[r.Decision]; !ok {
		return r, fmt.Errorf("the decision %s is not known", ask.Quote(r.Decision))
	}
	if err := r.tools.of(m["toolName"]); err != nil {
		return r, fmt.Errorf("toolName: %w", err)
	}
	if err := r.prefixes.of(m["commandPrefix"]); err != nil {
		return r, fmt.Errorf("commandPrefix: %w", err)
	}
	if p, there := m["priority"]; there {
		n, ok := p.(int64)
		if !ok {
			return r, errors.New("the priority is no number")
		}
		r.Priority = int(n)
	}
	_, r.modes = m["modes"]
	// A key that is not known may narrow the rule.
	for key := range m {
		if !slices.Contains(geminiKeys, key) && r.verdict == ask.Allow {
			return r, fmt.Errorf("the key %s is not known", ask.Quote(key))
		}
	}
	return r, nil
}

var geminiKeys = []string{"toolName", "commandPrefix", "commandRegex", "argsPattern", "mcpName", "subagent", "decision", "priority", "deny_message", "modes",
	"description", "name", "allow_redirection", "allowRedirection"}

// geminiPolicy reads rules of which the one with the highest priority counts.
func (t *translation) geminiPolicy(f Source) error {
	var top map[string]any
	if err := toml.Unmarshal(f.Data, &top); err != nil {
		return fmt.Errorf("it is not TOML: %s", ask.ExcerptLine(err.Error(), 160))
	}
	tables, _ := top["rule"].([]any)
	var rules []geminiRule
	for i, v := range tables {
		r, err := geminiRuleOf(v)
		if err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
		rules = append(rules, r)
	}
	// From the lowest to the highest, and of equal ones the strictest last:
	// then the last that matches counts.
	slices.SortStableFunc(rules, func(a, b geminiRule) int {
		if a.Priority != b.Priority {
			return a.Priority - b.Priority
		}
		return int(b.verdict) - int(a.verdict)
	})
	lists := map[string]*list{}
	for i := range rules {
		for _, e := range rules[i].entries() {
			kind := e.kind
			if lists[kind] == nil {
				lists[kind] = t.list(false)
			}
			t.add(lists[kind], e.entry)
		}
	}
	return nil
}

type kindEntry struct {
	kind string
	entry
}

func (r *geminiRule) entries() (out []kindEntry) {
	tools := r.tools
	if len(tools) == 0 && (len(r.prefixes) > 0 || r.CommandRegex != "") {
		tools = texty{"run_shell_command"}
	}
	if len(tools) == 0 {
		tools = texty{"*"}
	}
	add := func(kind string, e entry) {
		e.verdict, e.reason = r.verdict, ask.ExcerptLine(r.DenyMessage, 200)
		if r.ArgsPattern != "" {
			e.narrow, e.whyNarrow = nil, "permd has no patterns over a tool's arguments"
			e.whyWide = "the whole tool, since permd has no patterns over its arguments"
			if geminiTools[e.from] != "" && e.from != "run_shell_command" {
				e.wide = []ask.Rule{{Tool: e.from}} // that tool of the client, not all that does the same
			}
		}
		switch {
		case r.modes && r.verdict == ask.Allow:
			e.narrow, e.whyNarrow = nil, "it is for some modes of the client only"
		case r.Subagent != "":
			e = e.forAgent(r.Subagent)
		}
		e.from = fmt.Sprintf("%s (priority %d) %s", r.Decision, r.Priority, e.from)
		out = append(out, kindEntry{kind, e})
	}
	for _, tool := range tools {
		ours := geminiTools[tool]
		switch {
		case r.MCPName != "" || strings.HasPrefix(tool, "mcp_"):
			e := geminiMCP(r.MCPName, tool)
			e.from = strings.TrimSpace(r.MCPName + " " + tool)
			add("mcp", e)
		case tool == "*":
			for _, m := range everything() {
				add(m.Tool, entry{wide: []ask.Rule{m}, all: true, from: "every tool", whyNarrow: "it names no tool"})
			}
		case ours == "bash" && len(r.prefixes) > 0:
			for _, p := range r.prefixes {
				e := spacedPrefix(p)
				e.from = p
				add("bash", e)
			}
		case ours == "bash" && r.CommandRegex != "":
			e := entry{whyNarrow: "permd has no regular expressions", from: "/" + r.CommandRegex + "/"}
			e.wide, e.whyWide = regexStart(r.CommandRegex)
			add("bash", e)
		case ours != "":
			kind := ours
			if kind == "edit" {
				kind = "write"
			}
			add(kind, entry{narrow: inWorkspace(ours), wide: []ask.Rule{{Tool: ours}}, all: r.ArgsPattern == "", from: tool})
		default:
			m := []ask.Rule{{Tool: tool}}
			add(tool, entry{narrow: m, wide: m, all: r.ArgsPattern == "", from: tool})
		}
	}
	return out
}

func geminiMCP(server, tool string) entry {
	name := tool
	if server == "" {
		var ok bool
		if server, name, ok = strings.Cut(strings.TrimPrefix(tool, "mcp_"), "_"); !ok || strings.Contains(name, "_") {
			return entry{wide: []ask.Rule{{Server: "*"}}, whyNarrow: "where the server's name ends is not certain", whyWide: "every server, since where the server's name ends is not certain"}
		}
	}
	m := []ask.Rule{{Server: server, Name: name}}
	if name == "*" {
		m[0].Name = ""
	}
	if server == "*" {
		return entry{wide: m, whyNarrow: "it does not name one server"}
	}
	return entry{narrow: m, wide: m}
}

// regexStart is every command that begins with the words that a regular
// expression begins with.
func regexStart(re string) ([]ask.Rule, string) {
	rest := strings.TrimPrefix(re, "^") // it is held against the beginning
	end := strings.IndexAny(rest, `\.*+?()[]{}^$|`)
	if end < 0 {
		end = len(rest)
	}
	start, then := rest[:end], rest[end:]
	words := strings.Fields(start)
	// The last word is whole only if a blank follows.
	if len(words) > 0 && !strings.HasSuffix(start, " ") && !strings.HasPrefix(then, `\s`) && !strings.HasPrefix(then, `\b`) && then != "$" {
		words = words[:len(words)-1]
	}
	if len(words) > 0 && !alternates(then) {
		return wideCommandAfter(words)
	}
	return []ask.Rule{{Tool: "bash"}}, "every command, since permd has no regular expressions"
}

// alternates reports whether re has a "|" outside of all brackets.
func alternates(re string) bool {
	depth := 0
	for i := 0; i < len(re); i++ {
		switch re[i] {
		case '\\':
			i++
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case '|':
			if depth <= 0 {
				return true
			}
		}
	}
	return false
}

func wideCommandAfter(words []string) ([]ask.Rule, string) {
	m, _ := wideCommand(append(words, "*"))
	return m, "every command that begins so, since permd has no regular expressions"
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
