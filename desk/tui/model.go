package tui

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"permd/api"
	"permd/ask"
)

// mode is what keys are for.
//
//	mode      key                  then
//	choose    a s t, all was read  confirm
//	choose    d                    deny is sent
//	choose    r                    reason
//	confirm   Enter                allow is sent, choose
//	confirm   Esc                  choose
//	reason    Enter, some text     deny with it is sent, choose
//	reason    Esc                  choose, the text is kept
//	any       the ask ends         choose, at the next ask; text is kept
//
// In choose and confirm a deciding key counts only when armed: what the person
// is to decide has been on the screen, unchanged, in the focus and without a
// key for a while.
type mode uint8

const (
	modeChoose mode = iota
	modeConfirm
	modeReason
)

// model is the full screen. It is driven by messages alone.
type model struct {
	ctx     context.Context
	now     func() time.Time
	suspend func()

	list    list
	current string // id of the ask on the screen, "" for none
	to      answers
	tree    []api.SessionState
	away    error // why there is no connection
	offline bool
	begun   bool // the first snapshot came

	mode   mode
	chosen verb
	offer  int    // which of the offers of the chosen scope
	reason string // what is being written
	armed  bool
	armGen int

	width, height int
	blurred       bool
	page          page

	hint  string   // about the last key
	notes []string // what happened, newest last
	names map[string]string
}

// page is the text on the screen and how much of it was.
type page struct {
	key    string // what it shows, at which width
	rows   []row
	top    int
	read   int  // rows from the start that have been on the screen
	all    bool // every row has been
	height int  // rows on the screen
}

// Messages of the model's own.
type (
	armMsg   int
	clockMsg struct{}
	told     struct{ what any } // from the connection
	judged   struct {
		id     string
		digest ask.Digest
		what   string
		v      api.AnswerVerdict
		err    error
	}
)

func newModel(ctx context.Context) *model {
	return &model{ctx: ctx, now: time.Now, suspend: func() {}, names: map[string]string{}}
}

// Init begins the clock that ages what waits.
func (m *model) Init() tea.Cmd { return clock() }

func clock() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return clockMsg{} }) }

// Update is one step of the model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	before, connection := m.page.key, m.to
	cmd := m.step(msg)
	m.layout()
	if m.page.key != before || m.to != connection {
		// The person has something new before them.
		cmd = tea.Batch(cmd, m.rearm(m.delay()))
	}
	return m, cmd
}

func (m *model) step(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return m.rearm(m.delay())
	case tea.FocusMsg:
		m.blurred = false
		return m.rearm(m.delay())
	case tea.BlurMsg:
		m.blurred, m.armed = true, false
		m.armGen++
	case tea.ResumeMsg:
		return m.rearm(m.delay())
	case tea.PasteMsg:
		return m.paste(msg.Content)
	case tea.KeyPressMsg:
		return m.key(msg)
	case armMsg:
		return m.arm(int(msg))
	case clockMsg:
		return clock()
	case judged:
		return m.verdict(msg)
	case told:
		return m.take(msg.what)
	}
	return nil
}

// delay is how long the mode wants before a key decides.
func (m *model) delay() time.Duration {
	switch m.mode {
	case modeConfirm:
		if _, kept := m.chosen.scope(); kept {
			return armDelay // there is a rule to read
		}
		return confirmDelay
	case modeReason:
		return pasteDelay
	}
	return armDelay
}

// rearm makes keys count again only after d without another change.
func (m *model) rearm(d time.Duration) tea.Cmd {
	m.armed = false
	m.armGen++
	gen := m.armGen
	return tea.Tick(d, func(time.Time) tea.Msg { return armMsg(gen) })
}

// arm lets keys count, if nothing has changed since the delay began. From now
// on the person can see the ask, which its node may know.
func (m *model) arm(gen int) tea.Cmd {
	it := m.item()
	if gen != m.armGen || m.blurred || it == nil {
		return nil
	}
	m.armed = true
	if !it.onto.IsZero() || m.to == nil || m.page.height < 1 {
		return nil
	}
	it.onto = m.now()
	to, id := m.to, it.id
	return func() tea.Msg {
		_ = to.OnScreen(id) // a lost connection shows at its reader
		return nil
	}
}

// item is the ask on the screen.
func (m *model) item() *item { return m.list.find(m.current) }

// settle chooses what is on the screen: what is there stays; a newcomer takes
// it only when there was nothing.
func (m *model) settle() {
	if it := m.item(); it != nil && !it.hidden {
		return
	}
	m.leaveMode()
	m.current = ""
	if open := m.list.open(); len(open) > 0 {
		m.current = open[0].id
	}
}

// leaveMode goes back to choosing. Text that was typed is kept.
func (m *model) leaveMode() {
	if m.mode == modeReason && m.reason != "" {
		m.hint = "your reason was not sent; it is kept, r brings it back"
	}
	m.mode, m.chosen, m.offer = modeChoose, verbNone, 0
}

// take handles what the connection says.
func (m *model) take(what any) tea.Cmd {
	now := m.now()
	switch e := what.(type) {
	case online:
		m.to, m.offline, m.away = e.to, false, nil
		m.list.clear()
	case offline:
		m.to, m.offline, m.away = nil, true, e.why
		m.list.clear()
	case *api.Snapshot:
		m.begun, m.tree = true, e.Sessions.Sessions
		for _, s := range e.Asks {
			m.list.put(s, now)
		}
	case *api.Shown:
		alone := len(m.list.open()) == 0
		old := m.list.find(e.Ask.Body.ID)
		it, fresh := m.list.put(*e, now)
		if !fresh && old == it && it.id == m.current {
			m.note("it waits at another node now")
			m.settle()
			return m.rearm(m.delay())
		}
		m.settle()
		if alone {
			return tea.Raw("\a")
		}
	case *api.Settled:
		if it := m.list.end(e.Ask); it != nil {
			m.ended(it, settledText(*e))
		}
	case *api.Delivered:
		if name, ok := m.names[e.Ask]; ok {
			delete(m.names, e.Ask)
			m.note(name + ": " + deliveredText(*e))
		}
	case *api.Sessions:
		m.tree = e.Sessions
	case *api.Notice:
		m.note(line(e.Text))
	}
	m.settle()
	return nil
}

// ended says how an ask ended, and remembers it for what is delivered later.
func (m *model) ended(it *item, how string) {
	if len(m.names) >= maxNames {
		clear(m.names)
	}
	m.names[it.id] = gist(it.shown, ask.MinExcerpt)
	m.note(m.names[it.id] + ": " + how)
}

// maxNotes is how many lines of what happened are kept.
const maxNotes = 50

func (m *model) note(text string) {
	m.notes = append(m.notes, text)
	if len(m.notes) > maxNotes {
		m.notes = m.notes[len(m.notes)-maxNotes:]
	}
}

// paste is text and never a key.
func (m *model) paste(text string) tea.Cmd {
	if m.mode != modeReason {
		m.hint = "pasted text answers nothing"
		return m.rearm(m.delay())
	}
	m.write(text)
	return m.rearm(m.delay())
}

func (m *model) write(text string) {
	if len(m.reason)+len(text) > ask.MaxText || !utf8.ValidString(text) {
		m.hint = "that does not fit: a reason has at most 32 KiB of text"
		return
	}
	m.reason += text
}

// erase takes the last character away, with all its marks.
func (m *model) erase() {
	last := ""
	for rest := m.reason; rest != ""; {
		c, _ := ansi.FirstGraphemeCluster(rest, ansi.GraphemeWidth)
		last, rest = c, rest[len(c):]
	}
	m.reason = m.reason[:len(m.reason)-len(last)]
}

// key runs one key.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	m.hint = ""
	if m.blurred { // the terminal told only half of it
		m.blurred = false
		m.armed = false
	}
	if m.mode == modeReason {
		return m.reasonKey(k)
	}
	if k.Keystroke() == "ctrl+c" {
		return tea.Quit
	}
	v := verbOf(k)
	if !m.armed && m.item() != nil && !v.anytime() {
		if v != verbNone {
			m.hint = "not counted: it came before this had been on the screen for a moment"
		}
		return m.rearm(m.delay())
	}
	if v == verbNone { // somebody types for something else
		return m.rearm(m.delay())
	}
	if v.decides() && k.IsRepeat {
		return nil
	}
	if why := m.unavailable(v); why != "" {
		m.hint = why
		return nil
	}
	return m.do(v)
}

// reasonKey edits the reason, or sends it.
func (m *model) reasonKey(k tea.KeyPressMsg) tea.Cmd {
	switch k.Keystroke() {
	case "esc":
		m.leaveMode()
		return nil
	case "ctrl+c":
		return tea.Quit
	case "enter":
		if !m.armed { // the end of a pasted line
			m.write("\n")
			break
		}
		return m.sendReason()
	case "ctrl+j", "alt+enter", "shift+enter":
		m.write("\n")
	case "backspace", "ctrl+h":
		m.erase()
	case "ctrl+u":
		m.reason = ""
	default:
		if k.Text != "" {
			m.write(k.Text)
		}
	}
	return m.rearm(m.delay())
}

func (m *model) sendReason() tea.Cmd {
	it := m.item()
	if it == nil || m.reason == "" {
		m.hint = "write a reason, or go back with Esc"
		return nil
	}
	a, err := deny(it.shown, m.reason)
	if err != nil {
		m.hint = ask.ExcerptLine(err.Error(), 200)
		return nil
	}
	m.reason = ""
	m.leaveMode()
	return m.send(it, "denied, with a reason", a)
}

// unavailable says why a verb cannot be used now, "" if it can. The hints are
// those that can.
func (m *model) unavailable(v verb) string {
	it := m.item()
	switch v {
	case verbNone:
		return "no such key"
	case verbQuit, verbSuspend:
		return ""
	case verbUnhide:
		if len(m.list.open()) == len(m.list.items) {
			return "nothing is put away"
		}
		return ""
	}
	if it == nil {
		return "nothing waits"
	}
	switch v {
	case verbYes:
		if m.mode != modeConfirm {
			return "Enter alone answers nothing; choose first"
		}
		if !m.page.all {
			return "read the rule to its end first (space)"
		}
		return ""
	case verbNo:
		if m.mode != modeConfirm {
			return "there is nothing to take back"
		}
		return ""
	case verbNext, verbPrev:
		if m.mode == modeConfirm && len(m.offered()) < 2 || m.mode != modeConfirm && len(m.list.open()) < 2 {
			return "there is no other"
		}
		return ""
	case verbDown, verbPageDown:
		if m.page.top+m.page.height >= len(m.page.rows) {
			return "this is the end"
		}
		return ""
	case verbUp, verbPageUp, verbTop:
		if m.page.top == 0 {
			return "this is the beginning"
		}
		return ""
	case verbHide:
		if m.mode != modeChoose {
			return "go back first (Esc)"
		}
		return ""
	}
	return m.cannotAnswer(it, v)
}

// cannotAnswer says why an ask cannot be answered with v now.
func (m *model) cannotAnswer(it *item, v verb) string {
	switch {
	case m.mode != modeChoose:
		return "go back first (Esc)"
	case m.to == nil:
		return "the desk cannot be reached"
	case !it.sent.IsZero() && m.now().Sub(it.sent) < verdictPatience:
		return "an answer is on its way"
	}
	if v == verbDeny || v == verbReason {
		if _, err := deny(it.shown, ""); err != nil {
			return ask.ExcerptLine(err.Error(), 200)
		}
		return ""
	}
	if why := unanswerable(it.shown); why != "" {
		return why
	}
	if scope, kept := v.scope(); kept && len(offers(it.shown, ask.Scope(scope))) == 0 {
		return "it cannot be remembered for the " + scope
	}
	if !it.read {
		return "read it to its end first (space)"
	}
	return ""
}

// offered are the grants that may be kept with what was chosen.
func (m *model) offered() []*ask.Offer {
	it := m.item()
	scope, kept := m.chosen.scope()
	if it == nil || !kept {
		return nil
	}
	return offers(it.shown, ask.Scope(scope))
}

// do runs a verb that can be used.
func (m *model) do(v verb) tea.Cmd {
	it := m.item()
	switch v {
	case verbQuit:
		return tea.Quit
	case verbSuspend:
		return func() tea.Msg { m.suspend(); return tea.ResumeMsg{} }
	case verbUnhide:
		for _, x := range m.list.items {
			x.hidden = false
		}
		m.settle()
	case verbHide:
		it.hidden = true
		m.note(gist(it.shown, ask.MinExcerpt) + ": put away, not answered; it still waits")
		m.settle()
	case verbNext, verbPrev:
		m.move(v)
	case verbDown:
		m.page.top++
	case verbUp:
		m.page.top--
	case verbPageDown:
		m.page.top += max(1, m.page.height-1)
	case verbPageUp:
		m.page.top -= max(1, m.page.height-1)
	case verbTop:
		m.page.top = 0
	case verbAllow, verbSession, verbTree:
		m.mode, m.chosen, m.offer = modeConfirm, v, 0
		return m.rearm(m.delay())
	case verbNo:
		m.leaveMode()
		return m.rearm(m.delay())
	case verbYes:
		return m.confirm(it)
	case verbDeny:
		a, err := deny(it.shown, "")
		if err != nil {
			m.hint = ask.ExcerptLine(err.Error(), 200)
			return nil
		}
		return m.send(it, "denied", a)
	case verbReason:
		m.mode = modeReason
		return m.rearm(m.delay())
	}
	return nil
}

// move goes to another ask, or to another rule while one is being confirmed.
func (m *model) move(v verb) {
	step := 1
	if v == verbPrev {
		step = -1
	}
	if m.mode == modeConfirm {
		n := len(m.offered())
		m.offer = (m.offer + step + n) % n
		return
	}
	open := m.list.open()
	for i, it := range open {
		if it.id == m.current {
			m.current = open[(i+step+len(open))%len(open)].id
			return
		}
	}
}

// confirm sends the allow that was chosen.
func (m *model) confirm(it *item) tea.Cmd {
	var o *ask.Offer
	what := "allowed once"
	if scope, kept := m.chosen.scope(); kept {
		all := m.offered()
		if m.offer >= len(all) {
			m.leaveMode()
			m.hint = "that rule is no longer offered"
			return nil
		}
		o, what = all[m.offer], "allowed, remembered for the "+scope
	}
	a, err := allow(it.shown, o)
	m.leaveMode()
	if err != nil {
		m.hint = ask.ExcerptLine(err.Error(), 200)
		return nil
	}
	return m.send(it, what, a)
}

// send gives an answer; the ask stays on the screen until its verdict.
func (m *model) send(it *item, what string, a ask.Answer) tea.Cmd {
	if m.to == nil {
		m.hint = "the desk cannot be reached; nothing was answered"
		return nil
	}
	it.sent = m.now()
	to, ctx, r := m.to, m.ctx, judged{id: it.id, digest: a.Digest, what: what}
	return func() tea.Msg {
		r.v, r.err = to.Answer(ctx, a)
		return r
	}
}

// verdict says what became of an answer.
func (m *model) verdict(r judged) tea.Cmd {
	it := m.list.find(r.id)
	if it != nil && it.shown.Ask.Digest != r.digest {
		it = nil // another text has taken its id
	}
	if it != nil {
		it.sent = time.Time{}
	}
	name := m.names[r.id]
	if it != nil {
		name = gist(it.shown, ask.MinExcerpt)
	}
	if r.err != nil {
		m.note(name + ": " + r.what + ": " + ask.ExcerptLine(r.err.Error(), 200))
		return nil
	}
	how := fmt.Sprintf("%s: %s", r.what, verdictText(r.v))
	if it == nil || !settles(r.v) {
		m.note(name + ": " + how)
		return m.rearm(m.delay())
	}
	m.list.end(r.id)
	m.ended(it, how)
	m.settle()
	return nil
}
