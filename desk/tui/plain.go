package tui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
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
		for _, sc := range []ask.Scope{ask.ScopeSession, ask.ScopeTree} {
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

const plainHelp = `commands, with the number of an ask:
  1 allow                  let it run, this time
  1 allow session          and remember it for its session; the rule is shown, then: 1 confirm
  1 allow tree             and remember it for the whole tree of sessions
  1 deny                   do not let it run
  1 deny because WORDS     and tell the agent why
  1 hide, 1 show           put it away unanswered; print it again
  list                     what waits
  quit                     detach this terminal; nothing is answered by that`

// command runs one line. It reports false to detach.
func (p *plain) command(l string) bool {
	l = strings.TrimSpace(l)
	word, rest, _ := strings.Cut(l, " ")
	switch word {
	case "":
		return true
	case "quit", "exit":
		p.say("detached; nothing was answered by that")
		return false
	case "help", "?":
		p.say("%s", plainHelp)
		return true
	case "list":
		p.index()
		return true
	}
	n, err := strconv.Atoi(word)
	if err != nil && word == "show" {
		n, err = strconv.Atoi(strings.TrimSpace(rest))
		rest = "show"
	}
	if err != nil {
		p.say("not understood, nothing was answered: %s (begin with the number of an ask; help shows the commands)", ask.Quote(l))
		return true
	}
	it := p.list.number(n)
	if it == nil {
		p.say("[%d] does not wait here; nothing was answered", n)
		return true
	}
	p.about(it, strings.TrimSpace(rest))
	return true
}

// index lists what waits, put away or not.
func (p *plain) index() {
	if len(p.list.items) == 0 {
		p.say("nothing waits")
	}
	for _, it := range p.list.items {
		away := ""
		if it.hidden {
			away = " (put away)"
		}
		p.say("[%d] %s: %s, for %s%s", it.num, line(it.shown.Ask.Body.From.Session), gist(it.shown, 100), ageText(time.Since(it.since)), away)
	}
}

// about runs a command on one ask.
func (p *plain) about(it *item, words string) {
	keep := p.keep
	p.keep = nil // only the very next command confirms
	verb, rest, _ := strings.Cut(words, " ")
	rest = strings.TrimSpace(rest)
	switch verb {
	case "show":
		it.hidden = false
		p.show(it)
		return
	case "hide":
		it.hidden = true
		p.say("[%d] put away, not answered; it still waits", it.num)
		return
	}
	if !it.sent.IsZero() && time.Since(it.sent) < verdictPatience {
		p.say("[%d] an answer is on its way", it.num)
		return
	}
	if it.onto.IsZero() || time.Since(it.onto) < p.arm {
		p.say("[%d] was not on the screen yet when this was typed; read it and type it again", it.num)
		return
	}
	switch {
	case verb == "allow" && rest == "":
		a, err := allow(it.shown, nil)
		p.give(it, "allow, once", a, err)
	case verb == "allow" && (rest == string(ask.ScopeSession) || rest == string(ask.ScopeTree)):
		p.propose(it, ask.Scope(rest))
	case verb == "confirm" && rest == "":
		p.confirm(it, keep)
	case verb == "deny" && rest == "":
		a, err := deny(it.shown, "")
		p.give(it, "deny", a, err)
	case verb == "deny" && strings.HasPrefix(rest, "because "):
		a, err := deny(it.shown, strings.TrimSpace(strings.TrimPrefix(rest, "because ")))
		p.give(it, "deny, with a reason", a, err)
	default:
		p.say("not understood, nothing was answered: %s (help shows the commands)", ask.Quote(words))
	}
}

// propose shows the exact rule that would be kept.
func (p *plain) propose(it *item, scope ask.Scope) {
	all := offers(it.shown, scope)
	if len(all) == 0 {
		p.say("[%d] cannot be remembered for the %s; nothing was answered", it.num, scope)
		return
	}
	o := all[0]
	var b strings.Builder
	for _, x := range grantText(it.shown, o) {
		writePlain(&b, x)
	}
	p.say("[%d] %s    to allow this and keep the rule: %d confirm", it.num, b.String(), it.num)
	p.keep = &pendingGrant{num: it.num, digest: it.shown.Ask.Digest, offer: o.ID, shown: time.Now()}
}

func (p *plain) confirm(it *item, keep *pendingGrant) {
	if keep == nil || keep.num != it.num || keep.digest != it.shown.Ask.Digest {
		p.say("[%d] has nothing to confirm; nothing was answered", it.num)
		return
	}
	if time.Since(keep.shown) < p.arm {
		p.say("[%d] the rule was not on the screen yet when this was typed; begin again with: %d allow session, or tree", it.num, it.num)
		return
	}
	for i := range it.shown.Offers {
		if o := &it.shown.Offers[i]; o.ID == keep.offer {
			a, err := allow(it.shown, o)
			p.give(it, "allow, "+string(o.Scope), a, err)
			return
		}
	}
	p.say("[%d] that grant is no longer offered; nothing was answered", it.num)
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
