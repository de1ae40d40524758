package claudecheck

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"permd/internal/realclient"
	"permd/internal/standin"
	"permd/review"
	"permd/session"
)

// What setup writes: a gate that refuses when it fails and is given a day, the
// client's own base set to ask, wide allows taken away. A second time nothing
// changes.
func TestSetupClosesTheGate(t *testing.T) {
	t.Parallel()
	g := govern(t, place{settings: map[string]any{
		"permissions": map[string]any{"allow": []string{"Bash", "Bash(go test *)"}, "defaultMode": "bypassPermissions"},
	}}, simple(standin.Bash("touch ran-1")))
	s := g.installed()
	for event, guarded := range map[string]bool{"PreToolUse": true, "PermissionRequest": false} {
		if len(s.Hooks[event]) != 1 || len(s.Hooks[event][0].Hooks) != 1 {
			t.Fatalf("hooks of %s: %+v", event, s.Hooks[event])
		}
		h := s.Hooks[event][0].Hooks[0]
		if h.Timeout != 86400 || s.Hooks[event][0].Matcher != "*" || strings.Contains(h.Command, "exit 2") != guarded {
			t.Errorf("%s: matcher %q, %+v", event, s.Hooks[event][0].Matcher, h)
		}
		if !strings.Contains(h.Command, g.permd.Bin+"/permd-hook") || !strings.Contains(h.Command, g.permd.Root) {
			t.Errorf("%s runs %q", event, h.Command)
		}
	}
	if s.Permissions.DefaultMode != "default" || strings.Join(s.Permissions.Allow, " ") != "Bash(go test *)" {
		t.Errorf("the client's own base is %+v", s.Permissions)
	}
	before := g.settingsBytes()
	if out := g.setup(); !strings.Contains(out, "nothing to change") || !bytes.Equal(before, g.settingsBytes()) {
		t.Errorf("a second setup said %q", out)
	}
}

// Out again: the file is as it was, and the client is the one it was.
func TestUndoLeavesAnUngovernedClient(t *testing.T) {
	t.Parallel()
	g := govern(t, place{bare: true, settings: map[string]any{
		"permissions": map[string]any{"allow": []string{"Bash"}},
		"hooks":       realclient.Hooks(map[string]string{"Stop": "true"}),
	}}, simple(standin.Bash("touch ran-bad")))
	before := g.settingsBytes()
	g.setup()
	g.Print(realclient.Run{Scenario: "x"})
	if g.ran() != "" || !strings.Contains(g.told(), "not for agents") {
		t.Errorf("governed: ran %q, told %q", g.ran(), g.told())
	}
	g.verify()
	n := len(g.records(review.NodeStarted))
	g.setup("--undo")
	if !bytes.Equal(before, g.settingsBytes()) {
		t.Errorf("the settings were\n%s\nand are\n%s", before, g.settingsBytes())
	}
	if res := g.Print(realclient.Run{Scenario: "x"}); res.Code != 0 || g.ran() != "ran-bad" {
		t.Errorf("ungoverned: ran %q, ended with %+v", g.ran(), res)
	}
	if got := len(g.records(review.NodeStarted)); n != 1 || got != n {
		t.Errorf("%d nodes were started before, %d after", n, got)
	}
}

// permd run becomes the client: the same process, with a node of its own, told
// whose child it is and telling its own children.
func TestRunBecomesTheClient(t *testing.T) {
	t.Parallel()
	g := govern(t, place{bare: true, hold: true}, simple(standin.Bash("touch ran-rule"), standin.Bash("touch ran-bad"), standin.Bash("touch ran-1")))
	p := g.Start(g.run(realclient.Run{Scenario: "x", Env: []string{"PERMD_PARENT_SESSION=claude-lead", "PERMD_SESSION=claude-above"}}))
	node := g.node(p.Pid())
	var facts session.Facts
	g.WaitFor("the session to be known", limit, func() (ok bool) {
		f, err := session.ReadFacts(g.permd.Dirs.Node(node))
		facts = f
		return err == nil && len(f.Sessions) == 1
	})
	if facts.PID != p.Pid() || facts.Sessions[0].Parent != "claude-lead" || facts.Sessions[0].FoundBy != "PERMD_PARENT_SESSION" {
		t.Errorf("the node of process %d says %+v", p.Pid(), facts)
	}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.Pid())); err == nil && exe != g.Client.Path {
		t.Errorf("the process is %s, want %s", exe, g.Client.Path)
	}
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.Pid())); err == nil {
		vars := "\x00" + string(env)
		if !strings.Contains(vars, "\x00PERMD_SESSION="+node+"\x00") || strings.Contains(vars, "\x00PERMD_PARENT_SESSION=") || strings.Count(vars, "\x00PERMD_SESSION=") != 1 {
			t.Errorf("the client's variables: %q", vars)
		}
	}
	desk := g.desk(p.Pid(), nil)
	a := g.next(desk)
	if a.Body.Action.Command != "touch ran-1" {
		t.Errorf("the desk is asked for %q", a.Body.Action.Command)
	}
	g.answer(desk, allow(a))
	p.Wait()
	if g.ran() != "ran-1 ran-rule" {
		t.Errorf("ran %q; told %q", g.ran(), g.told())
	}
	g.quiet(true)
}

// run starts the client through permd run.
func (g *governed) run(r realclient.Run) realclient.Run {
	r.Wrap = []string{g.permd.Bin + "/permd", "--root", g.permd.Root, "run", "--"}
	return r
}
