package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"permd/ask"
	"permd/review"
)

// decider writes an external decider where agents are kept from, and returns
// its table for the rule file.
func (r *Rig) decider(name, text, more string) string {
	r.T.Helper()
	file := filepath.Join(r.Dirs.Config, name)
	if err := os.MkdirAll(r.Dirs.Config, 0o700); err != nil {
		r.T.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		r.T.Fatal(err)
	}
	return fmt.Sprintf("[[authorizer]]\nexec = [%q]\n%s\n", file, more)
}

const triageScript = `in=$(cat)
case $in in
*'"command":"touch yes'*) echo '{"decision":"allow","reason":"harmless"}';;
*'"command":"touch no'*) echo '{"decision":"deny","reason":"not that one"}';;
*'"command":"touch hang'*) sleep 60;;
*'"command":"touch garbage'*) echo 'sure, go ahead';;
*'"command":"touch code'*) echo '{"decision":"allow"}'; exit 1;;
*'"tool":"write"'*) echo '{"decision":"allow"}';;
*) echo '{"decision":"defer"}';;
esac
`

// An external decider speaks between rules and people: what it allows runs and
// what it denies does not, without a person; whatever else it does leaves the
// ask to people. Each time it is asked is on the record.
func TestExternalDecider(t *testing.T) {
	r := New(t)
	r.Policy(r.decider("triage", triageScript, `timeout = "700ms"`) + "[[rule]]\naction = \"deny\"\ncommand = \"touch yes denied\"\n")
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	for cmd, want := range map[string]string{"touch yes": "allow", "touch no": "deny", "touch yes denied": "deny"} {
		if got := a.Gate(Bash(cmd)); got.Decision != want || got.Decision == "deny" && strings.Contains(got.Reason, "user") {
			t.Errorf("without anybody there, %s: %+v", cmd, got)
		}
	}
	if got := a.Gate(Bash("touch no")); got.Decision != "deny" || !strings.Contains(got.Reason, "denied") {
		t.Errorf("asked again: %+v", got)
	}
	asked := r.Records(review.Filter{Event: "authorizer_link_consulted"})
	if len(asked) != 2 {
		t.Errorf("%d consultations, want 2: a rule's deny and a repeat are no questions", len(asked))
	}
	desk := r.Attach(a.Node(), DenyAll)
	for _, cmd := range []string{"touch hang", "touch garbage", "touch code", "touch other", "crontab yes", "eval \"touch yes$x\""} {
		if got := a.Gate(Bash(cmd)); got.Decision != "deny" || !strings.Contains(got.Reason, "user") {
			t.Errorf("%s does not come to a person: %+v", cmd, got)
		}
	}
	write := Tool{Name: "Write", Input: map[string]any{"file_path": filepath.Join(r.Work, "a"), "content": "x"}}
	if got := a.Gate(write); got.Decision != "deny" {
		t.Errorf("it decides about a file: %+v", got)
	}
	desk.Close()
	codes := map[string]int{}
	for _, x := range r.Records(review.Filter{Event: "authorizer_link_consulted"}) {
		codes[x.Field(review.KeyCode)]++
		if x.By == nil || x.By.Kind != ask.KindLink || x.By.Surface != "triage" || x.Ask == "" {
			t.Errorf("%s", x.Raw)
		}
		if x.Field(review.KeyCode) == "failed" && x.Field(review.KeyMessage) == "" {
			t.Errorf("it does not say why: %s", x.Raw)
		}
	}
	if codes["allow"] != 1 || codes["deny"] != 1 || codes["defer"] != 1 || codes["failed"] != 3 || len(codes) != 4 {
		t.Errorf("consultations %v", codes)
	}
	for name, want := range map[string]int{"permission_request.approved": 1, "authorizer_chain_resolved": 1} {
		if n := r.Count(name, want); n != want {
			t.Errorf("%d %s, want %d", n, name, want)
		}
	}
	// An agent that changes the program's mode, or the file, gets nothing.
	if err := os.Chmod(filepath.Join(r.Dirs.Config, "triage"), 0o777); err != nil {
		t.Fatal(err)
	}
	if got := a.Gate(Bash("touch yes again")); got.Allowed() {
		t.Errorf("a program that anybody may write is asked: %+v", got)
	}
}

// Where a session relays, its chain is not asked; the one of the node that
// decides is.
func TestTheChainRunsWhereIsDecided(t *testing.T) {
	r := New(t)
	r.Policy(r.decider("triage", triageScript, ""))
	lead := r.Agent(AgentOptions{Session: "lead"})
	lead.Send("SessionStart", nil)
	desk := r.Attach(lead.Node(), DenyAll)
	child := r.Agent(AgentOptions{Session: "child", Under: lead, Env: below(lead)})
	if got := child.Gate(Bash("touch yes")); !got.Allowed() {
		t.Errorf("%+v", got)
	}
	if got := child.Gate(Bash("touch no")); got.Decision != "deny" || !strings.Contains(got.Reason, "not that one") {
		t.Errorf("%+v", got)
	}
	desk.Close()
	for _, x := range r.Records(review.Filter{Event: "authorizer_link_consulted"}) {
		if x.Writer != lead.Node() {
			t.Errorf("asked at %s", x.Writer)
		}
	}
	if n := r.Count("authorizer_chain_delegated", 2); n != 2 {
		t.Errorf("%d records that the chain was left to the lead, want 2", n)
	}
	if n := r.Count("forwarded_permission.approved", 1); n != 1 {
		t.Errorf("%d approvals at the lead", n)
	}
}
