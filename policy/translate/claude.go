package translate

import (
	"strings"

	"permd/ask"
)

// claude reads a settings.json: lists of entries, of which the strictest that
// matches counts.
func (t *translation) claude(f Source) error {
	ms, err := members(f.Data)
	if err != nil {
		return err
	}
	raw := get(ms, "permissions")
	if raw == nil {
		return nil
	}
	if ms, err = members(raw); err != nil {
		return err
	}
	l := t.list(true)
	for _, m := range ms {
		verdict, ok := map[string]ask.Verdict{"deny": ask.Deny, "ask": ask.Prompt, "allow": ask.Allow}[m.key]
		switch {
		case ok:
			entries, err := texts(m.value, "permissions."+m.key)
			if err != nil {
				return err
			}
			for _, s := range entries {
				e := t.claudeEntry(s, verdict, f.Name)
				e.from, e.verdict = m.key+" "+s, verdict
				t.add(l, e)
			}
		case m.key == "additionalDirectories":
			dirs, err := texts(m.value, "permissions.additionalDirectories")
			if err != nil {
				return err
			}
			for _, d := range dirs {
				t.lose("additionalDirectories "+d, "not carried: it is a directory to work in, and permd has one project a session; to let it be read add a rule with tool = \"read\" and its path")
			}
		case m.key == "defaultMode":
			if mode, _ := text(m.value); mode != "default" && mode != "manual" {
				t.lose("defaultMode "+mode, "not carried: modes are for a time, see permd mode")
			}
		default:
			t.lose(m.key, "not carried: it is a setting of the client itself")
		}
	}
	return nil
}

// claudeTools are Claude's names of what permd has its own words for.
var claudeTools = map[string]string{"Bash": "bash", "Read": "read", "Edit": "write", "MultiEdit": "write", "Write": "write",
	"WebFetch": "webfetch", "WebSearch": "websearch", "Task": "task", "Agent": "task"}

func (t *translation) claudeEntry(s string, v ask.Verdict, file string) entry {
	tool, spec, has := strings.Cut(s, "(")
	if has && !strings.HasSuffix(spec, ")") {
		m := []ask.Rule{{Tool: "bash"}}
		return entry{wide: m, whyNarrow: "the bracket is not closed", whyWide: "every command, since the bracket is not closed"}
	}
	spec = strings.TrimSuffix(spec, ")")
	if strings.HasPrefix(tool, "mcp__") {
		return claudeMCP(tool)
	}
	ours, known := claudeTools[tool]
	whole := []ask.Rule{{Tool: ours}}
	switch {
	case tool == "" || strings.Contains(tool, "*"):
		return entry{whyNarrow: "it names no tool", wide: everything(), whyWide: "everything that permd knows"}
	case !known && !has:
		own := []ask.Rule{{Tool: tool}}
		return entry{narrow: own, wide: own}
	case !known:
		return entry{wide: []ask.Rule{{Tool: tool}}, whyNarrow: "permd has no rule for what stands in the brackets", whyWide: "the whole tool, since permd has no rule for what stands in the brackets"}
	case !has || spec == "" || spec == "*":
		if tool == "Edit" && v != ask.Allow {
			whole = []ask.Rule{{Tool: "edit"}}
		}
		return entry{narrow: whole, wide: whole}
	}
	switch tool {
	case "Bash":
		if base, ok := strings.CutSuffix(spec, ":*"); ok && base != "" {
			return commandGlob(base+" *", true)
		}
		return commandGlob(spec, false)
	case "Read", "Edit", "MultiEdit", "Write":
		if tool == "Write" && v == ask.Allow {
			return entry{whyNarrow: "Claude itself looks at Edit entries only; write Edit(" + spec + ")"}
		}
		narrow, wide, why := gitignored(spec, file, project(file, ".claude"))
		return entry{narrow: on(ours, narrow), wide: on(ours, wide), whyNarrow: why}
	case "WebFetch":
		if host, ok := strings.CutPrefix(spec, "domain:"); ok {
			m := []ask.Rule{{Tool: "webfetch", Domain: host}}
			return entry{narrow: m, wide: m}
		}
	case "Task", "Agent":
		m := []ask.Rule{{Tool: "task", Agent: spec}}
		return entry{narrow: m, wide: m}
	}
	return entry{wide: whole, whyNarrow: "permd has no rule for what stands in the brackets", whyWide: "the whole tool, since permd has no rule for what stands in the brackets"}
}

// claudeMCP is mcp__SERVER or mcp__SERVER__TOOL.
func claudeMCP(s string) entry {
	server, name, has := strings.Cut(strings.TrimPrefix(s, "mcp__"), "__")
	m := []ask.Rule{{Server: server}}
	if has && name != "*" {
		m[0].Name = name
	}
	switch {
	case server == "" || strings.Contains(server, "*"):
		return entry{wide: []ask.Rule{{Server: "*", Name: m[0].Name}}, whyNarrow: "it does not name one server", whyWide: "every server, since it does not name one"}
	case strings.Contains(name, "__"):
		return entry{wide: []ask.Rule{{Server: "*"}}, whyNarrow: "where the server's name ends is not certain", whyWide: "every server, since where the server's name ends is not certain"}
	}
	e := entry{narrow: m, wide: m}
	if strings.Contains(server, "_") {
		e.note = `carried for a server of exactly this name; Claude writes "_" for other characters: if yours has another name, write that one`
	}
	return e
}

// everything is a matcher for each kind of call.
func everything() (out []ask.Rule) {
	for _, tool := range []string{"bash", "read", "write", "mcp", "webfetch", "websearch", "task"} {
		out = append(out, ask.Rule{Tool: tool})
	}
	return out
}
