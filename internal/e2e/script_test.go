package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"permd/ask"
	"permd/review"
)

// Rules that a person applies decide what waits already, and say that they did.
func TestAppliedRulesSettleWhatWaits(t *testing.T) {
	r := New(t)
	r.Policy(rules)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	desk := r.Attach(a.Node(), nil)
	waits, other := a.BeginGate(Bash("touch x")), a.BeginGate(Bash("touch y"))
	r.Until("two asks", 5*time.Second, func() bool { return len(desk.Waiting()) == 2 })
	r.Policy(rules + "\n[[rule]]\naction = \"allow\"\ncommand = \"touch x\"\n")
	if code, out := r.Permd("status"); code != 0 || len(desk.Waiting()) != 2 {
		t.Errorf("an edit that nobody applied decides: %d %s", code, out)
	}
	if code, out := r.Permd("policy", "apply", "--yes"); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	if got, err := waits.Answer(); err != nil || !got.Allowed() {
		t.Errorf("%+v, %v", got, err)
	}
	r.Until("the other one to wait alone", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	desk.Answer(ask.DenyAnswer(desk.Waiting()[0].Ask, ""))
	other.Answer()
	by := 0
	for _, x := range r.Records(review.Filter{Event: "permission_request.approved"}) {
		if x.By != nil && x.By.Kind == ask.KindRule && x.By.Rule != nil && x.By.Rule.Line > 0 {
			by++
		}
	}
	if by != 1 {
		t.Errorf("%d settled by the rule, on the record", by)
	}
}

// An allowed script edits whatever permd keeps: the user's rules, the list of
// applied ones, or takes that away. Nothing of it allows anything, at the node
// that runs and at a new one, until a person applies it at a terminal.
func TestAnAllowedScriptEditsTheRules(t *testing.T) {
	const evil = "\n[[rule]]\naction = \"allow\"\ncommand = \"touch evil\"\n"
	for name, attack := range map[string]func(r *Rig){
		"the rules": func(r *Rig) { r.Policy(rules + evil) },
		"the applied rules": func(r *Rig) {
			r.Policy(rules + evil)
			file := filepath.Join(r.Dirs.State, "policy-applied", "user.json")
			was, err := os.ReadFile(file)
			if err != nil {
				r.T.Fatal(err)
			}
			forged := strings.Replace(string(was), `"rules":[`, `"rules":[{"rule":{"action":"allow","command":"touch evil"},"file":"policy.toml","line":1},`, 1)
			if forged == string(was) {
				r.T.Fatal("nothing is changed")
			}
			if err := os.WriteFile(file, []byte(forged), 0o600); err != nil {
				r.T.Fatal(err)
			}
		},
		"that any were applied": func(r *Rig) {
			r.Policy(rules + evil)
			if err := os.RemoveAll(filepath.Join(r.Dirs.State, "policy-applied")); err != nil {
				r.T.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(t)
			r.Policy(rules)
			a := r.Agent(AgentOptions{Session: "s"})
			if got := a.Gate(Bash("make check")); !got.Allowed() {
				t.Fatalf("%+v", got)
			}
			attack(r)
			if got := a.Gate(Bash("touch evil")); got.Allowed() {
				t.Errorf("at the node that runs: %+v", got)
			}
			attack(r)
			b := r.Agent(AgentOptions{Session: "other"})
			if got := b.Gate(Bash("touch evil")); got.Allowed() {
				t.Errorf("at a new node: %+v", got)
			}
			if code, out := r.Permd("policy", "apply", "--yes"); code != 0 || !strings.Contains(out, "touch evil") {
				t.Fatalf("apply: %d %s", code, out)
			}
			for _, x := range []*Agent{a, b, r.Agent(AgentOptions{Session: "third"})} {
				if got := x.Gate(Bash("touch evil")); !got.Allowed() {
					t.Errorf("applied by a person: %+v", got)
				}
			}
			if n := r.Count("policy.applied", 1); n != 1 {
				t.Errorf("%d records that a person applied it", n)
			}
		})
	}
}
