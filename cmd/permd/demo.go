package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"permd/api"
	"permd/ask"
	"permd/desk"
	"permd/desk/tui"
	"permd/internal/host"
	"permd/review"
	"permd/session"
)

func init() { commands = append(commands, demoCommand) }

type demoOptions struct {
	auto, json, killLead bool
	keep                 string
}

func demoCommand(a *app) *cobra.Command {
	var o demoOptions
	c := &cobra.Command{
		Use:   "demo",
		Short: "See permd's main job with nothing installed",
		Long: "demo opens a desk in this terminal and starts a lead, a subagent and that subagent's\n" +
			"own subagent as separate processes that ask for real things; you answer. With --auto\n" +
			"it answers by itself and prints what happened. It uses a directory of its own and\n" +
			"removes it at the end, unless --keep names one.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.json && !o.auto {
				return usage("--json needs --auto")
			}
			return a.demo(cmd.Context(), o)
		},
	}
	c.Flags().BoolVar(&o.auto, "auto", false, "answer by itself")
	c.Flags().BoolVar(&o.json, "json", false, "print one JSON object a settled ask")
	c.Flags().BoolVar(&o.killLead, "kill-lead", false, "kill the lead in the middle and let it come back")
	c.Flags().StringVar(&o.keep, "keep", "", "use this directory as --root and leave it")
	return c
}

// demoLimit bounds a demo that answers by itself.
const demoLimit = 2 * time.Minute

func (a *app) demo(ctx context.Context, o demoOptions) (err error) {
	root, clean, err := demoRoot(o.keep)
	if err != nil {
		return err
	}
	defer clean()
	a.root = root
	d, err := a.dirs()
	if err != nil {
		return err
	}
	if err := d.Make(); err != nil {
		return err
	}
	work := filepath.Join(root, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(work, "README"), []byte("The demo's agents work here.\n"), 0o600); err != nil {
		return err
	}
	if o.auto {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, demoLimit)
		defer stop()
	}
	if err := desk.Ensure(ctx, d, version); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.demoEnd(d)) }()
	s := &demoStage{app: a, dirs: d, work: work, opt: o}
	if o.auto {
		return s.auto(ctx)
	}
	if !term.IsTerminal(int(a.in.Fd())) {
		return usage("the demo needs a terminal to answer in; use --auto")
	}
	return s.interactive(ctx)
}

// demoRoot is where the demo lives. The path is short, since sockets lie in
// it.
func demoRoot(keep string) (root string, clean func(), err error) {
	if keep != "" {
		if !filepath.IsAbs(keep) {
			return "", nil, usage("--keep must be an absolute path")
		}
		return keep, func() {}, os.MkdirAll(keep, 0o700)
	}
	base := "/tmp"
	if fi, err := os.Stat(base); err != nil || !fi.IsDir() {
		base = ""
	}
	root, err = os.MkdirTemp(base, "permd-demo-")
	return root, func() { os.RemoveAll(root) }, err
}

// demoEnd ends the desk and waits for the nodes, which end with their agents.
func (a *app) demoEnd(d session.Dirs) error {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	err := a.stopDesk(ctx, d)
	endAgents(filepath.Join(a.root, "work"))
	for ctx.Err() == nil {
		nodes, lerr := livingNodes(d)
		if lerr != nil || len(nodes) == 0 {
			return errors.Join(err, lerr)
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return errors.Join(err, errors.New("a node outlived its agent"))
}

// endAgents ends what is left of the demo's agents: a child outlives a lead
// that was killed. Each told its process and its start time.
func endAgents(work string) {
	marks, _ := filepath.Glob(filepath.Join(work, "*.ready"))
	for _, m := range marks {
		b, err := os.ReadFile(m)
		if err != nil {
			continue
		}
		var pid int
		var start uint64
		if n, _ := fmt.Sscan(string(b), &pid, &start); n != 2 {
			continue
		}
		if now, err := host.StartTime(pid); err == nil && now == start {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

type demoStage struct {
	app  *app
	dirs session.Dirs
	work string
	opt  demoOptions

	mu   sync.Mutex
	dead bool        // the lead was killed
	held []api.Shown // asks that are answered only then
	say  func(api.Shown)
}

// holds keeps the ask during which the lead dies: what waits with the lead is
// never answered, and what waits at the subagent itself only afterwards.
func (s *demoStage) holds(x api.Shown) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.Ask.Body.Action.Command != "touch during.txt" {
		return false
	}
	if s.dead && len(x.Ask.Header.Path) == 0 {
		return false
	}
	s.held = append(s.held, x)
	return true
}

// leadDied lets the held asks be answered.
func (s *demoStage) leadDied() {
	s.mu.Lock()
	s.dead = true
	held, say := s.held, s.say
	s.held = nil
	s.mu.Unlock()
	for _, x := range held {
		if say != nil && len(x.Ask.Header.Path) == 0 {
			say(x)
		}
	}
}

// agent starts one agent as a process of its own.
func (s *demoStage) agent(ctx context.Context, role string, to *os.File) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self, "--root", s.app.root, "demo-agent", role, s.work)
	c.Stderr = to
	c.Env = append(os.Environ(), session.EnvSession+"=", session.EnvParent+"=")
	if role == "lead-again" {
		c.Env = append(os.Environ(), session.EnvParent+"="+session.OptOut)
	}
	return c, c.Start()
}

// play runs the agents to their end.
func (s *demoStage) play(ctx context.Context, to *os.File) error {
	if s.opt.killLead {
		return s.playKill(ctx, to)
	}
	c, err := s.agent(ctx, "lead", to)
	if err != nil {
		return err
	}
	return c.Wait()
}

// playKill kills the lead while its subagent's ask waits with it, and starts
// it again when the subagent has gone on by itself.
func (s *demoStage) playKill(ctx context.Context, to *os.File) error {
	lead, err := s.agent(ctx, "lead-dies", to)
	if err != nil {
		return err
	}
	err = s.awaitAsk(ctx, "touch during.txt")
	if err == nil {
		fmt.Fprintf(to, "demo    kills the lead, process %d\n", lead.Process.Pid)
		err = lead.Process.Signal(syscall.SIGKILL)
	}
	lead.Wait()
	s.leadDied()
	if err != nil {
		return err
	}
	if err := awaitFile(ctx, filepath.Join(s.work, "during.txt")); err != nil {
		return err
	}
	again, err := s.agent(ctx, "lead-again", to)
	if err != nil {
		return err
	}
	fmt.Fprintf(to, "demo    started the lead again, process %d\n", again.Process.Pid)
	if err := s.awaitDesk(ctx, again.Process.Pid); err != nil {
		return errors.Join(err, again.Process.Kill(), again.Wait())
	}
	// Only now does the subagent go on: a lead that nobody answers at would have
	// it ask at its own place.
	if err := os.WriteFile(filepath.Join(s.work, leadServes), nil, 0o600); err != nil {
		return errors.Join(err, again.Process.Kill(), again.Wait())
	}
	return again.Wait()
}

// leadServes is the file that says that the lead which came back can answer.
const leadServes = "lead-again.serves"

// awaitDesk waits until somebody can answer at the node of the agent pid.
func (s *demoStage) awaitDesk(ctx context.Context, pid int) error {
	start, err := host.StartTime(pid)
	if err != nil {
		return fmt.Errorf("the lead that was started again: %w", err)
	}
	for {
		var st api.Status
		if callNode(ctx, s.dirs, session.NodeID(pid, start), api.OpStatus, nil, &st) == nil && st.Faces > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no desk came to the lead that was started again: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// awaitAsk waits until an ask for command waits somewhere.
func (s *demoStage) awaitAsk(ctx context.Context, command string) error {
	for {
		nodes, err := livingNodes(s.dirs)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			var snap api.Snapshot
			if callNode(ctx, s.dirs, n, api.OpAsks, nil, &snap) != nil {
				continue
			}
			for _, x := range snap.Asks {
				if x.Ask.Body.Action.Command == command {
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no ask for %q came: %w", command, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// auto plays the demo with a stand-in for the person: a surface that answers
// by a table.
func (s *demoStage) auto(ctx context.Context) error {
	var to *os.File = os.Stderr
	if s.opt.json {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer null.Close()
		to = null
	}
	c, err := api.DialAnswerer(ctx, desk.Sock(s.dirs), version, api.Attach{Surface: "demo", Faces: 1, Cap: ask.ScopeTree})
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(run, func(e api.Event) { s.answer(run, c, e) }) }()
	err = s.play(ctx, to)
	stop()
	c.Close()
	<-ended
	if err != nil {
		return err
	}
	return s.report()
}

// answer is the stand-in for the person. The first ask for the shared file is
// allowed for the whole tree, its removal is denied, and with --kill-lead the
// ask during which the lead dies is answered only once it came back to its
// own session.
func (s *demoStage) answer(ctx context.Context, c *api.Answerer, e api.Event) {
	var shown []api.Shown
	switch x := e.(type) {
	case *api.Snapshot:
		shown = x.Asks
	case *api.Shown:
		shown = []api.Shown{*x}
	}
	say := func(x api.Shown) {
		cmd := x.Ask.Body.Action.Command
		ans := ask.AllowAnswer(x.Ask)
		if strings.HasPrefix(cmd, "rm ") {
			ans = ask.DenyAnswer(x.Ask, "the others still need it")
		}
		if cmd == "touch shared.txt" {
			for _, o := range x.Offers {
				if o.Scope == ask.ScopeTree {
					ans.Offer = o.ID
				}
			}
			if d, err := ask.OffersDigest(x.Offers); err == nil && ans.Offer != "" {
				ans.OfferDigest = &d
			}
		}
		go c.Answer(ctx, ans) // the verdict comes on the connection this runs on
	}
	s.mu.Lock()
	s.say = say
	s.mu.Unlock()
	for _, x := range shown {
		if !s.holds(x) {
			say(x)
		}
	}
}

// demoSettled is one settled ask.
type demoSettled struct {
	ID       string   `json:"id"`
	Session  string   `json:"session"`
	Path     []string `json:"path"`
	Decision string   `json:"decision"`
	By       string   `json:"by"`
	WaitedMS int64    `json:"waited_ms"`
	Command  string   `json:"command,omitempty"`
}

// report prints what the record says: every settled ask once, as the node saw
// it that decided.
func (s *demoStage) report() error {
	settled, relays, err := readDemo(s.dirs.Review())
	if err != nil {
		return err
	}
	if s.opt.json {
		enc := json.NewEncoder(s.app.out)
		for _, x := range settled {
			if err := enc.Encode(x); err != nil {
				return err
			}
		}
		return nil
	}
	for _, r := range relays {
		fmt.Fprintln(s.app.out, r)
	}
	for _, x := range settled {
		fmt.Fprintf(s.app.out, "%-6s %-34q asked by %s, settled at %s over %d hops by %s\n",
			x.Decision, x.Command, x.Session, x.Path[len(x.Path)-1], len(x.Path)-1, x.By)
	}
	return nil
}

func readDemo(dir string) (settled []demoSettled, relays []string, err error) {
	err = review.Scan(dir, review.Filter{}, func(r review.Record) error {
		switch r.Event {
		case review.RelayStarted:
			relays = append(relays, r.Session+" relays to "+r.Field(review.KeyTargetSession))
		case review.RelayStopped:
			relays = append(relays, r.Session+" stops relaying to "+r.Field(review.KeyTargetSession))
		}
		if r.Err != nil || r.Ask == "" || r.Verdict == nil || r.By == nil || r.By.Kind == ask.KindForwarded || r.Event == review.ForwardedEnded {
			return nil // not settled, or settled elsewhere
		}
		x := demoSettled{ID: r.Ask, Session: r.Session, Decision: r.Verdict.String(), By: byText(r.By), Path: []string{}}
		for _, h := range r.Path {
			x.Path = append(x.Path, h.Session)
		}
		at := r.Field(review.KeyResponderSession)
		if at == "" {
			at = r.Session
		}
		if len(x.Path) == 0 || x.Path[len(x.Path)-1] != at {
			x.Path = append(x.Path, at)
		}
		x.WaitedMS, _ = strconv.ParseInt(r.Field(review.KeyWaitedMS), 10, 64)
		if r.Action != nil {
			x.Command = r.Action.Command
			if x.Command == "" && len(r.Action.Paths) > 0 {
				x.Command = "read " + r.Action.Paths[0].Given
			}
		}
		settled = append(settled, x)
		return nil
	})
	return settled, relays, err
}

// interactive plays the demo with the desk in this terminal.
func (s *demoStage) interactive(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(s.work, "agents.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	played := make(chan error, 1)
	go func() {
		err := s.play(ctx, log)
		played <- err
		stop() // the agents are done: the desk may close
	}()
	err = tui.Run(ctx, func(ctx context.Context) (*api.Answerer, error) {
		return desk.Connect(ctx, s.dirs, version, api.Attach{Surface: "terminal", Label: terminalName(s.app.in), Faces: 1, Cap: ask.ScopeUser})
	}, s.app.in, os.Stdout)
	stop()
	perr := <-played
	if b, rerr := os.ReadFile(log.Name()); rerr == nil {
		s.app.out.Write(b)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if perr != nil && errors.Is(ctx.Err(), context.Canceled) {
		perr = nil // the person left before the agents were done
	}
	return errors.Join(perr, s.report())
}
