package policy

import (
	"slices"
	"strings"

	"permd/ask"
	"permd/policy/paths"
)

var neutralTools = []string{
	string(ask.ToolBash), string(ask.ToolRead), string(ask.ToolWrite), string(ask.ToolEdit), string(ask.ToolMCP),
	string(ask.ToolWebFetch), string(ask.ToolWebSearch), string(ask.ToolTask),
}

// clientNames are names that a client has for what a neutral word covers
// under every client's name.
var clientNames = map[string]string{
	"Bash": "bash", "Read": "read", "Write": "write", "Edit": "edit", "MultiEdit": "edit", "WebFetch": "webfetch", "WebSearch": "websearch",
	"Task": "task", "Agent": "task", "shell": "bash", "run_shell_command": "bash", "exec_command": "bash",
}

var knownClients = []string{"claude", "codex", "gemini", "opencode", "pi"}

// finish turns a draft into a rule of the file, unless it has a fault.
func (d *decoder) finish(r *draft) {
	before := len(d.problems)
	if _, ok := r.keys["action"]; !ok {
		d.problem(r.at, `the rule has no action; write action = "deny", "ask" or "allow"`)
	}
	if r.bad || len(d.problems) > before {
		return // what follows from a key that is wrong is not worth a word
	}
	for _, e := range r.except {
		if e.bad {
			return
		}
	}
	c := d.compile(r, nil)
	if r.bad || len(d.problems) > before {
		return
	}
	c.layer = d.file.Layer
	c.ref = ask.RuleRef{Layer: string(d.file.Layer), File: d.file.Name, Line: r.at.line}
	c.examples = r.examples
	if d.examples(c) {
		d.file.rules = append(d.file.rules, c)
	}
}

// compile checks a rule or, when parent is not nil, one of its exceptions.
func (d *decoder) compile(r *draft, parent *rule) *rule {
	c := &rule{Rule: r.rule, prove: r.rule.Action == ask.Allow}
	if parent != nil {
		c.prove = !parent.prove
	}
	k := &checker{d: d, draft: r, c: c}
	k.tool()
	k.kind()
	k.patterns()
	k.words()
	if c.prove {
		k.provable(parent != nil)
	}
	for _, e := range r.except {
		x := d.compile(e, c)
		r.bad = r.bad || e.bad
		k.exception(e, x)
		c.except = append(c.except, x)
		c.Rule.Except = append(c.Rule.Except, x.Rule)
	}
	return c
}

// checker holds one rule while it is checked.
type checker struct {
	d     *decoder
	draft *draft
	c     *rule
}

func (k *checker) bad(key, format string, a ...any) {
	at, ok := k.draft.keys[key]
	if !ok {
		at = k.draft.at
	}
	k.d.problem(at, format, a...)
	k.draft.bad = true
}

func (k *checker) tool() {
	t := k.c.Tool
	if t == "" || slices.Contains(neutralTools, t) {
		return
	}
	switch neutral := clientNames[t]; {
	case neutral != "":
		k.bad("tool", "write tool = %q: it covers %q and the same tool of every other client", neutral, cut(t))
	case t == "*":
		k.bad("tool", `leave "tool" out to match every tool`)
	case strings.HasPrefix(t, "mcp__"):
		k.bad("tool", `an MCP tool is named by "server" and "name"`)
	case strings.ToLower(t) == t && nearest(t, neutralTools) != "":
		k.bad("tool", "%s", unknownWord("tool", t, neutralTools))
	case len(t) > 128 || strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		k.bad("tool", "%q is not the name of a tool", cut(t))
	}
}

// kind says what the rule speaks of, and refuses one that speaks of two
// things at once: it would never match.
func (k *checker) kind() {
	c := k.c
	var said []string
	add := func(kd kind, keys ...string) {
		for _, key := range keys {
			if _, ok := k.draft.keys[key]; ok {
				c.kind = kd
				said = append(said, key)
			}
		}
	}
	add(kindMCP, "server", "name", "source")
	add(kindWeb, "domain")
	add(kindPath, "path", "outside")
	add(kindCommand, "command", "class")
	families := map[kind]bool{}
	for _, key := range said {
		families[familyOf(key)] = true
	}
	delete(families, kindPath)
	if len(families) > 1 || families[kindMCP] && c.has("path") || families[kindWeb] && c.has("path") {
		k.bad(said[len(said)-1], "%q and %q never hold of one call; write two rules", said[0], said[len(said)-1])
		return
	}
	if len(said) == 0 {
		switch c.Tool {
		case "bash":
			c.kind = kindCommand
		case "read", "write", "edit":
			c.kind = kindPath
		case "mcp":
			c.kind = kindMCP
		case "webfetch":
			c.kind = kindWeb
		case "websearch":
			c.kind = kindSearch
		case "task":
			c.kind = kindTask
		case "":
			if c.Client == "" && c.Session == "" && c.Agent == "" {
				k.bad("action", `the rule says nothing about what it matches; for every action write default = "…" at the top`)
			}
		default:
			c.kind = kindTool
		}
		return
	}
	needs := map[kind][]string{kindCommand: {"bash"}, kindPath: {"read", "write", "edit", "bash"}, kindWeb: {"webfetch"}, kindMCP: {"mcp"}}[c.kind]
	if c.Tool != "" && !slices.Contains(needs, c.Tool) && (c.kind != kindPath || slices.Contains(neutralTools, c.Tool)) {
		k.bad("tool", "%q has no %q: the rule would never match; leave \"tool\" out or write %s", c.Tool, said[0], strings.Join(needs, ", "))
	}
}

func familyOf(key string) kind {
	switch key {
	case "server", "name", "source":
		return kindMCP
	case "domain":
		return kindWeb
	case "path", "outside":
		return kindPath
	}
	return kindCommand
}

func (r *rule) has(key string) bool {
	if key == "path" {
		return r.Path != "" || r.Outside != ""
	}
	return false
}

func (k *checker) patterns() {
	c := k.c
	var err error
	if c.Command != "" {
		if c.Class != "" {
			k.bad("class", `"command" and "class" in one rule; write two rules`)
		}
		if c.argv, err = parseArgv(c.Command); err != nil {
			k.bad("command", "%s", err)
		} else {
			k.stars()
		}
	}
	if c.Path != "" {
		if c.path, err = paths.Parse(c.Path); err != nil {
			k.bad("path", "%s", err)
		}
	}
	if c.Domain != "" {
		if c.domain, err = parseDomain(c.Domain); err != nil {
			k.bad("domain", "%s", err)
		}
	}
	c.server, c.name = parseWild(c.Server), parseWild(c.Name)
	if c.Server == "" {
		c.server = wild{star: true}
	} else if !c.server.literal() && !c.server.star {
		k.bad("server", `a server is named exactly, or "*" for every one: similar names are different servers`)
	}
	if c.Name == "" {
		c.name = wild{star: true}
	}
}

func (k *checker) stars() {
	p, n := k.c.argv, 0
	for i := range p.words {
		if p.words[i].star {
			n++
		}
	}
	switch {
	case n > 1 || n == 1 && p.words[0].star && len(p.words) == 1:
		k.bad("command", `one "*" may stand between words, and one at the end`)
	case len(p.words) > 64:
		k.bad("command", "the pattern has more than 64 words")
	}
}

// words checks keys whose values are words from a list or names.
func (k *checker) words() {
	c := k.c
	if c.Class != "" && c.Class != classReadOnly {
		k.bad("class", "%s", unknownWord("class", c.Class, []string{classReadOnly}))
	}
	if c.Outside != "" && c.Outside != outsideProject {
		k.bad("outside", "%s", unknownWord("place", c.Outside, []string{outsideProject}))
	}
	switch c.Source {
	case "", "user", "managed", "project":
	default:
		k.bad("source", "%s", unknownWord("source", c.Source, []string{"user", "managed", "project"}))
	}
	if c.Client != "" && !slices.Contains(knownClients, c.Client) {
		switch {
		case nearest(c.Client, knownClients) != "":
			k.bad("client", "%s", unknownWord("client", c.Client, knownClients))
		case !ask.ValidID(c.Client) || strings.ToLower(c.Client) != c.Client:
			k.bad("client", "%q is not the name of a client: lower-case letters, digits and \"-\"", cut(c.Client))
		}
	}
	if c.Session != "" && !ask.ValidID(c.Session) {
		k.bad("session", "%q is not a session id; \"permd sessions\" lists them", cut(c.Session))
	}
	if len(c.Agent) > 128 || c.Agent != ask.Visible(c.Agent) {
		k.bad("agent", "%q is not a name", cut(c.Agent))
	}
}

// provable refuses an allow rule, or an exception that would lift a deny or
// ask, which rests on something that cannot be known for certain.
func (k *checker) provable(exception bool) {
	c := k.c
	lift := "an allow rule"
	if exception {
		lift = "an exception"
	}
	switch {
	case c.kind == kindAll && !exception:
		k.bad("action", `an allow rule says what it allows; add "command", "path", "domain", "server" or "tool"`)
	case c.kind == kindCommand && c.Command != "" && c.has("path"), c.Tool == "bash" && c.has("path") && c.Class == "":
		k.bad("path", `%s cannot rest on what a command does to files, which permd does not see; `+
			`with class = "read-only" it can, or name the command alone`, lift)
	case c.path != nil && c.path.Anchor() == paths.AnchorCwd:
		k.bad("path", "%s cannot rest on <cwd>: the agent chooses its directory; write <project>/…", lift)
	case c.Agent != "" && c.kind != kindTask:
		k.bad("agent", "%s cannot rest on the name of an agent: it is chosen by whoever starts it; use \"session\"", lift)
	case c.kind == kindMCP && (c.server.star) && !exception:
		k.bad("server", `an allow rule for MCP names the server: servers of a project would be allowed too`)
	case c.kind == kindMCP && c.Source == "project":
		k.bad("source", `a project's server changes with the project, and permd cannot pin it yet: %s cannot rest on it`, lift)
	case c.argv != nil && len(c.argv.words) > 0 && !c.argv.words[0].literal():
		k.bad("command", "%s names the program itself; a star in its name could be any program", lift)
	case c.argv != nil && !exception:
		k.allowsPermd()
	}
}

// allowsPermd refuses to pretend that a rule could allow what self-protection
// denies.
func (k *checker) allowsPermd() {
	p := k.c.argv
	if len(p.words) < 2 || p.words[0].text != "permd" || !p.words[1].literal() {
		return
	}
	if sub := p.words[1].text; deniedSubcommand(sub) {
		k.bad("command", `"permd %s" is denied to agents above every rule; run it yourself`, cut(sub))
	}
}

// exception refuses one that never matches what its rule matches.
func (k *checker) exception(e *draft, x *rule) {
	c := k.c
	switch {
	case e.bad:
		k.draft.bad = true
	case x.kind != c.kind && x.kind != kindAll && c.kind != kindAll:
		k.d.problem(e.at, "the exception speaks of something else than its rule: it would never match")
		k.draft.bad = true
	case ruleKey(&ask.Rule{Action: c.Action, Tool: x.Tool, Command: x.Command, Class: x.Class, Path: x.Path, Outside: x.Outside, Domain: x.Domain,
		Server: x.Server, Name: x.Name, Source: x.Source, Client: x.Client, Session: x.Session, Agent: x.Agent}) == ruleKey(withoutExcept(c.Rule)):
		k.d.problem(e.at, "the exception is the rule itself: nothing would be left of it")
		k.draft.bad = true
	}
}

func withoutExcept(r ask.Rule) *ask.Rule {
	r.Except = nil
	return &r
}
