package node

import (
	"encoding/json"
	"fmt"
	"testing"

	"permd/ask"
)

func act(cmd, id, cwd string) *ask.Action {
	in, _ := json.Marshal(map[string]string{"command": cmd})
	return &ask.Action{Client: "claude", Tool: ask.ToolBash, ClientTool: "Bash", Call: id, Input: in, Cwd: cwd, Command: cmd}
}

func letCall(c *calls, a *ask.Action, how letGo) *call {
	return c.let(call{ask: "ask-" + a.Call, id: a.Call, digest: a.ActionDigest(), cwd: a.Cwd, how: how, tool: a.ClientTool})
}

// Every way a report can relate to what was let go.
func TestTripwireTable(t *testing.T) {
	for _, c := range []struct {
		name   string
		let    []*ask.Action
		report *ask.Action
		failed bool
		want   string
		hit    bool
	}{
		{"as let go", []*ask.Action{act("a", "1", "/w")}, act("a", "1", "/w"), false, effectRan, true},
		{"as let go, failed", []*ask.Action{act("a", "1", "/w")}, act("a", "1", "/w"), true, effectFailed, true},
		{"the call moved the client", []*ask.Action{act("cd sub", "1", "/w")}, act("cd sub", "1", "/w/sub"), false, effectRan, true},
		{"another input under the same id", []*ask.Action{act("a", "1", "/w")}, act("b", "1", "/w"), false, effectRanOther, true},
		{"nothing was let go", nil, act("a", "1", "/w"), false, effectRanUngated, false},
		{"another id", []*ask.Action{act("a", "1", "/w")}, act("a", "2", "/w"), false, effectRanUngated, false},
		{"no id in the report", []*ask.Action{act("a", "1", "/w")}, act("a", "", "/w"), false, effectRan, true},
		{"no id when it was let go", []*ask.Action{act("a", "", "/w")}, act("a", "2", "/w"), false, effectRan, true},
		{"no id, another input", []*ask.Action{act("a", "1", "/w")}, act("b", "", "/w"), false, effectRanUngated, false},
		{"two equal calls, one report each", []*ask.Action{act("a", "1", "/w"), act("a", "2", "/w")}, act("a", "2", "/w"), false, effectRan, true},
	} {
		var k calls
		for _, a := range c.let {
			letCall(&k, a, letReleased)
		}
		hit, got := k.ran(c.report, c.failed)
		if got != c.want || (hit != nil) != c.hit {
			t.Errorf("%s: %s %v, want %s", c.name, got, hit, c.want)
		}
	}
}

func TestACallIsReportedOnce(t *testing.T) {
	var k calls
	a := act("a", "", "/w")
	letCall(&k, a, letReleased)
	if _, e := k.ran(a, false); e != effectRan {
		t.Fatal(e)
	}
	if _, e := k.ran(a, false); e != effectRanUngated {
		t.Errorf("a second run of a call that was let go once: %s", e)
	}
	if len(k.unfinished()) != 0 {
		t.Error("a finished call is unfinished")
	}
}

func TestHandedAndKnown(t *testing.T) {
	var k calls
	a := act("a", "1", "/w")
	d := a.ActionDigest()
	if k.handed(d) != nil {
		t.Error("handed before it was")
	}
	letCall(&k, a, letReleased)
	if k.handed(d) != nil {
		t.Error("a released call counts as handed")
	}
	h := letCall(&k, act("a", "2", "/w"), letHanded)
	if k.handed(d) != h {
		t.Error("the handed call is not found")
	}
	if how, ok := k.known(d); !ok || how != letHanded {
		t.Errorf("%s %v", how, ok)
	}
	k.ran(act("a", "2", "/w"), false)
	if k.handed(d) != nil {
		t.Error("a finished call is handed")
	}
}

// What is remembered is bounded, and what still may run goes last.
func TestCallsAreBounded(t *testing.T) {
	var k calls
	open := letCall(&k, act("open", "open", "/w"), letReleased)
	for i := range maxCalls + 300 {
		a := act("x", fmt.Sprint(i), "/w")
		letCall(&k, a, letReleased)
		k.ran(a, false)
	}
	if len(k.list) > maxCalls {
		t.Errorf("%d calls are remembered", len(k.list))
	}
	if u := k.unfinished(); len(u) != 1 || u[0] != open {
		t.Errorf("the open call was forgotten: %v", u)
	}
}
