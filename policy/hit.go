package policy

import (
	"strings"

	"permd/ask"
	"permd/policy/paths"
)

// speaks is hits, for a rule that may fail: one that would deny or ask then
// does, one that would allow asks.
func (j *judge) speaks(r *rule, s *subject) (hit, failed bool) {
	defer func() {
		if recover() != nil {
			hit, failed = true, true
		}
	}()
	return j.hits(r, s), false
}

// hits reports whether rule r speaks of subject s. A rule that proves must be
// certain of it; any other one suspects.
func (j *judge) hits(r *rule, s *subject) bool {
	if !j.concerns(r, s) || !j.matches(r, s) {
		return false
	}
	for _, e := range r.except {
		if j.hits(e, s) {
			return false
		}
	}
	return true
}

// concerns looks at who asks, and through which tool.
func (j *judge) concerns(r *rule, s *subject) bool {
	if r.Client != "" && r.Client != j.in.Action.Client {
		return false
	}
	if r.Session != "" && !j.session(r) {
		return false
	}
	if r.Agent != "" {
		label := j.in.Agent
		if r.kind == kindTask {
			label = s.agent
		}
		if label != r.Agent && (r.prove || !strings.EqualFold(label, r.Agent)) {
			return false
		}
	}
	return r.Tool == "" || j.tool(r, s)
}

// session reports whether r's session is the one that matters: what forbids
// holds for everything below it; what permits, only where it is decided.
func (j *judge) session(r *rule) bool {
	if r.prove {
		return r.Session == j.in.Here
	}
	if r.Session == j.in.Origin || r.Session == j.in.Here {
		return true
	}
	for _, up := range j.in.Above {
		if r.Session == up {
			return true
		}
	}
	return false
}

func (j *judge) tool(r *rule, s *subject) bool {
	switch ask.Tool(r.Tool) {
	case ask.ToolBash:
		return s.unit >= 0
	case ask.ToolRead:
		if r.prove {
			return s.kind == kindPath && s.how&accessWrite == 0
		}
		return s.kind == kindPath && s.how&(accessRead|accessNames) != 0
	case ask.ToolWrite:
		// To replace a file is more than to edit it, so a rule for write that
		// permits covers edits; one that forbids covers every way to change.
		return s.kind == kindPath && s.how&accessWrite != 0 && (!r.prove || s.how == accessWrite)
	case ask.ToolEdit:
		if r.prove {
			return s.kind == kindPath && j.in.Action.Tool == ask.ToolEdit && s.how == accessWrite
		}
		return s.kind == kindPath && s.how&accessWrite != 0
	case ask.ToolMCP:
		return s.kind == kindMCP
	case ask.ToolWebFetch:
		return s.kind == kindWeb
	case ask.ToolWebSearch:
		return s.kind == kindSearch
	case ask.ToolTask:
		return s.kind == kindTask
	}
	return s.client == r.Tool
}

func (j *judge) matches(r *rule, s *subject) bool {
	switch r.kind {
	case kindAll, kindTool:
		return true
	case kindCommand:
		return s.kind == kindCommand && j.command(r, s)
	case kindPath:
		return s.kind == kindPath && j.place(r, s.place)
	case kindMCP:
		return s.kind == kindMCP && r.mcp(s.mcp)
	case kindWeb:
		return s.kind == kindWeb && r.web(s)
	case kindSearch, kindTask:
		return s.kind == r.kind
	}
	return false
}

func (j *judge) command(r *rule, s *subject) bool {
	switch {
	case r.argv != nil && r.prove:
		return s.argv != nil && (r.argv.permits(s.argv) || s.bare != nil && r.argv.permits(s.bare))
	case r.argv != nil:
		return j.forbids(r, s) && j.touches(r, s)
	case r.Class != "" && r.prove:
		return s.reader && j.touches(r, s)
	case r.Class != "":
		return isReader(j.unit(s)) && j.touches(r, s)
	case r.prove:
		return s.argv != nil // every command that is understood
	}
	return j.touches(r, s)
}

// forbids reports whether the command may be the one that r names.
func (j *judge) forbids(r *rule, s *subject) bool {
	u := j.unit(s)
	if r.argv.forbids(u, j.fold) {
		return true
	}
	if s.words == nil {
		return false
	}
	with := *u
	with.Words = s.words
	return r.argv.forbids(&with, j.fold)
}

// touches reports whether the command touches the path of r, if r has one:
// for a rule that proves, all that it touches must lie there, and for any
// other one some of it.
func (j *judge) touches(r *rule, s *subject) bool {
	if !r.has("path") {
		return true
	}
	some := false
	for i := s.at + 1; i < len(j.subjects) && j.subjects[i].unit == s.unit; i++ {
		p := &j.subjects[i]
		if p.kind != kindPath {
			continue
		}
		hit := j.place(r, p.place)
		if r.prove && !hit {
			return false
		}
		some = some || hit
	}
	return some
}

// place reports whether pl lies where r points.
func (j *judge) place(r *rule, pl paths.Place) bool {
	if r.Outside != "" {
		if r.prove && !paths.Outside(j.anchors.Project, pl) {
			return false
		}
		if !r.prove && !paths.MayBeOutside(j.anchors.Project, pl) {
			return false
		}
	}
	if r.path == nil {
		return r.Outside != "" || !r.prove || pl.Sure()
	}
	b := j.bounds[r.seq]
	if r.path.Anchor() == paths.AnchorCwd {
		b = r.path.Bind(j.resolver, j.anchors)
	}
	if r.prove {
		return b.Permits(pl)
	}
	return b.Forbids(pl, j.fold)
}

func (r *rule) mcp(m *ask.MCP) bool {
	if r.Source != "" && r.Source != m.Source {
		// A source that the client does not tell may be any.
		if r.prove || m.Source != "" {
			return false
		}
	}
	if r.prove {
		return (r.server.star || m.Server == r.server.text) && r.name.match(m.Name) && (r.Source != "" || m.Source != "project")
	}
	name, got := r.name, m.Name
	if !name.star {
		name, got = parseWild(strings.ToLower(name.text)), strings.ToLower(got)
	}
	return (r.server.star || strings.EqualFold(m.Server, r.server.text)) && name.match(got)
}

func (r *rule) web(s *subject) bool {
	switch {
	case r.domain == nil:
		return !r.prove || s.url.certain
	case r.prove:
		return r.domain.permits(s.url)
	}
	return r.domain.forbids(s.url, s.raw)
}
