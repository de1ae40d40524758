package claudecheck

import (
	"encoding/json"
	"strings"
	"testing"

	"permd/api"
	"permd/ask"
	"permd/internal/realclient"
	"permd/internal/standin"
	"permd/review"
	"permd/session"
)

// agent is a call of the tool that starts a subagent, which follows the
// scenario child. name makes it a teammate.
func agent(name string) standin.Step {
	in := map[string]any{"description": "child", "prompt": "SCENARIO:child go", "subagent_type": "general-purpose"}
	if name != "" {
		in["name"] = name
	} else {
		in["run_in_background"] = false
	}
	return standin.Calls(standin.Use("Agent", in))
}

// sessions is what permd sessions says, by id.
func (g *governed) sessions() map[string]api.SessionState {
	g.t.Helper()
	code, out := g.command("sessions", "--json")
	var s api.Sessions
	if err := json.Unmarshal([]byte(out), &s); code != 0 || err != nil {
		g.t.Fatalf("permd sessions: %d, %v: %s", code, err, out)
	}
	all := map[string]api.SessionState{}
	for _, x := range s.Sessions {
		all[x.ID] = x
	}
	return all
}

// leader is the root session of the agent with this process id.
func (g *governed) leader(pid int) string {
	g.t.Helper()
	f, err := session.ReadFacts(g.permd.Dirs.Node(g.node(pid)))
	if err != nil || len(f.Sessions) == 0 {
		g.t.Fatalf("the node of process %d says %+v, %v", pid, f, err)
	}
	return f.Sessions[0].ID
}

// A subagent in the client's process is a session of its own, whose asks come
// to the desk by way of its root.
func TestSubagentAsksThroughItsRoot(t *testing.T) {
	t.Parallel()
	g := govern(t, place{hold: true}, map[string][]standin.Step{
		"x":     {agent(""), standin.Bash("touch ran-lead")},
		"child": {standin.Bash("touch ran-child"), standin.Bash("touch ran-rule"), standin.Bash("touch ran-bad")},
	})
	p := g.Start(realclient.Run{Scenario: "x"})
	desk := g.desk(p.Pid(), nil)
	child := g.next(desk) // to start a subagent is not asked: its own calls are
	root, _, _ := strings.Cut(child.Body.From.Session, ".")
	if sub := child.Body.From; !strings.HasPrefix(sub.Session, root+".") || sub.Agent != "general-purpose" {
		t.Errorf("the subagent is %+v", sub)
	}
	if p := child.Header.Path; len(p) != 1 || p[0].Session != child.Body.From.Session || p[0].Claimed || child.Body.Action.Command != "touch ran-child" {
		t.Errorf("the subagent's ask came by way of %+v: %+v", p, child.Body.Action)
	}
	if s := g.sessions()[child.Body.From.Session]; s.RelaysTo != root || !s.Verified || s.Authority != "relay" {
		t.Errorf("permd sessions says %+v", s)
	}
	g.answer(desk, ask.AllowAnswer(child))
	lead := g.after(desk, child)
	if lead.Body.From.Session != root || len(lead.Header.Path) != 0 {
		t.Errorf("the lead's own ask: %+v by way of %+v", lead.Body.From, lead.Header.Path)
	}
	g.answer(desk, ask.DenyAnswer(lead, ""))
	p.Wait()
	if g.ran() != "ran-child ran-rule" {
		t.Errorf("ran %q; told %q", g.ran(), g.told())
	}
	g.quiet(true)
	started := g.permd.Records(review.Filter{Event: string(review.SessionStarted)})
	if len(started) != 2 || started[1].Field(review.KeyParent) != root {
		t.Errorf("sessions started: %d", len(started))
	}
}

// A second client that the first one's shell tool starts finds its parent, is
// proved to be below it, and its asks come to the first one's desk.
func TestASecondClientRelaysToTheFirst(t *testing.T) {
	t.Parallel()
	c := realclient.Claude(t)
	g := govern(t, place{hold: true}, map[string][]standin.Step{
		"x":     {standin.Bash(realclient.Quote(c.Path) + " -p 'SCENARIO:child go'"), standin.Bash("touch ran-lead")},
		"child": {standin.Bash("touch ran-child"), standin.Bash("touch ran-rule"), standin.Bash("touch ran-bad"), standin.Bash("touch ran-2")},
	})
	p := g.Start(realclient.Run{Scenario: "x", Time: 2 * realclient.DefaultTime})
	desk := g.desk(p.Pid(), nil)
	start := g.next(desk)
	lead := start.Body.From.Session
	g.answer(desk, ask.AllowAnswer(start))
	g.release() // the child's own session start

	child := g.after(desk, start)
	from := child.Body.From.Session
	if path := child.Header.Path; from == lead || strings.HasPrefix(from, lead+".") || len(path) != 1 || path[0].Session != from || child.Header.Claimed() {
		t.Errorf("the child's ask is from %s by way of %+v; the lead is %s", from, path, lead)
	}
	if s := g.sessions()[from]; s.Parent != lead || s.FoundBy != "PERMD_SESSION" || s.RelaysTo != lead || !s.Verified {
		t.Errorf("permd sessions says %+v of the child of %s", s, lead)
	}
	g.answer(desk, ask.AllowAnswer(child))
	second := g.after(desk, child)
	g.answer(desk, ask.DenyAnswer(second, "one is enough"))
	last := g.after(desk, second)
	if last.Body.From.Session != lead {
		t.Errorf("the last ask is from %s", last.Body.From.Session)
	}
	g.answer(desk, ask.AllowAnswer(last))
	p.Wait()
	if g.ran() != "ran-child ran-lead ran-rule" {
		t.Errorf("ran %q; told %q", g.ran(), g.told())
	}
	if told := g.told(); !strings.Contains(told, "denied by the user at session "+lead+": one is enough") {
		t.Errorf("told %q", told)
	}
	g.quiet(true)
	g.storyOf(child.Body.ID, []string{
		"forwarded_permission.request_created", "forwarded_permission.prompted", "forwarded_permission.approved user",
		"forwarded_permission.response_received user", "release.released", "answer.delivered released", "effect ran",
	})
	for _, r := range g.records(review.RequestCreated) {
		if r.Field(review.KeyTargetSession) != lead {
			t.Errorf("an ask went to %q", r.Field(review.KeyTargetSession))
		}
	}
}

// teammates are a lead and its teammate in a pane of its own.
func teammates(t *testing.T) (*governed, *realclient.Terminal) {
	g := govern(t, place{settings: map[string]any{"teammateMode": "tmux"}}, map[string][]standin.Step{
		"x": {agent("helper")}, "child": {standin.Bash("touch ran-1"), standin.Bash("touch ran-rule"), standin.Bash("touch ran-bad")},
	})
	term := g.Terminal(realclient.Run{Env: []string{"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1"}, Time: 2 * realclient.DefaultTime})
	return g, term
}

// A teammate in a pane waits in its gate while its lead has a desk: it names
// the lead by its arguments, which is only a claim, so a person decides.
func TestTeammateInAPaneAsksAtTheLeadsDesk(t *testing.T) {
	t.Parallel()
	g, term := teammates(t)
	desk := g.desk(term.Pid(), nil)
	term.Say("SCENARIO:x go")
	one := g.next(desk)
	lead := g.leader(term.Pid())
	if p := one.Header.Path; one.Body.From.Session == lead || len(p) != 1 || !one.Header.Claimed() {
		t.Errorf("the teammate's ask is from %s by way of %+v; the lead is %s", one.Body.From.Session, p, lead)
	}
	if s := g.sessions()[one.Body.From.Session]; s.Parent != lead || s.FoundBy != "client-args" || s.RelaysTo != lead || s.Verified {
		t.Errorf("permd sessions says %+v of the teammate of %s", s, lead)
	}
	if strings.Contains(term.Screen(), dialog) || g.ran() != "" {
		t.Errorf("ran %q; the lead shows:\n%s", g.ran(), term.Screen())
	}
	g.answer(desk, ask.AllowAnswer(one))
	g.WaitFor("the teammate's calls", limit, func() bool { return strings.Contains(g.told(), "not for agents") })
	if g.ran() != "ran-1 ran-rule" {
		t.Errorf("ran %q, told %q", g.ran(), g.told())
	}
	term.Close()
	g.quiet(true)
}

// Without a desk the client shows the teammate's question at the lead, and what
// is allowed there is closed by what runs.
func TestTeammateInAPaneWithoutADesk(t *testing.T) {
	t.Parallel()
	g, term := teammates(t)
	term.Say("SCENARIO:x go")
	term.WaitScreen("from the helper agent", "touch ran-1", "1. Yes")
	if g.ran() != "" {
		t.Errorf("ran %q before an answer", g.ran())
	}
	handed := g.waitRecord(review.HandedToClientDialog, 1)
	term.Answer("1", "touch ran-1")
	g.WaitFor("the teammate's calls", limit, func() bool { return strings.Contains(g.told(), "not for agents") })
	if g.ran() != "ran-1 ran-rule" {
		t.Errorf("ran %q, told %q", g.ran(), g.told())
	}
	term.Close()
	g.quiet(false)
	g.storyOf(handed[0].Ask, []string{"handed_to_client_dialog", "effect ran client_dialog inferred"})
}
