package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"permd/ask"
)

// node is a server that plays a script with each connection once its
// handshake and first frame are through.
func node(t *testing.T, script func(h Hello, first Frame, c *Conn)) string {
	return serve(t, func(_ context.Context, in *Incoming) {
		h, err := welcomed(in)
		if err != nil {
			return
		}
		first, err := in.Conn.Read()
		if err != nil {
			return
		}
		script(h, first, in.Conn)
	})
}

// drain reads to the end of the connection.
func drain(c *Conn) {
	for {
		if _, err := c.Read(); err != nil {
			return
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func attach(t *testing.T, path string) *Answerer {
	t.Helper()
	a, err := DialAnswerer(context.Background(), path, "test", Attach{Surface: "terminal", Faces: 1, Cap: ask.ScopeTree})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// run runs the answerer until the test ends and returns its events.
func run(t *testing.T, run func(context.Context, func(Event)) error) (<-chan Event, func() error) {
	events := make(chan Event, 100)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		err := run(ctx, func(e Event) { events <- e })
		close(events)
		done <- err
	}()
	var once sync.Once
	var err error
	end := func() error {
		once.Do(func() {
			select {
			case err = <-done:
			case <-time.After(patience):
				err = errors.New("does not end")
			}
		})
		return err
	}
	t.Cleanup(func() { cancel(); end() })
	return events, end
}

func next[T Event](t *testing.T, events <-chan Event) T {
	t.Helper()
	select {
	case e := <-events:
		v, ok := e.(T)
		if !ok {
			t.Fatalf("got %T %+v, want %T", e, e, v)
		}
		return v
	case <-time.After(patience):
		t.Fatal("no event")
	}
	panic("unreachable")
}

func TestAnswererGetsEverythingInOrder(t *testing.T) {
	one, two := sampleAsk(t, "a-1"), sampleAsk(t, "a-2")
	path := node(t, func(h Hello, f Frame, c *Conn) {
		var a Attach
		must(t, f.Body(&a))
		if h.Role != RoleAnswerer || f.T != TAttach || a.Surface != "terminal" || a.Cap != ask.ScopeTree {
			t.Errorf("%+v %+v", h, a)
		}
		must(t, c.Write(TSnapshot, 0, Snapshot{Asks: []Shown{{Ask: one, AgeMS: 5}}, Sessions: Sessions{[]SessionState{{ID: "s-1"}}}}))
		must(t, c.Write(TAsk, 0, Shown{Ask: two}))
		must(t, c.Write("later", 0, "something new"))
		must(t, c.Write(TSessions, 0, Sessions{[]SessionState{}}))
		must(t, c.Write(TNotice, 0, Notice{Kind: "surface", Text: "a new one"}))
		must(t, c.Write(TSettled, 0, Settled{Ask: "a-2", How: SettledLocally, Outcome: ask.Answered}))
		must(t, c.Write(TDeliver, 0, Delivered{Ask: "a-2", How: "released"}))
		for _, want := range []string{TUnknown, TFaces, TOnScreen, THide} {
			if f, err := c.Read(); err != nil || f.T != want {
				t.Errorf("%v, %v, want %s", f, err, want)
			}
		}
	})
	a := attach(t, path)
	if w := a.Welcome(); w.Node != "n1" || w.Version != 1 {
		t.Fatalf("%+v", w)
	}
	events, end := run(t, a.Run)
	s := next[*Snapshot](t, events)
	if len(s.Asks) != 1 || s.Asks[0].Ask.Digest != one.Digest {
		t.Fatalf("%+v", s)
	}
	if e := next[*Shown](t, events); e.Ask.Digest != two.Digest {
		t.Fatalf("%+v", e)
	}
	next[*Sessions](t, events)
	next[*Notice](t, events)
	next[*Settled](t, events)
	next[*Delivered](t, events)
	must(t, a.Faces(2))
	must(t, a.OnScreen("a-1"))
	must(t, a.Hide("a-1"))
	if err := end(); err != io.EOF {
		t.Fatal(err)
	}
}

func TestAnswerGetsItsOwnVerdict(t *testing.T) {
	a1, a2 := sampleAsk(t, "a-1"), sampleAsk(t, "a-2")
	path := node(t, func(_ Hello, _ Frame, c *Conn) {
		must(t, c.Write(TSnapshot, 0, Snapshot{}))
		// Both verdicts at once, in the other order, and one nobody asked for.
		var frames []Frame
		for range 2 {
			f, err := c.Read()
			must(t, err)
			frames = append(frames, f)
		}
		must(t, c.Write(TVerdict, 999, AnswerVerdict{Ask: "a-1", Verdict: VerdictAccepted}))
		for i := range frames {
			f := frames[len(frames)-1-i]
			var n ask.Answer
			must(t, f.Body(&n))
			must(t, c.Write(TVerdict, f.N, AnswerVerdict{Ask: n.Ask, Verdict: VerdictTooLate, Winner: "w-" + n.Ask}))
		}
		drain(c)
	})
	a := attach(t, path)
	run(t, a.Run)
	var work sync.WaitGroup
	for _, q := range []*ask.Ask{a1, a2} {
		work.Go(func() {
			v, err := a.Answer(context.Background(), ask.AllowAnswer(q))
			if err != nil || v.Winner != "w-"+q.Body.ID || v.Verdict != VerdictTooLate {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	work.Wait()
}

// A consumer may answer from inside its own event callback: reading goes on.
func TestAnswerFromTheCallback(t *testing.T) {
	q := sampleAsk(t, "a-1")
	path := node(t, func(_ Hello, _ Frame, c *Conn) {
		must(t, c.Write(TSnapshot, 0, Snapshot{Asks: []Shown{{Ask: q}}}))
		f, err := c.Read()
		must(t, err)
		must(t, c.Write(TNotice, 0, Notice{Text: "before the verdict"}))
		must(t, c.Write(TVerdict, f.N, AnswerVerdict{Ask: "a-1", Verdict: VerdictAccepted}))
	})
	a := attach(t, path)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var got AnswerVerdict
	var notices int
	err := a.Run(ctx, func(e Event) {
		switch e := e.(type) {
		case *Snapshot:
			v, err := a.Answer(ctx, ask.DenyAnswer(e.Asks[0].Ask, "no"))
			must(t, err)
			got = v
		case *Notice:
			notices++
		}
	})
	if err != io.EOF || got.Verdict != VerdictAccepted || notices != 1 {
		t.Fatalf("%v, %+v, %d", err, got, notices)
	}
}

func TestAnswerErrors(t *testing.T) {
	q := sampleAsk(t, "a-1")
	for name, tc := range map[string]struct {
		reply func(c *Conn, f Frame)
		check func(t *testing.T, err error)
	}{
		"error": {func(c *Conn, f Frame) { c.Fail(f.N, CodeDenied, "not you") },
			func(t *testing.T, err error) { wantRefused(t, err, CodeDenied) }},
		"unknown": {func(c *Conn, f Frame) { c.Unknown(f) },
			func(t *testing.T, err error) {
				if !errors.Is(err, ErrFrame) {
					t.Fatal(err)
				}
			}},
		"verdict for another ask": {func(c *Conn, f Frame) { c.Write(TVerdict, f.N, AnswerVerdict{Ask: "a-2", Verdict: VerdictAccepted}) },
			func(t *testing.T, err error) {
				if err == nil {
					t.Fatal("believed")
				}
			}},
		"empty verdict": {func(c *Conn, f Frame) { c.Write(TVerdict, f.N, AnswerVerdict{Ask: "a-1"}) },
			func(t *testing.T, err error) {
				if !errors.Is(err, ask.ErrInvalid) {
					t.Fatal(err)
				}
			}},
		"malformed verdict": {func(c *Conn, f Frame) { c.Send(Frame{T: TVerdict, N: f.N, B: json.RawMessage(`{"ok":true}`)}) },
			func(t *testing.T, err error) {
				if !errors.Is(err, ask.ErrNotCanonical) {
					t.Fatal(err)
				}
			}},
		"the end": {func(c *Conn, f Frame) { c.Close() },
			func(t *testing.T, err error) {
				if !errors.Is(err, ErrGone) {
					t.Fatal(err)
				}
			}},
		"half a verdict": {func(c *Conn, f Frame) {
			b, _ := encodeFrame(Frame{T: TVerdict, N: f.N, B: json.RawMessage(`{"ask":"a-1","verdict":"accepted"}`)})
			c.writeBytes(b[:len(b)-1])
			c.Close()
		},
			func(t *testing.T, err error) {
				if !errors.Is(err, ErrGone) {
					t.Fatal(err)
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			path := node(t, func(_ Hello, _ Frame, c *Conn) {
				must(t, c.Write(TSnapshot, 0, Snapshot{}))
				f, err := c.Read()
				must(t, err)
				tc.reply(c, f)
				drain(c)
			})
			a := attach(t, path)
			run(t, a.Run)
			v, err := a.Answer(context.Background(), ask.AllowAnswer(q))
			if v.Verdict != "" {
				t.Fatalf("%+v", v)
			}
			tc.check(t, err)
		})
	}
}

func TestAnswerGivenUp(t *testing.T) {
	path := node(t, func(_ Hello, _ Frame, c *Conn) {
		must(t, c.Write(TSnapshot, 0, Snapshot{}))
		f, err := c.Read()
		must(t, err)
		g, err := c.Read() // comes when the first was given up
		must(t, err)
		must(t, c.Write(TVerdict, f.N, AnswerVerdict{Ask: "a-1", Verdict: VerdictAccepted}))
		must(t, c.Write(TVerdict, g.N, AnswerVerdict{Ask: "a-2", Verdict: VerdictInvalid}))
		drain(c)
	})
	a := attach(t, path)
	_, end := run(t, a.Run)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := a.Answer(ctx, ask.AllowAnswer(sampleAsk(t, "a-1"))); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	// The late verdict of the first is nobody else's.
	if v, err := a.Answer(context.Background(), ask.AllowAnswer(sampleAsk(t, "a-2"))); err != nil || v.Verdict != VerdictInvalid {
		t.Fatalf("%+v, %v", v, err)
	}
	a.Close()
	if err := end(); err == nil {
		t.Fatal("closed, and Run says nothing")
	}
	if _, err := a.Answer(context.Background(), ask.AllowAnswer(sampleAsk(t, "a-3"))); !errors.Is(err, ErrGone) {
		t.Fatal(err)
	}
}

// One ask that cannot be read is told to both sides and costs no other.
func TestMalformedEventIsPassedOver(t *testing.T) {
	told := make(chan Frame, 1)
	path := node(t, func(_ Hello, _ Frame, c *Conn) {
		must(t, c.Write(TSnapshot, 0, Snapshot{}))
		must(t, c.Send(Frame{T: TAsk, N: 4, B: json.RawMessage(`{"ask":null,"age_ms":0}`)}))
		must(t, c.Write(TAsk, 0, Shown{Ask: sampleAsk(t, "a-1")}))
		f, err := c.Read()
		must(t, err)
		told <- f
	})
	a := attach(t, path)
	events, _ := run(t, a.Run)
	next[*Snapshot](t, events)
	if n := next[*Notice](t, events); n.Kind != NoticeMalformed || !strings.Contains(n.Text, "ask") {
		t.Fatalf("%+v", n)
	}
	next[*Shown](t, events)
	if f := <-told; f.T != TError || f.N != 4 {
		t.Fatal(f)
	}
}

func TestAttachRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		say  func(c *Conn)
		code string
	}{
		"refused":      {func(c *Conn) { c.Refuse(CodePeer, "answer in a terminal of your own") }, CodePeer},
		"error":        {func(c *Conn) { c.Fail(0, CodeBad, "no") }, CodeBad},
		"unknown":      {func(c *Conn) { c.Unknown(Frame{}) }, ""},
		"another":      {func(c *Conn) { c.Write(TAsk, 0, Shown{}) }, ""},
		"bad snapshot": {func(c *Conn) { c.Write(TSnapshot, 0, Snapshot{Asks: []Shown{{}}}) }, ""},
		"twice": {func(c *Conn) {
			q := Shown{Ask: sampleAsk(t, "a-1")}
			c.Write(TSnapshot, 0, Snapshot{Asks: []Shown{q, q}})
		}, ""},
		"the end": {func(c *Conn) { c.Close() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := node(t, func(_ Hello, _ Frame, c *Conn) { tc.say(c) })
			_, err := DialAnswerer(context.Background(), path, "test", Attach{Surface: "x"})
			if err == nil {
				t.Fatal("attached")
			}
			if tc.code != "" {
				wantRefused(t, err, tc.code)
			}
		})
	}
}

func TestRunRefusedLater(t *testing.T) {
	path := node(t, func(_ Hello, _ Frame, c *Conn) {
		must(t, c.Write(TSnapshot, 0, Snapshot{}))
		c.Refuse(CodeUnavailable, "the node ends")
	})
	a := attach(t, path)
	_, end := run(t, a.Run)
	wantRefused(t, end(), CodeUnavailable)
}

// A consumer that hangs does not fill memory: the connection ends.
func TestSlowConsumer(t *testing.T) {
	path := node(t, func(_ Hello, _ Frame, c *Conn) {
		must(t, c.Write(TSnapshot, 0, Snapshot{}))
		for range 3 * MaxPending {
			if c.Write(TNotice, 0, Notice{Text: "x"}) != nil {
				return
			}
		}
		drain(c)
	})
	a := attach(t, path)
	hang := make(chan struct{})
	done := make(chan error, 1)
	seen := 0
	go func() {
		done <- a.Run(context.Background(), func(Event) {
			if seen++; seen == 1 {
				<-hang
			}
		})
	}()
	// The connection ends although the consumer still hangs.
	if _, err := a.Answer(context.Background(), ask.AllowAnswer(sampleAsk(t, "a-1"))); err == nil {
		t.Fatal("a verdict")
	}
	close(hang)
	if err := <-done; !errors.Is(err, ErrSlow) || seen > MaxPending+1 {
		t.Fatalf("%v after %d events", err, seen)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	path := node(t, func(_ Hello, _ Frame, c *Conn) {
		must(t, c.Write(TSnapshot, 0, Snapshot{}))
		drain(c)
	})
	a := attach(t, path)
	ctx, cancel := context.WithCancel(context.Background())
	if err := a.Run(ctx, func(Event) { cancel() }); err != nil {
		t.Fatal(err)
	}
}

// A stream of the server cut at any byte gives the events before the cut,
// then an error, and never a hang or half an event.
func TestServerCutAtEveryByte(t *testing.T) {
	var stream []byte
	add := func(t string, body any) int {
		raw, _ := ask.Encode(body)
		b, _ := encodeFrame(Frame{T: t, B: raw})
		stream = append(stream, b...)
		return len(stream)
	}
	ends := []int{
		add(TNotice, Notice{Kind: "a", Text: "one"}),
		add(TSettled, Settled{Ask: "a-1", How: SettledTimeout, Outcome: ask.TimedOut}),
		add(TNotice, Notice{Kind: "b", Text: "two"}),
	}
	for i := 0; i <= len(stream); i++ {
		a, b := pair(t)
		s := &Answerer{newStream(NewConn(a), Welcome{}, &Snapshot{})}
		if _, err := b.Write(stream[:i]); err != nil {
			t.Fatal(err)
		}
		b.Close()
		n := 0
		err := s.Run(context.Background(), func(e Event) { n++ })
		whole := 1 // the snapshot
		clean := i == 0
		for _, end := range ends {
			if i >= end {
				whole++
			}
			clean = clean || i == end
		}
		if n != whole || (err == io.EOF) != clean || err == nil {
			t.Fatalf("cut after %d bytes: %d events, want %d; %v", i, n, whole, err)
		}
	}
}

func TestProbeManyAtOnce(t *testing.T) {
	path := serve(t, func(_ context.Context, in *Incoming) { welcomed(in) })
	var work sync.WaitGroup
	for i := range 200 {
		work.Go(func() {
			if w, err := Probe(context.Background(), path, fmt.Sprint(i)); err != nil || len(w.Serving) != 1 {
				t.Errorf("%+v, %v", w, err)
			}
		})
	}
	work.Wait()
}
