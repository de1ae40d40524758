package review

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"permd/ask"
)

func TestLogHoldsWhatItWasGiven(t *testing.T) {
	dir := stateDir(t)
	l := mustOpen(t, options(dir, "n1"))
	mustAppend(t, l, Event{Name: RelayStarted, Session: "claude-1.ab", Fields: []Field{
		{KeyTargetSession, "claude-1"}, {KeyChannel, "registry"}, {KeyFoundBy, "agent_id"}}})
	mustCommit(t, l, allowed("A1"))
	head := l.Head()
	mustCommit(t, l, denied("A2"))
	if l.Head().Seq != head.Seq+1 {
		t.Errorf("head %d after %d", l.Head().Seq, head.Seq)
	}
	mustClose(t, l)
	r := mustVerify(t, dir, Intact)
	if len(r.Logs) != 1 || !r.Logs[0].Closed || r.Logs[0].Live || r.Logs[0].Head != l.Head() {
		t.Errorf("report %+v, head %+v", r.Logs, l.Head())
	}
	lines := logLines(t, dir, "n1")
	if got, want := eventNames(lines), "log.header log.ledger forwarded_permission.relay_started "+
		"permission_request.approved permission_request.denied log.head"; got != want {
		t.Errorf("events %s\nwant   %s", got, want)
	}
	relay := lines[2]
	if relay.Field(KeyTargetSession) != "claude-1" || relay.Field(KeyChannel) != "registry" || relay.Field(KeyFoundBy) != "agent_id" {
		t.Errorf("relay_started %v", relay.Fields)
	}
	a1 := lines[3]
	if *a1.Verdict != ask.Allow || a1.By.Kind != ask.KindUser || a1.Action.Command != "make test" || *a1.Digest != *digestOf("A1") {
		t.Errorf("record %+v", a1)
	}
}

func TestLogGoesOnInTheSameFile(t *testing.T) {
	dir := stateDir(t)
	for i := range 3 {
		l := mustOpen(t, options(dir, "cmd"))
		mustCommit(t, l, allowed(fmt.Sprintf("A%d", i)))
		mustClose(t, l)
	}
	r := mustVerify(t, dir, Intact)
	if r.Logs[0].Files != 1 || len(ids(t, dir, "cmd")) != 3 {
		t.Errorf("report %+v", r.Logs[0])
	}
	lines := logLines(t, dir, "cmd")
	resumed := 0
	for _, l := range lines {
		if l.Event == LogResumed {
			resumed++
			if l.Field(KeyUnclean) != "false" {
				t.Errorf("resumed %v", l.Fields)
			}
		}
	}
	if resumed != 2 {
		t.Errorf("%d resumptions in %s", resumed, eventNames(lines))
	}
}

func TestLogRotates(t *testing.T) {
	dir := stateDir(t)
	opt := options(dir, "n1")
	opt.MaxFile = 2 << 10
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	l := mustOpen(t, opt)
	for i := range 40 {
		mustCommit(t, l, allowed(fmt.Sprintf("A%d", i)))
	}
	mustClose(t, l)
	r := mustVerify(t, dir, Intact)
	if r.Logs[0].Files < 3 || len(ids(t, dir, "n1")) != 40 {
		t.Errorf("report %+v", r.Logs[0])
	}
	// The ledger grew past its limit, too.
	if r.Ledger.Files < 2 {
		t.Errorf("ledger %+v", r.Ledger)
	}
	checkModes(t, dir)
}

// checkModes holds every directory and file below dir to the owner.
func checkModes(t *testing.T, dir string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if n++; fi.Mode().Perm() != want {
			t.Errorf("%s has mode %o", p, fi.Mode().Perm())
		}
		return nil
	})
	if err != nil || n < 5 {
		t.Errorf("%d entries, %v", n, err)
	}
}

func TestOneWriterAFile(t *testing.T) {
	dir := stateDir(t)
	l := mustOpen(t, options(dir, "n1"))
	if second, err := Open(options(dir, "n1")); !errors.Is(err, ErrInUse) {
		t.Fatalf("second writer: %v, %v", second, err)
	}
	other := mustOpen(t, options(dir, "n2"))
	mustCommit(t, other, allowed("B"))
	mustCommit(t, l, allowed("A"))
	mustClose(t, l)
	mustClose(t, other)
	third := mustOpen(t, options(dir, "n1"))
	mustClose(t, third)
	mustVerify(t, dir, Intact)
}

func TestOpenRefusesNames(t *testing.T) {
	dir := stateDir(t)
	for _, name := range []string{"", ".", "..", "../x", "a/b", "ledger", ".key", "a b", strings.Repeat("n", 65)} {
		if l, err := Open(options(dir, name)); err == nil {
			l.Close()
			t.Errorf("writer %q was let in", name)
		}
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("a refused writer left a directory")
	}
}

func TestCommitOfManyWritersKeepsOrder(t *testing.T) {
	dir := stateDir(t)
	l := mustOpen(t, options(dir, "n1"))
	const writers, each = 20, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := l.Append(Event{Name: AskWaiting, Ask: fmt.Sprintf("w%d-%d", w, i)}); err != nil {
					t.Error(err)
				}
				if err := l.Commit(context.Background(), allowed(fmt.Sprintf("A%d-%d", w, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	mustClose(t, l)
	mustVerify(t, dir, Intact)
	next := map[string]int{}
	for _, line := range logLines(t, dir, "n1") {
		if w, ok := strings.CutPrefix(line.Ask, "A"); ok {
			name, i, _ := strings.Cut(w, "-")
			if fmt.Sprint(next[name]) != i {
				t.Fatalf("writer %s: record %s after %d", name, i, next[name])
			}
			next[name]++
		}
	}
	if len(next) != writers {
		t.Errorf("%d writers", len(next))
	}
}

func TestCommitOutlivesItsCaller(t *testing.T) {
	dir := stateDir(t)
	l := mustOpen(t, options(dir, "n1"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Commit(ctx, allowed("A1")); err != nil {
		t.Fatal(err)
	}
	if !ids(t, dir, "n1")["A1"] {
		t.Error("the record is not there")
	}
}

func TestCommitAllStandsTogether(t *testing.T) {
	dir := stateDir(t)
	l := mustOpen(t, options(dir, "n1"))
	ctx := context.Background()
	if err := l.CommitAll(ctx, nil); err != nil {
		t.Errorf("none: %v", err)
	}
	var wg sync.WaitGroup
	for g := range 10 {
		wg.Go(func() {
			var evs []Event
			for i := range 6 {
				evs = append(evs, allowed(fmt.Sprintf("G%d-%d", g, i)))
			}
			if err := l.CommitAll(ctx, evs); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	bad := []Event{allowed("bad1"), {Name: "nothing"}, allowed("bad2")}
	if err := l.CommitAll(ctx, bad); !errors.Is(err, ErrEvent) {
		t.Errorf("a bad one: %v", err)
	}
	mustClose(t, l)
	mustVerify(t, dir, Intact)
	var last string
	n := 0
	for _, line := range logLines(t, dir, "n1") {
		g, i, ok := strings.Cut(line.Ask, "-")
		if !ok {
			continue
		}
		if n++; i != "0" && g != last {
			t.Errorf("%s stands after %s", line.Ask, last)
		}
		last = g
	}
	if n != 60 || ids(t, dir, "n1")["bad1"] {
		t.Errorf("%d records", n)
	}
}

func TestClosedLogRefuses(t *testing.T) {
	l := mustOpen(t, options(stateDir(t), "n1"))
	mustClose(t, l)
	if err := l.Commit(context.Background(), allowed("A")); !errors.Is(err, ErrClosed) {
		t.Errorf("commit: %v", err)
	}
	if err := l.Append(allowed("A")); !errors.Is(err, ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if err := l.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("close: %v", err)
	}
}

func TestEventsThatCannotBeRecorded(t *testing.T) {
	l := mustOpen(t, options(stateDir(t), "n1"))
	before := l.Head()
	deep := &ask.By{Kind: ask.KindUser}
	for range ask.MaxFrames {
		by := ask.Forwarded("s", *deep)
		deep = &by
	}
	for name, ev := range map[string]Event{
		"no name":         {},
		"unknown name":    {Name: "permission_request.aproved"},
		"the log's own":   {Name: LogHead},
		"ledger's":        {Name: LedgerStarted},
		"gap":             {Name: Gap},
		"unknown verdict": {Name: AskDenied, Verdict: verdict(7)},
		"unknown outcome": {Name: AskDenied, Outcome: "granted"},
		"field twice":     {Name: AskDenied, Fields: []Field{{KeyMode, "a"}, {KeyMode, "b"}}},
		"field no name":   {Name: AskDenied, Fields: []Field{{"", "a"}}},
		"field bad name":  {Name: AskDenied, Fields: []Field{{"a\nb", "a"}}},
		"field long name": {Name: AskDenied, Fields: []Field{{Key(strings.Repeat("k", 41)), "a"}}},
		"many fields":     {Name: AskDenied, Fields: make([]Field, maxFields+1)},
		"long path":       {Name: AskDenied, Path: make([]ask.Hop, ask.MaxHops+1)},
		"deep decider":    {Name: AskDenied, By: deep},
	} {
		if err := l.Commit(context.Background(), ev); !errors.Is(err, ErrEvent) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l.Head() != before {
		t.Error("something was written")
	}
}

func TestCheckpointEntersTheHead(t *testing.T) {
	dir := stateDir(t)
	l := mustOpen(t, options(dir, "n1"))
	mustAppend(t, l, allowed("A"))
	ctx := context.Background()
	if err := l.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	head := l.Head()
	if err := l.Checkpoint(ctx); err != nil || l.Head() != head {
		t.Errorf("an idle log has a new head: %v", err)
	}
	if !ids(t, dir, "n1")["A"] {
		t.Error("the record before it is not there")
	}
	mustVerify(t, dir, Intact)
	// What was there at the checkpoint cannot be cut unseen any more, though
	// the writer never closes.
	file := filepath.Join(dir, "n1", fileName(1))
	if err := os.Truncate(file, 10); err != nil {
		t.Fatal(err)
	}
	mustVerify(t, dir, Tampered)
}

// The reserve is space, not size, and goes back at the end.
func TestReserve(t *testing.T) {
	dir := stateDir(t)
	l := mustOpen(t, options(dir, "n1"))
	mustCommit(t, l, allowed("A"))
	file := filepath.Join(dir, "n1", fileName(1))
	blocks := func() (size, used int64) {
		var st syscall.Stat_t
		if err := syscall.Stat(file, &st); err != nil {
			t.Fatal(err)
		}
		return st.Size, st.Blocks * 512
	}
	size, used := blocks()
	if used < reserveAhead {
		t.Skipf("no space is set aside here: %d bytes of %d", used, size)
	}
	if size > 8<<10 {
		t.Errorf("size %d", size)
	}
	mustClose(t, l)
	if size, used := blocks(); used > size+64<<10 {
		t.Errorf("%d bytes are still set aside for a file of %d", used, size)
	}
}

func TestClockRunsInLines(t *testing.T) {
	for _, at := range []string{"2026-11-30T22:05:01.000000000Z", "2000-01-01T00:00:00.123456789Z", "1999-12-31T23:59:59.999999999Z"} {
		when, err := time.Parse(timeLayout, at)
		if err != nil {
			t.Fatal(err)
		}
		zone := time.FixedZone("east", 5*3600+1800)
		if got := string(appendTime(nil, when.In(zone))); got != at {
			t.Errorf("%s, want %s", got, at)
		}
	}
}
