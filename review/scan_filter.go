package review

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"permd/ask"
)

// Filter chooses records. Its zero value takes all; what is set must all hold.
type Filter struct {
	Writer string
	// Session is the record's session or one on its ask's path.
	Session string
	// Among is Session for any of several.
	Among []string
	Ask   string
	// AskEnd is how the ask's id ends.
	AskEnd string
	// Event is a name, or the beginning of names when it ends with a dot or an
	// underscore.
	Event string
	// Events is Event for any of several.
	Events []string
	// Tool is the action's tool, or what the client calls it.
	Tool string
	// Decision takes the records of the nodes that decided, see
	// [Line.Decides]: "allow", "deny", or an outcome such as "timed_out".
	Decision string
	// Decider takes such records, too: the kind of who decided, as "user",
	// "rule" or "grant"; "person" for user and device; or a kind, a colon and
	// the name of the surface, the device, the grant, or the rule's file, with
	// or without its line.
	Decider string
	// Text stands somewhere in the action, the reason or the fields; case
	// counts.
	Text string
	// Since and Until bound the record's time: not before, and before.
	Since, Until time.Time
}

// PersonDecider is what Filter.Decider says for a person, wherever.
const PersonDecider = "person"

// Match says whether f takes r. What cannot be read is taken unless the filter
// asks for something in it.
func (f *Filter) Match(r *Record) bool {
	switch {
	case f.Writer != "" && f.Writer != r.Writer,
		f.Ask != "" && f.Ask != r.Ask,
		!strings.HasSuffix(r.Ask, f.AskEnd),
		f.Event != "" && !matchName(f.Event, string(r.Event)),
		len(f.Events) > 0 && !slices.ContainsFunc(f.Events, func(e string) bool { return matchName(e, string(r.Event)) }),
		f.Session != "" && !r.concerns(f.Session),
		len(f.Among) > 0 && !slices.ContainsFunc(f.Among, r.concerns),
		f.Tool != "" && (r.Action == nil || string(r.Action.Tool) != f.Tool && r.Action.ClientTool != f.Tool),
		f.Decision != "" && !r.decided(f.Decision),
		f.Decider != "" && !r.decidedBy(f.Decider),
		f.Text != "" && !r.holds(f.Text):
		return false
	}
	if f.Since.IsZero() && f.Until.IsZero() {
		return true
	}
	t, err := time.Parse(timeLayout, r.Time)
	return err == nil && !t.Before(f.Since) && (f.Until.IsZero() || t.Before(f.Until))
}

func matchName(want, name string) bool {
	return want == name || opensNames(want) && strings.HasPrefix(name, want)
}

func opensNames(want string) bool {
	return strings.HasSuffix(want, ".") || strings.HasSuffix(want, "_")
}

func (l *Line) concerns(session string) bool {
	if l.Session == session {
		return true
	}
	for i := range l.Path {
		if l.Path[i].Session == session {
			return true
		}
	}
	return false
}

func (l *Line) decided(what string) bool {
	v, ok := l.Decides()
	switch what {
	case "allow":
		return ok && v == ask.Allow
	case "deny":
		return ok && v != ask.Allow
	}
	return ok && string(l.Outcome) == what
}

func (l *Line) decidedBy(who string) bool {
	if _, ok := l.Decides(); !ok {
		return false
	}
	d := l.By.Decider()
	if who == PersonDecider {
		return l.By.Person()
	}
	kind, name, named := strings.Cut(who, ":")
	if string(d.Kind) != kind {
		return false
	}
	if !named || d.Surface == name || d.Grant == name && name != "" {
		return !named || name != ""
	}
	return d.Rule != nil && (d.Rule.File == name || d.Rule.File+":"+strconv.Itoa(d.Rule.Line) == name)
}

func (l *Line) holds(text string) bool {
	if strings.Contains(l.Reason, text) {
		return true
	}
	for _, v := range l.Fields {
		if strings.Contains(v, text) {
			return true
		}
	}
	a := l.Action
	if a == nil {
		return false
	}
	for _, s := range []string{a.Command, a.Input, a.ClientTool, a.Cwd, a.URL, a.Query, a.Server, a.Name, a.Source, a.Agent, a.Call, string(a.Tool)} {
		if strings.Contains(s, text) {
			return true
		}
	}
	for i := range a.Paths {
		if strings.Contains(a.Paths[i].Given, text) || strings.Contains(a.Paths[i].Real, text) {
			return true
		}
	}
	return false
}
