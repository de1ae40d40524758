package review

import (
	"fmt"

	"permd/ask"
)

// Event is one thing to be recorded. Everything but Name may be empty. Text
// in it is made visible and cut to its limit as it is written; the caller's
// values stay as they are.
type Event struct {
	Name Name
	// Session is the session the event is about: the origin of an ask, else
	// the session that acts.
	Session string
	// Path is how an ask came here, nearest the origin first.
	Path []ask.Hop
	// Ask is the id of the ask.
	Ask string
	// Digest is the ask's, ActionDigest the action's.
	Digest, ActionDigest *ask.Digest
	Verdict              *ask.Verdict
	Outcome              ask.Outcome
	By                   *ask.By
	// Reason is a plain sentence.
	Reason string
	Action *Action
	// Fields are further facts; no key twice.
	Fields []Field
}

// Field is a fact beside the fixed ones. What class its key has decides how
// its value is written, see [ClassOf]. Numbers are decimal, lists are joined
// with commas.
type Field struct {
	Key   Key
	Value string
}

// Action is an action as it may be written down. Command, Input, URL and
// Query arrive redacted; the raw ones never come here.
type Action struct {
	Client     string     `json:"client"`
	Tool       ask.Tool   `json:"tool"`
	ClientTool string     `json:"client_tool"`
	Call       string     `json:"call,omitempty"`
	Cwd        string     `json:"cwd,omitempty"`
	Command    string     `json:"command,omitempty"`
	Input      string     `json:"input,omitempty"`
	Paths      []ask.Path `json:"paths,omitempty"`
	// MorePaths is how many paths were left out for their number.
	MorePaths int    `json:"more_paths,omitempty"`
	URL       string `json:"url,omitempty"`
	Query     string `json:"query,omitempty"`
	Server    string `json:"server,omitempty"`
	Name      string `json:"name,omitempty"`
	Source    string `json:"source,omitempty"`
	Agent     string `json:"agent,omitempty"`
}

// maxFields bounds Event.Fields.
const maxFields = 24

// check refuses what a caller got wrong. own allows the log's own events.
func (ev *Event) check(own bool) error {
	switch {
	case !known(ev.Name):
		return eventError("name %s is not known", ask.Quote(string(ev.Name)))
	case ev.Name.own() && !own:
		return eventError("%s is written by the log itself", ev.Name)
	case ev.Verdict != nil && *ev.Verdict > ask.Allow:
		return eventError("verdict %d is not known", *ev.Verdict)
	case ev.Outcome != "" && !ev.Outcome.Valid():
		return eventError("outcome %s is not known", ask.Quote(string(ev.Outcome)))
	case len(ev.Path) > ask.MaxHops:
		return eventError("a path of %d hops, at most %d", len(ev.Path), ask.MaxHops)
	case len(ev.Fields) > maxFields:
		return eventError("%d fields, at most %d", len(ev.Fields), maxFields)
	}
	for i := range ev.Fields {
		if err := checkKey(ev.Fields[:i], ev.Fields[i].Key); err != nil {
			return err
		}
	}
	if ev.By != nil && ev.By.Depth() > ask.MaxFrames {
		return eventError("a decider of more than %d frames", ask.MaxFrames)
	}
	return nil
}

// maxKey bounds a field's key.
const maxKey = 40

func checkKey(before []Field, k Key) error {
	if len(k) == 0 || len(k) > maxKey {
		return eventError("a field's key of %d bytes, want 1 to %d", len(k), maxKey)
	}
	for i := range len(k) {
		c := k[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return eventError("field %s", ask.Quote(string(k)))
		}
	}
	for i := range before {
		if before[i].Key == k {
			return eventError("field %s is there twice", k)
		}
	}
	return nil
}

func eventError(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrEvent}, a...)...)
}

// opens says whether the record lets something run. On a full disk that is
// what is refused first.
func (ev *Event) opens() bool {
	switch ev.Name {
	case HandedToClientDialog, Released, GrantGiven, ParentConfirmed, PolicyApplied, PauseStarted:
		return true
	}
	return ev.Verdict != nil && *ev.Verdict == ask.Allow
}
