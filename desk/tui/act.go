package tui

import (
	"fmt"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"permd/ask"
)

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
	if !m.armed && m.item() != nil && !v.anytime() && !(m.mode == modeConfirm && v.scrolls()) {
		if v != verbNone {
			m.hint = "not counted: it came before this had been on the screen for a moment"
		}
		return m.rearm(m.delay())
	}
	if v == verbNone { // somebody types for something else
		return m.rearm(m.delay())
	}
	if v.decides() && k.IsRepeat {
		return m.rearm(m.delay())
	}
	if why := m.unavailable(v); why != "" {
		m.hint = why
		if v.decides() || m.mode == modeConfirm { // a hand that is too quick
			return m.rearm(m.delay())
		}
		return nil
	}
	cmd := m.do(v)
	if m.mode == modeConfirm { // Enter comes alone, and after a pause
		cmd = tea.Batch(cmd, m.rearm(m.delay()))
	}
	return cmd
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

// offered are the grants that may be kept with what was chosen. Beyond the tree
// come, one by one, those for the project and for the user.
func (m *model) offered() []*ask.Offer {
	it := m.item()
	scope, kept := m.chosen.scope()
	if it == nil || !kept {
		return nil
	}
	out := offers(it.shown, ask.Scope(scope))
	if m.chosen == verbTree {
		out = append(append(out, offers(it.shown, ask.ScopeProject)...), offers(it.shown, ask.ScopeUser)...)
	}
	return out
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
	if _, kept := m.chosen.scope(); kept {
		all := m.offered()
		if m.offer >= len(all) {
			m.leaveMode()
			m.hint = "that rule is no longer offered"
			return nil
		}
		o, what = all[m.offer], "allowed, remembered for the "+string(all[m.offer].Scope)
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
