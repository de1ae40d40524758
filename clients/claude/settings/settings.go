// Package settings changes Claude Code's settings files: it adds permd's
// hooks, takes away what would let calls run unasked if a hook died, and can
// undo exactly that.
//
// It is pure: bytes in, bytes and a list of changes out. Everything it does
// not change keeps its bytes. A file that Claude could not read is refused
// and never rewritten; neither is one that two readers could understand
// differently.
package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"permd/ask"
	"permd/clients"
)

// ErrSettings is wrapped by the errors about a file that cannot be changed
// safely.
var ErrSettings = errors.New("claude settings")

// MaxFile is the largest settings file that is read, in bytes.
const MaxFile = 4 << 20

// GateTimeout is how long Claude waits for a hook that may wait for a
// person, in seconds. permd's own deadlines are shorter; Claude's default of
// ten minutes would let the call run.
const GateTimeout = 86400

const otherTimeout = 60

// event is one hook event permd listens to.
type event struct {
	name    string
	matcher bool // the event takes a tool matcher
	gate    bool // its failure must stop the call
	timeout int
}

// events are all of them. Only a gate gets the guard: for the others exit
// code 2 would mean something else.
var events = []event{
	{"PreToolUse", true, true, GateTimeout},
	{"PermissionRequest", true, false, GateTimeout},
	{"PostToolUse", true, false, otherTimeout},
	{"PostToolUseFailure", true, false, otherTimeout},
	{"UserPromptSubmit", false, false, otherTimeout},
	{"SessionStart", false, false, otherTimeout},
	{"SessionEnd", false, false, otherTimeout},
	{"SubagentStart", false, false, otherTimeout},
	{"SubagentStop", false, false, otherTimeout},
}

// Command is the hook command of an event: absolute, quoted for the shell,
// with --root if there is one, and for a gate with a guard that turns a
// missing binary into a refusal.
func Command(hook, root string, gate bool) string {
	c := quote(hook)
	if root != "" {
		c += " --root " + quote(root)
	}
	if gate {
		return c + ` --gate claude || { echo "permd unavailable" >&2; exit 2; }`
	}
	return c + " claude"
}

// ObserveCommand is the hook command of every event where permd only records
// what it would have decided: no gate, no guard, nothing is stopped.
func ObserveCommand(hook, root string) string {
	c := quote(hook)
	if root != "" {
		c += " --root " + quote(root)
	}
	return c + " --observe claude"
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// ours recognises every command that [Command] can have written, whatever
// path it names.
var ours = regexp.MustCompile(`^'(?:[^']|'\\'')*/permd-hook'(?: --root '(?:[^']|'\\'')*')?(?: --gate claude \|\| \{ echo "permd unavailable" >&2; exit 2; \}| claude| --observe claude)$`)

// observing recognises the commands among ours that only observe.
func observing(command string) bool {
	return ours.MatchString(command) && strings.HasSuffix(command, " --observe claude")
}

type handler struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout"`
}

type group struct {
	Matcher string    `json:"matcher,omitempty"`
	Hooks   []handler `json:"hooks"`
}

func groupOf(e event, hook, root string) group {
	g := group{Hooks: []handler{{"command", Command(hook, root, e.gate), e.timeout}}}
	if e.matcher {
		g.Matcher = "*"
	}
	return g
}

func observerOf(e event, hook, root string) group {
	g := group{Hooks: []handler{{"command", ObserveCommand(hook, root), otherTimeout}}}
	if e.matcher {
		g.Matcher = "*"
	}
	return g
}

// Flag is the value of Claude's --settings by which permd run passes the
// hooks: they survive files that change in mid-session.
func Flag(hook, root string) (string, error) {
	v := struct {
		Hooks   map[string][]group `json:"hooks"`
		Disable bool               `json:"disableAllHooks"`
	}{map[string][]group{}, false}
	for _, e := range events {
		v.Hooks[e.name] = []group{groupOf(e, hook, root)}
	}
	b, err := ask.Encode(v)
	return string(b), err
}

// Taken is something setup took away or replaced, kept so that it can be put
// back.
type Taken struct {
	// Where is "permissions.allow" (Old is the entry), "permissions.defaultMode"
	// or "disableAllHooks" (Old is the value, "null" when there was none, and
	// New what stands there since).
	Where string          `json:"where"`
	Old   json.RawMessage `json:"old"`
	New   json.RawMessage `json:"new,omitempty"`
}

// Change is a settings file before and after.
type Change struct {
	Before, After []byte
	// Lines say what changes, for a person, one sentence each; empty when
	// nothing does.
	Lines []string
	Taken []Taken
}

// Changes reports whether anything changes.
func (c *Change) Changes() bool { return len(c.Lines) > 0 }

// file is the part of a settings file that permd looks at.
type file struct {
	Hooks   map[string][]rawGroup `json:"hooks"`
	Disable *bool                 `json:"disableAllHooks"`
	Perm    *struct {
		Allow []string        `json:"allow"`
		Mode  json.RawMessage `json:"defaultMode"`
	} `json:"permissions"`
}

type rawGroup struct {
	Matcher string `json:"matcher"`
	Hooks   []struct {
		Type    string          `json:"type"`
		Command string          `json:"command"`
		Timeout json.RawMessage `json:"timeout"`
	} `json:"hooks"`
}

// editor applies patches to one file.
type editor struct {
	val hujson.Value
	f   file
	chg Change
}

func open(b []byte) (*editor, error) {
	if len(b) > MaxFile {
		return nil, fmt.Errorf("%w: the file is larger than %d bytes", ErrSettings, MaxFile)
	}
	e := &editor{chg: Change{Before: b}}
	if len(strings.TrimSpace(string(b))) == 0 {
		b = []byte("{}\n")
	}
	if !json.Valid(b) {
		var v any
		return nil, fmt.Errorf("%w: the file is no valid JSON (%v); Claude ignores such a file whole, correct it first", ErrSettings, json.Unmarshal(b, &v))
	}
	if _, err := clients.ParseObject(b); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrSettings, err)
	}
	var err error
	// Changing the value would change the bytes that it was read from.
	if e.val, err = hujson.Parse(slices.Clone(b)); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrSettings, err)
	}
	return e, e.read()
}

func (e *editor) read() error {
	e.f = file{}
	if err := json.Unmarshal(e.val.Pack(), &e.f); err != nil {
		return fmt.Errorf("%w: %v; correct that entry first", ErrSettings, err)
	}
	return nil
}

// patch applies one RFC 6902 operation and reads the file again.
func (e *editor) patch(op, path string, value any) error {
	o := map[string]any{"op": op, "path": path}
	if op != "remove" {
		o["value"] = value
	}
	p, err := ask.Encode([]any{o})
	if err != nil {
		return err
	}
	if err := e.val.Patch(p); err != nil {
		return fmt.Errorf("%w: %v", ErrSettings, err)
	}
	return e.read()
}

func (e *editor) say(format string, a ...any) {
	e.chg.Lines = append(e.chg.Lines, fmt.Sprintf(format, a...))
}

// done returns the change. What it does not touch keeps its bytes; a file in
// the form in which Claude writes it stays in that form.
func (e *editor) done() (*Change, error) {
	if !e.chg.Changes() {
		e.chg.After = e.chg.Before
		return &e.chg, nil
	}
	e.chg.After = e.val.Pack()
	if text := strings.TrimSpace(string(e.chg.Before)); text == "" || indented([]byte(text)) == text {
		e.chg.After = []byte(indented(e.chg.After))
	}
	if !json.Valid(e.chg.After) {
		return nil, fmt.Errorf("%w: the result would not be valid JSON", ErrSettings)
	}
	return &e.chg, nil
}

// indented is JSON as Claude writes it, or as it is if it is none.
func indented(b []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, b, "", "  ") != nil {
		return string(b)
	}
	return out.String()
}

// has reports whether g stands in the file already, exactly: with another
// time-out Claude would not wait for a person, and run the call.
func (e *editor) has(name string, g group) bool {
	want := g.Hooks[0]
	return slices.ContainsFunc(e.f.Hooks[name], func(r rawGroup) bool {
		return r.Matcher == g.Matcher && len(r.Hooks) == 1 && r.Hooks[0].Type == want.Type &&
			r.Hooks[0].Command == want.Command && string(r.Hooks[0].Timeout) == strconv.Itoa(want.Timeout)
	})
}
