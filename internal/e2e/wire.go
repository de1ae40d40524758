package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"permd/api/hookwire"
	"permd/internal/host"
	"permd/session"
)

// wireJob has an agent make many gate calls by itself, without a process for
// each: what a hook would say to the node, said by the agent.
type wireJob struct {
	Count, Each int    // calls, and how many at a time
	Command     string // of call i: Command with "#" replaced by "<first + i>"
	First       int
}

// wireDone is what one of them got.
type wireDone struct {
	I      int
	Answer Answer
	Err    string
}

// Wire has the agent's process make the calls and returns their answers in any
// order. Its node must run.
func (a *Agent) Wire(j wireJob) ([]wireDone, error) {
	b, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	r, err := a.call(agentRequest{Op: "wire", Stdin: string(b)})
	if err != nil {
		return nil, err
	}
	var out []wireDone
	return out, json.Unmarshal([]byte(r.Stdout), &out)
}

func (s agentSpec) wire(q agentRequest) agentReply {
	var j wireJob
	if err := json.Unmarshal([]byte(q.Stdin), &j); err != nil {
		return agentReply{Err: err.Error()}
	}
	start, err := host.StartTime(os.Getpid())
	if err != nil {
		return agentReply{Err: err.Error()}
	}
	dirs, err := session.Find(s.Root)
	if err != nil {
		return agentReply{Err: err.Error()}
	}
	sock := dirs.Node(session.NodeID(os.Getpid(), start)).Sock()
	out := make([]wireDone, j.Count)
	var work sync.WaitGroup
	for e := range j.Each {
		work.Go(func() {
			for i := e; i < j.Count; i += j.Each {
				n := j.First + i
				a, err := s.wireCall(sock, n, strings.ReplaceAll(j.Command, "#", fmt.Sprint(n)))
				out[i] = wireDone{I: n, Answer: a}
				if err != nil {
					out[i].Err = err.Error()
				}
			}
		})
	}
	work.Wait()
	b, err := json.Marshal(out)
	if err != nil {
		return agentReply{Err: err.Error()}
	}
	return agentReply{Stdout: string(b)}
}

// wireCallID names a call for the record.
func wireCallID(session string, n int) string { return fmt.Sprintf("toolu_%s_%d", session, n) }

func (s agentSpec) wireCall(sock string, n int, command string) (Answer, error) {
	t := Bash(command)
	t.Call = wireCallID(s.Session, n)
	r := hookwire.Request{Client: "claude", Gate: true, PID: os.Getpid(), PPID: os.Getppid(), Cwd: s.Cwd,
		Env:   []hookwire.Var{{Name: "CLAUDE_CODE_ENTRYPOINT", Value: "sdk-cli"}, {Name: "CLAUDE_PROJECT_DIR", Value: s.Cwd}},
		Stdin: []byte(nativeEvent(s.Session, s.Cwd, "PreToolUse", &t))}
	// A hook carries whose child its agent is.
	for _, name := range []string{session.EnvParent, session.EnvSession} {
		if v := os.Getenv(name); v != "" {
			r.Env = append(r.Env, hookwire.Var{Name: name, Value: v})
		}
	}
	f, err := wireSay(sock, &r)
	if err != nil {
		return Answer{}, err
	}
	if f.Kind == hookwire.Refused {
		return Answer{Code: 2, Stderr: f.Text}, nil
	}
	return parseAnswer(f.Result.Code, string(f.Result.Stdout), string(f.Result.Stderr))
}

// wireSay makes one call of a hook and waits for its last frame.
func wireSay(sock string, r *hookwire.Request) (hookwire.Frame, error) {
	head, err := r.AppendHead(nil)
	if err != nil {
		return hookwire.Frame{}, err
	}
	return wireBytes(sock, append(head, r.Stdin...))
}

// wireBytes sends raw bytes to a node and waits for its last frame.
func wireBytes(sock string, b []byte) (hookwire.Frame, error) {
	c, err := net.Dial("unix", sock)
	if err != nil {
		return hookwire.Frame{}, err
	}
	defer c.Close()
	if _, err := c.Write(b); err != nil {
		return hookwire.Frame{}, err
	}
	var buf []byte
	for {
		piece := make([]byte, 4096)
		n, err := c.Read(piece)
		buf = append(buf, piece[:n]...)
		for {
			f, n, ferr := hookwire.NextFrame(buf)
			if ferr != nil {
				return f, ferr
			}
			if n == 0 {
				break
			}
			if f.Kind != hookwire.Waiting {
				return f, nil
			}
			buf = buf[n:]
		}
		if err != nil {
			return hookwire.Frame{}, errors.New("the node hung up: " + err.Error())
		}
	}
}
