package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"permd/api"
	"permd/broker"
	"permd/clients"
	"permd/internal/host"
	"permd/review"
	"permd/session"
)

// Config is what a node is started with.
type Config struct {
	Dirs     session.Dirs
	PID      int    // the agent's process
	Start    uint64 // and its start time
	Codec    clients.Codec
	Settings Settings
	Build    string
	// Started is called once, when the socket accepts connections.
	Started func()
}

// Node is a running node. Everything below mu is guarded by it; it is never
// held over a wait, a file or a call to another package that may block.
type Node struct {
	cfg       Config
	id        string
	instance  string
	boot      string
	dir       session.Node
	client    *host.Process
	args      []string // the client's own argv
	log       *review.Log
	broker    *broker.Broker
	law       *law
	up        *upward
	ancestors lineage
	place     place
	down      *downward

	ctx  context.Context
	work sync.WaitGroup // connections and what they start
	// consultations is how many asks are with external deciders now.
	consultations atomic.Int32

	mu       sync.Mutex
	registry session.Registry
	sessions map[string]*sess
	root     string // id of the first root session, "" before the first event
	launch   *api.LaunchArgs
	watchers map[*watcher]bool
	// facesCame is closed, and made anew, when the number of faces changes;
	// faced says whether there ever was one, facesLeft when the last one left.
	facesCame chan struct{}
	faced     bool
	facesLeft time.Time
	paused    time.Time // end of a pause, zero for none
	modes     modes
	faces     int // attached faces of all answerers
	confirms  map[string]string
	expected  map[procID]string // announced children: process → session they belong below
	tickets   map[string]string // ticket → session it was given below
	used      map[string]usedTicket
	decided   decided
	// What the record says of the time before this process.
	before     map[string][]call
	wasTripped map[string]bool
}

type procID struct {
	pid   int
	start uint64
}

// ErrAgentGone is returned by Run when the agent ended before the node began.
var ErrAgentGone = errors.New("the agent's process has ended")

// Run is a node's life: it takes the node's directory, serves until the agent
// ends or ctx is done, and leaves nothing behind but the record. A second
// node for the same agent gets host.ErrLocked.
func Run(ctx context.Context, cfg Config) (err error) {
	if err := cfg.Dirs.Make(); err != nil {
		return err
	}
	agent, err := host.OpenProcess(cfg.PID)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAgentGone, err)
	}
	defer agent.Close()
	if agent.StartTime() != cfg.Start {
		return ErrAgentGone
	}
	boot, err := host.BootID()
	if err != nil {
		return fmt.Errorf("boot id: %w", err)
	}
	n := &Node{
		cfg: cfg, id: session.NodeID(cfg.PID, cfg.Start), instance: uuid.NewString(), boot: boot, client: agent,
		sessions: map[string]*sess{}, watchers: map[*watcher]bool{}, facesCame: make(chan struct{}), confirms: map[string]string{},
		expected: map[procID]string{}, tickets: map[string]string{}, used: map[string]usedTicket{},
		place: place{look: make(chan struct{}, 1)}, modes: modes{changed: make(chan struct{}, 1)},
	}
	n.dir = cfg.Dirs.Node(n.id)
	n.args, _ = host.Args(cfg.PID) // unreadable argv only loses a hint at the parent
	if err := host.MakeDir(string(n.dir)); err != nil {
		return err
	}
	lock, err := lockNode(ctx, n.dir)
	if err != nil {
		return err
	}
	defer func() {
		os.RemoveAll(string(n.dir))
		lock.Close()
	}()
	n.log, err = openLog(ctx, review.Options{Dir: cfg.Dirs.Review(), Writer: n.id, Version: cfg.Build})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.log.Close()) }()
	if n.law, err = newLaw(cfg.Dirs, n); err != nil {
		return err
	}
	n.broker = broker.New(brokerRecorder{n}, broker.Options{})
	return n.serve(ctx)
}

// lockNode takes the node's lock. A predecessor that was killed may hold it
// for a moment after its socket has gone.
func lockNode(ctx context.Context, dir session.Node) (*host.Lock, error) {
	for until := time.Now().Add(time.Second); ; {
		lock, err := host.TryLock(dir.Lock())
		if !errors.Is(err, host.ErrLocked) || time.Now().After(until) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// serve runs all loops of the node until the agent ends.
func (n *Node) serve(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	n.ctx = ctx
	n.recall()
	listener, err := api.Listen(n.dir.Sock())
	if err != nil {
		return err
	}
	if n.down, err = newDownward(n); err != nil {
		listener.Close()
		return err
	}
	n.up = newUpward(n)
	if err := errors.Join(n.writeFacts(), n.place.take(n.dir)); err != nil {
		listener.Close()
		return err
	}
	if err := session.Bind(n.cfg.Dirs, n.id, n.id); err != nil {
		listener.Close()
		return err
	}
	defer session.Unbind(n.cfg.Dirs, n.id, n.id)
	n.record(review.Event{Name: review.NodeStarted, Fields: []review.Field{
		{Key: review.KeyInstance, Value: n.instance}, {Key: review.KeyPID, Value: fmt.Sprint(n.cfg.PID)},
		{Key: review.KeyClient, Value: n.cfg.Codec.Client()}, {Key: review.KeyVersion, Value: n.cfg.Build}}})

	var loops sync.WaitGroup
	failed := make(chan error, 8)
	loop := func(f func(context.Context) error) {
		loops.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				failed <- err
			}
		})
	}
	loop(func(ctx context.Context) error { return listener.Serve(ctx, n.accept) })
	loop(n.down.run)
	loop(n.guardPlace)
	loop(n.sweepLogs)
	loop(n.endModes)
	agentEnd := make(chan struct{})
	loops.Go(func() {
		defer close(agentEnd)
		n.client.Wait(ctx)
	})
	if n.cfg.Started != nil {
		n.cfg.Started()
	}
	loop(n.reap)
	host.TrimStart()
	var cause error
	select {
	case <-agentEnd:
	case <-ctx.Done():
	case cause = <-failed:
	}
	stop(errEnding)
	end, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	n.up.close()
	n.broker.Close(end)
	n.work.Wait()
	loops.Wait()
	n.endSessions()
	n.record(review.Event{Name: review.NodeEnded, Fields: []review.Field{{Key: review.KeyInstance, Value: n.instance}}})
	return cause
}

// errEnding is the cause under which waits end with the node.
var errEnding = errors.New("the agent has ended")

// placeEvery is how often a node looks at its own directory and puts a head of
// its log into the ledger if there is anything new. A node with children looks
// with each beat; one look costs 0.4 ms of CPU (measured), nearly all of it for
// waking up, and an idle node has 1 ms a minute.
const placeEvery = time.Minute

// sweepLogs closes the logs that killed nodes left open, so that a cut of them
// shows from then on.
func (n *Node) sweepLogs(ctx context.Context) error {
	if _, err := review.Sweep(ctx, review.Options{Dir: n.cfg.Dirs.Review(), Version: n.cfg.Build}); err != nil && ctx.Err() == nil {
		n.warn("", "closing the logs of nodes that were killed: "+err.Error())
	}
	return nil
}

// guardPlace verifies the node's directory now and then, and when a beat says
// that something is wrong there: a login manager may delete the runtime
// directory under a living terminal.
func (n *Node) guardPlace(ctx context.Context) error {
	tick := time.NewTicker(placeEvery)
	defer tick.Stop()
	head := n.log.Head()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-n.place.look:
		}
		if n.log.Head() != head {
			if err := n.log.Checkpoint(ctx); err != nil && ctx.Err() == nil {
				n.complain("the review log cannot be written: " + err.Error())
			}
			head = n.log.Head()
		}
		if err := n.checkPlace(); err != nil {
			return err
		}
		for _, dir := range []string{n.cfg.Dirs.Run, string(n.dir), n.dir.Mail()} {
			if err := host.CheckDir(dir, 0o700); err != nil {
				return err
			}
		}
	}
}
