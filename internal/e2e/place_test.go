package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"permd/api"
	"permd/internal/host"
	"permd/review"
	"permd/session"
)

// impostor is a node that somebody else made: its lock is held, its facts are
// in order, its socket is listened at. It counts who comes.
type impostor struct {
	id    string
	came  atomic.Int64
	close func()
}

// newImpostor makes a node, for a process that is no agent, that says that it
// hosts a session. This process itself would not do: it is above the agents.
func newImpostor(r *Rig, hosted string) *impostor {
	r.T.Helper()
	sleep := exec.Command("sleep", "600")
	if err := sleep.Start(); err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() {
		sleep.Process.Kill()
		sleep.Wait()
	})
	start, err := host.StartTime(sleep.Process.Pid)
	if err != nil {
		r.T.Fatal(err)
	}
	m := &impostor{id: session.NodeID(sleep.Process.Pid, start)}
	dir := r.Dirs.Node(m.id)
	if err := errors.Join(os.Mkdir(string(dir), 0o700), os.MkdirAll(dir.Mail()+"/new", 0o700), os.MkdirAll(dir.Mail()+"/tmp", 0o700)); err != nil {
		r.T.Fatal(err)
	}
	lock, err := host.AcquireLock(dir.Lock())
	if err != nil {
		r.T.Fatal(err)
	}
	if err := session.WriteFacts(dir, session.Facts{Node: m.id, Instance: "evil-1", Client: "claude", PID: sleep.Process.Pid, Start: start, NodePID: os.Getpid(),
		API: 1, Sessions: []session.Hosted{{ID: hosted}}}); err != nil {
		r.T.Fatal(err)
	}
	l := m.listen(r, dir.Sock())
	m.close = func() {
		l()
		lock.Close()
		os.RemoveAll(string(dir))
	}
	r.T.Cleanup(m.close)
	return m
}

// listen serves a socket: it says of itself what is asked for, serves every
// session and counts whoever would have it decide.
func (m *impostor) listen(r *Rig, path string) (end func()) {
	r.T.Helper()
	l, err := api.Listen(path)
	if err != nil {
		r.T.Fatal(err)
	}
	done := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		l.Serve(ctx, func(_ context.Context, c *api.Incoming) {
			if c.Hook {
				m.came.Add(1)
				return // it hangs up: a hook's gate has to stay shut
			}
			h, err := c.Conn.Accept(func(h api.Hello) (api.Welcome, *api.Refused) {
				return api.Welcome{Node: m.id, Instance: "evil-1", Build: "evil", Serving: []string{"claude-lead", m.id}}, nil
			})
			if err == nil && h.Role == api.RoleChild {
				if f, err := c.Conn.Read(); err == nil && f.T == api.TRegister {
					m.came.Add(1)
				}
			}
		})
	}()
	return func() {
		stop()
		l.Close()
		<-done
	}
}

// TestT12FilesOfRealNodes changes, under living nodes, the files by which they
// are found and known. No call is decided elsewhere, none is let run without
// its record, and a node that was robbed of its place is there again.
func TestT12FilesOfRealNodes(t *testing.T) {
	t.Parallel()
	replace := func(path, with string) error {
		return errors.Join(os.WriteFile(path+".evil", []byte(with), 0o600), os.Rename(path+".evil", path))
	}
	bound := func(x *trial) string { return filepath.Join(x.r.Dirs.Sessions(), x.lead.ID()) }
	dir := func(x *trial) session.Node { return x.r.Dirs.Node(x.lead.Node()) }
	for _, c := range []struct {
		name string
		do   func(x *trial) error
		// goes says that calls go on as if nothing had happened.
		goes bool
		// gone says that the node cannot be found until it has noticed.
		gone bool
		// shows is what has to be on the record once it was noticed.
		shows review.Name
		undo  func(x *trial)
	}{
		{name: "the binding deleted", goes: true, do: func(x *trial) error { return os.Remove(bound(x)) }},
		{name: "the binding to a node that is none", goes: true, do: func(x *trial) error { return replace(bound(x), "n1-1\n") }},
		{name: "the binding full of nonsense", goes: true, do: func(x *trial) error { return replace(bound(x), "../../evil\n") }},
		{name: "the binding a link", goes: true, do: func(x *trial) error {
			return errors.Join(os.Remove(bound(x)), os.Symlink("/etc/passwd", bound(x)))
		}},
		{name: "the binding a pipe", goes: true, do: func(x *trial) error {
			return errors.Join(os.Remove(bound(x)), syscall.Mkfifo(bound(x), 0o600))
		}},
		{name: "the beat full of nonsense", goes: true, do: func(x *trial) error { return os.WriteFile(dir(x).Beat(), []byte("evil"), 0o600) }},
		{name: "the beat deleted", goes: true, do: func(x *trial) error { return os.Remove(dir(x).Beat()) }},
		{name: "the beat a pipe", goes: true, do: func(x *trial) error {
			return errors.Join(os.Remove(dir(x).Beat()), syscall.Mkfifo(dir(x).Beat(), 0o600))
		}},
		{name: "the child's beat in the lead's place", goes: true, do: func(x *trial) error {
			b, err := os.ReadFile(x.r.Dirs.Node(x.child.Node()).Beat())
			return errors.Join(err, replace(dir(x).Beat(), string(b)))
		}},
		{name: "facts full of nonsense", shows: review.ForwardingError, do: func(x *trial) error { return replace(dir(x).Facts(), "evil\n") }},
		{name: "facts deleted", shows: review.ForwardingError, do: func(x *trial) error { return os.Remove(dir(x).Facts()) }},
		{name: "facts of another process", shows: review.ForwardingError, do: func(x *trial) error {
			f, err := session.ReadFacts(dir(x))
			f.NodePID, f.Instance = os.Getpid(), "evil-1"
			return errors.Join(err, session.WriteFacts(dir(x), f))
		}},
		{name: "facts changed in place", shows: review.ForwardingError, do: func(x *trial) error {
			b, err := os.ReadFile(dir(x).Facts())
			return errors.Join(err, os.WriteFile(dir(x).Facts(), []byte(strings.Replace(string(b), x.lead.ID(), "claude-evil", 1)), 0o600))
		}},
		{name: "the socket deleted", gone: true, shows: review.ForwardingError, do: func(x *trial) error { return os.Remove(dir(x).Sock()) }},
		{name: "the lock deleted", shows: review.ForwardingError, do: func(x *trial) error { return os.Remove(dir(x).Lock()) }},
		{name: "the lock replaced", shows: review.ForwardingError, do: func(x *trial) error { return replace(dir(x).Lock(), "") }},
		{name: "the node's directory moved", gone: true, do: func(x *trial) error { return os.Rename(string(dir(x)), x.r.Root+"/moved") }},
		{name: "the node's directory deleted", gone: true, do: func(x *trial) error { return os.RemoveAll(string(dir(x))) }},
		{name: "the node's directory open to others", do: func(x *trial) error { return os.Chmod(string(dir(x)), 0o777) },
			undo: func(x *trial) { os.Chmod(string(dir(x)), 0o700) }},
		{name: "the runtime directory deleted", gone: true, do: func(x *trial) error { return os.RemoveAll(x.r.Dirs.Run) }},
		{name: "the runtime directory open to others", do: func(x *trial) error { return os.Chmod(x.r.Dirs.Run, 0o777) },
			undo: func(x *trial) { os.Chmod(x.r.Dirs.Run, 0o700) }},
		{name: "the mailbox deleted", do: func(x *trial) error { return os.RemoveAll(dir(x).Mail()) }},
	} {
		r := New(t)
		x := newTrial(t, r)
		if list := x.round(0); !well(list) {
			t.Fatalf("%s: before: %+v", c.name, list)
		}
		if err := c.do(x); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for i := range 2 {
			var list []done
			if c.gone { // each call tries to start a node for some seconds
				list = append(list, x.begin(x.lead, "make check").land())
			} else {
				list = x.round(10 + i)
			}
			if c.goes && !well(list) {
				t.Errorf("%s: %+v", c.name, list)
			}
			for _, d := range list {
				if d.err != nil || !d.got.Allowed() && d.got.Reason+d.got.Stderr == "" {
					t.Errorf("%s: %+v", c.name, d)
				}
			}
		}
		if c.undo != nil {
			c.undo(x)
		}
		// Nodes look at their places now and then; meanwhile the next case begins.
		t.Cleanup(func() {
			if c.shows != "" {
				r.Until(c.name+" to be noticed", 20*time.Second, func() bool {
					for _, e := range r.Records(review.Filter{Event: string(c.shows)}) {
						if strings.HasPrefix(e.Field(review.KeyPath), string(dir(x))) {
							return true
						}
					}
					return false
				})
			}
			x.recover(c.name)
			a := newAudit(r)
			a.noAllowWithoutRecord(x.done)
			a.oneDecision(nil)
		})
	}
}

// TestT12Impostors: nodes, sockets and sessions that somebody else made decide
// nothing for an agent that is below a real one.
func TestT12Impostors(t *testing.T) {
	t.Parallel()
	r := New(t)
	x := newTrial(t, r)
	if list := x.round(0); !well(list) {
		t.Fatalf("before: %+v", list)
	}

	// The lead's name is bound to a node of this process.
	m := newImpostor(r, x.lead.ID())
	if err := session.Bind(r.Dirs, x.lead.ID(), m.id); err != nil {
		t.Fatal(err)
	}
	late := r.Agent(AgentOptions{Session: "late", Under: x.lead, Env: below(x.lead)})
	for i, a := range []*Agent{x.child, late} {
		f := x.begin(a, fmt.Sprint("touch yes impostor ", i))
		x.reply(x.shown(), true)
		if d := f.land(); !d.got.Allowed() {
			t.Errorf("%s, with the lead's name bound elsewhere: %+v", a.Session, d)
		}
	}
	if n := m.came.Load(); n != 0 {
		t.Errorf("%d came to the impostor", n)
	}
	m.close()
	if err := session.Bind(r.Dirs, x.lead.ID(), x.lead.Node()); err != nil {
		t.Fatal(err)
	}

	// Another agent runs a session of the same name. It is governed like any,
	// and takes neither the name nor the children.
	other := r.Agent(AgentOptions{Session: "lead"})
	if got := other.Gate(Bash("touch x")); got.Allowed() {
		t.Errorf("the second lead: %+v", got)
	}
	if home, err := session.Home(r.Dirs, x.lead.ID()); err != nil || home != x.lead.Node() {
		t.Errorf("the name leads to %s, %v, and the first one is %s", home, err, x.lead.Node())
	}
	if list := x.round(20); !well(list) {
		t.Errorf("beside a second lead: %+v", list)
	}
	other.Kill()

	// The lead's socket is replaced. Hooks meet whoever listens there until the
	// node looks; it ends, and the next one takes its place back.
	m = &impostor{id: x.lead.Node()}
	end := m.listen(r, r.Dirs.Node(x.lead.Node()).Sock())
	got := x.child.Gate(Bash("touch yes socket"))
	if got.Allowed() {
		t.Errorf("a child of whoever listens at the lead's socket: %+v", got)
	}
	r.Until("the node to notice", 20*time.Second, func() bool {
		for _, e := range r.Records(review.Filter{Event: string(review.ForwardingError)}) {
			if e.Field(review.KeyPath) == r.Dirs.Node(x.lead.Node()).Sock() {
				return true
			}
		}
		return false
	})
	end()
	x.recover("the socket replaced")
	a := newAudit(r)
	a.noAllowWithoutRecord(x.done)
	a.oneDecision(nil)
	r.verify()
}
