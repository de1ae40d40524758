package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"permd/review"
)

func (r *Rig) project(text string) string {
	r.T.Helper()
	dir := filepath.Join(r.Work, ".permd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.T.Fatal(err)
	}
	file := filepath.Join(dir, "policy.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.T.Fatal(err)
	}
	return file
}

// A repository's rules tighten at once and allow only what a person at a
// terminal let them; what an agent writes there, or into permd's list, allows
// nothing.
func TestProjectTrust(t *testing.T) {
	r := New(t)
	const allow, deny = "[[rule]]\naction = \"allow\"\ncommand = \"touch x\"\n", "[[rule]]\naction = \"deny\"\ncommand = \"touch never\"\n"
	file := r.project(allow + deny)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	desk := r.Attach(a.Node(), DenyAll)
	if got := a.Gate(Bash("touch x")); got.Allowed() {
		t.Errorf("an untrusted file allows: %+v", got)
	}
	if got := a.Gate(Bash("touch never")); got.Decision != "deny" || !strings.Contains(got.Reason, "policy.toml") {
		t.Errorf("it does not tighten: %+v", got)
	}
	skipped := r.Records(review.Filter{Event: "project_trust.skipped"})
	if len(skipped) != 1 || skipped[0].Field(review.KeyCount) != "1" {
		t.Errorf("%d records that it was left out", len(skipped))
	}
	r.Until("the notice", 5*time.Second, func() bool {
		for _, n := range desk.Notices() {
			if n.Kind == "trust" && strings.Contains(n.Text, "permd trust") {
				return true
			}
		}
		return false
	})
	if code, _, out, err := a.Run("", nil, r.Bin+"/permd", "--root", r.Root, "trust", "--yes", file); err != nil || code == 0 || !strings.Contains(out, "refused") {
		t.Fatalf("an agent trusted it: %d %s, %v", code, out, err)
	}
	if code, out := r.Permd("trust", file); code != 1 || !strings.Contains(out, "nothing was trusted") || !strings.Contains(out, "touch x") {
		t.Errorf("without a terminal: %d %s", code, out)
	}
	if code, out := r.Permd("trust", "--yes", r.Work); code != 0 || !strings.Contains(out, "+ allow command = \"touch x\"") {
		t.Fatalf("%d %s", code, out)
	}
	b := r.Agent(AgentOptions{Session: "other"})
	if got := b.Gate(Bash("touch x")); !got.Allowed() {
		t.Errorf("a trusted file does not allow: %+v", got)
	}
	if code, out := r.Permd("trust", "--list"); code != 0 || !strings.Contains(out, "holds") {
		t.Errorf("%d %s", code, out)
	}

	// An allowed script edits it: what it adds allows nothing, and so does
	// all of it.
	r.project(allow + deny + "[[rule]]\naction = \"allow\"\ncommand = \"touch evil\"\n")
	for _, cmd := range []string{"touch evil", "touch x"} {
		if got := b.Gate(Bash(cmd)); got.Allowed() {
			t.Errorf("%s by a changed file: %+v", cmd, got)
		}
	}
	if code, out := r.Permd("trust", "--list"); code != 0 || !strings.Contains(out, "changed") {
		t.Errorf("%d %s", code, out)
	}
	// It writes permd's own list as well: the record does not hold it.
	list := filepath.Join(r.Dirs.State, "trust", "projects.json")
	was, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if code, out := r.Permd("trust", "--yes", "--revoke", file); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	r.project(allow + deny)
	if err := os.WriteFile(list, was, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Agent{b, r.Agent(AgentOptions{Session: "third"})} {
		if got := x.Gate(Bash("touch x")); got.Allowed() {
			t.Errorf("a trust that was revoked and written back: %+v", got)
		}
	}
	if n := r.Count("project_trust.given", 1); n != 1 {
		t.Errorf("%d records of trust", n)
	}
}
