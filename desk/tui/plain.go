package tui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/muesli/cancelreader"

	"permd/api"
	"permd/ask"
)

// Plain is the line mode: each ask is printed whole with a number, commands
// are words with that number. It returns when the input ends, on "quit", when
// ctx is done, or when the desk process ends; none of that answers anything.
func Plain(ctx context.Context, dial Dial, in *os.File, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &plain{ctx: ctx, out: out, arm: armDelay}
	said := make(chan any, 64)
	var lines chan string // nil until there is something to answer
	ended := make(chan error, 1)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() {
		ended <- stay(ctx, dial, func(x any) {
			select {
			case said <- x:
			case <-ctx.Done():
			}
		})
	})
	r, err := cancelreader.NewReader(in)
	if err != nil {
		return err
	}
	defer r.Cancel()
	p.verdicts = make(chan plainVerdict)
	p.work = &work
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			p.drain(said)
			return err
		case x := <-said:
			p.take(x)
			if _, attached := x.(*api.Snapshot); attached && lines == nil {
				lines = make(chan string)
				work.Go(func() {
					defer close(lines)
					readLines(ctx, r, lines)
				})
			}
		case v := <-p.verdicts:
			p.verdict(v)
		case l, ok := <-lines:
			if !ok {
				p.say("the input has ended: this terminal detaches, nothing was answered by that")
				p.linger(said)
				return nil
			}
			if !p.command(l) {
				p.linger(said)
				return nil
			}
		}
	}
}

// maxLine is the longest line that is read, in bytes.
const maxLine = 2 * ask.MaxText

// readLines reads until the input ends or is cancelled.
func readLines(ctx context.Context, r io.Reader, lines chan<- string) {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), maxLine)
	for s.Scan() {
		select {
		case lines <- s.Text():
		case <-ctx.Done():
			return
		}
	}
}

// plain is the state of a line mode. It belongs to one goroutine.
type plain struct {
	ctx      context.Context
	out      io.Writer
	arm      time.Duration
	list     list
	to       answers
	tree     []api.SessionState
	verdicts chan plainVerdict
	work     *sync.WaitGroup
	keep     *pendingGrant
	pending  int               // answers without a verdict
	names    map[string]string // of asks that ended, for what is delivered later
}

// pendingGrant waits for its confirmation.
type pendingGrant struct {
	num    int
	digest ask.Digest
	offer  string
	shown  time.Time
	// at is its number among the offers of its scope, edit what the person
	// wrote instead of its rule.
	at   int
	edit *ask.GrantEdit
}

type plainVerdict struct {
	num    int
	id     string
	digest ask.Digest
	what   string
	v      api.AnswerVerdict
	err    error
}

func (p *plain) say(format string, a ...any) { fmt.Fprintf(p.out, format+"\n", a...) }

// linger waits a moment for the verdicts of answers that are on their way.
func (p *plain) linger(said <-chan any) {
	end := time.NewTimer(lingerFor)
	defer end.Stop()
	for p.pending > 0 {
		select {
		case v := <-p.verdicts:
			p.verdict(v)
		case x := <-said:
			p.take(x)
		case <-p.ctx.Done():
			return
		case <-end.C:
			p.say("an answer is on its way and has no verdict yet")
			return
		}
	}
}

// drain prints what was said before the end.
func (p *plain) drain(said <-chan any) {
	for {
		select {
		case x := <-said:
			p.take(x)
		default:
			return
		}
	}
}

// take handles what the connection says.
func (p *plain) take(x any) {
	now := time.Now()
	switch e := x.(type) {
	case online:
		p.to = e.to
		p.list.clear()
	case offline:
		p.to = nil
		p.list.clear()
		p.say("the desk cannot be reached; trying again%s", because(e.why))
	case *api.Snapshot:
		p.tree = e.Sessions.Sessions
		if len(e.Asks) == 0 {
			p.say("attached to the desk; nothing waits (help shows the commands)")
		}
		for _, s := range e.Asks {
			p.arrive(s, now)
		}
	case *api.Shown:
		p.arrive(*e, now)
	case *api.Settled:
		if it := p.list.end(e.Ask); it != nil {
			p.remember(it)
			p.say("[%d] %s", it.num, settledText(*e))
		}
	case *api.Delivered:
		if name, ok := p.names[e.Ask]; ok {
			delete(p.names, e.Ask)
			p.say("%s %s", name, deliveredText(*e))
		}
	case *api.Sessions:
		p.alarms(e.Sessions)
	case *api.Notice:
		p.say("notice: %s", ask.Visible(e.Text))
	}
}

func because(err error) string {
	if err == nil || errors.Is(err, io.EOF) {
		return ""
	}
	return ": " + ask.ExcerptLine(err.Error(), 200)
}

// alarms says what a session did that nobody let it do.
func (p *plain) alarms(tree []api.SessionState) {
	was := map[string]bool{}
	for _, s := range p.tree {
		was[s.ID] = s.Tripped
	}
	for _, s := range tree {
		if s.Tripped && !was[s.ID] {
			p.say("warning: session %s ran something that was not let go; it asks for everything now", line(s.ID))
		}
	}
	p.tree = tree
}

func (p *plain) arrive(s api.Shown, now time.Time) {
	it, fresh := p.list.put(s, now)
	if !fresh {
		p.say("[%d] waits at another node now", it.num)
	}
	p.show(it)
}

// show prints an ask whole, with what may be answered.
func (p *plain) show(it *item) {
	var b strings.Builder
	for i, x := range document(it.shown) {
		writePlain(&b, x)
		if i == 0 {
			writePlain(&b, para{kindFact, "waits", ageText(time.Since(it.since))})
		}
	}
	fmt.Fprintf(p.out, "[%d] %s", it.num, b.String())
	words := []string{"deny", "deny because WORDS", "hide", "show"}
	if unanswerable(it.shown) == "" {
		allow := []string{"allow"}
		for _, sc := range scopes {
			if len(offers(it.shown, sc)) > 0 {
				allow = append(allow, "allow "+string(sc))
			}
		}
		words = append(allow, words...)
	}
	for i := range words {
		words[i] = fmt.Sprintf("%d %s", it.num, words[i])
	}
	p.say("    answer with: %s", strings.Join(words, " | "))
	it.onto = time.Now()
	if p.to != nil {
		_ = p.to.OnScreen(it.id) // a lost connection shows at its reader
	}
}

// writePlain writes a paragraph without any cursor movement. Lines of an agent
// begin with a bar.
func writePlain(b *strings.Builder, x para) {
	switch x.kind {
	case kindTitle:
		b.WriteString(x.text + "\n")
	case kindWarn:
		b.WriteString("    warning: " + x.text + "\n")
	case kindFact:
		b.WriteString("    " + x.label + ": " + x.text + "\n")
	case kindAgent, kindRule:
		if x.label != "" {
			b.WriteString("    " + x.label + ":\n")
		}
		for l := range strings.Lines(x.text) {
			b.WriteString("    | " + strings.TrimSuffix(l, "\n") + "\n")
		}
	}
}

// give sends an answer; its verdict comes later.
func (p *plain) give(it *item, what string, a ask.Answer, err error) {
	if err != nil {
		p.say("[%d] %s", it.num, ask.ExcerptLine(err.Error(), 300))
		return
	}
	if p.to == nil {
		p.say("[%d] the desk cannot be reached; nothing was answered", it.num)
		return
	}
	it.sent = time.Now()
	p.pending++
	to, v := p.to, plainVerdict{num: it.num, id: it.id, digest: a.Digest, what: what}
	p.work.Go(func() {
		v.v, v.err = to.Answer(p.ctx, a)
		select {
		case p.verdicts <- v:
		case <-p.ctx.Done():
		}
	})
}

// verdict says what became of an answer.
func (p *plain) verdict(v plainVerdict) {
	p.pending--
	it := p.list.find(v.id)
	if it != nil && it.shown.Ask.Digest != v.digest {
		it = nil // another text has taken its id
	}
	if it != nil {
		it.sent = time.Time{}
	}
	if v.err != nil {
		p.say("[%d] %s: %s", v.num, v.what, ask.ExcerptLine(v.err.Error(), 300))
		return
	}
	if it != nil && settles(v.v) {
		p.list.end(v.id)
		p.remember(it)
	}
	p.say("[%d] %s: %s", v.num, v.what, verdictText(v.v))
}

// maxNames bounds what is remembered for late receipts.
const maxNames = 256

func (p *plain) remember(it *item) {
	if p.names == nil || len(p.names) >= maxNames {
		p.names = map[string]string{}
	}
	p.names[it.id] = fmt.Sprintf("[%d]", it.num)
}
