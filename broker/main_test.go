package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"permd/api"
	"permd/ask"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newAsk seals a permission ask of session "child" to run a command.
func newAsk(t testing.TB, id, command string) *ask.Ask {
	t.Helper()
	in, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	a, err := ask.Seal(ask.Body{ID: id, Origin: ask.OriginGate, From: ask.Who{Session: "child", Client: "claude"},
		Title: "Run a command", Items: ask.PermissionItems("Run it?"),
		Action: &ask.Action{Client: "claude", Tool: ask.ToolBash, ClientTool: "Bash", Call: "call-" + id,
			Input: in, Cwd: "/home/dev/proj", Project: "/home/dev/proj", Command: command}})
	if err != nil {
		t.Fatal(err)
	}
	a.Header.Path = []ask.Hop{{Session: "child", Node: "n1"}}
	return a
}

// newQuestion seals a question with two options and the verb to decline.
func newQuestion(t testing.TB, id string) *ask.Ask {
	t.Helper()
	a, err := ask.Seal(ask.Body{ID: id, Origin: ask.OriginAsk, From: ask.Who{Session: "child", Client: "claude"},
		Title: "Which one?", Verbs: ask.Verbs{Decline: true},
		Items: []ask.Item{{ID: "q", Prompt: "Which one?", Type: ask.ItemChoice, MinPicks: 1, MaxPicks: 1,
			Options: []ask.Option{{ID: "red", Label: "Red"}, {ID: "blue", Label: "Blue"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func offers() []ask.Offer {
	rule := ask.Rule{Action: ask.Allow, Tool: "bash", Command: "make test"}
	return []ask.Offer{
		{ID: "s", Scope: ask.ScopeSession, Label: "this session", Rule: rule},
		{ID: "t", Scope: ask.ScopeTree, Label: "this tree", Rule: rule},
		{ID: "p", Scope: ask.ScopeProject, Label: "this project", Rule: rule},
	}
}

// taking returns an allow that takes offer id of the offers as shown.
func taking(t testing.TB, s api.Shown, id string) ask.Answer {
	t.Helper()
	d, err := ask.OffersDigest(s.Offers)
	if err != nil {
		t.Fatal(err)
	}
	n := ask.AllowAnswer(s.Ask)
	n.Offer, n.OfferDigest = id, &d
	return n
}

// journal is a recorder that remembers.
type journal struct {
	mu       sync.Mutex
	records  []Record
	refusals []Refusal
	commits  int
	fail     func(n int) error // called with the number of the commit
}

var errDisk = errors.New("no space left on device")

func (j *journal) Commit(ctx context.Context, rs []Record) error {
	j.mu.Lock()
	n := j.commits
	j.commits++
	fail := j.fail
	j.mu.Unlock()
	if _, has := ctx.Deadline(); has || ctx.Done() != nil {
		return errors.New("the record could be cancelled")
	}
	if fail != nil {
		if err := fail(n); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records = append(j.records, rs...)
	return nil
}

func (j *journal) Refused(r Refusal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refusals = append(j.refusals, r)
}

// of returns the decisions recorded for ask id.
func (j *journal) of(id string) []ask.Decision {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []ask.Decision
	for _, r := range j.records {
		if r.Decision.Ask == id {
			out = append(out, r.Decision)
		}
	}
	return out
}

// face is an answerer that remembers what it was told.
type face struct {
	mu        sync.Mutex
	shown     []api.Shown
	settled   []api.Settled
	delivered []api.Delivered
	onAsk     func(context.Context, api.Shown) error
	onSettled func(api.Settled)
}

func (f *face) Ask(ctx context.Context, s api.Shown) error {
	f.mu.Lock()
	f.shown = append(f.shown, s)
	g := f.onAsk
	f.mu.Unlock()
	if g != nil {
		return g(ctx, s)
	}
	return nil
}

func (f *face) Settled(s api.Settled) {
	f.mu.Lock()
	f.settled = append(f.settled, s)
	g := f.onSettled
	f.mu.Unlock()
	if g != nil {
		g(s)
	}
}

func (f *face) Delivered(d api.Delivered) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delivered = append(f.delivered, d)
}

func (f *face) ids() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, s := range f.shown {
		out = append(out, s.Ask.Body.ID)
	}
	return out
}

// ends returns how each ask ended here, "id how".
func (f *face) ends() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, s := range f.settled {
		out = append(out, s.Ask+" "+s.How)
	}
	return out
}

// dialog is a client's dialog made of callbacks.
type dialog struct {
	ask     func(context.Context, api.Shown) (ask.Answer, error)
	settled func(api.Settled)
	verdict func(api.AnswerVerdict)
}

func (d *dialog) Ask(ctx context.Context, s api.Shown) (ask.Answer, error) { return d.ask(ctx, s) }
func (d *dialog) Settled(s api.Settled) {
	if d.settled != nil {
		d.settled(s)
	}
}
func (d *dialog) Verdict(v api.AnswerVerdict) {
	if d.verdict != nil {
		d.verdict(v)
	}
}

// world is a broker in a virtual time with its journal.
type world struct {
	t testing.TB
	*Broker
	log *journal
	ctx context.Context
}

// inWorld runs f in virtual time and closes the broker afterwards, which must
// leave nothing behind.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := &journal{}
		w := &world{t: t, Broker: New(log, Options{}), log: log, ctx: t.Context()}
		f(w)
		w.end()
	})
}

func (w *world) end() {
	w.t.Helper()
	if err := w.Close(context.Background()); err != nil {
		w.t.Error(err)
	}
	if n := len(w.list) + len(w.byKey) + len(w.answerers); n != 0 {
		w.t.Errorf("%d things are left in the broker", n)
	}
}

func (w *world) register(id Identity) (*face, *Registration) {
	w.t.Helper()
	f := &face{}
	return f, w.registerAs(f, id)
}

func (w *world) registerAs(f Answerer, id Identity) *Registration {
	w.t.Helper()
	r, err := w.Register(f, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) desk() (*face, *Registration) {
	return w.register(Identity{Name: "terminal", Kind: KindSurface, Cap: ask.ScopeUser, Faces: 1})
}

func (w *world) phone() (*face, *Registration) {
	return w.register(Identity{Name: "SHA256:f00d", Kind: KindDevice, Cap: ask.ScopeUser, Faces: 1})
}

// result is a put that runs.
type result struct {
	done chan struct{}
	d    ask.Decision
	err  error
	took time.Duration
}

// put starts a put and returns when everything has come to rest.
func (w *world) put(ctx context.Context, r Request) *result {
	res := w.start(ctx, r)
	synctest.Wait()
	return res
}

func (w *world) start(ctx context.Context, r Request) *result {
	res := &result{done: make(chan struct{})}
	from := time.Now()
	go func() {
		defer close(res.done)
		res.d, res.err = w.Put(ctx, r)
		res.took = time.Since(from)
	}()
	return res
}

func (r *result) waits() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// wait returns the decision, which must pass its own check.
func (r *result) wait(t testing.TB) ask.Decision {
	t.Helper()
	<-r.done
	if r.err != nil {
		t.Errorf("put: %v", r.err)
	}
	if err := r.d.Check(); err != nil {
		t.Errorf("the decision contradicts itself: %v", err)
	}
	return r.d
}

// answering answers on a goroutine of its own.
func answering(r *Registration, n ask.Answer) <-chan api.AnswerVerdict {
	c := make(chan api.AnswerVerdict, 1)
	go func() { c <- r.Answer(n) }()
	return c
}

func verdictIs(t testing.TB, v api.AnswerVerdict, want string) {
	t.Helper()
	if v.Verdict != want {
		t.Errorf("verdict %s (%s), want %s", v.Verdict, v.Text, want)
	}
}

func same[T comparable](t testing.TB, what string, got []T, want ...T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
