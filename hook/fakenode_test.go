package hook

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"permd/api/hookwire"
	"permd/internal/host"
	"permd/session"
)

// The fake node keeps to the contract of a starting node and answers as its
// root says. Files in the root:
//
//	start    how to start: "ok" (or no file), "slow" (half a second late),
//	         "refuse REASON", "die", "hang", "liar" (ready without a socket),
//	         "record" (see record(); it has no other answer)
//	answer   how to answer, see answer()
//	starts   a line for each node that started: process id, arguments
//	events   what it saw, a line each

func fakeNode(args []string) int {
	var client, root string
	var pid int
	var start uint64
	fs := flag.NewFlagSet("node", flag.ContinueOnError)
	fs.StringVar(&client, "client", "", "")
	fs.IntVar(&pid, "pid", 0, "")
	fs.Uint64Var(&start, "start", 0, "")
	fs.StringVar(&root, "root", "", "")
	if len(args) == 0 || args[0] != "node" || fs.Parse(args[1:]) != nil || fs.NArg() > 0 {
		return 64
	}
	appendLine(root, "starts", fmt.Sprint(os.Getpid(), " ", strings.Join(args, " ")))
	how, why, _ := strings.Cut(readLine(root, "start"), " ")
	ready := os.NewFile(4, "ready")
	switch how {
	case "die":
		fmt.Fprintln(os.Stderr, "this node dies")
		return 3
	case "hang":
		select {}
	case "refuse":
		fmt.Fprintln(ready, why)
		return 1
	case "liar":
		fmt.Fprintln(ready, "ok")
		return 1
	case "slow":
		time.Sleep(500 * time.Millisecond)
	}
	if err := checkInheritance(root, args); err != nil {
		fmt.Fprintln(ready, err)
		return 1
	}
	n := &node{root: root}
	if err := n.listen(client, pid, start); err != nil {
		fmt.Fprintln(ready, err)
		return 1
	}
	fmt.Fprintln(ready, "ok")
	ready.Close()
	os.NewFile(3, "lock").Close()
	agent, err := host.OpenProcess(pid)
	if err != nil {
		return 1
	}
	if how == "record" {
		if n.log, err = os.OpenFile(filepath.Join(root, "record"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
			return 1
		}
	}
	go n.serve()
	_ = agent.Wait(context.Background())
	return 0
}

// checkInheritance is the node's side of the contract on what it is given.
func checkInheritance(root string, args []string) error {
	if err := host.AdoptLock(os.NewFile(3, "lock")).Confirm(filepath.Join(root, "run", "start.lock")); err != nil {
		return fmt.Errorf("descriptor 3 is not the lock: %w", err)
	}
	if env := os.Environ(); len(env) != 1 || !strings.HasPrefix(env[0], "PATH=/usr/") {
		return fmt.Errorf("environment %q", env)
	}
	if wd, _ := os.Getwd(); wd != "/" {
		return fmt.Errorf("directory %q", wd)
	}
	if sid := getsid(); sid != os.Getpid() {
		return fmt.Errorf("session of process %d", sid)
	}
	return nil
}

type node struct {
	root string
	l    net.Listener
	log  *os.File // set: record
}

func (n *node) listen(client string, pid int, start uint64) error {
	dirs, err := session.Find(n.root)
	if err != nil {
		return err
	}
	if err := dirs.Make(); err != nil {
		return err
	}
	dir := dirs.Node(session.NodeID(pid, start))
	if err := host.MakeDir(string(dir)); err != nil {
		return err
	}
	if err := session.WriteFacts(dir, session.Facts{Node: dir.ID(), Instance: "i", Client: client,
		PID: pid, Start: start, NodePID: os.Getpid(), Boot: "b", Build: "test", API: 1}); err != nil {
		return err
	}
	if err := session.Bind(dirs, "claude-bound", dir.ID()); err != nil {
		return err
	}
	n.l, err = net.ListenUnix("unix", &net.UnixAddr{Name: dir.Sock() + ".new", Net: "unix"})
	if err != nil {
		return err
	}
	n.l.(*net.UnixListener).SetUnlinkOnClose(false)
	return os.Rename(dir.Sock()+".new", dir.Sock())
}

func (n *node) serve() {
	for {
		c, err := n.l.Accept()
		if err != nil {
			return
		}
		if n.log != nil {
			go n.record(c)
			continue
		}
		go n.answer(c)
	}
}

// record is what a node does at the least when policy allows: it reads the
// call, keeps a durable record, and answers.
func (n *node) record(c net.Conn) {
	defer c.Close()
	req, err := hookwire.ReadRequest(c)
	if err != nil {
		return
	}
	line := fmt.Appendf(nil, "%-219.219s\n", req.Stdin)
	if _, err := n.log.Write(line); err != nil {
		return
	}
	if err := syncData(n.log); err != nil {
		return
	}
	_ = hookwire.WriteResult(c, hookwire.Result{Stdout: []byte(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"rule 1"}}` + "\n")})
}

// answer does what the file says:
//
//	echo            0, the request on standard output
//	exit N          N, with bytes that are no text on both outputs
//	wait N          N keep-alives, 100 ms apart, then as echo
//	withdrawn       keep-alives until the hook is gone, then an event
//	silent          nothing
//	refuse TEXT     refused
//	unread TEXT     refused before the request is read
//	hangup          closed
//	raw QUOTED      those bytes, then nothing
//	drip            a result, a byte every 50 ms, of 8 MiB
//	large           the largest result
func (n *node) answer(c net.Conn) {
	defer c.Close()
	how, arg, _ := strings.Cut(readLine(n.root, "answer"), " ")
	if how == "unread" {
		_ = hookwire.WriteRefused(c, arg)
		return
	}
	req, err := hookwire.ReadRequest(c)
	if err != nil {
		appendLine(n.root, "events", "bad request: "+err.Error())
		_ = hookwire.WriteRefused(c, err.Error())
		return
	}
	appendLine(n.root, "events", fmt.Sprintf("call %s gate=%t stdin=%d", req.Client, req.Gate, len(req.Stdin)))
	switch how {
	case "exit":
		var code int
		fmt.Sscan(arg, &code)
		_ = hookwire.WriteResult(c, hookwire.Result{Code: code, Stdout: []byte("out\x00\xff\n"), Stderr: []byte("err\xfe")})
	case "wait":
		var times int
		fmt.Sscan(arg, &times)
		for range times {
			time.Sleep(100 * time.Millisecond)
			_ = hookwire.WriteWaiting(c)
		}
		n.echo(c, req)
	case "withdrawn":
		gone := make(chan struct{})
		go func() {
			_, _ = c.Read(make([]byte, 1))
			close(gone)
		}()
		for {
			_ = hookwire.WriteWaiting(c)
			select {
			case <-gone:
				appendLine(n.root, "events", "withdrawn")
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	case "silent":
		_, _ = io.Copy(io.Discard, c)
	case "refuse":
		_ = hookwire.WriteRefused(c, arg)
	case "hangup":
	case "raw":
		var s string
		fmt.Sscanf(arg, "%q", &s)
		_, _ = io.WriteString(c, s)
		_, _ = io.Copy(io.Discard, c)
	case "drip":
		whole, _ := hookwire.AppendFrame(nil, hookwire.Frame{Kind: hookwire.Done, Result: hookwire.Result{Stdout: make([]byte, hookwire.MaxStdout)}})
		for _, b := range whole {
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	case "large":
		_ = hookwire.WriteResult(c, hookwire.Result{Stdout: make([]byte, hookwire.MaxStdout), Stderr: make([]byte, hookwire.MaxStderr)})
	default:
		n.echo(c, req)
	}
}

// echo prints what arrived; of the input only how much when it is much.
func (n *node) echo(c net.Conn, req *hookwire.Request) {
	stdin := string(req.Stdin)
	if len(stdin) > 1000 {
		stdin = fmt.Sprint(len(stdin), " bytes")
	}
	_ = hookwire.WriteResult(c, hookwire.Result{Stdout: fmt.Appendf(nil, "client=%s gate=%t args=%q env=%q cwd=%s stdin=%q\n",
		req.Client, req.Gate, req.Args, req.Env, req.Cwd, stdin)})
}

func lockHolder(args []string) int {
	lock, err := host.AcquireLock(args[0])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = lock.Close()
	return 0
}

func ensurer(args []string) int {
	start, err := host.StartTime(os.Getpid())
	if err == nil {
		err = Ensure(args[0], Agent{Client: "claude", PID: os.Getpid(), Start: start})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ensured")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func readLine(root, name string) string {
	b, _ := os.ReadFile(filepath.Join(root, name))
	return strings.TrimSuffix(string(b), "\n")
}

func appendLine(root, name, line string) {
	f, err := os.OpenFile(filepath.Join(root, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	_, _ = f.WriteString(line + "\n")
	_ = f.Close()
}
