package policy

import (
	"path"
	"slices"
	"strings"

	"permd/ask"
)

// The reference decides by the written rules and nothing else, as plainly as
// can be: no index, no parser, no bound pattern. It knows a small world:
// commands of plain words joined by separators, the programs cat, echo and
// tool, files below a few directories, no links.

type refWorld struct {
	rules []ask.Rule
	layer []Layer
	def   *ask.Verdict
}

type refPart struct {
	words []string // a command
	file  string   // or a file
	write bool
	read  bool
	// needed is true when the file must be allowed for itself.
	needed bool
	of     []string // the command that touches it
	server string
	name   string
}

func (w *refWorld) decide(a *ask.Action) ask.Verdict {
	verdict := ask.Allow
	var parts []refPart
	switch a.Tool {
	case ask.ToolBash:
		commands := refSplit(a.Command)
		for _, words := range commands {
			parts = append(parts, refPart{words: words})
			parts = append(parts, refTouched(words)...)
		}
	case ask.ToolRead:
		parts = append(parts, refPart{file: refPath(a.Paths[0].Given), read: true, needed: true})
	case ask.ToolWrite, ask.ToolEdit:
		parts = append(parts, refPart{file: refPath(a.Paths[0].Given), write: true, needed: true})
	case ask.ToolMCP:
		parts = append(parts, refPart{server: a.MCP.Server, name: a.MCP.Name})
	}
	for i := range parts {
		verdict = verdict.Stricter(w.part(&parts[i], a))
	}
	return verdict
}

func refSplit(cmd string) [][]string {
	var out [][]string
	for _, sep := range []string{"&&", "||", "|"} {
		cmd = strings.ReplaceAll(cmd, sep, ";")
	}
	for _, c := range strings.Split(cmd, ";") {
		out = append(out, strings.Fields(c))
	}
	return out
}

func refPath(name string) string {
	if !strings.HasPrefix(name, "/") {
		name = proj + "/" + name
	}
	return path.Clean(name)
}

func refTouched(words []string) []refPart {
	var out []refPart
	for _, w := range words[1:] {
		switch words[0] {
		case "cat":
			out = append(out, refPart{file: refPath(w), read: true, of: words})
		case "tool":
			out = append(out, refPart{file: refPath(w), read: true, write: true, of: words})
		}
	}
	return out
}

func (w *refWorld) part(p *refPart, a *ask.Action) ask.Verdict {
	denied, asked, allowed, classed := false, false, false, false
	for i := range w.rules {
		r := &w.rules[i]
		if !refMatches(r, p, a) {
			continue
		}
		switch {
		case r.Action == ask.Deny:
			denied = true
		case r.Action == ask.Prompt:
			asked = true
		case w.layer[i] == LayerProject:
		case r.Class != "":
			classed = true
		default:
			allowed = true
		}
	}
	switch {
	case denied:
		return ask.Deny
	case asked:
		return ask.Prompt
	case allowed || classed:
		return ask.Allow
	}
	if p.file != "" && !p.needed {
		// The file of a command counts for itself only if the command is
		// allowed as one that only reads.
		if !w.onlyByClass(p.of, a) {
			return ask.Allow
		}
		if strings.HasPrefix(p.file, proj+"/") {
			return ask.Allow
		}
	}
	if w.def == nil {
		return ask.Prompt
	}
	return *w.def
}

func (w *refWorld) onlyByClass(words []string, a *ask.Action) bool {
	free, class := false, false
	for i := range w.rules {
		r := &w.rules[i]
		if w.layer[i] == LayerProject && r.Action == ask.Allow || !refMatches(r, &refPart{words: words}, a) {
			continue
		}
		switch r.Action {
		case ask.Allow:
			free = free || r.Class == ""
			class = class || r.Class != ""
		case ask.Prompt:
			return false // a person decides about its files too
		}
	}
	return class && !free
}

func refMatches(r *ask.Rule, p *refPart, a *ask.Action) bool {
	if !refOne(r, p, a, r.Action == ask.Allow) {
		return false
	}
	for i := range r.Except {
		if refOne(&r.Except[i], p, a, r.Action != ask.Allow) {
			return false
		}
	}
	return true
}

// refOne matches a rule without its exceptions; certain says that an allow
// depends on it.
func refOne(r *ask.Rule, p *refPart, a *ask.Action, certain bool) bool {
	if r.Client != "" && r.Client != a.Client {
		return false
	}
	switch {
	case r.Command != "":
		if p.words == nil {
			return false
		}
		want := strings.Fields(r.Command)
		rest := want[len(want)-1] == "*"
		if rest {
			want = want[:len(want)-1]
		}
		if len(p.words) < len(want) || !slices.Equal(want, p.words[:len(want)]) {
			return false
		}
		if certain {
			return rest == (len(p.words) > len(want))
		}
		return rest || len(p.words) == len(want)
	case r.Class != "":
		return p.words != nil && (p.words[0] == "cat" || p.words[0] == "echo")
	case r.Path != "":
		if p.file == "" {
			return false
		}
		switch r.Tool {
		case "read":
			if certain && p.write || !p.read {
				return false
			}
		case "write":
			if certain && p.read || !p.write {
				return false
			}
		}
		dir, deep := strings.CutSuffix(r.Path, "/**")
		dir = refPath(dir)
		return p.file == dir || strings.HasPrefix(p.file, dir+"/") && (deep || !certain)
	case r.Server != "":
		if p.server == "" {
			return false
		}
		if certain && r.Server != p.server || !strings.EqualFold(r.Server, p.server) {
			return false
		}
		prefix, open := strings.CutSuffix(r.Name, "*")
		return r.Name == "" || r.Name == p.name || open && strings.HasPrefix(p.name, prefix)
	case r.Tool == "bash":
		// Of its files a rule for commands says what it says of the command.
		return p.words != nil
	case r.Tool == "read":
		return p.file != "" && p.read && !(certain && p.write)
	}
	return r.Client != "" // every action of that client
}
