package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"permd/api"
	"permd/review"
	"permd/session"
)

// edit changes one text in one file of the module, for another version of it.
type edit struct{ file, from, to string }

// What the next version will be: it says another name of itself, speaks the
// next version of the socket protocol and still this one.
var next = []edit{{"api/message.go", "var Versions = []int{1}", "var Versions = []int{2, 1}"}}

// What a version after that may be: it speaks nothing that this one knows.
var future = []edit{
	{"api/message.go", "var Versions = []int{1}", "var Versions = []int{2}"},
	{"api/hookwire/doc.go", `magic  = prefix + "1\n"`, `magic  = prefix + "2\n"`},
	{"session/facts.go", "const FactsVersion = 1", "const FactsVersion = 2"},
	{"heartbeat/heartbeat.go", "const Version = 1", "const Version = 2"},
	{"forwarding/letter.go", "const Version = 1", "const Version = 2"},
}

// version builds the binaries of another version of this module.
func version(t *testing.T, name string, edits []edit) (dir string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for i, e := range edits {
		path := filepath.Join(root, e.file)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(b), e.from) != 1 {
			t.Fatalf("%s does not have %q once", e.file, e.from)
		}
		changed := filepath.Join(dir, fmt.Sprint(i, ".go"))
		if err := os.WriteFile(changed, []byte(strings.Replace(string(b), e.from, e.to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[path] = changed
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/overlay.json", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/bin", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := goTool("build", "-overlay", dir+"/overlay.json", "-ldflags", "-X main.version="+name, "-o", dir+"/bin/", "permd/cmd/permd", "permd/cmd/permd-hook"); err != nil {
		t.Fatal(err)
	}
	return dir + "/bin"
}

// install puts a version's programs in the rig's own directory, each with a
// rename, as make install does.
func (r *Rig) install(from string) {
	r.T.Helper()
	if r.Bin == Binaries(r.T) {
		r.Bin = filepath.Join(r.Root, "bin")
		if err := os.Mkdir(r.Bin, 0o700); err != nil {
			r.T.Fatal(err)
		}
	}
	for _, name := range []string{"permd-hook", "permd"} {
		fresh := filepath.Join(r.Bin, "."+name)
		if out, err := exec.Command("cp", filepath.Join(from, name), fresh).CombinedOutput(); err != nil {
			r.T.Fatalf("%v: %s", err, out)
		}
		if err := os.Rename(fresh, filepath.Join(r.Bin, name)); err != nil {
			r.T.Fatal(err)
		}
	}
}

// build is the version of a node.
func (r *Rig) build(a *Agent) string {
	r.T.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	w, err := api.Probe(ctx, r.Dirs.Node(a.Node()).Sock(), "e2e")
	if err != nil {
		r.T.Fatal(err)
	}
	return w.Build
}

// TestUpgradeAndDowngradeUnderLiveSessions exchanges the installed programs
// below three sessions that relay to each other, and then the nodes, one after
// the other, there and back: no call is refused and no verdict changes.
func TestUpgradeAndDowngradeUnderLiveSessions(t *testing.T) {
	t.Parallel()
	now, later := Binaries(t), version(t, "next", next)
	r := New(t)
	r.install(now)
	r.Config("asks_a_minute = 1000000\n")
	r.Policy(rules)
	lead := r.Agent(AgentOptions{Session: "lead"})
	lead.Send("SessionStart", nil)
	child := r.Agent(AgentOptions{Session: "child", Under: lead, Env: below(lead)})
	grand := r.Agent(AgentOptions{Session: "grand", Under: child, Env: below(child)})
	live := []*Agent{lead, child, grand}
	p := newPerson(r, 1, time.Millisecond)
	p.sit(func() string { return r.Dirs.Node(lead.Node()).Sock() })
	n := 0
	round := func(when string) {
		t.Helper()
		r.Until("the surface "+when, 10*time.Second, func() bool { return r.faces(lead.Node()) == 1 })
		for _, a := range live {
			for _, c := range []struct{ command, want string }{
				{"make check", "allow"}, {"rm x", "deny"}, {"touch yes #", "allow"}, {"touch no #", "deny"}, {"ls", "allow"}, {"cat .git/config", "allow"},
				{"permd grant x", "deny"},
			} {
				n++
				x := Bash(strings.ReplaceAll(c.command, "#", fmt.Sprint(n)))
				if got := a.Gate(x); got.Decision != c.want || got.Code != 0 {
					t.Errorf("%s: %s: %s: %+v, want %s", when, a.Session, c.command, got, c.want)
				}
			}
		}
	}
	builds := func(want ...string) {
		t.Helper()
		for i, a := range live {
			if got := r.build(a); got != want[i] {
				t.Errorf("%s's node is %q, want %q", a.Session, got, want[i])
			}
		}
	}
	// The exchange itself, with calls on their way all the time.
	exchange := func(to string) {
		t.Helper()
		stop := make(chan struct{})
		var work sync.WaitGroup
		for _, a := range live {
			work.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					x := a.named(Bash(fmt.Sprint("touch yes while ", a.Session, i)))
					q, err := a.begin(agentRequest{Op: "hook", Gate: true, Stdin: a.event("PreToolUse", &x)})
					if err != nil {
						t.Error(err)
						return
					}
					if got, err := q.Answer(); err != nil || !got.Allowed() {
						t.Errorf("during the exchange: %s: %+v, %v", a.Session, got, err)
					}
				}
			})
		}
		for range 5 { // there and back again, and at last there
			r.install(map[bool]string{true: now, false: later}[to == later])
			r.install(to)
		}
		close(stop)
		work.Wait()
	}
	// A node that is killed is followed by one of the installed version.
	restart := func(a *Agent) {
		t.Helper()
		r.killNode(a.Node())
		a.Send("SessionStart", nil)
	}

	round("before")
	builds("dev", "dev", "dev")
	exchange(later)
	round("after the upgrade")
	builds("dev", "dev", "dev")
	restart(child)
	round("with a new node between two old ones")
	builds("dev", "next", "dev")
	restart(lead)
	round("with a new lead")
	builds("next", "next", "dev")
	restart(grand)
	live = append(live, r.Agent(AgentOptions{Session: "fresh", Under: child, Env: below(child)}))
	round("all new")
	builds("next", "next", "next", "next")
	exchange(now)
	round("after the downgrade")
	builds("next", "next", "next", "next")
	restart(lead)
	round("with an old lead")
	builds("dev", "next", "next", "next")
	restart(grand)
	restart(child)
	restart(live[3])
	round("all old again")
	builds("dev", "dev", "dev", "dev")

	p.leave()
	a := newAudit(r)
	a.nothingAcknowledgedIsLost(p.answers())
	a.noTrip()
	r.verify()
}

// TestUnknownVersionIsRefusedInWords: what speaks no version that the other
// side knows is refused, says so with the remedy, and widens nothing.
func TestUnknownVersionIsRefusedInWords(t *testing.T) {
	t.Parallel()
	other := version(t, "future", future)
	r := New(t)
	r.Policy(rules)
	lead, _ := lead(r, "lead", true)
	refused := func(what string, got Answer, words ...string) {
		t.Helper()
		text := got.Reason + got.Stderr
		ok := !got.Allowed() && got.Decision != "ask" && (got.Code == 2 || got.Decision == "deny")
		for _, w := range words {
			ok = ok && strings.Contains(text, w)
		}
		if !ok {
			t.Errorf("%s: %+v, want a refusal with %q", what, got, words)
		}
	}

	// A hook of the other version, a node of this one, and the other way round.
	if code, out, errs, err := lead.Run(lead.event("PreToolUse", ptr(lead.named(Bash("make check")))), hookEnv(lead),
		other+"/permd-hook", "--root", r.Root, "--gate", "claude"); err != nil || code != 2 || out != "" || !strings.Contains(errs, "restart the agent") {
		t.Errorf("an unknown hook: %d %q %q %v", code, out, errs, err)
	}
	if code, out, _, err := lead.Run(lead.event("PostToolUse", ptr(lead.named(Bash("make check")))), hookEnv(lead),
		other+"/permd-hook", "--root", r.Root, "claude"); err != nil || code != 0 || out != "" {
		t.Errorf("an unknown hook that is no gate: %d %q %v", code, out, err)
	}
	alien := r.Agent(AgentOptions{Session: "alien", Under: lead, Env: below(lead), Bin: other})
	if got := alien.Gate(Bash("make check")); !got.Allowed() {
		t.Errorf("what the other version decides by itself: %+v", got)
	}
	if code, out, errs, err := alien.Run(alien.event("PreToolUse", ptr(alien.named(Bash("make check")))), hookEnv(alien),
		r.Bin+"/permd-hook", "--root", r.Root, "--gate", "claude"); err != nil || code != 2 || out != "" || !strings.Contains(errs, "restart the agent") {
		t.Errorf("a hook of ours at an unknown node: %d %q %q %v", code, out, errs, err)
	}

	// A child of the other version, and one below a parent of it.
	refused("an unknown child", alien.Gate(Bash("touch x")), "claude-lead", "version")
	orphan := r.Agent(AgentOptions{Session: "orphan", Env: below(alien)})
	refused("a child of an unknown parent", orphan.Gate(Bash("touch x")), "claude-alien")
	if got := orphan.Gate(Bash("make check")); !got.Allowed() {
		t.Errorf("what needs no parent: %+v", got)
	}

	// A surface, and the commands.
	_, err := r.tryAttach(r.Dirs.Node(alien.Node()).Sock(), AllowAll)
	var no *api.Refused
	if !errors.As(err, &no) || no.Code != api.CodeVersion || !strings.Contains(no.Text, "update") {
		t.Errorf("a surface at an unknown node: %v", err)
	}
	if code, out := r.Permd("sessions"); code == 2 || !strings.Contains(out, "claude-lead") {
		t.Errorf("permd sessions: %d %s", code, out)
	}

	// Facts, beats and bindings of the other version are nobody's.
	if _, err := session.ReadFacts(r.Dirs.Node(alien.Node())); err == nil || !strings.Contains(err.Error(), "another permd") {
		t.Errorf("facts of another version: %v", err)
	}
	if got := lead.Gate(Bash("touch y")); !got.Allowed() {
		t.Errorf("the lead, beside all that: %+v", got)
	}
	if n := len(r.Records(review.Filter{Session: alien.ID(), Event: "forwarded_permission.approved"})); n != 0 {
		t.Errorf("%d asks of the unknown child were approved", n)
	}
	r.verify()
}

func ptr[T any](v T) *T { return &v }

// hookEnv are the variables that a client gives its hooks.
func hookEnv(a *Agent) []string {
	return []string{fmt.Sprintf("CLAUDE_PID=%d", a.PID), "CLAUDE_CODE_ENTRYPOINT=sdk-cli", "CLAUDE_CODE_SESSION_ATTENDED=0",
		"CLAUDE_PROJECT_DIR=" + a.r.Work, "CLAUDE_CODE_SESSION_ID=" + a.Session}
}
