package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"permd/review"
)

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
			if n := len(r.Records(review.Filter{Event: "policy.applied"})); n != 1 {
				t.Errorf("%d records that a person applied it", n)
			}
		})
	}
}
