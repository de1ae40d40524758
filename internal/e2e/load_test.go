//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"permd/api"
	"permd/review"
)

// TestLoad puts 5,000 asks of agents that come and go, a dozen at a time, to
// one person over one and two hops: none is answered wrong, lost or doubled.
func TestLoad(t *testing.T) {
	t.Parallel()
	const waves, atOnce, each = 3, 14, 120
	r := New(t)
	r.Config("asks_a_minute = 1000000\n")
	r.Policy(rules)
	l := r.Agent(AgentOptions{Session: "lead"})
	l.Send("SessionStart", nil)
	mid := r.Agent(AgentOptions{Session: "mid", Under: l, Env: below(l)})
	mid.Send("SessionStart", nil)
	p := newPerson(r, 1, 0)
	p.sit(r.Dirs.Node(l.Node()).Sock)
	r.Until("the surface", 5*time.Second, func() bool { return r.faces(l.Node()) == 1 })

	type result struct {
		session string
		got     []wireDone
		err     error
	}
	var mu sync.Mutex
	var all []result
	for wave := range waves {
		var list []*Agent
		for i := range atOnce {
			under := []*Agent{l, mid}[i%2]
			a := r.Agent(AgentOptions{Session: fmt.Sprint("w", wave*atOnce+i), Under: under, Env: below(under)})
			a.Send("SessionStart", nil)
			list = append(list, a)
		}
		var work sync.WaitGroup
		for i, a := range list {
			work.Go(func() {
				defer a.Kill()
				got, err := a.Wire(wireJob{Count: each, Each: 4, Command: "touch " + []string{"yes", "yes", "no"}[(wave*atOnce+i)%3] + " " + a.Session + " #"})
				mu.Lock()
				defer mu.Unlock()
				all = append(all, result{a.Session, got, err})
			})
		}
		work.Wait()
	}
	p.leave()

	a := newAudit(r)
	wrong, lost, doubled, asked := 0, 0, 0, 0
	for _, x := range all {
		if x.err != nil {
			t.Errorf("agent %s: %v", x.session, x.err)
		}
		for _, d := range x.got {
			asked++
			n, _ := strconv.Atoi(strings.TrimPrefix(x.session, "w"))
			if want := []string{"allow", "allow", "deny"}[n%3]; d.Err != "" || d.Answer.Decision != want {
				wrong++
				t.Logf("wrong: %s %+v, want %s", x.session, d, want)
			}
			by := 0
			for _, id := range a.calls[wireCallID(x.session, d.I)] {
				for _, rec := range a.deciding(id) {
					if rec.By.Person() {
						by++
					}
				}
			}
			switch {
			case by == 0:
				lost++
			case by > 1:
				doubled++
			}
		}
	}
	if asked != waves*atOnce*each || wrong+lost+doubled > 0 {
		t.Errorf("%d asks: %d wrong, %d without a record, %d decided twice", asked, wrong, lost, doubled)
	}
	a.oneDecision(nil)
	if n := len(p.answers()); n != asked {
		t.Errorf("%d asks were put to the person", n)
	}
	r.verify()
}

// crowd is how many children a parent has at once.
const crowd = 150

// TestCrowd has 150 children of one parent at once, each an agent process with
// a node of its own, where file events are used up: all register, all ask at
// the same time, all are answered.
func TestCrowd(t *testing.T) {
	inner(t, syscall.CLONE_NEWUSER, func(t *testing.T, inside bool) {
		if inside {
			// The machine's own limit, of 128, is the other processes' too. This
			// one is the namespace's.
			if err := os.WriteFile("/proc/sys/user/max_inotify_instances", []byte("50"), 0); err != nil {
				t.Fatal(err)
			}
		}
		r := New(t)
		l := r.Agent(AgentOptions{Session: "lead"})
		l.Send("SessionStart", nil)
		desk := r.Attach(l.Node(), nil)
		var list []*lightAgent
		for i := range crowd {
			list = append(list, r.light(fmt.Sprint("c", i), below(l)))
		}
		// Starting 150 nodes takes a while; it is bounded by the machine.
		var work sync.WaitGroup
		slots := make(chan bool, 8)
		for _, a := range list {
			slots <- true
			work.Go(func() {
				a.hook("SessionStart", nil)
				<-slots
			})
		}
		work.Wait()
		begin := time.Now()
		for i, a := range list {
			x := Bash("touch " + map[bool]string{true: "yes", false: "no"}[i%2 == 0])
			x.Call = "toolu_" + a.name
			work.Go(func() { a.hook("PreToolUse", &x) })
		}
		r.Until("all asks on the surface", time.Minute, func() bool { return len(desk.Waiting()) == crowd })
		arrived := time.Since(begin)
		for _, s := range desk.Waiting() {
			var v api.AnswerVerdict
			var err error
			if strings.Contains(s.Ask.Body.Action.Command, "yes") {
				v, err = desk.Answer(*AllowAll(s))
			} else {
				v, err = desk.Answer(*DenyAll(s))
			}
			if err != nil || v.Verdict != api.VerdictAccepted {
				t.Errorf("%+v, %v", v, err)
			}
		}
		work.Wait()
		polling := 0
		for _, x := range r.Records(review.Filter{Event: "permission_forwarding.warning"}) {
			if strings.Contains(x.Field(review.KeyMessage), "inotify") || strings.Contains(x.Field(review.KeyMessage), "no file events") {
				polling++
			}
		}
		for i, a := range list {
			want := map[bool]string{true: "allow", false: "deny"}[i%2 == 0]
			if a.got.Decision != want || a.err != nil {
				t.Errorf("%s: %+v, %v, want %s", a.name, a.got, a.err, want)
			}
		}
		t.Logf("%d children: all asks there after %s, all answered after %s; %d nodes without file events", crowd,
			arrived.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond), polling)
		if inside && polling == 0 {
			t.Error("no node was without file events")
		}
		a := newAudit(r)
		a.oneDecision(nil)
		for _, x := range list {
			x.end()
		}
	})
}

// lightAgent is an agent that costs a shell: there can be many.
type lightAgent struct {
	r    *Rig
	name string
	cmd  *exec.Cmd
	in   interface{ Write([]byte) (int, error) }
	out  *os.File
	got  Answer
	err  error
}

// light starts an agent that runs the hook with each file that it is told, one
// at a time.
func (r *Rig) light(name string, env []string) *lightAgent {
	r.T.Helper()
	c := exec.Command("/bin/sh", "-c", `export CLAUDE_PID=$$
while read -r f; do
	"$HOOK" --root "$ROOT" --gate claude < "$f" > "$f.out" 2> "$f.err"
	echo $?
done`)
	c.Env = append(append(cleanEnv(), "HOOK="+r.Bin+"/permd-hook", "ROOT="+r.Root, "CLAUDE_CODE_ENTRYPOINT=sdk-cli",
		"CLAUDE_CODE_SESSION_ATTENDED=0", "CLAUDE_PROJECT_DIR="+r.Work, "CLAUDE_CODE_SESSION_ID="+name), env...)
	c.Dir, c.Stderr = r.Work, os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		r.T.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		r.T.Fatal(err)
	}
	if err := c.Start(); err != nil {
		r.T.Fatal(err)
	}
	a := &lightAgent{r: r, name: name, cmd: c, in: in, out: out.(*os.File)}
	r.T.Cleanup(a.end)
	return a
}

func (a *lightAgent) end() {
	if a.cmd.ProcessState == nil {
		a.cmd.Process.Kill()
		a.cmd.Wait()
	}
}

// hook makes one call and keeps its answer.
func (a *lightAgent) hook(event string, t *Tool) {
	file := filepath.Join(a.r.Root, a.name+"-"+event)
	if a.err = os.WriteFile(file, []byte(nativeEvent(a.name, a.r.Work, event, t)), 0o600); a.err != nil {
		return
	}
	if _, a.err = a.in.Write([]byte(file + "\n")); a.err != nil {
		return
	}
	var b [16]byte
	n, err := a.out.Read(b[:])
	if err != nil {
		a.err = err
		return
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		a.err = err
		return
	}
	out, err := os.ReadFile(file + ".out")
	if err != nil {
		a.err = err
		return
	}
	errs, _ := os.ReadFile(file + ".err")
	a.got, a.err = parseAnswer(code, string(out), string(errs))
}
