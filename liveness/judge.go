package liveness

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"permd/ask"
	"permd/heartbeat"
	"permd/internal/host"
	"permd/session"
)

// HelloTimeout is how long a node may take to answer a hello. Its serving loop
// never waits for anything, so a second is ages.
const HelloTimeout = time.Second

// maxTracks bounds what a judge remembers.
const maxTracks = 1024

// Target is whose serving is judged.
type Target struct {
	Session string
	// Node is the node to look at, "" to look up the session's home.
	Node string
	// Key is the node's beat key from its registration, nil before: then a
	// beat is believed as it stands.
	Key []byte
	// Late is how late the caller itself came to ask.
	Late time.Duration
}

// Judge judges targets. Make one with [New] when the process starts; set its
// fields before the first use, after that it is safe for concurrent use. A
// field that is nil switches its channel off.
type Judge struct {
	// Dirs is where nodes lie.
	Dirs session.Dirs
	// Local answers for sessions of this process: here is false for all
	// others. In-process subagents are judged by it alone.
	Local func(session string) (serving, here bool)
	// LocalServing lists the sessions of this process that serve.
	LocalServing func() []string
	// Hello asks a node's socket. The context ends after [HelloTimeout]; an
	// answer must come from the loop that serves. Nil when there is no socket
	// to ask, as across containers.
	Hello func(ctx context.Context, node session.Node) Hello
	// Look observes a node instead of its directory; for tests and for other
	// transports than disk. Lock, Instance, Beat and the error are its part.
	Look func(node string, key []byte) (Observation, error)

	clock func() (uptime, mono time.Duration, boot string)
	start time.Time // monotonic zero
	boot  string

	mu     sync.Mutex
	tracks map[string]*Track
	// skew is the drift of the clocks at the latest look at any node, before
	// what it was before the machine last slept, and resumed when that was
	// noticed: a node not seen before is judged across a resume all the same.
	skew, before time.Duration
	resumed      time.Duration
}

// New returns a judge of the nodes in dirs. It reads the clocks, so that a
// suspend between now and the first look is noticed.
func New(dirs session.Dirs) *Judge { return NewWithClock(dirs, nil) }

// NewWithClock is New with the clocks to be used: boot time, monotonic time and
// boot id. Nil is the machine's; tests and other transports bring their own.
func NewWithClock(dirs session.Dirs, clock func() (uptime, mono time.Duration, boot string)) *Judge {
	j := &Judge{Dirs: dirs, start: time.Now(), clock: clock}
	if clock == nil {
		j.clock = j.machine
	}
	if boot, err := host.BootID(); err == nil {
		j.boot = boot // without one, ages cannot be compared: the counter decides
	}
	up, mono, _ := j.clock()
	j.skew = up - mono
	j.resumed = -Fresh - 1
	return j
}

// Judge looks at the target now and judges. It blocks for at most
// [HelloTimeout] and some milliseconds, and only when nothing but a hello can
// tell.
func (j *Judge) Judge(ctx context.Context, t Target) Verdict {
	v := j.judge(ctx, t)
	v.Session = t.Session
	if v.Node == "" {
		v.Node = t.Node
	}
	return v
}

func (j *Judge) judge(ctx context.Context, t Target) Verdict {
	if !session.Valid(t.Session) || t.Node != "" && !session.Valid(t.Node) {
		return Verdict{Answer: No, Channel: ChannelNone, State: Absent, Why: "id is not valid"}
	}
	if j.Local != nil {
		if serving, here := j.Local(t.Session); here {
			v := Verdict{Answer: No, Channel: ChannelRegistry, State: NotServing}
			if serving {
				v.Answer, v.State = Yes, Alive
			}
			if j.LocalServing != nil {
				v.Serving = j.LocalServing()
			}
			return v
		}
	}
	node := t.Node
	if node == "" {
		home, err := session.Home(j.Dirs, t.Session)
		if err != nil {
			return Verdict{Answer: No, Channel: ChannelNone, State: Absent, Why: why(err)}
		}
		node = home
	}
	o, err := j.look(node, t.Key)
	o.Late = t.Late
	v, more := j.step(node, o, t.Session)
	if more && j.Hello != nil {
		hctx, cancel := context.WithTimeout(ctx, HelloTimeout)
		o.Hello = j.Hello(hctx, j.Dirs.Node(node))
		cancel()
		if o.Hello.Result == HelloSilent && ctx.Err() != nil {
			o.Hello.Result = HelloNone // the caller hung up, not the node
		}
		o.Now, o.Mono, o.Boot = j.clock()
		v, _ = j.step(node, o, t.Session)
	}
	v.Node = node
	if err != nil && v.Answer != Yes {
		v.Why = why(err)
	}
	return v
}

// step advances what is remembered of node.
func (j *Judge) step(node string, o Observation, session string) (Verdict, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	skew := o.Now - o.Mono
	if skew-j.skew > resumeGap {
		j.before, j.resumed = j.skew, o.Mono
	}
	j.skew = skew
	t := j.tracks[node]
	if t == nil {
		if j.tracks == nil {
			j.tracks = map[string]*Track{}
		}
		for name := range j.tracks {
			if len(j.tracks) < maxTracks {
				break
			}
			delete(j.tracks, name)
		}
		t = &Track{seen: true, skew: skew}
		if o.Mono-j.resumed <= Fresh {
			t.skew = j.before
		}
		j.tracks[node] = t
	}
	next, v, more := step(*t, o, session)
	*t = next
	return v, more
}

// Forget drops what is remembered of node; call it when the node was reaped.
func (j *Judge) Forget(node string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.tracks, node)
}

// look observes a node without a hello. The error says why a beat was not
// used.
func (j *Judge) look(node string, key []byte) (Observation, error) {
	var o Observation
	var err error
	if j.Look != nil {
		o, err = j.Look(node, key)
	} else {
		o, err = LookAt(j.Dirs.Node(node), key)
	}
	// The clock is read last: a beat is never younger than its reading.
	o.Now, o.Mono, o.Boot = j.clock()
	return o, err
}

// LookAt observes the node in dir: its lock, its holder's instance and its
// beat. The error says why there is no beat to use.
func LookAt(dir session.Node, key []byte) (Observation, error) {
	held, err := host.Held(dir.Lock())
	switch {
	case noLocks(err):
		// The beat alone may tell.
	case err != nil:
		return Observation{Lock: LockNone}, err
	case !held:
		return Observation{Lock: LockFree}, nil
	}
	o := Observation{Lock: LockHeld}
	if err != nil {
		o.Lock = LockUnknown
	}
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return Observation{Lock: LockNone}, err
	}
	defer root.Close()
	if f, err := session.ReadFacts(dir); err == nil {
		o.Instance = f.Instance
	}
	b, err := heartbeat.Read(root, dir.ID(), key)
	if err != nil {
		return o, err
	}
	o.Beat = &b
	return o, nil
}

// noLocks tells a file system that has no locks from a lock that may not be
// used.
func noLocks(err error) bool {
	for _, e := range []error{syscall.ENOLCK, syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENOTSUP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func why(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "nothing there"
	}
	return ask.Quote(err.Error())
}

// machine reads the machine's own clocks.
func (j *Judge) machine() (uptime, mono time.Duration, boot string) {
	mono = time.Since(j.start)
	up, err := host.Uptime()
	if err != nil {
		return mono, mono, ""
	}
	return up, mono, j.boot
}
