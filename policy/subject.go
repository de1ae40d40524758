package policy

import (
	"permd/ask"
	"permd/policy/paths"
	"permd/policy/shell"
)

// access is what may be done to a file.
type access uint8

const (
	accessRead  access = 1 << iota
	accessWrite        // also deletes, renames and changes modes
	accessNames        // only names and facts are looked at
)

const accessAny = accessRead | accessWrite

// subject is one part of an action that rules can speak of.
type subject struct {
	kind kind
	// unit is the command, or the one that touches the path; -1 for none.
	unit int
	at   int // a command's own place among the subjects; its files follow
	// argv are the literal words of a command that is the whole action or
	// that it starts, nil when they are not certain.
	argv []string
	// bare is argv without options that a rule need not name, nil for none;
	// words are the unit's words with files in the place of patterns, when
	// they differ; why says what is not certain of the command.
	bare  []string
	words []shell.Word
	why   string
	// reader says that the command only reads, and reads what its path
	// subjects say.
	reader bool
	// path subjects
	place paths.Place
	how   access
	// blur is true when this is one of several places that are meant, or none:
	// it forbids, and permits nothing.
	blur bool
	// light is true when there are so many that of this one only rules that
	// forbid are looked at.
	light bool
	// needed is true when the path must be allowed itself: the action is to
	// touch it, or its command counts as reading only.
	needed bool
	// deep is true when everything below the path is read, hidden files too
	// when hidden is; depth is what that would meet.
	deep, hidden bool
	depth        *depth

	mcp    *ask.MCP
	url    *target
	raw    string
	agent  string // kindTask: what is started
	client string // the client's name of the tool
}

// unitText is the source of the subject's command.
func (j *judge) unitText(s *subject) string {
	if s.unit < 0 || s.unit >= len(j.script.Units) {
		return ""
	}
	return j.script.Units[s.unit].Text
}

// unit is the subject's command.
func (j *judge) unit(s *subject) *shell.Unit {
	if s.unit < 0 {
		return nil
	}
	return &j.script.Units[s.unit]
}
