package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"permd/api"
	"permd/api/hookwire"
	"permd/ask"
	"permd/desk"
	"permd/internal/host"
	"permd/review"
	"permd/session"
)

// where an attacker stands.
type where int

const (
	outside where = iota // a process of the same user that no agent started
	inside               // a process that the lead's agent started
	beneath              // a process that the child's agent started
)

// target is what an attacker knows: everything that is on disk, and the ask
// that waits.
type target struct {
	Name                   string // of the attack
	Root, Bin, Work, Prize string // Prize is a file that nothing may write
	Lead, Child            string // sessions
	LeadNode, ChildNode    string
	LeadPID, ChildPID      int
	ChildStart             uint64
	Victim                 *ask.Ask // waits at the lead's surface
	Before                 *ask.Ask // was allowed before
}

func (t target) dirs() session.Dirs { d, _ := session.Find(t.Root); return d }

func (t target) node(id string) session.Node { return t.dirs().Node(id) }

// attack is one thing that somebody tries. do returns what came back.
type attack struct {
	name  string
	from  where
	do    func(t target) string
	want  string      // what has to be in what came back
	shows review.Name // what has to be on the record afterwards, "" for nothing
}

var attacks = slices.Concat(hookAttacks, inputAttacks, answerAttacks, controlAttacks, registerAttacks, mailAttacks)

func init() {
	helpers["attack"] = func() int {
		var t target
		if err := json.NewDecoder(os.Stdin).Decode(&t); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer time.AfterFunc(30*time.Second, func() { panic(t.Name + " hangs") }).Stop()
		for _, a := range attacks {
			if a.name == t.Name {
				fmt.Print(a.do(t))
				return 0
			}
		}
		return 1
	}
}

// wire makes one hook call of an event by raw bytes.
func (t target) wire(node, event, session string, gate bool, change func(*hookwire.Request)) string {
	x := Bash("touch evil")
	x.Call = "toolu_evil"
	r := hookwire.Request{Client: "claude", Gate: gate, PID: os.Getpid(), PPID: os.Getppid(), Cwd: t.Work,
		Stdin: []byte(nativeEvent(session, t.Work, event, &x))}
	if change != nil {
		change(&r)
	}
	f, err := wireSay(t.node(node).Sock(), &r)
	if err != nil {
		return err.Error()
	}
	return said2(f)
}

func said2(f hookwire.Frame) string {
	if f.Kind == hookwire.Refused {
		return "refused: " + f.Text
	}
	return fmt.Sprintf("code %d, %s%s", f.Result.Code, f.Result.Stdout, f.Result.Stderr)
}

func stdin(s string) func(*hookwire.Request) {
	return func(r *hookwire.Request) { r.Stdin = []byte(s) }
}

const notOurs = "does not come from the agent"

// Calls of hooks that are not the client's own.
var hookAttacks = []attack{
	{"a stranger's gate call", outside, func(t target) string { return t.wire(t.LeadNode, "PreToolUse", "lead", true, nil) }, notOurs, review.HookRefused},
	{"a stranger's gate call in the child's name", outside, func(t target) string { return t.wire(t.ChildNode, "PreToolUse", "child", true, nil) }, notOurs, review.HookRefused},
	{"a stranger's report of a call that ran", outside, func(t target) string { return t.wire(t.LeadNode, "PostToolUse", "lead", false, nil) }, notOurs, review.HookRefused},
	{"a stranger's end of the session", outside, func(t target) string { return t.wire(t.LeadNode, "SessionEnd", "lead", false, nil) }, notOurs, review.HookRefused},
	{"a stranger's end of a subagent", outside, func(t target) string { return t.wire(t.LeadNode, "SubagentStop", "lead", false, nil) }, notOurs, review.HookRefused},
	{"a stranger's approval", outside, func(t target) string { return t.wire(t.LeadNode, "PermissionRequest", "lead", false, nil) }, notOurs, review.HookRefused},
	{"a stranger's start of a session", outside, func(t target) string {
		return t.wire(t.LeadNode, "SessionStart", "lead", false, func(r *hookwire.Request) {
			r.Env = []hookwire.Var{{Name: "CLAUDE_ENV_FILE", Value: t.Prize}}
		})
	}, notOurs, review.HookRefused},
	{"a stranger's gate call that says it is the client", outside, func(t target) string {
		return t.wire(t.LeadNode, "PreToolUse", "lead", true, func(r *hookwire.Request) {
			r.PID, r.PPID = t.LeadPID, t.LeadPID
			r.Env = []hookwire.Var{{Name: "CLAUDE_PID", Value: fmt.Sprint(t.LeadPID)}}
		})
	}, notOurs, review.HookRefused},
	{"the child's process at the lead's node is the lead's, and no more", beneath, func(t target) string {
		return t.wire(t.LeadNode, "PreToolUse", "lead", true, stdin(nativeEvent("lead", t.Work, "PreToolUse", ptr(Tool{Name: "Bash", Input: map[string]any{"command": "rm evil"}}))))
	}, "use the trash", review.AskDenied},
	{"the lead's process at the child's node", inside, func(t target) string { return t.wire(t.ChildNode, "PreToolUse", "child", true, nil) }, notOurs, review.HookRefused},
	{"an end of the session while its client lives", inside, func(t target) string { return t.wire(t.LeadNode, "SessionEnd", "lead", false, nil) }, "code 0", ""},
	{"a call as another client", inside, func(t target) string {
		return t.wire(t.LeadNode, "PreToolUse", "lead", true, func(r *hookwire.Request) { r.Client = "codex" })
	}, "belongs to claude", ""},
	{"a call as nobody's client", inside, func(t target) string {
		return t.wire(t.LeadNode, "PreToolUse", "lead", true, func(r *hookwire.Request) { r.Client = "demo" })
	}, "belongs to claude", ""},
	{"a call that names process 1 as its client", inside, func(t target) string {
		return run(t, []string{"CLAUDE_PID=1", "CLAUDE_CODE_SESSION_ID=lead"}, nativeEvent("lead", t.Work, "PreToolUse", ptr(Bash("rm evil"))), "--gate", "claude")
	}, "use the trash", review.AskDenied},
	{"exports into a file of the person", inside, func(t target) string {
		return t.wire(t.LeadNode, "SessionStart", "lead", false, func(r *hookwire.Request) {
			r.Env = []hookwire.Var{{Name: "CLAUDE_ENV_FILE", Value: t.Prize}}
		})
	}, "code 0", review.ForwardingWarning},
	{"exports through a link", inside, func(t target) string {
		os.MkdirAll(t.Root+"/x/session-env/lead", 0o700)
		os.Symlink(t.Prize, t.Root+"/x/session-env/lead/env")
		return t.wire(t.LeadNode, "SessionStart", "lead", false, func(r *hookwire.Request) {
			r.Env = []hookwire.Var{{Name: "CLAUDE_ENV_FILE", Value: t.Root + "/x/session-env/lead/env"}}
		})
	}, "code 0", review.ForwardingWarning},
	{"exports through a link to a directory", inside, func(t target) string {
		os.MkdirAll(t.Root+"/y/session-env", 0o700)
		os.Symlink(filepath.Dir(t.Prize), t.Root+"/y/session-env/lead")
		return t.wire(t.LeadNode, "SessionStart", "lead", false, func(r *hookwire.Request) {
			r.Env = []hookwire.Var{{Name: "CLAUDE_ENV_FILE", Value: t.Root + "/y/session-env/lead/" + filepath.Base(t.Prize)}}
		})
	}, "code 0", review.ForwardingWarning},
	{"a call of the next version", inside, func(t target) string { return t.raw("permd-hook/2\n\x00\x00\x00\x00\x00\x00\x00\x00") }, "restart the agent", ""},
	{"a call that is none", inside, func(t target) string { return t.raw("permd? hello there, this is nothing at all") }, "refused", review.HookRefused},
	{"a call with a head of 4 GB", inside, func(t target) string { return t.raw("permd-hook/1\n\xff\xff\xff\xff\x00\x00\x00\x00") }, "refused", review.HookRefused},
	{"a call with an input of 4 GB", inside, func(t target) string { return t.raw("permd-hook/1\n\x00\x00\x00\x00\xff\xff\xff\xff") }, "refused", review.HookRefused},
}

// raw says bytes to the lead's node.
func (t target) raw(s string) string {
	f, err := wireBytes(t.node(t.LeadNode).Sock(), []byte(s))
	if err != nil {
		return err.Error()
	}
	return said2(f)
}

// run runs the real hook.
func run(t target, env []string, in string, args ...string) string {
	code, out, errs, err := runProgram(t.Work, append(cleanEnv(), env...), in, t.Bin+"/permd-hook", append([]string{"--root", t.Root}, args...)...)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("code %d, %s%s", code, out, errs)
}

// Events that no client writes.
var inputAttacks = func() (list []attack) {
	// A rule denies it, so that what is understood after all does not wait.
	good := nativeEvent("lead", "/", "PreToolUse", ptr(Bash("rm evil")))
	for _, c := range []struct{ name, in string }{
		{"nothing", ""},
		{"no JSON", "evil"},
		{"a list", "[]"},
		{"two objects", good + good},
		{"a key twice", strings.Replace(good, `"cwd"`, `"session_id":"lead","cwd"`, 1)},
		{"a key in another case", strings.Replace(good, `"session_id"`, `"Session_ID":"lead","session_id"`, 1)},
		{"100,000 levels", strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)},
		{"bytes that are no text", strings.Replace(good, "evil", "\xff\xfe", 1)},
		{"no session", strings.Replace(good, `"session_id"`, `"session"`, 1)},
		{"a session that is a number", strings.Replace(good, `"session_id":"lead"`, `"session_id":7`, 1)},
		{"no tool", strings.Replace(good, `"tool_name"`, `"tool"`, 1)},
		{"a tool that is a list", strings.Replace(good, `"tool_name":"Bash"`, `"tool_name":["Bash"]`, 1)},
		{"no input of the tool", strings.Replace(good, `"tool_input"`, `"input"`, 1)},
		{"a command that is a list", strings.Replace(good, `"rm evil"`, `["rm evil"]`, 1)},
		{"a command twice", strings.Replace(good, `"command"`, `"command":"make check","command"`, 1)},
		{"no event", strings.Replace(good, `"hook_event_name"`, `"event"`, 1)},
	} {
		list = append(list, attack{"input: " + c.name, inside, func(t target) string {
			return t.wire(t.LeadNode, "", "", true, stdin(c.in))
		}, "", ""})
	}
	return list
}()

// dial opens a connection of a role.
func (t target) dial(sock string, role api.Role) (*api.Conn, string) {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	c, _, err := api.Dial(ctx, sock, api.Hello{Role: role, Build: "evil"})
	if err != nil {
		return nil, err.Error()
	}
	return c, ""
}

// attach tries to be a surface.
func (t target) attach(sock string) string {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	c, err := api.DialAnswerer(ctx, sock, "evil", api.Attach{Surface: "evil", Faces: 1, Cap: ask.ScopeUser})
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	go c.Run(ctx, func(api.Event) {})
	v, err := c.Answer(ctx, ask.AllowAnswer(t.Victim))
	return fmt.Sprintf("attached; %+v, %v", v, err)
}

// asSurface attaches as a second surface, which a stranger may, and says
// frames; it returns the replies to them.
func (t target) asSurface(frames ...api.Frame) string {
	c, no := t.dial(t.node(t.LeadNode).Sock(), api.RoleAnswerer)
	if c == nil {
		return no
	}
	defer c.Close()
	if err := c.Write(api.TAttach, 0, api.Attach{Surface: "second", Faces: 1, Cap: ask.ScopeSession}); err != nil {
		return err.Error()
	}
	return converse(c, frames...)
}

// converse says frames and returns what is replied to the last of them.
func converse(c *api.Conn, frames ...api.Frame) string {
	for i, f := range frames {
		if err := c.Write(f.T, uint64(100+i), f.B); err != nil {
			return err.Error()
		}
	}
	last := uint64(100 + len(frames) - 1)
	timer := time.AfterFunc(3*time.Second, func() { c.Close() })
	defer timer.Stop()
	for {
		f, err := c.Read()
		if err != nil {
			return "hung up: " + err.Error()
		}
		if f.N == last || f.T == api.TRefused {
			return f.T + " " + string(f.B)
		}
	}
}

func answer(a ask.Answer) api.Frame {
	b, err := ask.Encode(a)
	if err != nil {
		panic(err)
	}
	return api.Frame{T: api.TAnswer, B: b}
}

// changed is the right answer with something wrong in it.
func changed(f func(t target, a *ask.Answer)) func(t target) string {
	return func(t target) string {
		a := ask.AllowAnswer(t.Victim)
		f(t, &a)
		return t.asSurface(answer(a))
	}
}

func rawAnswer(f func(good string) string) func(t target) string {
	return func(t target) string {
		return t.asSurface(api.Frame{T: api.TAnswer, B: json.RawMessage(f(string(answer(ask.AllowAnswer(t.Victim)).B)))})
	}
}

// Answers by whoever must not answer, and answers that fit no question.
var answerAttacks = []attack{
	{"a surface below the agent at its own node", inside, func(t target) string { return t.attach(t.node(t.LeadNode).Sock()) }, "descends from an agent", review.SurfaceRefused},
	{"a surface below the agent at another node", inside, func(t target) string { return t.attach(t.node(t.ChildNode).Sock()) }, "descends from an agent", review.SurfaceRefused},
	{"a surface below the child's agent at the lead's node", beneath, func(t target) string { return t.attach(t.node(t.LeadNode).Sock()) }, "descends from an agent", review.SurfaceRefused},
	{"a face below the agent at the desk", inside, func(t target) string { return t.attach(desk.Sock(t.dirs())) }, "governed agent", review.SurfaceRefused},
	{"a face below the child's agent at the desk", beneath, func(t target) string { return t.attach(desk.Sock(t.dirs())) }, "governed agent", ""},
	{"an answer as a control connection", inside, func(t target) string {
		c, no := t.dial(t.node(t.LeadNode).Sock(), api.RoleControl)
		if c == nil {
			return no
		}
		defer c.Close()
		return converse(c, answer(ask.AllowAnswer(t.Victim)))
	}, "unknown", ""},
	{"an answer as a probe", inside, func(t target) string {
		c, no := t.dial(t.node(t.LeadNode).Sock(), api.RoleProbe)
		if c == nil {
			return no
		}
		defer c.Close()
		return converse(c, answer(ask.AllowAnswer(t.Victim)))
	}, "", ""},
	{"an answer as a child", inside, func(t target) string {
		c, no := t.dial(t.node(t.LeadNode).Sock(), api.RoleChild)
		if c == nil {
			return no
		}
		defer c.Close()
		return converse(c, answer(ask.AllowAnswer(t.Victim)))
	}, "begins with register", ""},
	{"an answer of a role that is none", inside, func(t target) string {
		_, no := t.dial(t.node(t.LeadNode).Sock(), "desk")
		return no
	}, "role", ""},
	{"an answer before attaching", outside, func(t target) string {
		c, no := t.dial(t.node(t.LeadNode).Sock(), api.RoleAnswerer)
		if c == nil {
			return no
		}
		defer c.Close()
		return converse(c, answer(ask.AllowAnswer(t.Victim)))
	}, "begins with attach", ""},
	{"a second surface is announced", outside, func(t target) string {
		return t.asSurface(api.Frame{T: api.TOnScreen, B: json.RawMessage(`{"ask":"x"}`)}, api.Frame{T: "evil", B: json.RawMessage(`{}`)})
	}, "unknown", review.SurfaceAnnounced},
	{"an answer with another digest", outside, changed(func(t target, a *ask.Answer) { a.Digest[0] ^= 1 }), api.VerdictWrongDigest, review.AnswerInvalid},
	{"an answer with the digest of another ask", outside, changed(func(t target, a *ask.Answer) { a.Digest = t.Before.Digest }), api.VerdictWrongDigest, review.AnswerInvalid},
	{"an answer to an ask that is none", outside, changed(func(t target, a *ask.Answer) { a.Ask = "evil" }), api.VerdictUnknownAsk, review.AnswerForeign},
	{"an answer to an ask that has ended", outside, func(t target) string { return t.asSurface(answer(ask.AllowAnswer(t.Before))) }, api.VerdictTooLate, review.AnswerLate},
	{"an answer with an option that is none", outside, changed(func(t target, a *ask.Answer) { a.Items[0].Picks = []string{"always"} }), api.VerdictInvalid, review.AnswerInvalid},
	{"an answer with allow and deny", outside, changed(func(t target, a *ask.Answer) { a.Items[0].Picks = []string{"allow", "deny"} }), api.VerdictInvalid, review.AnswerInvalid},
	{"an answer without a pick", outside, changed(func(t target, a *ask.Answer) { a.Items[0].Picks = nil }), api.VerdictInvalid, review.AnswerInvalid},
	{"an answer to an item that is none", outside, changed(func(t target, a *ask.Answer) { a.Items[0].Item = "evil" }), api.VerdictInvalid, review.AnswerInvalid},
	{"an answer without items", outside, changed(func(t target, a *ask.Answer) { a.Items = nil }), api.VerdictInvalid, review.AnswerInvalid},
	{"an answer that edits the command", outside, changed(func(t target, a *ask.Answer) { a.Edited = json.RawMessage(`{"command":"rm -rf /"}`) }), api.VerdictInvalid, review.AnswerInvalid},
	{"an answer with a grant that was not offered", outside, changed(func(t target, a *ask.Answer) { a.Offer, a.OfferDigest = "everything", &t.Before.Digest }), api.VerdictInvalid, review.AnswerInvalid},
	{"an answer with a grant and no digest", outside, changed(func(t target, a *ask.Answer) { a.Offer = "session" }), api.VerdictInvalid, review.AnswerInvalid},
	{"an answer with a key twice", outside, rawAnswer(func(g string) string { return strings.Replace(g, `"outcome"`, `"outcome":"answered","outcome"`, 1) }), api.VerdictInvalid, review.AnswerInvalid},
	{"an answer with a key more", outside, rawAnswer(func(g string) string { return strings.Replace(g, `"outcome"`, `"admin":true,"outcome"`, 1) }), api.VerdictInvalid, review.AnswerInvalid},
	{"an answer with a key in another case", outside, rawAnswer(func(g string) string { return strings.Replace(g, `"outcome"`, `"Outcome"`, 1) }), api.VerdictInvalid, review.AnswerInvalid},
	{"an answer that is a list", outside, rawAnswer(func(g string) string { return "[" + g + "]" }), api.VerdictInvalid, review.AnswerInvalid},
	{"an outcome that is none", outside, rawAnswer(func(g string) string { return strings.Replace(g, `"answered"`, `"approved"`, 1) }), api.VerdictInvalid, review.AnswerInvalid},
	{"fewer faces than none", outside, func(t target) string {
		return t.asSurface(api.Frame{T: api.TFaces, B: json.RawMessage(`{"faces":-5}`)}, answer(ask.AllowAnswer(t.Before)))
	}, api.VerdictTooLate, ""},
	{"a frame of 4 GB", outside, func(t target) string {
		nc, err := net.Dial("unix", t.node(t.LeadNode).Sock())
		if err != nil {
			return err.Error()
		}
		defer nc.Close()
		nc.Write([]byte{0, 255, 255, 255})
		nc.SetReadDeadline(time.Now().Add(7 * time.Second))
		b, _ := io.ReadAll(nc)
		return "ended " + string(b)
	}, "ended", ""},
}

// op makes one control call.
func (t target) op(sock, op string, args any) string {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	c, err := api.DialControl(ctx, sock, "evil")
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	if err := c.Call(ctx, op, args, nil); err != nil {
		return err.Error()
	}
	return "done"
}

func (t target) command(args ...string) string {
	code, out, errs, err := runProgram(t.Work, cleanEnv(), "yes\n", t.Bin+"/permd", append([]string{"--root", t.Root}, args...)...)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("code %d, %s%s", code, out, errs)
}

const notAnAgent = "an agent may not do this"

// Operations and commands that are a person's.
var controlAttacks = []attack{
	{"a pause from below the agent", inside, func(t target) string {
		return t.op(t.node(t.LeadNode).Sock(), api.OpPause, api.PauseArgs{ForMS: 60_000})
	}, notAnAgent, review.SurfaceRefused},
	{"a pause of the parent from below the child's agent", beneath, func(t target) string {
		return t.op(t.node(t.LeadNode).Sock(), api.OpPause, api.PauseArgs{ForMS: 60_000})
	}, notAnAgent, review.SurfaceRefused},
	{"a confirmation from below the agent", beneath, func(t target) string {
		return t.op(t.node(t.LeadNode).Sock(), api.OpConfirm, api.ConfirmArgs{Session: "claude-evil", Parent: t.Lead})
	}, notAnAgent, review.SurfaceRefused},
	{"a revocation from below the agent", inside, func(t target) string {
		return t.op(t.node(t.LeadNode).Sock(), api.OpRevoke, api.RevokeArgs{ID: "x"})
	}, notAnAgent, review.SurfaceRefused},
	{"a launch by another process", inside, func(t target) string {
		return t.op(t.node(t.LeadNode).Sock(), api.OpLaunch, api.LaunchArgs{Parent: "claude-evil", FoundBy: "flag"})
	}, "only the process that becomes the agent", review.SurfaceRefused},
	{"a launch by a stranger", outside, func(t target) string {
		return t.op(t.node(t.LeadNode).Sock(), api.OpLaunch, api.LaunchArgs{Parent: "claude-evil", FoundBy: "flag"})
	}, "only the process that becomes the agent", review.SurfaceRefused},
	{"a ticket for a stranger", outside, func(t target) string {
		return t.op(t.node(t.LeadNode).Sock(), api.OpTicket, api.TicketArgs{})
	}, "only a process of this agent", review.SurfaceRefused},
	{"an announcement by a stranger", outside, func(t target) string {
		return t.op(t.node(t.LeadNode).Sock(), api.OpTicket, api.TicketArgs{PID: os.Getpid(), Start: 1})
	}, "only a process of this agent", review.SurfaceRefused},
	{"a ticket below a session of another node", inside, func(t target) string {
		return t.op(t.node(t.LeadNode).Sock(), api.OpTicket, api.TicketArgs{Session: t.Child})
	}, "not hosted here", ""},
	{"an operation that is none", inside, func(t target) string { return t.op(t.node(t.LeadNode).Sock(), "allow", nil) }, "not known", ""},
	{"an end of the node", inside, func(t target) string { return t.op(t.node(t.LeadNode).Sock(), api.OpStop, nil) }, "not known", ""},
	{"an end of the node by a stranger", outside, func(t target) string { return t.op(t.node(t.LeadNode).Sock(), api.OpStop, nil) }, "not known", ""},
	{"an end of the desk from below the agent", inside, func(t target) string { return t.op(desk.Sock(t.dirs()), api.OpStop, nil) }, "governed agent", ""},
	{"permd pause from below the agent", inside, func(t target) string { return t.command("pause", "30m") }, "refused", review.SurfaceRefused},
	{"permd pause from below the child's agent", beneath, func(t target) string { return t.command("pause", "30m") }, "refused", review.SurfaceRefused},
	{"permd confirm from below the agent", beneath, func(t target) string { return t.command("confirm", t.Child, t.Lead) }, "refused", review.SurfaceRefused},
	{"permd stop from below the agent", inside, func(t target) string { return t.command("stop") }, "refused", review.SurfaceRefused},
	{"permd desk from below the agent", inside, func(t target) string { return t.command("desk", "--plain") }, "refused", review.SurfaceRefused},
	{"permd desk-process from below the agent", inside, func(t target) string { return t.command(desk.Command) }, "refused", review.SurfaceRefused},
}

// register registers a node with the lead's and returns what was granted.
func (t target) register(r api.Register) string {
	c, no := t.dial(t.node(t.LeadNode).Sock(), api.RoleChild)
	if c == nil {
		return no
	}
	defer c.Close()
	if r.Instance == "" {
		r.Instance = "evil-1"
	}
	if r.PID == 0 {
		r.PID = os.Getpid()
		r.Start, _ = host.StartTime(r.PID)
	}
	if err := c.Write(api.TRegister, 100, r); err != nil {
		return err.Error()
	}
	f, err := c.Read()
	if err != nil {
		return "hung up: " + err.Error()
	}
	if f.T != api.TRegistered {
		return f.T + " " + string(f.B)
	}
	var got api.Registered
	if err := f.Body(&got); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("registered, %d proofs", len(got.Verified))
}

func (t target) claims(session, parent string) []api.ChildSession {
	return []api.ChildSession{{Session: session, Parent: parent, FoundBy: "PERMD_PARENT_SESSION"}}
}

// Claims of a parent.
var registerAttacks = []attack{
	{"the child's node once more", outside, func(t target) string {
		return t.register(api.Register{Node: t.ChildNode, Sessions: t.claims(t.Child, t.Lead)})
	}, api.CodeBusy, review.ForwardingWarning},
	{"the child's session at another node", outside, func(t target) string {
		return t.register(api.Register{Node: "evil", Sessions: t.claims(t.Child, t.Lead)})
	}, api.CodeBusy, review.ForwardingWarning},
	{"the lead's own node as its child", outside, func(t target) string {
		return t.register(api.Register{Node: t.LeadNode, Sessions: t.claims("claude-evil", t.Lead)})
	}, api.CodeBad, review.ForwardingWarning},
	{"a claim is not a proof", outside, func(t target) string {
		return t.register(api.Register{Node: "evil", Sessions: t.claims("claude-evil", t.Lead)})
	}, "registered, 0 proofs", review.ChildRegistered},
	{"a claim in the name of the child's process", outside, func(t target) string {
		return t.register(api.Register{Node: "evil", PID: t.ChildPID, Start: t.ChildStart, Sessions: t.claims("claude-evil", t.Lead)})
	}, "registered, 0 proofs", review.ChildRegistered},
	{"a claim in the name of the lead's process", outside, func(t target) string {
		return t.register(api.Register{Node: "evil", PID: t.LeadPID, Sessions: t.claims("claude-evil", t.Lead)})
	}, "registered, 0 proofs", review.ChildRegistered},
	{"a claim in the name of process 1", outside, func(t target) string {
		return t.register(api.Register{Node: "evil", PID: 1, Sessions: t.claims("claude-evil", t.Lead)})
	}, "registered, 0 proofs", review.ChildRegistered},
	{"a claim with facts that name somebody's process", outside, func(t target) string {
		id := "evil-facts"
		os.Mkdir(string(t.node(id)), 0o700)
		defer os.RemoveAll(string(t.node(id)))
		session.WriteFacts(t.node(id), session.Facts{Node: id, Instance: "evil-1", Client: "claude", PID: t.ChildPID, Start: t.ChildStart,
			NodePID: os.Getpid(), API: 1, Sessions: []session.Hosted{{ID: "claude-evil", Parent: t.Lead}}})
		return t.register(api.Register{Node: id, PID: t.ChildPID, Start: t.ChildStart, Sessions: t.claims("claude-evil", t.Lead)})
	}, "registered, 0 proofs", review.ChildRegistered},
	{"a claim with a ticket that was never given", outside, func(t target) string {
		return t.register(api.Register{Node: "evil", Ticket: strings.Repeat("0", 64), Sessions: t.claims("claude-evil", t.Lead)})
	}, "registered, 0 proofs", review.ChildRegistered},
	{"a claim of a parent that is elsewhere", outside, func(t target) string {
		return t.register(api.Register{Node: "evil", Sessions: t.claims("claude-evil", "claude-other")})
	}, "registered, 0 proofs", review.ChildRegistered},
	{"a node with separators in its name", outside, func(t target) string {
		return t.register(api.Register{Node: "../" + t.LeadNode, Sessions: t.claims("claude-evil", t.Lead)})
	}, api.CodeBad, review.ForwardingWarning},
	{"a session with separators in its name", outside, func(t target) string {
		return t.register(api.Register{Node: "evil", Sessions: t.claims("../claude-lead", t.Lead)})
	}, api.CodeBad, review.ForwardingWarning},
	{"a parent that is two dots", outside, func(t target) string {
		return t.register(api.Register{Node: "evil", Sessions: t.claims("claude-evil", "..")})
	}, api.CodeBad, review.ForwardingWarning},
}

// plant puts a file into a mailbox, as anybody of the same user can.
func (t target) plant(node, name, content string) string {
	if err := os.WriteFile(filepath.Join(t.node(node).Mail(), "new", name), []byte(content), 0o600); err != nil {
		return err.Error()
	}
	return "planted"
}

// letterName is a name that the child's, or the parent's, node would use.
func letterName(node, instance, kind, id string, counter int) string {
	return fmt.Sprintf("%s~%s~%016x~%s~%s", node, instance, counter, kind, id)
}

// instance is the life of a node, as its facts say.
func (t target) instance(node string) string {
	f, err := session.ReadFacts(t.node(node))
	if err != nil {
		return "none"
	}
	return f.Instance
}

// forged is a letter without the key of the registration.
func (t target) forged(kind, from, to, fromSession, toSession string, counter int, body []byte) (name, text string) {
	env := fmt.Sprintf(`{"v":1,"kind":%q,"id":%q,"origin":%q,"digest":%q,"from":{"node":%q,"instance":%q,"session":%q},"to":{"node":%q,"instance":%q,"session":%q},"counter":%d,"size":%d}`,
		kind, t.Victim.Body.ID, t.Child, t.Victim.Digest.String(), from, t.instance(from), fromSession, to, t.instance(to), toSession, counter, len(body))
	return letterName(from, t.instance(from), kind, t.Victim.Body.ID, counter),
		"permd-mail 1 " + strings.Repeat("0", 64) + "\n" + env + "\n" + string(body)
}

// Letters by others. Package forwarding has the whole list; these go to real
// nodes.
var mailAttacks = []attack{
	{"an allow for the ask that waits", outside, func(t target) string {
		d := ask.Decision{Ask: t.Victim.Body.ID, Digest: t.Victim.Digest, Verdict: ask.Allow, Outcome: ask.Answered, By: ask.By{Kind: ask.KindUser, Session: t.Lead, Surface: "desk"}}
		b, err := ask.Encode(d)
		if err != nil {
			return err.Error()
		}
		name, text := t.forged("decision", t.LeadNode, t.ChildNode, t.Lead, t.Child, 9_000_001, b)
		return t.plant(t.ChildNode, name, text)
	}, "planted", review.MailRefused},
	{"an ask in the child's name", outside, func(t target) string {
		b, err := ask.Encode(t.Victim)
		if err != nil {
			return err.Error()
		}
		name, text := t.forged("ask", t.ChildNode, t.LeadNode, t.Child, t.Lead, 9_000_001, b)
		return t.plant(t.LeadNode, name, text)
	}, "planted", review.MailRefused},
	{"a withdrawal of the ask that waits", outside, func(t target) string {
		name, text := t.forged("cancel", t.ChildNode, t.LeadNode, t.Child, t.Lead, 9_000_002, []byte("withdrawn"))
		return t.plant(t.LeadNode, name, text)
	}, "planted", review.MailRefused},
	{"a receipt for the ask that waits", outside, func(t target) string {
		name, text := t.forged("delivered", t.ChildNode, t.LeadNode, t.Child, t.Lead, 9_000_003, []byte(`{"ask":"x","how":"released"}`))
		return t.plant(t.LeadNode, name, text)
	}, "planted", review.MailRefused},
	{"a letter that is a link", outside, func(t target) string {
		if err := os.Symlink(t.Prize, filepath.Join(t.node(t.LeadNode).Mail(), "new", letterName(t.ChildNode, t.instance(t.ChildNode), "ask", "evil", 9_000_004))); err != nil {
			return err.Error()
		}
		return "planted"
	}, "planted", review.MailRefused},
	{"a letter that is a pipe", outside, func(t target) string {
		if err := syscall.Mkfifo(filepath.Join(t.node(t.LeadNode).Mail(), "new", letterName(t.ChildNode, t.instance(t.ChildNode), "ask", "evil", 9_000_005)), 0o600); err != nil {
			return err.Error()
		}
		return "planted"
	}, "planted", review.MailRefused},
	{"a letter of 10 GB", outside, func(t target) string {
		name := filepath.Join(t.node(t.LeadNode).Mail(), "new", letterName(t.ChildNode, t.instance(t.ChildNode), "ask", "evil", 9_000_006))
		if got := t.plant(t.LeadNode, filepath.Base(name), ""); got != "planted" {
			return got
		}
		os.Truncate(name, 10<<30)
		return "planted"
	}, "planted", review.MailRefused},
	{"5,000 letters from nobody", outside, func(t target) string {
		for i := range 5000 {
			if got := t.plant(t.LeadNode, letterName("evil", "evil-1", "ask", fmt.Sprint("e", i), i+1), "x"); got != "planted" {
				return got
			}
		}
		return "planted"
	}, "planted", review.MailRefused},
}

// TestT12ForgeryOnRealNodes has other processes of the same user, below the
// agents and not, try everything that a process can reach: each is refused in
// words or without effect, is on the record where somebody could have been
// fooled, and the nodes go on serving.
func TestT12ForgeryOnRealNodes(t *testing.T) {
	t.Parallel()
	r := New(t)
	r.Config("asks_a_minute = 1000000\n")
	r.Policy(rules)
	newDeskProcess(r)
	lead := r.Agent(AgentOptions{Session: "lead"})
	lead.Send("SessionStart", nil)
	person := r.Attach(lead.Node(), nil)
	child := r.Agent(AgentOptions{Session: "child", Under: lead, Env: below(lead)})
	child.Send("SessionStart", nil)

	// One ask was allowed before, another one waits while all this happens.
	p := child.BeginGate(Bash("touch before"))
	r.Until("the first ask", 10*time.Second, func() bool { return len(person.Waiting()) == 1 })
	before := person.Waiting()[0].Ask
	person.Answer(ask.AllowAnswer(before))
	if got, err := p.Answer(); err != nil || !got.Allowed() {
		t.Fatalf("%+v, %v", got, err)
	}
	victim := child.BeginGate(Bash("touch victim"))
	r.Until("the ask that waits", 10*time.Second, func() bool { return len(person.Waiting()) == 1 })
	tgt := target{Root: r.Root, Bin: r.Bin, Work: r.Work, Prize: r.Root + "/prize/file", Lead: lead.ID(), Child: child.ID(),
		LeadNode: lead.Node(), ChildNode: child.Node(), LeadPID: lead.PID, ChildPID: child.PID, ChildStart: child.Start,
		Victim: person.Waiting()[0].Ask, Before: before}
	if err := errors.Join(os.Mkdir(filepath.Dir(tgt.Prize), 0o700), os.WriteFile(tgt.Prize, []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	pids := []int{r.nodePID(lead.Node()), r.nodePID(child.Node())}

	for i, a := range attacks {
		n := len(r.Records(review.Filter{Event: string(a.shows)}))
		notices := len(person.Notices())
		tgt.Name = a.name
		got := ""
		switch a.from {
		case outside:
			got = a.do(tgt)
		default:
			who := map[where]*Agent{inside: lead, beneath: child}[a.from]
			b, err := json.Marshal(tgt)
			if err != nil {
				t.Fatal(err)
			}
			if got, err = who.Helper("attack", string(b)); err != nil {
				t.Errorf("%s: %v", a.name, err)
				continue
			}
		}
		if !strings.Contains(got, a.want) || strings.Contains(got, `"permissionDecision":"allow"`) || strings.Contains(got, `"verdict":"accepted"`) {
			t.Errorf("%s: %s, want %q", a.name, got, a.want)
		}
		if strings.HasPrefix(a.name, "input: ") && (!strings.HasPrefix(got, "code 2, ") || len(got) < 20) && !strings.Contains(got, `"permissionDecision":"deny"`) {
			t.Errorf("%s: %s, want a refusal in words", a.name, got)
		}
		if a.shows != "" {
			r.Until(a.name+" to be on the record", 5*time.Second, func() bool {
				return len(r.Records(review.Filter{Event: string(a.shows)})) > n
			})
		}
		if a.shows == review.SurfaceAnnounced {
			r.Until("the other surface to be told", 5*time.Second, func() bool { return len(person.Notices()) > notices })
		}
		// What holds always.
		if w := person.Waiting(); len(w) != 1 || w[0].Ask.Body.ID != tgt.Victim.Body.ID {
			t.Fatalf("%s: the ask that waited does not: %d wait", a.name, len(w))
		}
		if b, err := os.ReadFile(tgt.Prize); err != nil || string(b) != "mine" {
			t.Errorf("%s: wrote %q into the person's file", a.name, b)
		}
		if i%8 == 7 || i == len(attacks)-1 {
			if got := lead.Gate(Bash("make check")); !got.Allowed() {
				t.Errorf("after %s: %+v", a.name, got)
			}
			if got := lead.Gate(Bash("rm x")); got.Decision != "deny" {
				t.Errorf("after %s: %+v", a.name, got)
			}
		}
	}
	if n := len(attacks); n < 100 {
		t.Errorf("only %d attacks", n)
	}
	if got := []int{r.nodePID(lead.Node()), r.nodePID(child.Node())}; !slices.Equal(got, pids) {
		t.Errorf("nodes %v became %v", pids, got)
	}
	for _, id := range []string{lead.ID(), child.ID()} {
		if !slices.ContainsFunc(person.Tree(), func(s api.SessionState) bool { return s.ID == id }) && id == lead.ID() {
			t.Errorf("session %s is gone", id)
		}
	}
	for _, s := range person.Tree() {
		if s.Tripped || s.PausedMS > 0 {
			t.Errorf("a session was changed: %+v", s)
		}
	}
	// The person's own answer still counts, and is the only one.
	if v, err := person.Answer(ask.AllowAnswer(tgt.Victim)); err != nil || v.Verdict != api.VerdictAccepted {
		t.Errorf("%+v, %v", v, err)
	}
	if got, err := victim.Answer(); err != nil || !got.Allowed() {
		t.Errorf("the ask that waited: %+v, %v", got, err)
	}
	a := newAudit(r)
	a.oneDecision(nil)
	for _, x := range a.all {
		if x.Action != nil && strings.Contains(x.Action.Command, "evil") && allows(x) {
			t.Errorf("allowed: %s", x.Raw)
		}
	}
	t.Logf("%d attacks", len(attacks))
	r.verify()
}
