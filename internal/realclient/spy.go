package realclient

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Spy is a hook command that keeps what the client gave it.
type Spy struct {
	Command string // the hook command, an absolute path
	rig     *Rig
	dir     string
}

// Spy writes a hook: it stores its standard input, then runs body in sh, where
// $spy is a folder of its own and $in the stored input.
func (r *Rig) Spy(body string) *Spy {
	r.t.Helper()
	dir, err := os.MkdirTemp(r.Dir, "spy-")
	if err != nil {
		r.t.Fatal(err)
	}
	script := filepath.Join(dir, "hook")
	r.write(script, []byte("#!/bin/sh\nspy="+Quote(dir)+"\n"+
		`in=$(mktemp "$spy/.in-XXXXXX")`+"\n"+
		`cat >"$in"; mv "$in" "$spy/in-${in##*-}"; in="$spy/in-${in##*-}"`+"\n"+body+"\n"), 0o700)
	return &Spy{script, r, dir}
}

// Inputs are the standard inputs so far, byte for byte, in order of arrival.
func (s *Spy) Inputs() [][]byte {
	s.rig.t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.dir, "in-*"))
	if err != nil {
		s.rig.t.Fatal(err)
	}
	type input struct {
		at   int64
		data []byte
	}
	var all []input
	for _, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			s.rig.t.Fatal(err)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			s.rig.t.Fatal(err)
		}
		all = append(all, input{st.ModTime().UnixNano(), b})
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].at < all[j].at })
	var out [][]byte
	for _, i := range all {
		out = append(out, i.data)
	}
	return out
}

// Event is a hook input, read leniently: the fields that tests look at.
type Event struct {
	Name      string          `json:"hook_event_name"`
	Session   string          `json:"session_id"`
	Agent     string          `json:"agent_id"`
	AgentType string          `json:"agent_type"`
	Mode      string          `json:"permission_mode"`
	Cwd       string          `json:"cwd"`
	Tool      string          `json:"tool_name"`
	ToolUse   string          `json:"tool_use_id"`
	Input     json.RawMessage `json:"tool_input"` // the bytes as the client sent them
	Raw       []byte          `json:"-"`          // the whole input
}

// Events are the inputs so far that carry the event name, or all for "".
func (s *Spy) Events(name string) []Event {
	s.rig.t.Helper()
	var out []Event
	for _, b := range s.Inputs() {
		var e Event
		if err := json.Unmarshal(b, &e); err != nil {
			s.rig.t.Fatalf("hook input %q: %v", tail(b, 300), err)
		}
		if e.Raw = b; name == "" || e.Name == name {
			out = append(out, e)
		}
	}
	return out
}

// File is the content of a file that the hook's body wrote into $spy, "" if
// there is none.
func (s *Spy) File(name string) string {
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return ""
	}
	return string(b)
}

// WaitFile waits until the hook's body has written a file into $spy that is not
// empty, and gives its content.
func (s *Spy) WaitFile(name string, limit time.Duration) string {
	s.rig.t.Helper()
	s.rig.WaitFor("the hook to write "+name, limit, func() bool { return s.File(name) != "" })
	return s.File(name)
}

// WaitFor waits until ok holds; the test fails when limit has passed.
func (r *Rig) WaitFor(what string, limit time.Duration, ok func() bool) {
	r.t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(limit); !ok(); <-look.C {
		if time.Now().After(end) {
			r.t.Fatalf("waited %v for %s", limit, what)
		}
	}
}

// Hold is a body of a hook that waits for the end of the client's patience: it
// writes $spy/waiting, then the name of the signal that ended it to $spy/signal.
// After half a minute it ends by itself.
const Hold = `for s in TERM INT HUP; do trap "echo $s >"\$spy/signal"; kill \$! 2>/dev/null; exit 143" $s; done
echo $$ >"$spy/waiting"; sleep 30 & wait $!`

// On is a body that runs then for one event and nothing for the others.
func On(event, then string) string {
	return "if grep -q '\"hook_event_name\":\"" + event + "\"' \"$in\"; then\n" + then + "\nfi"
}

// Reply is a body of a hook that prints v, JSON or a value that encodes to it.
func Reply(v any) string {
	b, err := json.Marshal(v)
	if s, ok := v.(string); ok {
		b, err = []byte(s), nil
	}
	if err != nil {
		return "exit 2"
	}
	return "printf %s " + Quote(string(b))
}

// Decide is a body of a PreToolUse hook that answers with a decision.
func Decide(decision, reason string) string {
	return Reply(map[string]any{"hookSpecificOutput": map[string]string{
		"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason,
	}})
}

// Quote makes s one word of a shell command.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
