package tui

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

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

func newModel() *model {
	return &model{ctx: context.Background(), now: time.Now, suspend: func() {}, names: map[string]string{}}
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
