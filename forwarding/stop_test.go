package forwarding

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"permd/api"
	"permd/internal/host"
	"permd/liveness"
	"permd/session"
)

// A parent that is stopped holds its lock and its connections; the beat alone
// tells, and the child gives up in time. One that goes on is asked again.
func TestStoppedParent(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a beat stays fresh")
	}
	root := rootDir(t)
	parent := run(t, job{Do: "parent", Root: root, Node: "lead"}).ready()
	child := run(t, job{Do: "child", Root: root, Node: "c1", Parent: "lead", Count: 1, ID: "wait-"}).ready()
	if err := parent.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	child.do()
	begin := time.Now()
	list := child.answers()
	took := time.Since(begin)
	if len(list) != 1 || list[0].verdict != "error" || !strings.Contains(list[0].text, "stuck") {
		t.Fatalf("%+v", list)
	}
	if took < Grace || took > liveness.Fresh+Grace+3*time.Second {
		t.Fatalf("gave up after %s", took)
	}
	if err := parent.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, a := range run(t, job{Do: "child", Root: root, Node: "c2", Parent: "lead", Count: 3}).ready().all() {
		if a.verdict != "allow" {
			t.Fatalf("%+v", a)
		}
	}
}

func init() { helpers["facts"] = factsProcess }

// factsProcess is a node of itself: it writes its facts and waits.
func factsProcess() error {
	j, err := theJob()
	if err != nil {
		return err
	}
	dirs, err := session.Find(j.Root)
	if err != nil {
		return err
	}
	start, err := host.StartTime(os.Getpid())
	if err != nil {
		return err
	}
	node := session.NodeID(os.Getpid(), start)
	if err := os.Mkdir(string(dirs.Node(node)), 0o700); err != nil {
		return err
	}
	err = session.WriteFacts(dirs.Node(node), session.Facts{Node: node, Instance: "i1", Client: "claude", PID: os.Getpid(), Start: start,
		NodePID: os.Getpid(), Boot: "b", Build: "x", API: 1})
	if err != nil {
		return err
	}
	os.Stdout.WriteString("ready\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil
}

func TestDescendsFrom(t *testing.T) {
	root := rootDir(t)
	dirs, err := session.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	p := run(t, job{Do: "facts", Root: root}).ready()
	pid := p.cmd.Process.Pid
	start, err := host.StartTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	self, err := host.StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// Whoever writes facts of a node that is not that process's.
	f, err := session.ReadFacts(dirs.Node(session.NodeID(pid, start)))
	if err != nil {
		t.Fatal(err)
	}
	f.Node = "n3"
	if err := errors.Join(os.Mkdir(string(dirs.Node("n3")), 0o700), session.WriteFacts(dirs.Node("n3"), f)); err != nil {
		t.Fatal(err)
	}
	me := host.ProcessID{PID: os.Getpid(), Start: self}
	for name, c := range map[string]struct {
		client host.ProcessID
		change func(*api.Register, *Caller)
		want   bool
	}{
		"a child of ours":           {me, func(*api.Register, *Caller) {}, true},
		"another start of ours":     {host.ProcessID{PID: me.PID, Start: me.Start + 1}, func(*api.Register, *Caller) {}, false},
		"no ancestor":               {host.ProcessID{PID: pid, Start: start}, func(*api.Register, *Caller) {}, false},
		"another start of it":       {me, func(r *api.Register, _ *Caller) { r.Start++ }, false},
		"another process":           {me, func(r *api.Register, _ *Caller) { r.PID = os.Getpid() }, false},
		"somebody else's node":      {me, func(_ *api.Register, c *Caller) { c.PID = os.Getpid() }, false},
		"another life of it":        {me, func(r *api.Register, _ *Caller) { r.Instance = "i2" }, false},
		"a node without facts":      {me, func(r *api.Register, _ *Caller) { r.Node = "n2" }, false},
		"a node of another name":    {me, func(r *api.Register, _ *Caller) { r.Node = "n3" }, false},
		"a node that is no node":    {me, func(r *api.Register, _ *Caller) { r.Node = "../n1" }, false},
		"the client of its own":     {host.ProcessID{PID: os.Getpid(), Start: self}, func(r *api.Register, _ *Caller) { r.PID = os.Getpid(); r.Start = self }, false},
		"a process that is no more": {me, func(r *api.Register, _ *Caller) { r.PID = 1 << 22 }, false},
	} {
		r := api.Register{Node: session.NodeID(pid, start), Instance: "i1", PID: pid, Start: start}
		caller := Caller{PID: pid}
		c.change(&r, &caller)
		if got := DescendsFrom(c.client, dirs)(r, caller); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The beat is sealed with a key that only registered children have: one that
// another process writes is taken for none, and a hello decides.
func TestForgedBeat(t *testing.T) {
	root := rootDir(t)
	lead, err := openReal(root, "lead", nil, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer lead.close()
	child, err := openReal(root, "child", []api.ChildSession{{Session: "child", Parent: "lead", FoundBy: "x"}}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer child.close()
	if err := child.links.Connect(t.Context(), "lead"); err != nil {
		t.Fatal(err)
	}
	st, ok := child.links.State("lead")
	if !ok || len(st.BeatKey) != 32 {
		t.Fatalf("%+v, %v", st, ok)
	}
	j := liveness.New(child.dirs)
	j.Hello = func(ctx context.Context, n session.Node) liveness.Hello {
		list, err := lead.server.Hello(ctx)
		if err != nil {
			return liveness.Hello{Result: liveness.HelloSilent}
		}
		return liveness.Hello{Result: liveness.HelloAnswered, Serving: list}
	}
	target := liveness.Target{Session: "lead", Node: "lead", Key: st.BeatKey}
	if v := j.Judge(t.Context(), target); v.Answer != liveness.Yes || v.Channel != liveness.ChannelHeartbeat {
		t.Fatalf("%+v", v)
	}
	file := child.dirs.Node("lead").Beat()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.Replace(raw, []byte(`"lead"]`), []byte(`"evil"]`), 1)
	evil := target
	evil.Session = "evil"
	// The lead beats on: what was judged counts only if its next beat came later.
	for range 20 {
		if err := os.WriteFile(file, forged, 0o600); err != nil {
			t.Fatal(err)
		}
		claimed, real := j.Judge(t.Context(), evil), j.Judge(t.Context(), target)
		if claimed.Answer != liveness.No {
			t.Fatalf("%+v", claimed)
		}
		if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, forged) {
			continue
		}
		if real.Answer != liveness.Yes || real.Channel != liveness.ChannelHello {
			t.Fatalf("%+v", real)
		}
		return
	}
	t.Fatal("the forged beat never stood long enough")
}
