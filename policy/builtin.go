package policy

import (
	"permd/ask"
	"permd/policy/paths"
)

// harmless are tools of clients that change nothing outside the client's own
// session: with them the client alone would not ask either.
var harmless = map[string]map[string]bool{
	"claude": {
		"TodoWrite": true, "TodoRead": true, "AskUserQuestion": true, "EnterPlanMode": true, "ExitPlanMode": true, "exit_plan_mode": true,
		"TaskOutput": true, "BashOutput": true, "AgentOutputTool": true, "TaskStop": true, "KillShell": true, "KillBash": true,
		"TaskCreate": true, "TaskGet": true, "TaskList": true, "TaskUpdate": true, "SendMessage": true, "ToolSearch": true, "StructuredOutput": true,
		"ListMcpResources": true, "ListMcpResourcesTool": true, "CronList": true, "LSP": true,
	},
}

// builtIn is what the built-in rules say: ok when they allow, and why they do
// or, when they would but for one thing, do not.
func (j *judge) builtIn(s *subject) (text string, ok bool) {
	switch s.kind {
	case kindCommand:
		switch {
		case s.argv == nil:
			return "", false
		case j.builtInReader(s):
			return "a command that only reads", true
		case permdReads(j.unit(s)):
			return "a question to permd that changes nothing", true
		}
	case kindTask:
		// In its own process the client starts a subagent whose calls are
		// judged like any other.
		if s.unit < 0 {
			return "a subagent, whose own calls are judged", true
		}
	case kindTool:
		if harmless[j.in.Action.Client][s.client] {
			return "a tool without an effect outside the session", true
		}
	}
	return "", false
}

// builtInReader reports whether the built-in rules take s as a command that
// only reads; its files must then be allowed for themselves.
func (j *judge) builtInReader(s *subject) bool {
	return s.reader && s.argv != nil && j.in.Policy.baseline && j.in.Node == Origin
}

const secretText = "the file may hold secrets"

// builtInRead is what "only reads" means for one path: inside the project,
// and no secret.
func (j *judge) builtInRead(s *subject) (text string, ok bool) {
	switch {
	case s.how&accessWrite != 0:
		return "", false
	case !s.place.Sure():
		return "where the path leads is not certain: " + s.place.Doubt, false
	case !j.anchors.Project.Sure():
		return "there is no project directory that reading could be allowed in", false
	case !paths.Inside(j.anchors.Project, s.place):
		return "it is outside the project", false
	case s.how == accessNames:
		return "names and facts of files inside the project", true
	case secretFile(s.place.Given) || secretFile(s.place.Real):
		return secretText, false
	}
	if why := j.deepSecret(s); why != "" {
		return why, false
	}
	return "reading inside the project", true
}

// unruled is the verdict where no rule and no grant allows: the built-in
// rules, or the default.
func (j *judge) unruled(s *subject) ask.Verdict {
	p := j.in.Policy
	text, ok := "", false
	switch {
	case s.kind == kindPath && s.unit >= 0 && j.units[s.unit].classed, s.kind == kindPath && p.baseline && j.in.Node == Origin:
		text, ok = j.builtInRead(s)
	case p.baseline && j.in.Node == Origin:
		text, ok = j.builtIn(s)
	}
	if ok && j.in.Node != Claimed {
		j.speak(s, ask.Allow, ask.KindBaseline, text)
		return ask.Allow
	}
	def := ask.Prompt
	if p.def != nil {
		def = *p.def
	}
	switch {
	case def == ask.Deny:
		j.speak(s, ask.Deny, ask.KindDefault, "no rule allows it")
		return ask.Deny
	case def == ask.Allow && j.in.Node == Origin && j.certain(s) && text != secretText && text != deepSecretsText:
		j.speak(s, ask.Allow, ask.KindDefault, "no rule matches")
		return ask.Allow
	case text != "":
		return j.speak(s, ask.Prompt, ask.KindBaseline, text)
	case s.kind == kindPath && !s.place.Sure():
		text = "where the path leads is not certain: " + s.place.Doubt
	case s.kind == kindWeb && s.url.why != "":
		text = s.url.why
	default:
		text = "no rule allows it"
	}
	return j.speak(s, ask.Prompt, ask.KindDefault, text)
}

func (j *judge) speak(s *subject, v ask.Verdict, kind ask.Kind, text string) ask.Verdict {
	j.reason(Reason{Verdict: v, Kind: kind, Unit: j.unitText(s), Path: s.place.Given, Text: text})
	return v
}

// certain reports whether s is understood well enough for a default.
func (j *judge) certain(s *subject) bool {
	switch s.kind {
	case kindCommand:
		return s.argv != nil && escapes(j.unit(s)) == ""
	case kindPath:
		return s.place.Sure()
	case kindWeb:
		return s.url.certain
	}
	return true
}
