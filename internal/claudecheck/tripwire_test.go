package claudecheck

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"permd/ask"
	"permd/internal/realclient"
	"permd/internal/standin"
	"permd/review"
)

// rewrite changes the settings file in the middle of a session, as something
// outside permd's sight would.
func (g *governed) rewrite(change func(hooks, permissions map[string]any)) {
	g.t.Helper()
	var s map[string]any
	if err := json.Unmarshal(g.settingsBytes(), &s); err != nil {
		g.t.Fatal(err)
	}
	permissions, _ := s["permissions"].(map[string]any)
	change(s["hooks"].(map[string]any), permissions)
	b, err := json.Marshal(s)
	if err != nil {
		g.t.Fatal(err)
	}
	g.Settings(string(b))
}

// The gate is taken out of the client's settings in the middle of a session,
// and the client runs a call unasked. Its report trips the wire: it is on the
// record and on every surface, and from then on the session asks for
// everything, also for what a rule allows.
func TestARunWithoutReleaseTripsTheWire(t *testing.T) {
	for name, open := range map[string]func(hooks map[string]any){
		"the hook is gone": func(hooks map[string]any) { delete(hooks, "PreToolUse") },
		"the hook exits 1": func(hooks map[string]any) { replaceCommand(hooks, "exit 1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := govern(t, place{}, map[string][]standin.Step{
				"x": {standin.Bash("touch ran-rule")}, "sneak": {standin.Bash("touch ran-sneaky")}, "y": {standin.Bash("touch ran-rule")},
			})
			term := g.Terminal(realclient.Run{Time: 2 * realclient.DefaultTime})
			desk := g.desk(term.Pid(), nil)
			before := g.settingsBytes()
			say := func(scenario string) {
				t.Helper()
				term.Say("SCENARIO:" + scenario + " go")
			}
			say("x")
			g.WaitFor("the rule's call", limit, func() bool { return g.ran() == "ran-rule" })
			term.WaitScreen(standin.Done)
			g.tidy("ran-rule")
			if n := len(desk.Notices()); n != 0 {
				t.Errorf("%d notices for a call that was let go", n)
			}

			g.rewrite(func(hooks, permissions map[string]any) {
				open(hooks)
				permissions["allow"] = []string{"Bash"}
			})
			g.settle()
			say("sneak")
			g.WaitFor("the ungated call", limit, func() bool { return g.ran() == "ran-sneaky" })
			g.WaitFor("the notice at the desk", limit, func() bool { return len(desk.Notices()) > 0 })
			if n := desk.Notices()[0]; n.Kind != string(review.RanUngated) || !strings.Contains(n.Text, "without permd's release") {
				t.Errorf("the desk is told %+v", n)
			}
			ungated := g.waitRecord(review.RanUngated, 1)
			if a := ungated[0].Action; a == nil || a.Command != "touch ran-sneaky" {
				t.Errorf("the record names %+v", a)
			}
			g.waitRecord(review.SessionStrict, 1)
			if s := g.sessions()[ungated[0].Session]; !s.Tripped {
				t.Errorf("permd sessions says %+v", s)
			}

			g.Settings(string(before))
			g.settle()
			term.WaitUntil("the prompt", idle)
			say("y")
			a := g.next(desk)
			if !strings.Contains(a.Body.Cause, "never let go") {
				t.Errorf("it is asked because %q", a.Body.Cause)
			}
			g.answer(desk, ask.DenyAnswer(a, "not any more"))
			g.WaitFor("the refusal", limit, func() bool { return strings.Contains(g.told(), "not any more") })
			if g.ran() != "ran-sneaky" {
				t.Errorf("ran %q", g.ran())
			}
			term.Close()
			g.verify()
		})
	}
}

// settle lets the client notice that its settings changed: it looks at the
// file only now and then, and nothing tells when it has.
func (g *governed) settle() {
	g.t.Helper()
	began := time.Now()
	g.WaitFor("the client to look at its settings", limit, func() bool { return time.Since(began) > 2500*time.Millisecond })
}

func replaceCommand(hooks map[string]any, command string) {
	group := hooks["PreToolUse"].([]any)[0].(map[string]any)
	group["hooks"].([]any)[0].(map[string]any)["command"] = command
}
