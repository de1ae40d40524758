package desk

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
	"permd/desk/desktest"
	"permd/session"
)

// startDesk runs a desk in this process until the test ends.
func startDesk(t testing.TB, d session.Dirs) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, Options{Dirs: d, Build: "test", Started: func() { close(started) }}) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the desk ended with: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	select {
	case <-started:
	case err := <-ended:
		t.Fatalf("the desk did not start: %v", err)
	}
	return stop
}

// view is a face: what it was told, in order.
type view struct {
	t    testing.TB
	a    *api.Answerer
	done chan struct{}

	mu     sync.Mutex
	events []api.Event
	asks   map[string]api.Shown
	order  []string
	tree   []api.SessionState
}

func attach(t testing.TB, d session.Dirs, label string) *view {
	t.Helper()
	return attachAs(t, d, api.Attach{Surface: "terminal", Label: label, Faces: 1, Cap: ask.ScopeUser})
}

func attachAs(t testing.TB, d session.Dirs, at api.Attach) *view {
	t.Helper()
	a, err := api.DialAnswerer(context.Background(), Sock(d), "test", at)
	if err != nil {
		t.Fatal(err)
	}
	v := &view{t: t, a: a, done: make(chan struct{}), asks: map[string]api.Shown{}}
	go func() {
		defer close(v.done)
		_ = a.Run(context.Background(), v.event)
	}()
	t.Cleanup(v.close)
	return v
}

func (v *view) close() {
	v.a.Close()
	<-v.done
}

func (v *view) event(e api.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.events = append(v.events, e)
	switch e := e.(type) {
	case *api.Snapshot:
		for _, s := range e.Asks {
			v.asks[s.Ask.Body.ID] = s
			v.order = append(v.order, s.Ask.Body.ID)
		}
		v.tree = e.Sessions.Sessions
	case *api.Shown:
		id := e.Ask.Body.ID
		if _, again := v.asks[id]; !again {
			v.order = append(v.order, id)
		}
		v.asks[id] = *e
	case *api.Settled:
		delete(v.asks, e.Ask)
		v.order = slices.DeleteFunc(v.order, func(id string) bool { return id == e.Ask })
	case *api.Sessions:
		v.tree = e.Sessions
	}
}

// sees waits until the face shows the ask and returns it.
func (v *view) sees(id string) api.Shown {
	v.t.Helper()
	var s api.Shown
	desktest.Eventually(v.t, "ask "+id+" on screen", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		var ok bool
		s, ok = v.asks[id]
		return ok
	})
	return s
}

// told waits for the end of an ask and returns it.
func (v *view) told(id string) api.Settled {
	v.t.Helper()
	var s *api.Settled
	desktest.Eventually(v.t, "end of "+id, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, e := range v.events {
			if x, ok := e.(*api.Settled); ok && x.Ask == id {
				s = x
			}
		}
		return s != nil
	})
	return *s
}

// notices are all notices of a kind so far.
func (v *view) notices(kind string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []string
	for _, e := range v.events {
		if n, ok := e.(*api.Notice); ok && n.Kind == kind {
			out = append(out, n.Text)
		}
	}
	return out
}

func (v *view) count(id string, f func(api.Event) bool) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for _, e := range v.events {
		if f(e) {
			n++
		}
	}
	return n
}

func (v *view) answer(a ask.Answer) api.AnswerVerdict {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	verdict, err := v.a.Answer(ctx, a)
	if err != nil {
		v.t.Fatalf("answer: %v", err)
	}
	return verdict
}

func TestAnswerReachesItsNode(t *testing.T) {
	d := desktest.Dirs(t)
	one, two := desktest.Start(t, d, "n-1"), desktest.Start(t, d, "n-2")
	startDesk(t, d)
	v := attach(t, d, "pts/1")
	a, b := one.Put("make a"), two.Put("make b")
	s := v.sees(b.Ask.Body.ID)
	if s.Node != "n-2" {
		t.Errorf("shown as of node %q", s.Node)
	}
	v.sees(a.Ask.Body.ID)
	if got := v.answer(ask.AllowAnswer(b.Ask)); got.Verdict != api.VerdictAccepted {
		t.Fatalf("verdict %+v", got)
	}
	if dec := b.Wait(t); !dec.Allows(b.Ask.Body.ID, b.Ask.Digest) || dec.By.Kind != ask.KindUser || dec.By.Surface != Name {
		t.Errorf("decision %+v", dec)
	}
	if got := v.answer(ask.DenyAnswer(a.Ask, "not now")); got.Verdict != api.VerdictAccepted {
		t.Fatalf("verdict %+v", got)
	}
	if dec := a.Wait(t); dec.Verdict != ask.Deny || dec.Reason != "not now" {
		t.Errorf("decision %+v", dec)
	}
}

func TestOldestFirstOverAllNodes(t *testing.T) {
	d := desktest.Dirs(t)
	one, two := desktest.Start(t, d, "n-1"), desktest.Start(t, d, "n-2")
	var want []string
	for i := range 6 {
		n := one
		if i%2 == 1 {
			n = two
		}
		want = append(want, n.Put("make "+itoa(i)).Ask.Body.ID)
	}
	startDesk(t, d)
	first := attach(t, d, "pts/1")
	for _, id := range want {
		first.sees(id)
	}
	late := attach(t, d, "pts/2") // gets them in one snapshot
	for _, id := range want {
		late.sees(id)
	}
	late.mu.Lock()
	defer late.mu.Unlock()
	// How long a node's word takes is anybody's guess, so between nodes the
	// ages as told decide; a node's own order always holds.
	for i := 1; i < len(late.order); i++ {
		if a, b := late.asks[late.order[i-1]], late.asks[late.order[i]]; a.AgeMS < b.AgeMS {
			t.Errorf("%s (%d ms) stands before %s (%d ms)", late.order[i-1], a.AgeMS, late.order[i], b.AgeMS)
		}
	}
	for node := range 2 {
		var got, asked []string
		for i, id := range want {
			if i%2 == node {
				asked = append(asked, id)
			}
		}
		for _, id := range late.order {
			if slices.Contains(asked, id) {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, asked) {
			t.Errorf("node %d asked %q, shown %q", node+1, asked, got)
		}
	}
}

func TestSettledVanishesEverywhere(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	a, b, c := attach(t, d, "pts/1"), attach(t, d, "pts/2"), attach(t, d, "pts/3")
	w := n.Put("make")
	for _, v := range []*view{a, b, c} {
		v.sees(w.Ask.Body.ID)
	}
	if got := b.answer(ask.AllowAnswer(w.Ask)); got.Verdict != api.VerdictAccepted {
		t.Fatalf("verdict %+v", got)
	}
	for _, v := range []*view{a, c} {
		s := v.told(w.Ask.Body.ID)
		if s.How != api.SettledLocally || s.Surface != "terminal pts/2" || !s.Allowed || s.Outcome != ask.Answered {
			t.Errorf("told %+v", s)
		}
	}
	late := a.answer(ask.DenyAnswer(w.Ask, ""))
	if late.Verdict != api.VerdictTooLate || late.Winner != "terminal pts/2" || !strings.Contains(late.Text, "terminal pts/2") {
		t.Errorf("late verdict %+v", late)
	}
	if got, late := len(n.Recorded()), n.Refusals(); got != 1 || late != 1 {
		t.Errorf("the node has %d records and %d refusals, want the late answer among them", got, late)
	}
}

// TestT9ThreeFacesRace: three faces answer one ask at once, many times over.
// Exactly one answer counts, the others hear who was first, and every face but
// the winner is told once.
func TestT9ThreeFacesRace(t *testing.T) {
	d := desktest.Dirs(t)
	n := desktest.Start(t, d, "n-1")
	startDesk(t, d)
	views := []*view{attach(t, d, "pts/1"), attach(t, d, "pts/2"), attach(t, d, "pts/3")}
	for round := range 50 {
		w := n.Put("make " + itoa(round))
		for _, v := range views {
			v.sees(w.Ask.Body.ID)
		}
		var verdicts [3]api.AnswerVerdict
		var all sync.WaitGroup
		for i, v := range views {
			all.Go(func() {
				a := ask.AllowAnswer(w.Ask)
				if i == 1 {
					a = ask.DenyAnswer(w.Ask, "no")
				}
				verdicts[i], _ = v.a.Answer(context.Background(), a)
			})
		}
		all.Wait()
		winner := -1
		for i, got := range verdicts {
			if got.Verdict == api.VerdictAccepted {
				if winner >= 0 {
					t.Fatalf("two answers counted: %+v", verdicts)
				}
				winner = i
			}
		}
		if winner < 0 {
			t.Fatalf("no answer counted: %+v", verdicts)
		}
		name := "terminal pts/" + itoa(winner+1)
		for i, got := range verdicts {
			if i != winner && (got.Verdict != api.VerdictTooLate || got.Winner != name) {
				t.Errorf("loser %d: %+v, want too late after %q", i, got, name)
			}
		}
		if dec := w.Wait(t); (dec.Verdict == ask.Allow) != (winner != 1) {
			t.Errorf("decision %v, the winner was face %d", dec.Verdict, winner)
		}
		for i, v := range views {
			if i != winner {
				if s := v.told(w.Ask.Body.ID); s.Surface != name {
					t.Errorf("face %d was told %+v", i, s)
				}
			}
			want := 1
			if i == winner {
				want = 0
			}
			if got := v.count("", func(e api.Event) bool { s, ok := e.(*api.Settled); return ok && s.Ask == w.Ask.Body.ID }); got != want {
				t.Errorf("face %d was told the end %d times, want %d", i, got, want)
			}
		}
	}
	if got := len(n.Recorded()); got != 50 {
		t.Errorf("%d decisions recorded, want 50", got)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
