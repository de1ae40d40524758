package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"permd/ask"
)

// Styles never carry meaning alone: a warning has its mark, what is chosen has
// its arrow.
const (
	plainStyle = "\x1b[m"
	bold       = "\x1b[1m"
	faint      = "\x1b[2m"
	reverse    = "\x1b[7m"
	yellow     = "\x1b[33m"
)

func styled(style, s string) string {
	if s == "" {
		return ""
	}
	return style + s + plainStyle
}

// What a screen must have before parts of it are left out.
const (
	listFrom  = 16 // rows, for the list of what else waits
	notesFrom = 20 // rows, for more than one line of what happened
	shortFrom = 60 // columns, for hints in full
)

// layout makes the page of what is on the screen. A page that is shown again
// at another width counts as read only if all of it was.
func (m *model) layout() {
	it := m.item()
	if it == nil || m.width < 1 {
		m.page = page{}
		return
	}
	digest := it.shown.Ask.Digest.String()
	key := fmt.Sprintf("%s %s %d", it.id, digest, m.width)
	var doc []para
	grant := m.mode == modeConfirm && len(m.offered()) > m.offer
	if grant {
		key += fmt.Sprintf(" %d %d", m.chosen, m.offer)
	}
	if key != m.page.key {
		if doc = document(it.shown); grant {
			doc = grantText(it.shown, m.offered()[m.offer])
		}
		m.page = page{key: key, rows: rows(doc, m.width), all: it.read && !grant}
	}
	p := &m.page
	p.height = max(0, m.height-m.around())
	p.top = min(max(0, p.top), max(0, len(p.rows)-p.height))
	if p.height > 0 && p.top <= p.read { // nothing between was jumped over
		p.read = max(p.read, p.top+p.height)
	}
	p.all = p.all || p.read >= len(p.rows)
	if !grant && p.all {
		it.read = true
	}
}

// around is how many rows stand above and below the page.
func (m *model) around() int { return len(m.head()) + len(m.foot()) }

// head is what stands above the page.
func (m *model) head() []string {
	out := []string{styled(reverse, fit(m.status(), m.width))}
	for _, a := range m.alarms() {
		out = append(out, styled(bold, fit("! "+a, m.width)))
	}
	if open := m.list.open(); m.height >= listFrom && len(open) > 1 {
		out = append(out, m.others(open)...)
		out = append(out, styled(faint, strings.Repeat("─", m.width)))
	}
	return out
}

func (m *model) status() string {
	open, all := len(m.list.open()), len(m.list.items)
	s := fmt.Sprintf(" permd desk: %d waiting", open)
	if it := m.item(); it != nil && open > 1 {
		for i, x := range m.list.open() {
			if x == it {
				s = fmt.Sprintf(" permd desk: %d of %d", i+1, open)
			}
		}
	}
	if it := m.item(); it != nil {
		s += ", waits " + ageText(m.now().Sub(it.since))
	}
	if all > open {
		s += fmt.Sprintf(", %d put away", all-open)
	}
	if m.begun && !m.offline {
		s += ", " + plural(len(m.tree), "session")
	}
	return s + " "
}

// alarms are what a person must see whatever else is on the screen.
func (m *model) alarms() []string {
	var out []string
	if m.offline {
		out = append(out, "the desk process cannot be reached; trying again"+because(m.away))
	}
	for _, s := range m.tree {
		if s.Tripped {
			out = append(out, "session "+line(s.ID)+" ran something that was not let go; it asks for everything now")
		}
	}
	paused := 0
	for _, s := range m.tree {
		if s.PausedMS > 0 {
			paused++
		}
	}
	if paused > 0 {
		out = append(out, fmt.Sprintf("paused: %s left to the clients' own prompts", plural(paused, "session")))
	}
	observed := 0
	for _, s := range m.tree {
		if s.Observed {
			observed++
		}
	}
	if observed > 0 {
		out = append(out, fmt.Sprintf("observed only: permd decides nothing in %s", plural(observed, "session")))
	}
	lifted := map[string]int{}
	for _, s := range m.tree {
		if s.Lifted != "" {
			lifted[s.Lifted]++
		}
	}
	for _, mode := range []struct{ name, text string }{
		{"yolo", "are allowed nearly all that would be asked"}, {"accept-edits", "are allowed edits inside their project"},
	} {
		if k := lifted[mode.name]; k > 0 {
			out = append(out, fmt.Sprintf("mode %s: %s %s; end it with: permd mode normal", mode.name, plural(k, "session"), mode.text))
		}
	}
	if most := max(1, m.height/6); len(out) > most {
		out = append(out[:most-1], fmt.Sprintf("%d more of these; permd sessions shows them", len(out)-most+1))
	}
	return out
}

// others lists what waits, oldest first, around the one on the screen.
func (m *model) others(open []*item) []string {
	most := min(len(open), max(2, (m.height-10)/3), 8)
	at := 0
	for i, it := range open {
		if it.id == m.current {
			at = i
		}
	}
	from := min(max(0, at-most/2), len(open)-most)
	var out []string
	for _, it := range open[from : from+most] {
		mark, style := "  ", ""
		if it.id == m.current {
			mark, style = "▸ ", bold
		}
		age := ageText(m.now().Sub(it.since))
		text := fit(mark+line(it.shown.Ask.Body.From.Session)+"  "+gist(it.shown, 200), m.width-len(age)-1)
		out = append(out, styled(style, text)+" "+styled(faint, fit(age, m.width)))
	}
	return out
}

// foot is what stands below the page, pinned: how much more there is, what may
// be done, and what happened.
func (m *model) foot() []string {
	var out []string
	if m.item() != nil {
		out = append(out, styled(faint, fit(m.more(), m.width)))
	}
	if m.mode == modeReason {
		out = append(out, m.editor()...)
	} else {
		out = append(out, m.question()...)
		out = append(out, m.hints()...)
	}
	if m.height >= notesFrom {
		for _, n := range m.notes[max(0, len(m.notes)-3):] {
			out = append(out, styled(faint, fit(n, m.width)))
		}
		return append(out, fit(m.hint, m.width))
	}
	last := m.hint
	if last == "" && len(m.notes) > 0 {
		last = m.notes[len(m.notes)-1]
	}
	return append(out, fit(last, m.width))
}

// more says what of the page is not on the screen.
func (m *model) more() string {
	p := &m.page
	below := len(p.rows) - p.top - p.height
	switch {
	case p.height < 1:
		return "too small to read; only deny"
	case below > 0 && !p.all:
		return fmt.Sprintf("-- %s more; no allow before the end --", plural(below, "line"))
	case below > 0:
		return fmt.Sprintf("-- %s more --", plural(below, "line"))
	case !p.all:
		return "-- end, but not all was read --"
	}
	return "-- end --"
}

// question is what Enter would do.
func (m *model) question() []string {
	it := m.item()
	switch {
	case it != nil && !it.sent.IsZero():
		text := "sent; waiting for the node's word"
		if m.now().Sub(it.sent) >= verdictPatience {
			text = "its node has not said whether the answer counts; you may answer again"
		}
		return []string{styled(bold, fit(text, m.width))}
	case m.mode != modeConfirm:
		return nil
	}
	text := "Allow this once?"
	if scope, kept := m.chosen.scope(); kept {
		all := m.offered()
		if m.offer < len(all) {
			scope = string(all[m.offer].Scope)
		}
		text = "Allow, and keep this rule for the " + scope + "?"
		if n := len(all); n > 1 {
			text += fmt.Sprintf(" (%d of %d)", m.offer+1, n)
		}
	}
	return []string{styled(bold, fit(text, m.width))}
}

// hints are the keys that do something now. They take as many rows as all of
// the mode's keys would, so that the text above does not jump.
func (m *model) hints() []string {
	most := max(2, m.height/4)
	lines := m.hintRows(func(v verb) bool { return m.unavailable(v) == "" })
	rows := min(most, len(m.hintRows(func(verb) bool { return true })))
	if len(lines) > rows {
		lines = lines[:rows]
	}
	for len(lines) < rows {
		lines = append(lines, "")
	}
	return lines
}

func (m *model) hintRows(live func(verb) bool) []string {
	var lines []string
	row := ""
	for _, b := range keymap {
		if b.hint == "" || !m.inMode(b.verb) || !live(b.verb) {
			continue
		}
		text, gap := "["+b.keys[0]+"] "+b.hint, "  "
		if m.width < shortFrom {
			text, gap = b.keys[0]+" "+b.short, " "
		}
		switch {
		case row == "":
			row = text
		case len(row)+len(gap)+len(text) <= m.width:
			row += gap + text
		default:
			lines = append(lines, fit(row, m.width))
			row = text
		}
	}
	if row != "" {
		lines = append(lines, fit(row, m.width))
	}
	return lines
}

// inMode reports whether a verb belongs to the keys of the mode.
func (m *model) inMode(v verb) bool {
	switch v {
	case verbYes, verbNo:
		return m.mode == modeConfirm
	case verbAllow, verbSession, verbTree, verbDeny, verbReason, verbHide, verbUnhide:
		return m.mode == modeChoose
	}
	return true
}

// editor shows the reason that is being written; its end is always in sight.
func (m *model) editor() []string {
	var text []row
	for _, l := range strings.Split(fold(ask.Visible(m.reason))+"_", "\n") {
		text = append(text, hang(kindFact, l, "> ", "  ", m.width)...)
	}
	if most := max(1, m.height/4); len(text) > most {
		text = text[len(text)-most:]
	}
	out := []string{styled(bold, fit("Deny, because:", m.width))}
	for _, r := range text {
		out = append(out, r.text)
	}
	return append(out, fit("[enter] deny  [esc] back, keeps the text", m.width))
}

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen, v.ReportFocus = true, true
	v.WindowTitle = "permd"
	if n := len(m.list.open()); n > 0 {
		v.WindowTitle = fmt.Sprintf("(%d) permd", n)
	}
	return v
}

// screen is every row of the terminal, never more than it has. The choices are
// kept before the text.
func (m *model) screen() []string {
	if m.width < 1 || m.height < 1 {
		return nil
	}
	head, foot := m.head(), m.foot()
	body := m.body()
	for len(body) < m.height-len(head)-len(foot) {
		body = append(body, "")
	}
	out := append(append(head, body...), foot...)
	if over := len(out) - m.height; over > 0 {
		out = out[over:]
	}
	return out
}

// body is the part of the page on the screen.
func (m *model) body() []string {
	p := &m.page
	if m.item() == nil {
		text := "Nothing waits."
		switch {
		case m.offline || !m.begun:
			text = "Waiting for the desk process."
		case len(m.list.items) > 0:
			text = "Nothing else waits; what you put away does."
		}
		if m.height-m.around() < 1 {
			return nil
		}
		return []string{fit(text, m.width)}
	}
	var out []string
	for _, r := range p.rows[p.top:min(len(p.rows), p.top+p.height)] {
		switch r.kind {
		case kindTitle:
			out = append(out, styled(bold, r.text))
		case kindWarn:
			out = append(out, styled(yellow, r.text))
		default:
			out = append(out, r.text)
		}
	}
	return out
}
