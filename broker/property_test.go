package broker

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"permd/api"
	"permd/ask"
)

// schedules is how many random schedules [TestProperty] runs: many where
// nobody waits for them.
func schedules() string {
	switch {
	case testing.Short():
		return "2500" // rapid runs a fifth of them when short
	case os.Getenv("CI") != "":
		return "10000"
	}
	return "2000"
}

// TestProperty runs random schedules in virtual time and compares what the
// broker does with a naive model of the contract (model_test.go): exactly one
// outcome, the earliest valid settler named, every other answerer told exactly
// once and in agreement, nothing pending and no goroutine left.
func TestProperty(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(schedules()); err != nil {
			t.Fatal(err)
		}
		defer f.Value.Set(f.DefValue)
	}
	seen := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSchedule(rt)
		want := s.predict()
		for _, e := range want.Askers {
			kind, _, _ := strings.Cut(e.By, " ")
			seen[kind]++
		}
		var got observed
		synctest.Test(t, func(t *testing.T) { got = s.run(t) })
		if diff := compare(want, got); diff != "" {
			rt.Fatalf("%+v\n%s", s, diff)
		}
	})
	t.Logf("askers by what ended their wait: %v", seen)
	for _, k := range []ask.Kind{ask.KindUser, ask.KindDevice, ask.KindClientDialog, ask.KindGrant, ask.KindTimeout,
		ask.KindUnavailable, ask.KindWithdrawn, ask.KindGateError} {
		if seen[string(k)] == 0 && !t.Failed() {
			t.Errorf("no schedule ended by %s: the schedules do not cover the contract", k)
		}
	}
}

// schedule is everything that happens to one card. Times are milliseconds
// from the put, all different.
type schedule struct {
	Timeout      int
	ClientDialog bool
	Dialog       string // "" for none, else what it does at DialogAt
	DialogAt     int
	Remotes      []remote
	Withdraw     int // 0 for never
	Second       int // when an equal ask joins, 0 for never
	SecondGoes   int // when that one is withdrawn, 0 for never
	Grant        int // when a grant settles it, 0 for never
	Disk         string
}

type remote struct {
	Device    bool
	Late      int // when it registers; 0 is before the put
	Faces     int
	AskFails  string // "", "error" or "panic"
	ToldFails bool   // Settled panics
	Acts      []act
}

type act struct {
	At   int
	What string
}

var (
	whats = []string{"allow", "deny", "grant", "wide", "invalid", "foreign digest", "foreign ask", "hide", "shown",
		"face off", "face on", "leave", "distrust"}
	dialogs = []string{"", "", "", "allow", "deny", "invalid", "error", "panic", "never"}
)

func drawSchedule(t *rapid.T) schedule {
	slots := rapid.Permutation(span(1, 48)).Draw(t, "slots")
	// A slot ends in 3, a timeout in 1, the grace in 5, so that no deadline falls on an
	// event and the model need not guess who comes first.
	at := func() int {
		ms := slots[0]*250 + 3 - slots[0]*250%10
		slots = slots[1:]
		return ms
	}
	maybe := func(name string, one int) int {
		if rapid.IntRange(0, one-1).Draw(t, name) == 0 {
			return at()
		}
		return 0
	}
	s := schedule{
		Timeout:      rapid.SampledFrom([]int{0, 501, 3001, 6001, 9001, 600_001}).Draw(t, "timeout"),
		ClientDialog: rapid.IntRange(0, 4).Draw(t, "client dialog") == 0,
		Dialog:       rapid.SampledFrom(dialogs).Draw(t, "dialog"),
		Disk:         rapid.SampledFrom([]string{"works", "works", "slow", "fails", "panics"}).Draw(t, "disk"),
	}
	if s.Dialog != "" {
		s.DialogAt = at()
	}
	for range rapid.IntRange(0, 3).Draw(t, "remotes") {
		r := remote{
			Device:    rapid.Bool().Draw(t, "device"),
			Faces:     min(rapid.IntRange(0, 4).Draw(t, "faces"), 1),
			Late:      maybe("late", 3),
			AskFails:  rapid.SampledFrom([]string{"", "", "", "", "", "error", "panic"}).Draw(t, "ask fails"),
			ToldFails: rapid.IntRange(0, 5).Draw(t, "told fails") == 0,
		}
		if s.Timeout == 0 && len(s.Remotes) > 0 {
			r.AskFails = "" // two that fail in the instant of the put: either may be first, and it shows
		}
		for range rapid.IntRange(0, 4).Draw(t, "acts") {
			r.Acts = append(r.Acts, act{at(), rapid.SampledFrom(whats).Draw(t, "what")})
		}
		slices.SortFunc(r.Acts, func(a, b act) int { return a.At - b.At })
		s.Remotes = append(s.Remotes, r)
	}
	s.Withdraw, s.Grant = maybe("withdraw", 3), maybe("grant", 6)
	if s.Dialog == "" {
		if s.Second = maybe("second", 3); s.Second > 0 {
			s.SecondGoes = maybe("second goes", 2)
			if s.SecondGoes > 0 && s.SecondGoes < s.Second {
				s.Second, s.SecondGoes = s.SecondGoes, s.Second
			}
		}
	}
	return s
}

func span(from, to int) []int {
	var out []int
	for i := from; i <= to; i++ {
		out = append(out, i)
	}
	return out
}

// ending is how one asker's wait ended.
type ending struct {
	At      int // -1 for never put
	Outcome ask.Outcome
	Allow   bool
	By      string // kind and surface
	Grant   bool
	Limit   int // -1 for none
}

// observed is what everybody saw.
type observed struct {
	Askers   []ending
	Verdicts [][]string // of each remote, in the order of its acts; "" for an act that gets none
	Told     []string   // how each remote was told the end; "" for not at all
	Dialog   string     // how the dialog was told, "" for not at all
	Records  int
	Faults   []string
}

func compare(want, got observed) string {
	var b strings.Builder
	if len(got.Faults) > 0 {
		fmt.Fprintf(&b, "faults: %q\n", got.Faults)
	}
	want.Faults, got.Faults = nil, nil
	if w, g := fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got); w != g {
		fmt.Fprintf(&b, "want %s\ngot  %s\n", w, g)
	}
	return b.String()
}

// slowMS is the pause of a slow disk. It ends in a digit that no other moment
// of a schedule ends in: what happens in one and the same instant has no order.
const slowMS = 10_005

// run plays the schedule against a real broker. It must be called in a
// bubble, which fails if anything is left running.
func (s *schedule) run(t *testing.T) observed {
	const pause = slowMS * time.Millisecond
	log := &journal{}
	switch s.Disk {
	case "slow":
		log.fail = func(int) error { time.Sleep(pause); return nil }
	case "fails":
		log.fail = func(int) error { return errDisk }
	case "panics":
		log.fail = func(int) error { panic("log") }
	}
	b := New(log, Options{Grace: graceMS * time.Millisecond})
	start := time.Now()
	o := observed{Verdicts: make([][]string, len(s.Remotes)), Told: make([]string, len(s.Remotes))}
	var mu sync.Mutex
	fault := func(format string, a ...any) {
		mu.Lock()
		defer mu.Unlock()
		o.Faults = append(o.Faults, fmt.Sprintf(format, a...))
	}
	later := func(ms int) { time.Sleep(time.Until(start.Add(time.Duration(ms) * time.Millisecond))) }

	first, second := newAsk(t, "a", "make test"), newAsk(t, "b", "make test")
	faces := make([]*face, len(s.Remotes))
	running := make(chan struct{})
	parts := 0
	spawn := func(f func()) {
		parts++
		go func() { f(); running <- struct{}{} }()
	}
	answers := make([][]<-chan api.AnswerVerdict, len(s.Remotes))
	for i, r := range s.Remotes {
		f := &face{}
		faces[i] = f
		f.onAsk = func(context.Context, api.Shown) error {
			switch r.AskFails {
			case "error":
				return errors.New("no screen")
			case "panic":
				panic("no screen")
			}
			return nil
		}
		f.onSettled = func(api.Settled) {
			if r.ToldFails {
				panic("no screen")
			}
		}
		id := Identity{Name: fmt.Sprint("remote ", i), Kind: KindSurface, Cap: ask.ScopeTree, Faces: r.Faces}
		if r.Device {
			id.Kind = KindDevice
		}
		register := func() *Registration {
			reg, err := b.Register(f, id)
			if err != nil {
				fault("register: %v", err)
			}
			return reg
		}
		var reg *Registration
		if r.Late == 0 {
			reg = register()
		}
		spawn(func() {
			if reg == nil {
				later(r.Late)
				reg = register()
			}
			for _, a := range r.Acts {
				if a.At < r.Late {
					answers[i] = append(answers[i], nil)
					continue
				}
				later(a.At)
				answers[i] = append(answers[i], a.do(t, reg, first))
			}
		})
	}

	dialogOver := make(chan struct{})
	put := func(ctx context.Context, a *ask.Ask, d Dialog) ending {
		dec, err := b.Put(ctx, Request{Ask: a, Decider: "lead", Offers: offers(), ClientDialog: s.ClientDialog, Dialog: d,
			Timeout: time.Duration(s.Timeout) * time.Millisecond})
		if err != nil || dec.Check() != nil || dec.Ask != a.Body.ID || dec.Digest != a.Digest {
			fault("put: %v, %v, %+v", err, dec.Check(), dec)
		}
		e := ending{int(time.Since(start).Milliseconds()), dec.Outcome, dec.Verdict == ask.Allow,
			string(dec.By.Kind) + " " + dec.By.Surface, dec.Grant != nil, -1}
		if dec.WaitMS != nil {
			e.Limit = int(*dec.WaitMS)
		}
		if rs := log.of(a.Body.ID); len(rs) > 1 || len(rs) == 1 && (rs[0].Verdict != dec.Verdict || rs[0].Outcome != dec.Outcome) {
			fault("records %+v of %+v", rs, dec)
		}
		return e
	}
	o.Askers = []ending{{At: -1}, {At: -1}}
	askerCtx := func(goes int) context.Context {
		ctx, cancel := context.WithCancel(context.Background())
		if goes > 0 {
			spawn(func() { later(goes); cancel() })
		} else {
			t.Cleanup(cancel)
		}
		return ctx
	}
	synctest.Wait()
	ctx := askerCtx(s.Withdraw)
	spawn(func() {
		var d Dialog
		if s.Dialog != "" {
			d = s.dialog(start, dialogOver, func(how string) {
				if o.Dialog != "" {
					fault("the dialog was told twice")
				}
				o.Dialog = how
			})
		}
		o.Askers[0] = put(ctx, first, d)
	})
	if s.Second > 0 {
		ctx := askerCtx(s.SecondGoes)
		spawn(func() {
			later(s.Second)
			// It joins only if the first card is still open; else it would be
			// another card, which this schedule is not about.
			if b.waiting("a") != nil {
				o.Askers[1] = put(ctx, second, nil)
			}
		})
	}
	if s.Grant > 0 {
		spawn(func() {
			later(s.Grant)
			b.Recheck(func(*ask.Ask) (ask.Decision, bool) {
				return ask.Decision{Verdict: ask.Allow, Outcome: ask.Answered, By: ask.By{Kind: ask.KindGrant, Grant: "g"}}, true
			})
		})
	}
	go func() { // an ask that nothing ends is withdrawn after a day
		later(int(day.Milliseconds()))
		b.Withdraw("a", "end of the schedule")
		later(int(day.Milliseconds()) + 60_000)
		b.Withdraw("b", "end of the schedule")
	}()
	for range parts {
		<-running
	}
	later(int(day.Milliseconds()) + 120_000)
	synctest.Wait()
	for i := range answers {
		for _, c := range answers[i] {
			word := ""
			if c != nil {
				word = (<-c).Verdict
			}
			o.Verdicts[i] = append(o.Verdicts[i], word)
		}
		ends := faces[i].ends()
		if len(ends) > 1 {
			fault("remote %d was told %v", i, ends)
		}
		if len(ends) == 1 {
			o.Told[i] = strings.TrimPrefix(ends[0], "a ")
		}
	}
	if n := len(b.Snapshot()); n != 0 {
		fault("%d asks pending", n)
	}
	if err := b.Close(context.Background()); err != nil {
		fault("close: %v", err)
	}
	close(dialogOver)
	o.Records = len(log.records)
	return o
}

// do makes one act; what it returns will get the verdict of an answer.
func (a act) do(t *testing.T, reg *Registration, first *ask.Ask) <-chan api.AnswerVerdict {
	n := ask.AllowAnswer(first)
	shown := api.Shown{Offers: within(offers(), reg.id.widest())}
	switch a.What {
	case "allow":
	case "deny":
		n = ask.DenyAnswer(first, "")
	case "grant", "wide":
		id := map[string]string{"grant": "s", "wide": "p"}[a.What]
		shown.Ask = first
		n = taking(t, shown, id)
	case "invalid":
		n.Items[0].Picks = nil
	case "foreign digest":
		n.Digest[7] ^= 1
	case "foreign ask":
		n.Ask = "b2"
	case "hide":
		reg.Hide("a")
		return nil
	case "shown":
		reg.OnScreen("a")
		return nil
	case "face off":
		reg.SetFaces(0)
		return nil
	case "face on":
		reg.SetFaces(1)
		return nil
	case "leave":
		reg.Close()
		return nil
	case "distrust":
		reg.Distrust()
		return nil
	}
	return answering(reg, n)
}

func (s *schedule) dialog(start time.Time, over <-chan struct{}, told func(string)) Dialog {
	ended := make(chan struct{})
	return &dialog{
		settled: func(e api.Settled) { told(e.How); close(ended) },
		ask: func(ctx context.Context, sh api.Shown) (ask.Answer, error) {
			stop := make(<-chan time.Time)
			if s.Dialog != "never" {
				stop = time.After(time.Until(start.Add(time.Duration(s.DialogAt) * time.Millisecond)))
			}
			select {
			case <-ctx.Done():
				return ask.DenyAnswer(sh.Ask, "a cancelled dialog says no"), ctx.Err()
			case <-ended:
				return ask.DenyAnswer(sh.Ask, "a closed dialog says no"), nil
			case <-over:
				return ask.Answer{}, context.Canceled
			case <-stop:
			}
			switch s.Dialog {
			case "allow":
				return ask.AllowAnswer(sh.Ask), nil
			case "deny":
				return ask.DenyAnswer(sh.Ask, ""), nil
			case "panic":
				panic("no tty")
			case "error":
				return ask.AllowAnswer(sh.Ask), errors.New("no tty")
			}
			return ask.Answer{Ask: "a", Digest: sh.Ask.Digest, Outcome: ask.Answered}, nil
		},
	}
}
