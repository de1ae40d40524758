package authority

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"permd/ask"
	"permd/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const command = "curl -H token:hunter2 https://example.net"

func newAsk(t testing.TB, claimed bool) *ask.Ask {
	t.Helper()
	in, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	a, err := ask.Seal(ask.Body{ID: "a", Origin: ask.OriginGate, From: ask.Who{Session: "child", Client: "claude"},
		Title: "Run a command", Items: ask.PermissionItems("Run it?"),
		Action: &ask.Action{Client: "claude", Tool: ask.ToolBash, ClientTool: "Bash", Input: in, Cwd: "/home/dev", Command: command}})
	if err != nil {
		t.Fatal(err)
	}
	a.Header.Path = []ask.Hop{{Session: "child", Node: "n1", Claimed: claimed}}
	return a
}

func question(t testing.TB) *ask.Ask {
	t.Helper()
	a, err := ask.Seal(ask.Body{ID: "a", Origin: ask.OriginAsk, From: ask.Who{Session: "child"}, Title: "Which?",
		Items: []ask.Item{{ID: "q", Prompt: "Which?", Type: ask.ItemText}}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func user() ask.By { return ask.By{Kind: ask.KindUser, Session: "lead", Surface: "terminal"} }

func ruleBy() ask.By {
	return ask.By{Kind: ask.KindRule, Rule: &ask.RuleRef{Layer: "user", File: "/etc/p.toml", Line: 12}}
}

func allow(a *ask.Ask, by ask.By) ask.Decision {
	return ask.Decision{Ask: a.Body.ID, Digest: a.Digest, Verdict: ask.Allow, Outcome: ask.Answered, By: by}
}

// fixed is an authorizer that always says the same.
type fixed struct {
	d     ask.Decision
	err   error
	boom  bool
	calls int
}

func (f *fixed) Authorize(context.Context, *ask.Ask) (ask.Decision, error) {
	f.calls++
	if f.boom {
		panic("boom")
	}
	return f.d, f.err
}

// ruling is a judge that always says the same.
type ruling struct {
	v      ask.Verdict
	by     ask.By
	reason string
	err    error
	boom   bool
}

func (r ruling) Judge(context.Context, *ask.Ask) (ask.Verdict, ask.By, string, error) {
	if r.boom {
		panic("boom")
	}
	return r.v, r.by, r.reason, r.err
}

// journal is a recorder that remembers.
type journal struct {
	records []broker.Record
	err     error
	boom    bool
	ctx     context.Context
}

func (j *journal) Commit(ctx context.Context, rs []broker.Record) error {
	j.ctx = ctx
	if j.boom {
		panic("boom")
	}
	if j.err == nil {
		j.records = append(j.records, rs...)
	}
	return j.err
}

var errDisk = errors.New("no space left on device")

// denied checks that d is a sound denial by kind.
func denied(t testing.TB, d ask.Decision, a *ask.Ask, kind ask.Kind) {
	t.Helper()
	if d.Allows(a.Body.ID, a.Digest) || d.Verdict != ask.Deny || d.By.Decider().Kind != kind {
		t.Errorf("%s, %s by %s, want a denial by %s", d.Verdict, d.Outcome, d.By.Decider().Kind, kind)
	}
	if err := d.Check(); err != nil {
		t.Errorf("the denial contradicts itself: %v", err)
	}
	if d.Ask != a.Body.ID || d.Digest != a.Digest {
		t.Error("the denial is for another ask")
	}
}
