package desk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"permd/api"
	"permd/ask"
	"permd/desk/desktest"
	"permd/internal/host"
	"permd/review"
	"permd/session"
)

func TestNodesKnowHowManyFaces(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	faces := func(want int) {
		t.Helper()
		desktest.Eventually(t, itoa(want)+" faces at the node", func() bool { return n.Faces() == want })
	}
	faces(0)
	a := attach(t, d, "pts/1")
	faces(1)
	b := attachAs(t, d, api.Attach{Surface: "page", Faces: 3})
	faces(4)
	late := desktest.Start(t, d, "n-2")
	desktest.Eventually(t, "4 faces at the later node", func() bool { return late.Faces() == 4 })
	if err := b.a.Faces(0); err != nil {
		t.Fatal(err)
	}
	faces(1)
	a.close()
	faces(0)
	// It stays and is no surface: an ask of somebody's waits on nobody here.
	attach(t, d, "pts/2")
	faces(1)
}

func TestNewFaceIsAnnounced(t *testing.T) {
	d := desktest.Dirs(t)
	startDesk(t, d)
	a := attach(t, d, "pts/1")
	b := attach(t, d, "pts/2\x1b[31m")
	desktest.Eventually(t, "the announcement", func() bool { return len(a.notices("surface")) == 1 })
	got := a.notices("surface")[0]
	if !strings.Contains(got, "terminal pts/2⟨U+001B⟩") || !strings.Contains(got, itoa(os.Getpid())) {
		t.Errorf("announced as %q", got)
	}
	if got := b.notices("surface"); len(got) != 0 {
		t.Errorf("the new one was told %q", got)
	}
}

// journal is a recorder in memory.
type journal struct {
	mu     sync.Mutex
	events []review.Event
	err    error
	dirs   session.Dirs
}

func (j *journal) Append(e review.Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
	return j.err
}

// Close wants the desk's lock to be held still.
func (j *journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if held, err := host.Held(LockFile(j.dirs)); err != nil || !held {
		return fmt.Errorf("closed with the lock held %v, %v", held, err)
	}
	return nil
}

func (j *journal) count(n review.Name) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := 0
	for _, e := range j.events {
		if e.Name == n {
			c++
		}
	}
	return c
}

// startRecorded runs a desk with a recorder until the test ends.
func startRecorded(t *testing.T, d session.Dirs, j *journal) {
	t.Helper()
	j.dirs = d
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Dirs: d, Open: func() (Recorder, error) { return j, nil }, Started: func() { close(started) }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-started
}

func TestFacesAreRecorded(t *testing.T) {
	d, j := desktest.Dirs(t), &journal{}
	startRecorded(t, d, j)
	v := attach(t, d, "pts/1")
	if got := j.count(review.SurfaceAttached); got != 1 {
		t.Errorf("%d attachments recorded", got)
	}
	v.close()
	desktest.Eventually(t, "the end recorded", func() bool { return j.count(review.SurfaceDetached) == 1 })
}

func TestFaceThatCannotBeRecordedIsRefused(t *testing.T) {
	d, j := desktest.Dirs(t), &journal{err: errors.New("no space left")}
	startRecorded(t, d, j)
	_, err := api.DialAnswerer(context.Background(), Sock(d), "test", api.Attach{Surface: "terminal", Faces: 1})
	var no *api.Refused
	if !errors.As(err, &no) || !strings.Contains(no.Text, "no space left") {
		t.Errorf("attached: %v", err)
	}
}

func TestDeskThatCannotRecordDoesNotStart(t *testing.T) {
	err := Run(context.Background(), Options{Dirs: desktest.Dirs(t), Open: func() (Recorder, error) { return nil, errors.New("read-only") },
		Started: func() { t.Error("it started") }})
	if err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("it ended with: %v", err)
	}
}

// TestAgentsAreNoFaces: this process is made the agent of a node, so that
// everything it does is done by an agent.
func TestAgentsAreNoFaces(t *testing.T) {
	d, j := desktest.Dirs(t), &journal{}
	startRecorded(t, d, j)
	watching := attach(t, d, "pts/1") // attached before
	start, err := host.StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	node := desktest.Start(t, d, session.NodeID(os.Getpid(), start))
	for range 3 {
		_, err = api.DialAnswerer(context.Background(), Sock(d), "test", api.Attach{Surface: "terminal", Faces: 1})
		var no *api.Refused
		if !errors.As(err, &no) || no.Code != api.CodePeer || !strings.Contains(no.Text, node.ID) {
			t.Fatalf("attached: %v", err)
		}
	}
	c, err := api.DialControl(context.Background(), Sock(d), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var no *api.Refused
	if err := c.Call(context.Background(), api.OpStop, nil, nil); !errors.As(err, &no) || no.Code != api.CodeDenied {
		t.Errorf("stop: %v", err)
	}
	var st api.Status
	if err := c.Call(context.Background(), api.OpStatus, nil, &st); err != nil || st.Node != Name || st.Faces != 1 {
		t.Errorf("status %+v, %v; agents may look", st, err)
	}
	// Told and recorded once in a while, not at every try.
	desktest.Eventually(t, "the notice", func() bool { return len(watching.notices("surface")) == 1 })
	if got := j.count(review.SurfaceRefused); got != 1 {
		t.Errorf("%d refusals recorded, want 1", got)
	}
	node.Kill()
	attach(t, d, "pts/2") // the agent has ended: nobody is below it
}

func TestRefusedAnswers(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	narrow := attachAs(t, d, api.Attach{Surface: "page", Faces: 1, Cap: ask.ScopeSession})
	none := attachAs(t, d, api.Attach{Surface: "page", Label: "idle", Cap: ask.ScopeUser})
	w := n.Put("make")
	s := v.sees(w.Ask.Body.ID)
	digest, err := ask.OffersDigest(s.Offers)
	if err != nil {
		t.Fatal(err)
	}
	tree := ask.AllowAnswer(w.Ask)
	tree.Offer, tree.OfferDigest = "o-tree", &digest
	unknown, wrong, invalid := ask.AllowAnswer(w.Ask), ask.AllowAnswer(w.Ask), ask.AllowAnswer(w.Ask)
	unknown.Ask = "a-none"
	wrong.Digest = ask.Digest{1}
	invalid.Items = nil
	for _, c := range []struct {
		name string
		v    *view
		a    ask.Answer
		want string
	}{
		{"unknown", v, unknown, api.VerdictUnknownAsk},
		{"another text", v, wrong, api.VerdictWrongDigest},
		{"invalid", v, invalid, api.VerdictInvalid},
		{"too wide", narrow, tree, api.VerdictScope},
		{"nobody there", none, ask.AllowAnswer(w.Ask), api.VerdictNotOffered},
	} {
		if got := c.v.answer(c.a); got.Verdict != c.want || got.Text == "" {
			t.Errorf("%s: %+v, want %s with words", c.name, got, c.want)
		}
	}
	select {
	case dec := <-w.Decision:
		t.Fatalf("a refused answer decided: %+v", dec)
	default:
	}
	if got := v.answer(tree); got.Verdict != api.VerdictAccepted {
		t.Errorf("verdict %+v", got)
	}
	if dec := w.Wait(t); dec.Grant == nil || dec.Grant.Scope != ask.ScopeTree {
		t.Errorf("decision %+v", dec)
	}
}

// TestBadFaces: what a face says wrong costs it an error or its connection,
// and nobody else anything.
func TestBadFaces(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	w := n.Put("make")
	v.sees(w.Ask.Body.ID)
	dial := func() *api.Conn {
		c, _, err := api.Dial(context.Background(), Sock(d), api.Hello{Role: api.RoleAnswerer})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	read := func(c *api.Conn) string {
		f, err := c.Receive()
		if err != nil {
			return "end"
		}
		return f.T
	}
	c := dial()
	_ = c.Write(api.TAnswer, 1, ask.AllowAnswer(w.Ask))
	if got := read(c); got != api.TRefused {
		t.Errorf("an answer before attach: %s", got)
	}
	c.Close()
	c = dial()
	_ = c.Write(api.TAttach, 0, api.Attach{Surface: "", Faces: 1})
	if got := read(c); got != api.TRefused {
		t.Errorf("a surface without a name: %s", got)
	}
	c.Close()
	c = dial()
	_ = c.Write(api.TAttach, 0, api.Attach{Surface: "terminal", Faces: 1})
	if got := read(c); got != api.TSnapshot {
		t.Fatalf("attach: %s", got)
	}
	_ = c.Write(api.TAnswer, 7, map[string]string{"ask": w.Ask.Body.ID})
	_ = c.Write("no-such-frame", 8, nil)
	_ = c.Write(api.TCall, 9, api.Call{Op: api.OpStop})
	_ = c.Write(api.TFaces, 10, map[string]int{"faces": -1})
	for i, want := range []string{api.TError, api.TUnknown, api.TUnknown, api.TError} {
		if got := read(c); got != want {
			t.Errorf("reply %d: %s, want %s", i, got, want)
		}
	}
	c.Close()
	if _, _, err := api.Dial(context.Background(), Sock(d), api.Hello{Role: api.RoleChild}); err == nil {
		t.Error("the desk took a child")
	}
	v.sees(w.Ask.Body.ID)
}

// TestFaceThatDoesNotRead: a stopped terminal holds up no other, and is given
// up in the end by its queue.
func TestFaceThatDoesNotRead(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	c, _, err := api.Dial(context.Background(), Sock(d), api.Hello{Role: api.RoleAnswerer})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Write(api.TAttach, 0, api.Attach{Surface: "terminal", Faces: 1}); err != nil {
		t.Fatal(err)
	}
	v := attach(t, d, "pts/2")
	big := strings.Repeat("x", 100<<10)
	for range 8 { // more than a socket holds
		w := n.Put("make " + big)
		v.sees(w.Ask.Body.ID)
		if got := v.answer(ask.DenyAnswer(w.Ask, "")); got.Verdict != api.VerdictAccepted {
			t.Fatalf("verdict %+v", got)
		}
	}
}

func TestManyLargeAsksReachANewFace(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	desktest.Eventually(t, "the desk at the node", func() bool { return n.Faces() == 0 })
	big := strings.Repeat("x", 150<<10)
	var ids []string
	for i := range 5 { // more than goes into one snapshot
		ids = append(ids, n.Put(itoa(i)+big).Ask.Body.ID)
	}
	v := attach(t, d, "pts/1")
	for _, id := range ids {
		v.sees(id)
	}
}

func TestControl(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	w := n.Put("make")
	v.sees(w.Ask.Body.ID)
	c, err := api.DialControl(context.Background(), Sock(d), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	var st api.Status
	if err := c.Call(ctx, api.OpStatus, nil, &st); err != nil || st.Node != Name || st.Waiting != 1 || st.Faces != 1 || st.Sessions != 1 || st.PID != os.Getpid() {
		t.Errorf("status %+v, %v", st, err)
	}
	var all api.Sessions
	if err := c.Call(ctx, api.OpSessions, nil, &all); err != nil || len(all.Sessions) != 1 || all.Sessions[0].ID != "claude-n-1" {
		t.Errorf("sessions %+v, %v", all, err)
	}
	var snap api.Snapshot
	if err := c.Call(ctx, api.OpAsks, nil, &snap); err != nil || len(snap.Asks) != 1 || snap.Asks[0].Node != "n-1" {
		t.Errorf("asks %+v, %v", snap, err)
	}
	var no *api.Refused
	if err := c.Call(ctx, api.OpPause, api.PauseArgs{}, nil); !errors.As(err, &no) || no.Code != api.CodeUnknownOp {
		t.Errorf("pause: %v", err)
	}
	w.Cancel()
	v.told(w.Ask.Body.ID)
}

// TestStopTellsTheFaces: a desk that is told to end says so, and answers
// nothing by it.
func TestStopTellsTheFaces(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	ended := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		ended <- Run(context.Background(), Options{Dirs: d, Started: func() { close(started) }})
	}()
	<-started
	v := attach(t, d, "pts/1")
	w := n.Put("make")
	v.sees(w.Ask.Body.ID)
	c, err := api.DialControl(context.Background(), Sock(d), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Call(context.Background(), api.OpStop, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("it ended with: %v", err)
	}
	<-v.done
	if got := v.notices(NoticeEnded); len(got) != 1 || !strings.Contains(got[0], "permd stop") {
		t.Errorf("told %q", got)
	}
	if got := v.count("", func(e api.Event) bool { _, ok := e.(*api.Settled); return ok }); got != 0 {
		t.Error("asks were settled by the end of the desk")
	}
	select {
	case dec := <-w.Decision:
		t.Errorf("decided: %+v", dec)
	default:
	}
}
