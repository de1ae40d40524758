package forwarding

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path"
	"strings"
	"time"

	"permd/ask"
)

// How arrivals are noticed while letters are expected.
const (
	// SlowTick is how often a watched mailbox is looked at all the same.
	SlowTick = 30 * time.Second
	// PollTick is how often one is looked at that gives no events; wake-ups
	// over registrations come on top.
	PollTick = 500 * time.Millisecond
	// watchRetry is when watching is tried again after it failed.
	watchRetry = 30 * time.Second
	// echoWait is how long the self-test waits for its own file's event.
	echoWait = time.Second
	// tmpLife is how long a file may lie in tmp before it is a leftover. It is
	// counted from when this node first saw it: file times decide nothing.
	tmpLife = 10 * time.Minute

	echoPrefix = ".permd-echo-"
)

// watchEvent is what the system tells of a watched directory: a name that
// appeared, or that events were lost, that the directory was taken away, or
// that watching has ended.
type watchEvent struct {
	name  string
	lost  bool
	moved bool
	err   error
}

type closer interface{ Close() error }

func isClosed(err error) bool { return errors.Is(err, os.ErrClosed) }

// watching is the state of Run. While nothing is expected it holds no watch
// and no timer.
type watching struct {
	d      *Disk
	w      closer          // nil: polling
	news   chan watchEvent // what is not a letter's name
	dir    os.FileInfo     // the directory that is watched
	echo   string          // the self-test's file, "" when it is done
	proved bool            // the self-test saw its file
	failed string          // why there is no watch
	told   string          // the same as last reported
	due    time.Time       // of the next tick
	retry  time.Time       // when watching is tried again
	tmp    map[string]time.Time
}

// Run notices arrivals and signals them until ctx is done. Exactly one Run may
// be running.
func (d *Disk) Run(ctx context.Context) error {
	s := &watching{d: d, news: make(chan watchEvent, 16), tmp: map[string]time.Time{}}
	defer s.stop()
	tick := time.NewTimer(time.Hour)
	defer tick.Stop()
	later := time.NewTimer(time.Hour)
	defer later.Stop()
	for {
		s.settle(tick, later)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.poke:
		case <-later.C:
			d.mu.Lock()
			d.lookAt = time.Time{}
			d.mu.Unlock()
			d.signal()
		case <-tick.C:
			s.tick()
		case e := <-s.news:
			s.event(e)
		}
	}
}

// settle brings watch and timers in line with what is wanted.
func (s *watching) settle(tick, later *time.Timer) {
	s.d.mu.Lock()
	held, lookAt, rewatch := s.d.held > 0, s.d.lookAt, s.d.rewatch
	s.d.rewatch = false
	s.d.mu.Unlock()
	if !held {
		tick.Stop()
		s.stop()
	} else {
		if rewatch {
			s.stop()
		}
		if s.w == nil && (s.failed == "" || time.Now().After(s.retry)) {
			s.start()
			s.due = time.Now().Add(s.interval())
		}
		tick.Reset(time.Until(s.due))
	}
	s.d.setQuiet(s.w != nil && s.proved)
	if !lookAt.IsZero() {
		later.Reset(time.Until(lookAt))
	}
}

func (s *watching) interval() time.Duration {
	switch {
	case s.echo != "":
		return echoWait
	case s.w != nil:
		return SlowTick
	}
	return PollTick
}

// start watches, then asks for a scan: what came before the watch gives no
// event. Then it finds out whether events arrive at all.
func (s *watching) start() {
	dir := path.Join(s.d.dir(), newDir)
	w, err := s.d.newWatch(dir, s.tellFrom)
	if err == nil {
		if s.dir, err = os.Lstat(dir); err != nil {
			w.Close()
		}
	}
	if err != nil {
		s.fail("no file events", err)
		return
	}
	s.w, s.failed = w, ""
	s.d.Wake()
	if !s.proved {
		s.test(dir)
	}
}

// tellFrom takes in what the watch tells, on the watch's goroutine: a letter
// goes its way without a stop here.
func (s *watching) tellFrom(e watchEvent) {
	if e.name != "" && !strings.HasPrefix(e.name, echoPrefix) {
		s.d.hint(e.name)
		return
	}
	if e.name == "" {
		s.d.Wake() // whatever it was, a scan decides
	}
	select {
	case s.news <- e:
	default: // so many that one more says nothing new
	}
}

// test puts a file of our own and expects its event.
func (s *watching) test(dir string) {
	s.echo = echoPrefix + strings.ToLower(rand.Text())
	f, err := os.OpenFile(path.Join(dir, s.echo), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		s.echo = ""
		s.fail("self-test of file events", err)
		return
	}
	f.Close()
}

func (s *watching) endTest() {
	_ = os.Remove(path.Join(s.d.dir(), newDir, s.echo))
	s.echo = ""
}

// event handles what is not a letter's name.
func (s *watching) event(e watchEvent) {
	switch {
	case e.err != nil:
		s.fail("watching failed", e.err)
	case e.moved:
		s.stop() // the next turn watches what is there then
	case e.name != "" && e.name == s.echo:
		s.proved = true
		s.endTest()
		s.due = time.Now().Add(s.interval())
		s.tell("file events arrive")
	}
}

// tick looks at what no event tells.
func (s *watching) tick() {
	if s.echo != "" {
		s.endTest()
		s.fail("no file events", errors.New("the self-test's file gave none within a second"))
		return
	}
	s.due = time.Now().Add(s.interval())
	if s.w != nil {
		fi, err := os.Lstat(path.Join(s.d.dir(), newDir))
		if err != nil || !os.SameFile(fi, s.dir) {
			s.stop()
		}
	}
	s.sweepTmp()
	s.d.Wake()
}

// fail falls back to polling.
func (s *watching) fail(what string, err error) {
	s.stop()
	s.proved = false
	s.failed = what + ", the mailbox is polled: " + ask.Quote(err.Error())
	s.retry = time.Now().Add(watchRetry)
	s.due = time.Now().Add(s.interval())
	s.tell(s.failed)
	s.d.Wake()
}

func (s *watching) tell(what string) {
	if s.told != what {
		s.d.rep.event(Event{Kind: EventWatch, Node: s.d.node, Why: what})
	}
	s.told = what
}

func (s *watching) stop() {
	if s.echo != "" {
		s.endTest()
	}
	if s.w != nil {
		s.w.Close()
		s.w, s.dir = nil, nil
	}
	s.failed = "" // the next to expect letters tries again
}

// sweepTmp removes what writers left that were killed and never registered.
func (s *watching) sweepTmp() {
	dir, err := os.Open(path.Join(s.d.dir(), tmpDir))
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(listPiece)
	now := time.Now()
	there := map[string]time.Time{}
	for _, name := range names {
		since, ok := s.tmp[name]
		if !ok {
			since = now
		}
		if now.Sub(since) >= tmpLife && os.Remove(path.Join(s.d.dir(), tmpDir, name)) == nil {
			continue
		}
		there[name] = since
	}
	s.tmp = there
}
