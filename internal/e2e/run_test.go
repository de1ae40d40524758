package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"permd/ask"
	"permd/internal/host"
	"permd/review"
)

// launch starts an agent through permd run: a link named claude to this test
// binary, so that permd becomes the agent.
func launch(r *Rig, name string, env []string, fds []*os.File, flags ...string) *Agent {
	r.T.Helper()
	self, err := os.Executable()
	if err != nil {
		r.T.Fatal(err)
	}
	link := filepath.Join(r.Root, "claude")
	if err := os.Symlink(self, link); err != nil && !os.IsExist(err) {
		r.T.Fatal(err)
	}
	spec := agentSpec{Hook: r.Bin + "/permd-hook", Root: r.Root, Cwd: r.Work, Session: name, Mode: "default",
		Sock: filepath.Join(r.Root, fmt.Sprintf("a%d", r.agents.Add(1)))}
	b, _ := json.Marshal(spec)
	args := append([]string{"--root", r.Root, "run"}, flags...)
	c := exec.Command(r.Bin+"/permd", append(args, "--", link)...)
	c.Env = append(append(cleanEnv(), agentEnv+"="+string(b)), env...)
	c.Stderr, c.ExtraFiles = os.Stderr, fds
	if err := c.Start(); err != nil {
		r.T.Fatal(err)
	}
	a := &Agent{r: r, Session: name, PID: c.Process.Pid, sock: spec.Sock, cmd: c}
	r.T.Cleanup(a.Kill)
	if a.Start, err = host.StartTime(a.PID); err != nil {
		r.T.Fatal(err)
	}
	r.Until("the launched agent to listen", 10*time.Second, func() bool {
		_, err := os.Stat(a.sock)
		return err == nil
	})
	return a
}

func TestRunBecomesTheAgent(t *testing.T) {
	r := New(t)
	a := launch(r, "s", []string{"PERMD_PARENT_SESSION=claude-above"}, nil)
	if len(r.Nodes()) != 1 || r.Nodes()[0] != a.Node() {
		t.Fatalf("nodes %v, want %s before the first call", r.Nodes(), a.Node())
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", a.PID))
	if err != nil {
		t.Skip("this system does not show a process's environment")
	}
	for _, e := range strings.Split(string(env), "\x00") {
		if strings.HasPrefix(e, "PERMD_PARENT_SESSION=") {
			t.Errorf("the agent still has %s", e)
		}
		if v, ok := strings.CutPrefix(e, "PERMD_SESSION="); ok && v != a.Node() {
			t.Errorf("PERMD_SESSION is %s", v)
		}
	}
	args, err := host.Args(a.PID)
	if err != nil || len(args) < 3 || args[1] != "--settings" || !strings.Contains(args[2], `"disableAllHooks":false`) {
		t.Errorf("arguments %q, %v", args, err)
	}
	a.Send("SessionStart", nil)
	_, out := r.Permd("sessions", "--json")
	if !strings.Contains(out, `"parent":"claude-above"`) || !strings.Contains(out, `"found_by":"PERMD_PARENT_SESSION"`) {
		t.Errorf("sessions: %s", out)
	}
}

// A ticket on an inherited descriptor proves a parent once.
func TestTicketProvesAParent(t *testing.T) {
	r := New(t)
	l, desk := lead(r, "lead", false)
	ticket := l.Ticket(t)
	give := func() *os.File {
		rd, wr, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		wr.WriteString(ticket + "\n")
		wr.Close()
		return rd
	}
	f := give()
	child := launch(r, "child", nil, []*os.File{f}, "--parent", l.ID(), "--ticket-fd", "3")
	f.Close()
	p := child.BeginGate(Bash("touch x"))
	r.Until("the child's ask", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	x := desk.Waiting()[0]
	if x.Ask.Header.Claimed() {
		t.Error("the ticket did not prove the parent")
	}
	desk.Answer(ask.AllowAnswer(x.Ask))
	p.Answer()
	f = give()
	thief := launch(r, "thief", nil, []*os.File{f}, "--parent", l.ID(), "--ticket-fd", "3")
	f.Close()
	q := thief.BeginGate(Bash("touch y"))
	r.Until("the thief's ask", 5*time.Second, func() bool { return len(desk.Waiting()) == 1 })
	y := desk.Waiting()[0]
	if !y.Ask.Header.Claimed() {
		t.Error("a used ticket proved a parent again")
	}
	desk.Answer(ask.DenyAnswer(y.Ask, "no"))
	q.Answer()
	if len(r.Records(review.Filter{Event: "permission_forwarding."})) == 0 {
		t.Error("the used ticket is not on the record")
	}
}

func TestRunRefusesWhatItDoesNotKnow(t *testing.T) {
	r := New(t)
	for _, c := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"run", "--", "no-such-agent"}, 2, "knows claude"},
		{[]string{"run", "--", "/nowhere/claude"}, 1, "/nowhere/claude"},
		{[]string{"run"}, 2, "requires at least 1 arg"},
		{[]string{"run", "--pane", "--", "claude"}, 2, "tmux"},
	} {
		code, out := r.Permd(c.args...)
		if code != c.code || !strings.Contains(out, c.say) {
			t.Errorf("%v: %d %s", c.args, code, out)
		}
	}
	if n := r.Nodes(); len(n) != 0 {
		t.Errorf("nodes %v were left", n)
	}
}
