package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/review"
)

// taking allows with the first offer of a scope whose id ends so.
func taking(t *testing.T, s api.Shown, id string, edit *ask.GrantEdit) *ask.Answer {
	ans := ask.AllowAnswer(s.Ask)
	d, err := ask.OffersDigest(s.Offers)
	if err != nil {
		t.Error(err)
	}
	ans.Offer, ans.OfferDigest, ans.Grant = id, &d, edit
	return &ans
}

func (r *Rig) grantsKept(n int) {
	r.T.Helper()
	r.Until("the grant on the record", 5*time.Second, func() bool { return len(r.Records(review.Filter{Event: "grant.given"})) == n })
}

// A grant for the project holds in every session of it, until it is revoked
// from a terminal; put back into its file it counts for nothing.
func TestAProjectGrant(t *testing.T) {
	r := New(t)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	desk := r.Attach(a.Node(), func(s api.Shown) *ask.Answer { return taking(t, s, "project", nil) })
	if got := a.Gate(Bash("touch x")); !got.Allowed() {
		t.Fatalf("%+v", got)
	}
	desk.Close()
	r.grantsKept(1)
	b := r.Agent(AgentOptions{Session: "other"})
	if got := b.Gate(Bash("touch x")); !got.Allowed() {
		t.Errorf("the grant does not hold in another session of the project: %+v", got)
	}
	if got := b.Gate(Bash("touch x y")); got.Allowed() {
		t.Errorf("the grant is wider than what was shown: %+v", got)
	}
	used := r.Records(review.Filter{Event: "permission_request.auto_approved"})
	if len(used) != 1 || used[0].By.Kind != ask.KindGrant || used[0].By.Grant == "" {
		t.Fatalf("its use is not on the record: %+v", used)
	}
	file := filepath.Join(r.Dirs.State, "grants", ".lasting.json")
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if code, out := r.Permd("policy", "grants", "revoke", used[0].By.Grant); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	if got := b.Gate(Bash("touch x")); got.Allowed() {
		t.Errorf("a revoked grant holds: %+v", got)
	}
	if err := os.WriteFile(file, was, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Agent{b, r.Agent(AgentOptions{Session: "third"})} {
		if got := x.Gate(Bash("touch x")); got.Allowed() {
			t.Errorf("a revoked grant that was put back holds: %+v", got)
		}
	}
	if n := len(r.Records(review.Filter{Event: "grant.refused"})); n == 0 {
		t.Error("that it counts for nothing is not on the record")
	}
}

// What a file says that no person gave, or gave otherwise, counts for nothing.
func TestAForgedGrant(t *testing.T) {
	r := New(t)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	desk := r.Attach(a.Node(), func(s api.Shown) *ask.Answer { return taking(t, s, "user", nil) })
	if got := a.Gate(Bash("touch x")); !got.Allowed() {
		t.Fatalf("%+v", got)
	}
	desk.Close()
	r.grantsKept(1)
	file := filepath.Join(r.Dirs.State, "grants", ".lasting.json")
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Replace(string(was), "touch x", "touch forged", 1)
	if forged == string(was) {
		t.Fatal("nothing is changed")
	}
	if err := os.WriteFile(file, []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Agent{a, r.Agent(AgentOptions{Session: "other"})} {
		if got := x.Gate(Bash("touch forged")); got.Allowed() {
			t.Errorf("a grant that nobody gave holds: %+v", got)
		}
	}
	if n := r.Count("grant.refused", 2); n != 2 {
		t.Errorf("%d records that it counts for nothing, want one a node", n)
	}
}

// A grant settles what waits and is covered by it, and says that it did; one
// that is edited is kept as edited if that is narrower, else refused.
func TestAGrantSettlesWhatWaits(t *testing.T) {
	r := New(t)
	r.Policy("[[rule]]\naction = \"deny\"\ncommand = \"git push --force *\"\n")
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	desk := r.Attach(a.Node(), nil)
	first, second, third := a.BeginGate(Bash("git push origin one")), a.BeginGate(Bash("git push origin two")), a.BeginGate(Bash("git push fork three"))
	r.Until("three asks", 5*time.Second, func() bool { return len(desk.Waiting()) == 3 })
	shown := map[string]api.Shown{}
	for _, s := range desk.Waiting() {
		shown[s.Ask.Body.Action.Command] = s
	}
	one := shown["git push origin one"]
	for _, bad := range []string{"git *", "git pull *", "git push other *"} {
		edited := one.Offers[1].Rule
		edited.Command = bad
		if v, err := desk.Answer(*taking(t, one, "session-sub", &ask.GrantEdit{Rule: &edited})); err != nil || v.Verdict != api.VerdictInvalid {
			t.Errorf("%s: %+v, %v", bad, v, err)
		}
	}
	edited := one.Offers[1].Rule
	edited.Command = "git push origin *"
	if v, err := desk.Answer(*taking(t, one, "session-sub", &ask.GrantEdit{Rule: &edited})); err != nil || v.Verdict != api.VerdictAccepted {
		t.Fatalf("%+v, %v", v, err)
	}
	for _, p := range []*Pending{first, second} {
		if got, err := p.Answer(); err != nil || !got.Allowed() {
			t.Errorf("%+v, %v", got, err)
		}
	}
	r.grantsKept(1)
	settled := 0
	for _, x := range r.Records(review.Filter{Event: "permission_request.approved"}) {
		if x.Ask == shown["git push origin two"].Ask.Body.ID && x.By.Kind == ask.KindGrant {
			settled++
		}
	}
	if settled != 1 {
		t.Errorf("what the grant settled is not attributed to it")
	}
	r.Until("only the one to wait that the grant does not cover", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	desk.Answer(ask.DenyAnswer(shown["git push fork three"].Ask, ""))
	if got, err := third.Answer(); err != nil || got.Allowed() {
		t.Errorf("%+v, %v", got, err)
	}
	if got := a.Gate(Bash("git push --force origin x")); got.Decision != "deny" {
		t.Errorf("a grant beats a deny: %+v", got)
	}
}

// A script under a session grant that changes asks again.
func TestAChangedScriptAsksAgain(t *testing.T) {
	r := New(t)
	script := filepath.Join(r.Work, "build.sh")
	if err := os.WriteFile(script, []byte("echo one\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	desk := r.Attach(a.Node(), func(s api.Shown) *ask.Answer { return taking(t, s, "session", nil) })
	for _, cmd := range []string{"./build.sh", "bash build.sh"} {
		if got := a.Gate(Bash(cmd)); !got.Allowed() {
			t.Fatalf("%s: %+v", cmd, got)
		}
	}
	r.grantsKept(2)
	desk.Close()
	for _, cmd := range []string{"./build.sh", "bash build.sh"} {
		if got := a.Gate(Bash(cmd)); !got.Allowed() {
			t.Fatalf("%s under its grant: %+v", cmd, got)
		}
	}
	if err := os.WriteFile(script, []byte("rm -rf ~\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []string{"./build.sh", "bash build.sh"} {
		if got := a.Gate(Bash(cmd)); got.Allowed() {
			t.Errorf("%s after the script was changed: %+v", cmd, got)
		}
	}
}
