package tui

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/desk"
	"permd/desk/desktest"
	"permd/session"
)

// lines is a line mode on a desk in this process.
type lines struct {
	t     testing.TB
	in    *os.File // what is typed
	ended chan error

	mu   sync.Mutex
	text string
	mark int
}

// startLines attaches a line mode to a desk of its own over d.
func startLines(t testing.TB, d session.Dirs) *lines {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- desk.Run(ctx, desk.Options{Dirs: d, Build: "test", Started: func() { close(started) }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-started
	return attachLines(t, d)
}

func attachLines(t testing.TB, d session.Dirs) *lines {
	t.Helper()
	l := &lines{t: t, ended: make(chan error, 1)}
	in, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	printed, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l.in = typed
	read := make(chan struct{})
	go func() {
		defer close(read)
		r := bufio.NewReader(printed)
		for {
			s, err := r.ReadString('\n')
			l.mu.Lock()
			l.text += s
			l.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		err := Plain(context.Background(), func(ctx context.Context) (*api.Answerer, error) {
			return api.DialAnswerer(ctx, desk.Sock(d), "test", api.Attach{Surface: "terminal", Label: "lines", Faces: 1, Cap: ask.ScopeUser})
		}, in, out)
		out.Close()
		l.ended <- err
	}()
	t.Cleanup(func() {
		typed.Close()
		<-read
		in.Close()
		printed.Close()
	})
	l.sees("attached to the desk")
	return l
}

// sees waits for words printed since the last line was typed.
func (l *lines) sees(want string) {
	l.t.Helper()
	desktest.Eventually(l.t, "the words "+want, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return strings.Contains(l.text[l.mark:], want)
	})
}

func (l *lines) printed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// typed is a line by a person who has read what is there.
func (l *lines) typed(line string) {
	l.t.Helper()
	time.Sleep(armDelay + 50*time.Millisecond)
	l.at(line)
}

// at is a line at once.
func (l *lines) at(line string) {
	l.t.Helper()
	l.mu.Lock()
	l.mark = len(l.text)
	l.mu.Unlock()
	if _, err := io.WriteString(l.in, line+"\n"); err != nil {
		l.t.Fatal(err)
	}
}

func open(t testing.TB, w *desktest.Asked) {
	t.Helper()
	select {
	case dec := <-w.Decision:
		t.Fatalf("decided: %+v", dec)
	default:
	}
}

func TestPlainAnswers(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	l := startLines(t, d)
	w := n.Put("make all\nrm -rf \u202ebuild")
	l.sees("answer with: 1 allow | 1 allow session | 1 allow tree | 1 deny")
	for _, want := range []string{"[1] Run a command\n", "    from: claude-n-1 (claude)\n", "    in: /home/dev/proj\n", "    | make all\n", "    | rm -rf ⟨U+202E⟩build\n",
		"warning: 1 character that cannot be seen"} {
		if !strings.Contains(l.printed(), want) {
			t.Errorf("it does not say %q:\n%s", want, l.printed())
		}
	}
	l.typed("1 allow")
	l.sees("[1] allow, once: accepted")
	if dec := w.Wait(t); dec.Verdict != ask.Allow || dec.Grant != nil {
		t.Errorf("decision %+v", dec)
	}
	if err := n.Broker.Delivered(w.Ask.Body.ID, "released", ""); err != nil {
		t.Fatal(err)
	}
	l.sees("[1] done")

	w = n.Put("make install")
	l.sees("[2] Run a command")
	l.typed("2 deny because it is late,  really")
	l.sees("[2] deny, with a reason: accepted")
	if dec := w.Wait(t); dec.Verdict != ask.Deny || dec.Reason != "it is late,  really" {
		t.Errorf("decision %+v", dec)
	}

	w = n.Put("make test")
	l.sees("[3] Run a command")
	l.typed("3 deny")
	l.sees("[3] deny: accepted")
	w.Wait(t)

	w = n.Put("make docs")
	l.sees("[4] Run a command")
	l.typed("4 allow session")
	l.sees("to allow this and keep the rule: 4 confirm")
	l.sees("    | command: make docs\n")
	open(t, w)
	l.typed("4 confirm")
	l.sees("[4] allow, session: accepted")
	if dec := w.Wait(t); dec.Verdict != ask.Allow || dec.Grant == nil || dec.Grant.Scope != ask.ScopeSession {
		t.Errorf("decision %+v", dec)
	}
	l.typed("quit")
	if err := <-l.ended; err != nil {
		t.Error(err)
	}
}

// TestPlainGrants: a grant of every scope, another rule of the same, and a rule
// that the person narrowed; one that is wider answers nothing.
func TestPlainGrants(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	l := startLines(t, d)
	w := n.Put("git push origin main")
	l.sees("1 allow session | 1 allow tree | 1 allow project | 1 allow user | 1 deny")
	l.typed("1 next")
	l.sees("shows no rule")
	l.typed("1 rule git push *")
	l.sees("shows no rule")
	l.typed("1 allow session")
	l.sees("    | command: git push origin main\n")
	l.typed("1 next")
	l.sees("    | command: git push *\n")
	l.typed("1 next")
	l.sees("    | command: git push origin main\n")
	l.typed("1 rule git *")
	l.sees("    | command: git *\n")
	l.sees("if it is no wider than what was offered")
	open(t, w)
	l.at("1 confirm") // it was not read
	l.sees("was not on the screen yet")
	l.typed("1 allow project")
	l.sees("in this project")
	l.typed("1 rule git *")
	l.sees("to allow this and keep the rule")
	l.typed("1 confirm")
	l.sees("not taken")
	open(t, w)
	l.typed("1 allow project")
	l.sees("to allow this and keep the rule")
	l.typed("1 rule git push origin main --dry-run")
	l.sees("    | command: git push origin main --dry-run\n")
	l.typed("1 confirm")
	l.sees("[1] allow, project: accepted")
	dec := w.Wait(t)
	if dec.Verdict != ask.Allow || dec.Grant == nil || dec.Grant.Scope != ask.ScopeProject || dec.Grant.Rule.Command != "git push origin main --dry-run" {
		t.Errorf("decision %+v", dec)
	}
}

// TestPlainDecidesNothingByItself: what is not the words for it, or came too
// soon, answers nothing; nor does the end of the input.
func TestPlainDecidesNothingByItself(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	l := startLines(t, d)
	l.at("1 allow") // before there is such an ask
	l.sees("[1] does not wait here")
	w := n.Put("make all")
	l.sees("[1] Run a command")
	l.at("1 allow") // before anybody could have read it
	l.sees("was not on the screen yet")
	open(t, w)
	for _, line := range []string{"", " ", "y", "yes", "allow", "1", "1 yes", "1 y", "1 ALLOW", "1 allow now", "1 allow user", "1 confirm", "1 allow session yes",
		"01 deny because", "1 deny now", "1 deny because", "2 allow", "-1 allow", "1allow", "allow 1", "\x1b[A", strings.Repeat("x", 5000)} {
		l.typed(line)
		l.at("list")
		l.sees("[1] claude-n-1: make all")
		open(t, w)
	}
	l.typed("1 allow session")
	l.sees("1 confirm")
	l.at("1 confirm") // the rule was not read
	l.sees("was not on the screen yet")
	open(t, w)
	l.typed("1 confirm") // only the very next command confirms
	l.sees("has nothing to confirm")
	open(t, w)
	l.typed("1 allow tree")
	l.sees("1 confirm")
	l.typed("1 show")
	l.typed("1 confirm")
	l.sees("has nothing to confirm")
	open(t, w)
	l.in.Close()
	if err := <-l.ended; err != nil {
		t.Error(err)
	}
	l.sees("the input has ended")
	open(t, w)
	desktest.Eventually(t, "no face left", func() bool { return n.Faces() == 0 })
}

func TestPlainTellsWhatHappensElsewhere(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	l, other := startLines(t, d), (*lines)(nil)
	other = attachLines(t, d)
	l.sees("notice: a surface was attached to the desk: terminal lines")
	a, b := n.Put("make a"), n.Put("make b")
	l.sees("[1] Run a command")
	l.sees("[2] Run a command")
	other.sees("[2] Run a command")
	other.typed("1 allow")
	l.sees("[1] allowed at terminal lines")
	a.Wait(t)
	l.typed("1 deny")
	l.sees("[1] does not wait here")
	b.Cancel()
	l.sees("[2] no longer waits")
	b.Wait(t)
	n.Tell(api.TNotice, api.Notice{Kind: "tripwire", Text: "it ran\x1b[2J something"})
	l.sees("notice: it ran⟨U+001B⟩[2J something")
	n.Tell(api.TSessions, api.Sessions{Sessions: []api.SessionState{{ID: "claude-n-1", Node: "n-1", Tripped: true}}})
	l.sees("warning: session claude-n-1 ran something that was not let go")
	l.typed("list")
	l.sees("nothing waits")
	l.typed("help")
	l.sees("1 allow session")
}

func TestPlainPutsAway(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	l := startLines(t, d)
	w := n.Put("make all")
	l.sees("[1] Run a command")
	l.typed("1 hide")
	l.sees("[1] put away, not answered")
	l.typed("list")
	l.sees("(put away)")
	l.typed("show 1")
	l.sees("[1] Run a command")
	open(t, w)
}

// TestPlainVerdictAfterTheInput: an answer that is on its way when the input
// ends gets its verdict printed.
func TestPlainVerdictAfterTheInput(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	l := startLines(t, d)
	w := n.Put("make all")
	l.sees("[1] Run a command")
	release := n.Hold()
	l.typed("1 allow")
	l.in.Close()
	l.sees("the input has ended")
	release()
	if err := <-l.ended; err != nil {
		t.Error(err)
	}
	l.sees("[1] allow, once: accepted")
	if dec := w.Wait(t); dec.Verdict != ask.Allow {
		t.Errorf("decision %+v", dec)
	}
}

// TestStay: a lost desk is looked for again, one that ended on purpose or
// refuses is not.
func TestStay(t *testing.T) {
	d := desktest.Dirs(t)
	run := func() (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		started, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- desk.Run(ctx, desk.Options{Dirs: d, Started: func() { close(started) }}) }()
		<-started
		return func() { cancel(); <-ended }
	}
	dial := func(ctx context.Context) (*api.Answerer, error) {
		return api.DialAnswerer(ctx, desk.Sock(d), "test", api.Attach{Surface: "terminal", Faces: 1})
	}
	if err := stay(context.Background(), dial, func(any) {}); err == nil {
		t.Error("the first connection may fail")
	}
	stop := run()
	var told []any
	var mu sync.Mutex
	ended := make(chan error, 1)
	go func() {
		ended <- stay(context.Background(), dial, func(x any) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, x)
		})
	}()
	count := func(kind func(any) bool) int {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, x := range told {
			if kind(x) {
				n++
			}
		}
		return n
	}
	on := func(x any) bool { _, ok := x.(online); return ok }
	off := func(x any) bool { _, ok := x.(offline); return ok }
	desktest.Eventually(t, "a connection", func() bool { return count(on) == 1 })
	// As when it is killed: the connection ends without a word.
	mu.Lock()
	for _, x := range told {
		if o, ok := x.(online); ok {
			o.to.(*api.Answerer).Close()
		}
	}
	mu.Unlock()
	desktest.Eventually(t, "another connection", func() bool { return count(off) == 1 && count(on) == 2 })
	stop()
	if err := <-ended; !errors.Is(err, ErrEnded) {
		t.Errorf("it ended with: %v", err)
	}
}

func TestStayEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	tries := 0
	err := stay(ctx, func(context.Context) (*api.Answerer, error) {
		tries++
		cancel()
		return nil, errors.New("no")
	}, func(any) {})
	if err != nil || tries != 1 {
		t.Errorf("%v after %d tries", err, tries)
	}
}
