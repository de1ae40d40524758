package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/review"
)

const rules = `
[[rule]]
action = "allow"
tool = "bash"
command = "make check"

[[rule]]
action = "deny"
tool = "bash"
command = "rm *"
reason = "use the trash"
`

func TestPolicyDecidesAtTheGate(t *testing.T) {
	r := New(t)
	r.Policy(rules)
	a := r.Agent(AgentOptions{Session: "s"})
	for _, c := range []struct {
		tool Tool
		want string
		say  string
	}{
		{Bash("make check"), "allow", ""},
		{Bash("rm x"), "deny", "use the trash"},
		{Bash("true && rm x"), "deny", "policy.toml"},
		{Bash("touch x"), "deny", "nobody"},
		{Tool{Name: "Read", Input: map[string]any{"file_path": r.Work + "/x"}}, "allow", ""},
		{Tool{Name: "Read", Input: map[string]any{"file_path": r.Root + "/state/review/ledger/000001.jsonl"}}, "deny", ""},
	} {
		got := a.Gate(c.tool)
		if got.Decision != c.want || !strings.Contains(got.Reason, c.say) {
			t.Errorf("%v: %+v, want %s with %q", c.tool.Input, got, c.want, c.say)
		}
		if strings.Contains(got.Reason, "user") {
			t.Errorf("%v: nobody was asked, and it says %q", c.tool.Input, got.Reason)
		}
	}
	if code, out := r.Permd("review", "verify"); code != 0 {
		t.Errorf("verify: %d %s", code, out)
	}
}

func TestAPersonAtTheDeskDecides(t *testing.T) {
	r := New(t)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	desk := r.Attach(a.Node(), nil)
	p := a.BeginGate(Bash("touch x"))
	r.Until("the ask on the desk", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	shown := desk.Waiting()[0]
	if shown.Ask.Body.Action.Command != "touch x" || shown.Ask.Body.From.Session != a.ID() || shown.Ask.Body.Cause == "" {
		t.Errorf("shown %+v", shown.Ask.Body)
	}
	v, err := desk.Answer(ask.AllowAnswer(shown.Ask))
	if err != nil || v.Verdict != api.VerdictAccepted {
		t.Errorf("%+v, %v", v, err)
	}
	if got, err := p.Answer(); err != nil || !got.Allowed() {
		t.Errorf("%+v, %v", got, err)
	}
	if v, _ := desk.Answer(ask.DenyAnswer(shown.Ask, "")); v.Verdict != api.VerdictTooLate {
		t.Errorf("a late answer: %+v", v)
	}
	p = a.BeginGate(Bash("touch y"))
	r.Until("the second ask", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	desk.Answer(ask.DenyAnswer(desk.Waiting()[0].Ask, "not now"))
	got, err := p.Answer()
	if err != nil || got.Decision != "deny" || !strings.Contains(got.Reason, "not now") || !strings.Contains(got.Reason, "user") {
		t.Errorf("%+v, %v", got, err)
	}
	// The same call again is refused without a prompt.
	if got := a.Gate(Bash("touch y")); got.Decision != "deny" || !strings.Contains(got.Reason, "denied") {
		t.Errorf("asked again: %+v", got)
	}
	if r.Count("answer.late", 1) != 1 {
		t.Error("the late answer is not on the record")
	}
}

func TestGrantsOfSessionAndTree(t *testing.T) {
	r := New(t)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	take := func(scope ask.Scope) func(api.Shown) *ask.Answer {
		return func(s api.Shown) *ask.Answer {
			ans := ask.AllowAnswer(s.Ask)
			for _, o := range s.Offers {
				if o.Scope == scope {
					ans.Offer = o.ID
				}
			}
			d, _ := ask.OffersDigest(s.Offers)
			ans.OfferDigest = &d
			return &ans
		}
	}
	desk := r.Attach(a.Node(), take(ask.ScopeSession))
	if got := a.Gate(Bash("touch x")); !got.Allowed() {
		t.Fatalf("%+v", got)
	}
	desk.Close()
	r.Until("the grant to be kept", 5*time.Second, func() bool { return len(r.Records(review.Filter{Event: "grant.given"})) == 1 })
	if got := a.Gate(Bash("touch x")); !got.Allowed() {
		t.Errorf("the grant does not hold: %+v", got)
	}
	if got := a.Gate(Bash("touch x y")); got.Allowed() {
		t.Errorf("the grant is wider than what was shown: %+v", got)
	}
	b := r.Agent(AgentOptions{Session: "other"})
	if got := b.Gate(Bash("touch x")); got.Allowed() {
		t.Errorf("the grant leaks to another session: %+v", got)
	}
}

func TestWithdrawnByTheClient(t *testing.T) {
	r := New(t)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	desk := r.Attach(a.Node(), nil)
	p := a.BeginGate(Bash("touch x"))
	r.Until("the ask", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	p.Withdraw()
	r.Until("the ask to vanish", 5*time.Second, func() bool { return len(desk.Waiting()) == 0 })
	r.Until("the record", 5*time.Second, func() bool { return len(r.Records(review.Filter{Event: "withdrawn_by_client"})) == 1 })
	for _, x := range r.Records(review.Filter{}) {
		if x.By != nil && x.By.Person() {
			t.Errorf("a person is said to have decided: %s", x.Raw)
		}
	}
}

func TestTwoPhases(t *testing.T) {
	r := New(t)
	a := r.Agent(AgentOptions{Session: "s", Attended: true})
	a.Send("SessionStart", nil)
	one := Bash("touch x")
	one.Call = "toolu_x"
	if got := a.Gate(one); got.Decision != "ask" {
		t.Fatalf("the client's dialog should open: %+v", got)
	}
	if n := r.Count("handed_to_client_dialog", 1); n != 1 {
		t.Errorf("%d records before the dialog", n)
	}
	// Nobody at a desk: the approval hook says nothing at once.
	if got, err := a.BeginApproval(one).Answer(); err != nil || got.Decision != "" || got.Code != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	// The person at the dialog said yes.
	a.Ran(one)
	r.Until("the effect on the record", 5*time.Second, func() bool { return len(r.Records(review.Filter{Event: "effect"})) == 1 })
	if eff := r.Records(review.Filter{Event: "effect"}); eff[0].By == nil || !eff[0].By.Inferred {
		t.Errorf("effect %v", eff)
	}

	desk := r.Attach(a.Node(), nil)
	two := Bash("touch y")
	two.Call = "toolu_y"
	if got := a.Gate(two); got.Decision != "ask" {
		t.Fatalf("%+v", got)
	}
	p := a.BeginApproval(two)
	r.Until("the ask on the desk", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	desk.Answer(ask.AllowAnswer(desk.Waiting()[0].Ask))
	if got, err := p.Answer(); err != nil || got.Decision != "allow" {
		t.Errorf("the desk's allow: %+v, %v", got, err)
	}
	a.Ran(two)

	three := Bash("touch z")
	three.Call = "toolu_z"
	a.Gate(three)
	p = a.BeginApproval(three)
	r.Until("the third ask", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	a.Ran(three) // the person at the dialog was faster
	r.Until("the desk to be told", 5*time.Second, func() bool { return len(desk.Waiting()) == 0 })
	if got, err := p.Answer(); err != nil || got.Decision != "" {
		t.Errorf("after the dialog decided: %+v, %v", got, err)
	}
	if r.Count("ran_ungated", 0) != 0 {
		t.Error("the wire was tripped by what the dialog allowed")
	}
}

func TestTripwire(t *testing.T) {
	r := New(t)
	r.Policy(rules)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	desk := r.Attach(a.Node(), AllowAll)
	ok := Bash("make check")
	ok.Call = "toolu_1"
	a.Gate(ok)
	a.Ran(ok)
	if n := len(desk.Notices()); n != 0 {
		t.Fatalf("notices for a released call: %v", desk.Notices())
	}
	a.Ran(Tool{Name: "Bash", Input: map[string]any{"command": "touch sneaky"}, Call: "toolu_2"})
	r.Until("the notice", 5*time.Second, func() bool { return len(desk.Notices()) == 1 })
	if n := r.Count("ran_ungated", 1); n != 1 {
		t.Errorf("%d records", n)
	}
	// From now on everything is asked, also what a rule allows.
	n := len(r.Records(review.Filter{Event: "permission_request.waiting"}))
	a.Gate(Bash("make check"))
	if r.Count("permission_request.waiting", n+1) != n+1 {
		t.Error("the tripped session was not asked")
	}
	other := Bash("make check")
	other.Call = "toolu_3"
	a.Gate(other)
	other.Input = map[string]any{"command": "make check", "timeout": 1}
	a.Ran(other)
	if r.Count("ran_other", 1) != 1 {
		t.Error("a call that ran with another input was not seen")
	}
}

func TestAKilledNodeIsReplacedAndNothingTrips(t *testing.T) {
	r := New(t)
	r.Policy(rules)
	a := r.Agent(AgentOptions{Session: "s"})
	call := Bash("make check")
	call.Call = "toolu_1"
	if got := a.Gate(call); !got.Allowed() {
		t.Fatalf("%+v", got)
	}
	r.killNode(a.Node())
	a.Ran(call)
	if got := a.Gate(Bash("make check")); !got.Allowed() {
		t.Errorf("after the node was killed: %+v", got)
	}
	if r.Count("ran_ungated", 0) != 0 {
		t.Error("what the killed node had released tripped the wire")
	}
	desk := r.Attach(a.Node(), nil)
	p := a.BeginGate(Bash("touch x"))
	r.Until("the ask", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	r.killNode(a.Node())
	got, err := p.Answer()
	if err != nil || got.Allowed() || got.Code != 2 || got.Stderr == "" {
		t.Errorf("a gate whose node was killed: %+v, %v", got, err)
	}
	if code, out := r.Permd("review", "verify"); code == 1 {
		t.Errorf("verify: %s", out)
	}
}

func TestHostileEnvironment(t *testing.T) {
	r := New(t)
	r.Policy(rules)
	evil := t.TempDir()
	if err := os.WriteFile(evil+"/policy.toml", []byte("default = \"allow\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + evil, "XDG_CONFIG_HOME=" + evil, "XDG_STATE_HOME=" + evil, "XDG_RUNTIME_DIR=" + evil, "PATH=" + evil,
		"PERMD_ROOT=" + evil, "PERMD_SOCKET=" + evil + "/sock", "PERMD_DEFAULT=allow", "PERMD_CLIENT_DIALOG=off", "PERMD_SESSION=../../x", "PERMD_PARENT_SESSION=claude-nobody"}
	a := r.Agent(AgentOptions{Session: "s", Env: env})
	for cmd, want := range map[string]string{"make check": "allow", "rm x": "deny", "touch x": "deny"} {
		if got := a.Gate(Bash(cmd)); got.Decision != want {
			t.Errorf("%s: %+v, want %s", cmd, got, want)
		}
	}
}

// A desk that is killed comes back in a moment; a call that comes meanwhile
// waits for it instead of being refused.
func TestACallThatComesWhileTheDeskRestarts(t *testing.T) {
	r := New(t)
	a := r.Agent(AgentOptions{Session: "s"})
	a.Send("SessionStart", nil)
	r.Attach(a.Node(), AllowAll).Close()
	p := a.BeginGate(Bash("touch x"))
	r.Until("the call to arrive", 5*time.Second, func() bool { return len(r.Records(review.Filter{Event: "surface.detached"})) == 1 })
	r.Attach(a.Node(), AllowAll)
	if got, err := p.Answer(); err != nil || !got.Allowed() {
		t.Errorf("%+v, %v", got, err)
	}
}
