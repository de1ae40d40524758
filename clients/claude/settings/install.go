package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"permd/ask"
)

// Install adds permd's hooks to a settings file and sets Claude's own base to
// ask. It is idempotent: a second time it changes nothing. Hooks of an older
// permd at another path, and those that only observe, are replaced.
func Install(current []byte, hook, root string) (*Change, error) {
	e, err := open(current)
	if err != nil {
		return nil, err
	}
	if err := e.hooks(func(ev event) group { return groupOf(ev, hook, root) }); err != nil {
		return nil, err
	}
	if err := e.baseToAsk(); err != nil {
		return nil, err
	}
	return e.done()
}

// ErrGoverned refuses to observe where permd decides.
var ErrGoverned = errors.New("permd decides in this file; take it out first with: permd setup claude --undo")

// Observe adds hooks that record what permd would have decided and decide
// nothing. Claude's own settings stay as they are. It is idempotent, and
// refuses a file in which permd decides with [ErrGoverned].
func Observe(current []byte, hook, root string) (*Change, error) {
	e, err := open(current)
	if err != nil {
		return nil, err
	}
	for _, ev := range events {
		for _, g := range e.f.Hooks[ev.name] {
			for _, h := range g.Hooks {
				if ours.MatchString(h.Command) && !observing(h.Command) {
					return nil, ErrGoverned
				}
			}
		}
	}
	if err := e.hooks(func(ev event) group { return observerOf(ev, hook, root) }); err != nil {
		return nil, err
	}
	return e.done()
}

// Observed reports whether hooks of permd stand in the file that only observe.
func Observed(current []byte) bool {
	e, err := open(current)
	if err != nil {
		return false
	}
	for _, groups := range e.f.Hooks {
		for _, g := range groups {
			for _, h := range g.Hooks {
				if observing(h.Command) {
					return true
				}
			}
		}
	}
	return false
}

// hooks puts one group of ours into each event, in the place of those that
// stand there.
func (e *editor) hooks(of func(event) group) error {
	if e.f.Hooks == nil {
		if err := e.patch("add", "/hooks", map[string]any{}); err != nil {
			return err
		}
	}
	for _, ev := range events {
		g := of(ev)
		if e.has(ev.name, g) && e.count(ev.name) == 1 {
			continue
		}
		err := e.drop(ev.name)
		if err != nil {
			return err
		}
		if len(e.f.Hooks[ev.name]) == 0 {
			err = e.patch("add", "/hooks/"+ev.name, []group{g})
		} else {
			err = e.patch("add", "/hooks/"+ev.name+"/-", g)
		}
		if err != nil {
			return err
		}
		e.say("add to hooks.%s: %s", ev.name, g.Hooks[0].Command)
	}
	return nil
}

// count is how many commands of ours an event has.
func (e *editor) count(name string) (n int) {
	for _, g := range e.f.Hooks[name] {
		for _, h := range g.Hooks {
			if ours.MatchString(h.Command) {
				n++
			}
		}
	}
	return n
}

// drop removes every command of ours from an event, and what becomes empty by
// that.
func (e *editor) drop(name string) error {
	for {
		gi, hi := -1, -1
		for i, g := range e.f.Hooks[name] {
			for j, h := range g.Hooks {
				if ours.MatchString(h.Command) {
					gi, hi = i, j
				}
			}
		}
		if gi < 0 {
			return nil
		}
		e.say("remove from hooks.%s: %s", name, e.f.Hooks[name][gi].Hooks[hi].Command)
		path := fmt.Sprintf("/hooks/%s/%d", name, gi)
		if len(e.f.Hooks[name][gi].Hooks) > 1 {
			path += fmt.Sprintf("/hooks/%d", hi)
		} else if len(e.f.Hooks[name]) == 1 {
			path = "/hooks/" + name
		}
		if err := e.patch("remove", path, nil); err != nil {
			return err
		}
	}
}

// baseToAsk takes away what lets calls run unasked when no hook speaks.
func (e *editor) baseToAsk() error {
	if e.f.Disable != nil && *e.f.Disable {
		if err := e.patch("replace", "/disableAllHooks", false); err != nil {
			return err
		}
		e.take(Taken{"disableAllHooks", json.RawMessage("true"), json.RawMessage("false")}, "set disableAllHooks from true to false: it switches every hook off")
	}
	if e.f.Perm != nil {
		for {
			i := slices.IndexFunc(e.f.Perm.Allow, wide)
			if i < 0 {
				break
			}
			old, err := ask.Encode(e.f.Perm.Allow[i])
			if err != nil {
				return err
			}
			if err := e.patch("remove", fmt.Sprintf("/permissions/allow/%d", i), nil); err != nil {
				return err
			}
			e.take(Taken{Where: "permissions.allow", Old: old}, fmt.Sprintf("remove the wide allow %s: with a dead hook it would run unasked", old))
		}
	}
	return e.setMode()
}

// base is the mode in which Claude asks for what nobody decided.
const base = `"default"`

// asking are the modes that run nothing unasked.
var asking = []string{base, `"manual"`, `"plan"`, `"dontAsk"`}

func (e *editor) setMode() error {
	var old json.RawMessage
	if e.f.Perm != nil {
		old = e.f.Perm.Mode
	}
	if slices.Contains(asking, string(old)) {
		return nil
	}
	if e.f.Perm == nil {
		if err := e.patch("add", "/permissions", map[string]any{}); err != nil {
			return err
		}
	}
	if err := e.patch("add", "/permissions/defaultMode", json.RawMessage(base)); err != nil {
		return err
	}
	if old == nil {
		old = json.RawMessage("null")
	}
	from := string(old)
	if from == "null" {
		from = "unset (auto)"
	}
	e.take(Taken{"permissions.defaultMode", old, json.RawMessage(base)}, "set permissions.defaultMode from "+from+" to "+base+": Claude's own base is to ask")
	return nil
}

func (e *editor) take(t Taken, line string) {
	e.chg.Taken = append(e.chg.Taken, t)
	e.say("%s", line)
}

// acting are the tools that change something or reach out.
var acting = []string{"Bash", "Write", "Edit", "MultiEdit", "NotebookEdit", "WebFetch", "Task", "Agent", "PowerShell", "*"}

// wide reports whether an allow entry lets a whole tool run.
func wide(entry string) bool {
	t := strings.TrimSpace(entry)
	tool, spec, has := strings.Cut(t, "(")
	spec = strings.TrimSpace(strings.TrimSuffix(spec, ")"))
	if strings.HasPrefix(t, "mcp__") {
		return strings.HasSuffix(t, "*") || strings.Count(t, "__") == 1
	}
	if !slices.Contains(acting, tool) {
		return false
	}
	if !has {
		return true
	}
	switch strings.TrimPrefix(spec, ":") {
	case "", "*", "**", "* *", "//**", "~/**", "/**", "domain:*":
		return true
	}
	return false
}

// Undo removes permd's hooks and puts back what Install took away, as far as
// what Install wrote there is unchanged.
func Undo(current []byte, taken []Taken) (*Change, error) {
	e, err := open(current)
	if err != nil {
		return nil, err
	}
	for _, ev := range events {
		if err := e.drop(ev.name); err != nil {
			return nil, err
		}
	}
	if e.f.Hooks != nil && len(e.f.Hooks) == 0 && e.chg.Changes() {
		if err := e.patch("remove", "/hooks", nil); err != nil {
			return nil, err
		}
	}
	for i := len(taken) - 1; i >= 0; i-- {
		if err := e.putBack(taken[i]); err != nil {
			return nil, err
		}
	}
	return e.done()
}

func (e *editor) putBack(t Taken) error {
	switch t.Where {
	case "permissions.allow":
		var entry string
		if json.Unmarshal(t.Old, &entry) != nil || e.f.Perm != nil && slices.Contains(e.f.Perm.Allow, entry) {
			return nil
		}
		if e.f.Perm == nil {
			if err := e.patch("add", "/permissions", map[string]any{}); err != nil {
				return err
			}
		}
		path, val := "/permissions/allow/-", any(entry)
		if e.f.Perm.Allow == nil {
			path, val = "/permissions/allow", []string{entry}
		}
		if err := e.patch("add", path, val); err != nil {
			return err
		}
		e.say("put back the allow %s", t.Old)
	case "permissions.defaultMode":
		if e.f.Perm == nil || string(e.f.Perm.Mode) != string(t.New) {
			return nil // changed since: not ours any more
		}
		if string(t.Old) == "null" {
			if err := e.patch("remove", "/permissions/defaultMode", nil); err != nil {
				return err
			}
			if e.bare("permissions") {
				if err := e.patch("remove", "/permissions", nil); err != nil {
					return err
				}
			}
			e.say("remove permissions.defaultMode again")
			return nil
		}
		if err := e.patch("replace", "/permissions/defaultMode", t.Old); err != nil {
			return err
		}
		e.say("set permissions.defaultMode back to %s", t.Old)
	case "disableAllHooks":
		if e.f.Disable == nil || *e.f.Disable {
			return nil
		}
		if err := e.patch("replace", "/disableAllHooks", t.Old); err != nil {
			return err
		}
		e.say("set disableAllHooks back to %s", t.Old)
	}
	return nil
}

// bare reports whether the member is an empty object.
func (e *editor) bare(name string) bool {
	var o map[string]json.RawMessage
	if json.Unmarshal(e.val.Pack(), &o) != nil {
		return false
	}
	var in map[string]json.RawMessage
	return json.Unmarshal(o[name], &in) == nil && len(in) == 0
}

// Problems lists what in a settings file would let calls run unasked, for
// doctor: the same findings Install takes away, in words.
func Problems(current []byte) ([]string, error) {
	e, err := open(current)
	if err != nil {
		return nil, err
	}
	if err := e.baseToAsk(); err != nil {
		return nil, err
	}
	return e.chg.Lines, nil
}

// Installed reports whether all of permd's hooks stand in the file with
// exactly these commands.
func Installed(current []byte, hook, root string) bool {
	e, err := open(current)
	if err != nil {
		return false
	}
	for _, ev := range events {
		if !e.has(ev.name, groupOf(ev, hook, root)) {
			return false
		}
	}
	return e.f.Disable == nil || !*e.f.Disable
}
