package forwarding

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/heartbeat"
	"permd/internal/host"
	"permd/liveness"
	"permd/session"
)

// job is what a helper process does.
type job struct {
	Do     string // key of helpers
	Root   string
	Node   string
	Parent string
	Count  int    // asks, or nodes of a crowd
	Each   int    // at a time
	ID     string // prefix of ask ids
	Record string // file that the parent records its decisions in
	NoFile bool   // no file events: inotify is used up
	Warm   int    // asks before ready, which are not counted
}

const jobEnv = "FORWARDING_JOB"

func theJob() (j job, err error) { return j, json.Unmarshal([]byte(os.Getenv(jobEnv)), &j) }

func init() {
	helpers["parent"] = parentProcess
	helpers["child"] = childProcess
	helpers["crowd"] = crowdProcess
	helpers["writer"] = writerProcess
	helpers["reader"] = readerProcess
}

// real is one real node in this process.
type real struct {
	dirs   session.Dirs
	lock   *host.Lock
	beats  *heartbeat.Writer
	disk   *Disk
	server *Server
	links  *Uplinks
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func (r *real) close() {
	r.links.Close()
	r.cancel()
	r.done.Wait()
	r.beats.Close()
	r.disk.Close()
	r.lock.Release()
}

// openReal starts a node on disk, with a socket.
func openReal(root, name string, sessions []api.ChildSession, noFile bool, change func(*Config)) (*real, error) {

	dirs, err := session.Find(root)
	if err != nil {
		return nil, err
	}
	dir := dirs.Node(name)
	if err := host.MakeDir(string(dir)); err != nil {
		return nil, err
	}
	r := &real{dirs: dirs}
	if r.lock, err = host.TryLock(dir.Lock()); err != nil {
		return nil, err
	}
	key := NewBeatKey()
	instance := fmt.Sprintf("%s-%d", name, os.Getpid())
	boot, err := host.BootID()
	if err != nil {
		return nil, err
	}
	if r.beats, err = heartbeat.Create(string(dir), heartbeat.Identity{Node: name, Instance: instance, Boot: boot}, key); err != nil {
		return nil, err
	}
	if r.disk, err = OpenDisk(dirs, name, nil); err != nil {
		return nil, err
	}
	if noFile {
		r.disk.newWatch = func(string, func(watchEvent)) (closer, error) { return nil, syscall.EMFILE }
	}
	cfg := Config{Node: name, Instance: instance, Transport: r.disk, Beat: r.beats, BeatKey: key,
		Serve:  func(context.Context, Incoming) ask.Decision { return ask.Decision{} },
		Proofs: Proofs{Descends: func(api.Register, Caller) bool { return true }}}
	if change != nil {
		change(&cfg)
	}
	if r.server, err = NewServer(cfg); err != nil {
		return nil, err
	}
	r.server.SetServing([]string{name})
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	_ = os.Remove(dir.Sock())
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir.Sock(), Net: "unix"})
	if err != nil {
		return nil, err
	}
	r.done.Go(func() { _ = r.server.Run(ctx) })
	r.done.Go(func() {
		for {
			c, err := ln.AcceptUnix()
			if err != nil {
				return
			}
			r.done.Go(func() {
				defer c.Close()
				p, err := host.PeerOf(c)
				if err != nil {
					return
				}
				defer p.Close()
				_ = r.server.Child(ctx, api.NewConn(c), CallerOf(p))
			})
		}
	})
	context.AfterFunc(ctx, func() { ln.Close() })
	r.links = NewUplinks(UplinksConfig{Server: r.server,
		Dial: func(ctx context.Context, node string) (Conn, error) { return dialNode(ctx, dirs, node) },
		Describe: func(string) api.Register {
			start, _ := host.StartTime(os.Getpid())
			return api.Register{PID: os.Getpid(), Start: start, Sessions: sessions}
		}})
	return r, nil
}

func dialNode(ctx context.Context, dirs session.Dirs, node string) (Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", dirs.Node(node).Sock())
	if err != nil {
		return nil, err
	}
	return api.NewConn(c), nil
}

// parentProcess answers asks as their ids say, recording each decision first.
func parentProcess() error {
	j, err := theJob()
	if err != nil {
		return err
	}
	var record *os.File
	if j.Record != "" {
		if record, err = os.OpenFile(j.Record, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
			return err
		}
	}
	r, err := openReal(j.Root, j.Node, nil, j.NoFile, func(c *Config) {
		c.Serve = func(ctx context.Context, in Incoming) ask.Decision {
			id := in.Ask.Body.ID
			d := ask.Decision{Ask: id, Digest: in.Ask.Digest, Outcome: ask.Answered, Verdict: ask.Allow,
				By: ask.By{Kind: ask.KindUser, Surface: "test"}}
			if strings.HasPrefix(id, "wait-") {
				<-ctx.Done()
				return ask.Decision{Ask: id, Digest: in.Ask.Digest, Outcome: ask.Withdrawn, By: ask.By{Kind: ask.KindWithdrawn}}
			}
			if strings.HasPrefix(id, "deny-") {
				d.Verdict = ask.Deny
			}
			if record != nil {
				if _, err := fmt.Fprintf(record, "%s %s\n", id, d.Verdict); err != nil {
					return ask.Decision{}
				}
			}
			return d
		}
	})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	r.close()
	return nil
}

// childProcess asks Count times, Each at a time, and prints "id verdict ns" or
// "id error ns text" for each.
func childProcess() error {
	j, err := theJob()
	if err != nil {
		return err
	}
	sess := j.Node
	r, err := openReal(j.Root, j.Node, []api.ChildSession{{Session: sess, Parent: j.Parent, FoundBy: "test"}}, j.NoFile, nil)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.links.Connect(context.Background(), j.Parent); err != nil {
		return err
	}
	p := &Parent{Links: r.links, Session: sess, Target: j.Parent, Node: j.Parent, Judge: liveness.New(r.dirs), Timeout: DefaultTimeout}
	for i := range j.Warm {
		a, err := testAsk(sess, fmt.Sprintf("warm-%s-%d", j.Node, i))
		if err != nil {
			return err
		}
		if _, err := p.Authorize(context.Background(), a); err != nil {
			return err
		}
	}
	asks := make([]*ask.Ask, j.Count) // sealing is no part of relaying
	for i := range asks {
		if asks[i], err = testAsk(sess, fmt.Sprintf("%s%s-%d", j.ID, j.Node, i)); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // the test's end of input is the end
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	var out sync.Mutex
	w := bufio.NewWriter(os.Stdout)
	var work sync.WaitGroup
	for e := range max(1, j.Each) {
		work.Go(func() {
			for i := e; i < j.Count; i += max(1, j.Each) {
				a := asks[i]
				begin := time.Now()
				d, err := p.Authorize(ctx, a)
				took := time.Since(begin)
				out.Lock()
				switch {
				case err != nil:
					fmt.Fprintf(w, "%s error %d %v\n", a.Body.ID, took, err)
				case d.Verdict == ask.Allow && !d.Allows(a.Body.ID, a.Digest):
					fmt.Fprintf(w, "%s wrong %d\n", a.Body.ID, took)
				default:
					fmt.Fprintf(w, "%s %s %d\n", a.Body.ID, d.Verdict, took)
				}
				if j.Count < 100 {
					w.Flush()
				}
				out.Unlock()
			}
		})
	}
	work.Wait()
	return w.Flush()
}

// crowdProcess registers many nodes that never ask.
func crowdProcess() error {
	j, err := theJob()
	if err != nil {
		return err
	}
	dirs, err := session.Find(j.Root)
	if err != nil {
		return err
	}
	start, _ := host.StartTime(os.Getpid())
	for i := range j.Count {
		c, err := dialNode(context.Background(), dirs, j.Parent)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s-%d", j.Node, i)
		_, err = handshake(c, api.Register{Node: name, Instance: "i1", PID: os.Getpid(), Start: start,
			Sessions: []api.ChildSession{{Session: name, Parent: j.Parent, FoundBy: "test"}}})
		if err != nil {
			return err
		}
		defer c.Close()
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

func testAsk(from, id string) (*ask.Ask, error) {
	return ask.Seal(ask.Body{ID: id, Origin: ask.OriginGate, From: ask.Who{Session: from, Client: "claude"}, Title: "Run a command",
		Action: &ask.Action{Client: "claude", Tool: ask.ToolBash, ClientTool: "Bash", Input: json.RawMessage(`{"command":"go test ./..."}`),
			Cwd: "/home/dev/proj", Project: "/home/dev/proj", Home: "/home/dev", Command: "go test ./..."},
		Items: ask.PermissionItems("go test ./...")})
}

// process is a running helper.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	once sync.Once
	err  error
}

// helperBinary is the program that helpers run: this one, or, where the race
// detector makes a start take longer than what is tested, the same without it.
var helperBinary = sync.OnceValues(func() (string, error) {
	if !raceOn {
		return os.Executable()
	}
	dir, err := os.MkdirTemp("", "permd-helper-")
	if err != nil {
		return "", err
	}
	helperDir = dir
	out, err := exec.Command("go", "test", "-c", "-o", dir+"/helper", ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return dir + "/helper", nil
})

var helperDir string // removed by TestMain

// run starts a helper; the cleanup ends it.
func run(t testing.TB, j job) *process {
	t.Helper()
	exe, err := helperBinary()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), helperEnv+"="+j.Do, jobEnv+"="+string(raw))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.in.Close()
		_ = p.cmd.Process.Kill()
		p.wait()
	})
	return p
}

// line reads the next line, "" at the end.
func (p *process) line() string {
	s, err := p.out.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(s)
}

func (p *process) ready() *process {
	p.t.Helper()
	if s := p.line(); s != "ready" {
		p.t.Fatalf("helper said %q", s)
	}
	return p
}

// do says that a child may begin.
func (p *process) do() {
	p.t.Helper()
	if _, err := io.WriteString(p.in, "go\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.wait()
}

func (p *process) wait() { p.once.Do(func() { p.err = p.cmd.Wait() }) }

// end ends a helper in order.
func (p *process) end() error {
	p.in.Close()
	_, _ = io.Copy(io.Discard, p.out)
	p.wait()
	return p.err
}

// rootDir is a place for nodes, in memory where there is one.
func rootDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if shm, err := os.MkdirTemp("/dev/shm", "permd-test-"); err == nil {
		t.Cleanup(func() { os.RemoveAll(shm) })
		dir = shm
	}
	d, err := session.Find(dir)
	if err == nil {
		err = d.Make()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

type answer struct {
	id, verdict string
	took        time.Duration
	text        string
}

// answers reads what a child printed, to its end.
func (p *process) answers() []answer {
	p.t.Helper()
	var list []answer
	for s := p.line(); s != ""; s = p.line() {
		var a answer
		f := strings.SplitN(s, " ", 4)
		if len(f) < 3 {
			p.t.Fatalf("helper said %q", s)
		}
		a.id, a.verdict = f[0], f[1]
		var ns int64
		if _, err := fmt.Sscan(f[2], &ns); err != nil {
			p.t.Fatal(err)
		}
		a.took = time.Duration(ns)
		if len(f) == 4 {
			a.text = f[3]
		}
		list = append(list, a)
	}
	return list
}

// oneAsk runs a child to its end and returns its answers.
func (p *process) all() []answer {
	p.do()
	list := p.answers()
	p.wait()
	return list
}

func TestRealProcesses(t *testing.T) {
	root := rootDir(t)
	run(t, job{Do: "parent", Root: root, Node: "lead"}).ready()
	for _, a := range run(t, job{Do: "child", Root: root, Node: "c1", Parent: "lead", Count: 20}).ready().all() {
		if a.verdict != "allow" {
			t.Errorf("%+v", a)
		}
	}
	for _, a := range run(t, job{Do: "child", Root: root, Node: "c2", Parent: "lead", Count: 20, Each: 7, ID: "deny-"}).ready().all() {
		if a.verdict != "deny" {
			t.Errorf("%+v", a)
		}
	}
}
