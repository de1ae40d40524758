package session

import "strings"

// Channel says how a parent can be reached and judged.
type Channel string

// The two channels: the parent runs in this process, or in another one.
const (
	ChannelRegistry Channel = "registry"
	ChannelEnv      Channel = "env"
)

// Candidate is a session somebody named as parent. It is a claim.
type Candidate struct {
	Session string
	Channel Channel
	// FoundBy is where the name was found, for the record.
	FoundBy string
}

// NamedBy is what a lookup knows of a session. Only the process tree, last in
// the order, needs to look anything up; it is a function for that reason.
type NamedBy struct {
	// Self are the names of the session itself and, for a root session, of
	// its node: never a parent.
	Self []string
	// InProcess is the session in the same process that the client itself
	// says this one belongs to (a subagent's root).
	InProcess string
	// Flag is the --parent of permd run; "none" opts out of every parent.
	Flag string
	// ClientArgs is the client's own argv.
	ClientArgs []string
	Client     string
	// Env looks up a variable as the client inherited it.
	Env func(string) string
	// Tree returns the sessions of registered processes above this one,
	// nearest first.
	Tree func() []string
}

// inherited are the variables by which other clients tell a process whose
// child it is, in order, with the client that sets each.
var inherited = [...]struct{ name, client string }{
	{"PI_AGENT_ROUTER_PARENT_SESSION_ID", "pi"},
	{"PI_SUBAGENT_PARENT_SESSION", "pi"},
	{"PI_SESSION_ID", "pi"},
	{"CODEX_THREAD_ID", "codex"},
	{"OPENCODE_SESSION_ID", "opencode"},
}

// Variables of permd's own. PERMD_SESSION is the session (or the node) that
// surrounds a process; PERMD_PARENT_SESSION names a parent outright.
const (
	EnvSession = "PERMD_SESSION"
	EnvParent  = "PERMD_PARENT_SESSION"
)

// OptOut is the parent name that opts out of having one.
const OptOut = "none"

// Candidates returns everybody named as parent of a session, first choice
// first: hook fields, --parent, the client's own arguments, PERMD_PARENT_SESSION,
// the surrounding PERMD_SESSION, variables that clients inherit, the process
// tree. Names of the session itself are skipped and the search goes on; blank
// names and "unknown" name nobody; a name is listed once. The explicit name
// "none" ends the search where it stands.
func Candidates(n NamedBy) []Candidate {
	var out []Candidate
	seen := map[string]bool{}
	for _, s := range n.Self {
		seen[s] = true
	}
	add := func(name string, ch Channel, by string) (more bool) {
		if strings.EqualFold(strings.TrimSpace(name), OptOut) {
			return false
		}
		if s := Canonical(name); s != "" && !seen[s] {
			seen[s] = true
			out = append(out, Candidate{s, ch, by})
		}
		return true
	}
	env := n.Env
	if env == nil {
		env = func(string) string { return "" }
	}
	if n.InProcess != "" {
		add(n.InProcess, ChannelRegistry, "hook")
	}
	if !add(n.Flag, ChannelEnv, "flag") {
		return out
	}
	if id := argValue(n.ClientArgs, "--parent-session-id"); id != "" {
		add(ID(n.Client, id), ChannelEnv, "client-args")
	}
	if !add(env(EnvParent), ChannelEnv, EnvParent) {
		return out
	}
	if !add(env(EnvSession), ChannelEnv, EnvSession) {
		return out
	}
	for _, v := range inherited {
		if id := env(v.name); !Blank(id) {
			add(ID(v.client, id), ChannelEnv, v.name)
		}
	}
	if n.Tree != nil {
		for _, s := range n.Tree() {
			add(s, ChannelEnv, "process-tree")
		}
	}
	return out
}

// argValue is the value of a long option in argv, "--name value" or
// "--name=value"; the first one counts, as for the client.
func argValue(args []string, name string) string {
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v
		}
		if a == name && i+1 < len(args) {
			return args[i+1]
		}
		if a == "--" {
			break
		}
	}
	return ""
}
