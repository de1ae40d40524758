package broker

import (
	"cmp"
	"fmt"
	"slices"

	"permd/api"
	"permd/ask"
)

// model is the contract once more, as simple as it can be said: one card, one
// thread, time as a number. It shares no code with the broker.
type model struct {
	s    *schedule
	now  int
	open bool

	askers  map[int]int // those that wait, and where on the clock each is due
	remotes []modelRemote
	tellAt  int  // when the end is recorded and told
	dialog  bool // can still answer
	shown   bool

	mode  string // free, limited, nobody
	used  int    // limited time so far
	empty int    // since when nobody can answer

	out observed
}

type modelRemote struct {
	here, trusted, has bool
	faces              int
}

const graceMS = 2005

func (s *schedule) predict() observed {
	m := &model{s: s, open: true, askers: map[int]int{}, remotes: make([]modelRemote, len(s.Remotes)), empty: -1,
		dialog: s.Dialog != ""}
	m.out = observed{Askers: []ending{{At: -1}, {At: -1}}, Verdicts: make([][]string, len(s.Remotes)),
		Told: make([]string, len(s.Remotes))}
	type event struct {
		at int
		do func()
	}
	var events []event
	on := func(at int, do func()) {
		if at > 0 {
			events = append(events, event{at, do})
		}
	}
	for i, r := range s.Remotes {
		if r.Late == 0 {
			m.remotes[i] = modelRemote{here: true, trusted: true, faces: r.Faces}
		}
		on(r.Late, func() { m.arrives(i) })
		for _, a := range r.Acts {
			on(a.At, func() { m.out.Verdicts[i] = append(m.out.Verdicts[i], m.act(i, a)) })
		}
	}
	on(s.Withdraw, func() { m.goes(0) })
	on(s.Second, func() {
		if m.open {
			m.askers[1] = m.used + s.Timeout
		}
	})
	on(s.SecondGoes, func() { m.goes(1) })
	on(s.Grant, func() { m.end(string(ask.Answered), true, "grant ", -1, api.SettledLocally) })
	if s.Dialog != "" && s.Dialog != "never" {
		on(s.DialogAt, m.dialogSays)
	}
	on(int(day.Milliseconds()), func() { m.goes(0) })
	on(int(day.Milliseconds())+60_000, func() { m.goes(1) })
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })

	m.put()
	for _, e := range events {
		m.pass(e.at)
		e.do()
		m.settleMode()
	}
	return m.out
}

func (m *model) able(i int) bool {
	r := &m.remotes[i]
	return r.here && r.trusted && r.faces > 0
}

// settleMode says how long the card may wait from now on.
func (m *model) settleMode() {
	attended, reachable := m.s.ClientDialog || m.dialog, false
	for i := range m.remotes {
		if m.able(i) && m.remotes[i].has {
			if m.s.Remotes[i].Device {
				reachable = true
			} else {
				attended = true
			}
		}
	}
	switch {
	case attended || reachable && m.shown:
		m.mode = "free"
	case reachable:
		m.mode = "limited"
	default:
		m.mode = "nobody"
	}
	if m.mode != "nobody" {
		m.empty = -1
	} else if m.empty < 0 {
		m.empty = m.now
	}
}

func (m *model) put() {
	for i := range m.remotes {
		m.remotes[i].has = m.remotes[i].here
	}
	m.settleMode()
	m.askers[0] = m.s.Timeout
	if m.mode == "nobody" || m.mode == "limited" && m.s.Timeout == 0 {
		for i := range m.remotes {
			m.remotes[i].has = false // none was shown it
		}
		if m.mode == "nobody" {
			m.end(string(ask.Unavailable), false, "unavailable ", -1, "")
		} else {
			m.end(string(ask.TimedOut), false, "timeout ", -1, "")
		}
		return
	}
	for i := range m.remotes {
		m.drawn(i)
	}
	m.settleMode()
}

// drawn: a remote that fails to show the card is out of it.
func (m *model) drawn(i int) {
	if m.s.Remotes[i].AskFails != "" {
		m.remotes[i].has = false
	}
}

func (m *model) arrives(i int) {
	m.remotes[i] = modelRemote{here: true, trusted: true, faces: m.s.Remotes[i].Faces, has: m.open}
	m.settleMode()
	m.drawn(i)
}

// pass lets time pass to t, ending what is due on the way.
func (m *model) pass(t int) {
	for m.open {
		next := t
		if m.mode == "nobody" {
			next = min(next, m.empty+graceMS)
		}
		if m.mode != "free" {
			for _, due := range m.askers {
				next = min(next, m.now+max(due-m.used, 0))
			}
		}
		if m.mode != "free" {
			m.used += next - m.now
		}
		m.now = next
		if m.mode == "nobody" && m.now-m.empty >= graceMS {
			m.end(string(ask.Unavailable), false, "unavailable ", -1, api.SettledCancel)
			return
		}
		over := 0
		if m.mode != "free" {
			for _, due := range m.askers {
				if due <= m.used {
					over++
				}
			}
		}
		switch {
		case over == len(m.askers):
			m.end(string(ask.TimedOut), false, "timeout ", -1, api.SettledTimeout)
			return
		case over > 0:
			for i, due := range m.askers {
				if due <= m.used {
					m.release(i, string(ask.TimedOut), false, "timeout ")
				}
			}
		case m.now == t:
			return
		}
	}
	m.now = t
}

func (m *model) broken() bool { return m.s.Disk == "fails" || m.s.Disk == "panics" }

// release ends the wait of one asker.
func (m *model) release(i int, outcome string, allow bool, by string) {
	delete(m.askers, i)
	e := ending{At: m.now, Outcome: ask.Outcome(outcome), Allow: allow, By: by, Limit: -1}
	if m.mode == "limited" {
		e.Limit = m.s.Timeout
	}
	if m.s.Disk == "slow" {
		e.At += slowMS
	}
	if !m.broken() {
		m.out.Records++
	} else if outcome == string(ask.Answered) {
		e.Outcome, e.Allow, e.By = ask.Failed, false, "gate_error "
	}
	m.out.Askers[i] = e
}

// end settles the card for everybody; winner is a remote, -2 the dialog, -1
// nobody.
func (m *model) end(outcome string, allow bool, by string, winner int, how string) {
	if !m.open {
		return
	}
	m.open, m.tellAt = false, m.now
	if m.s.Disk == "slow" {
		m.tellAt += slowMS
	}
	if m.broken() && outcome == string(ask.Answered) {
		how = api.SettledCancel
	}
	for i := range m.remotes {
		if m.remotes[i].has && i != winner {
			m.out.Told[i] = how
		}
	}
	if m.dialog && winner != -2 {
		m.out.Dialog = how
	}
	for i := range 2 {
		if _, waits := m.askers[i]; waits {
			m.release(i, outcome, allow, by)
		}
	}
}

func (m *model) goes(i int) {
	if _, waits := m.askers[i]; !waits || !m.open {
		return
	}
	if len(m.askers) == 1 {
		m.end(string(ask.Withdrawn), false, "withdrawn ", -1, api.SettledCancel)
		return
	}
	m.release(i, string(ask.Withdrawn), false, "withdrawn ")
}

func (m *model) dialogSays() {
	if !m.open {
		return
	}
	switch m.s.Dialog {
	case "allow", "deny":
		m.end(string(ask.Answered), m.s.Dialog == "allow", "client_dialog claude", -2, api.SettledLocally)
		return
	}
	m.dialog = false
	if m.settleMode(); m.mode == "nobody" {
		m.end(string(ask.Failed), false, "gate_error ", -1, api.SettledCancel)
	}
}

// act makes one act of remote i and returns the verdict it gets.
func (m *model) act(i int, a act) string {
	r := &m.remotes[i]
	if a.At < m.s.Remotes[i].Late {
		return ""
	}
	switch a.What {
	case "hide":
		r.has = r.has && !m.open
		return ""
	case "shown":
		if m.open && r.has && m.able(i) {
			m.shown = true
		}
		return ""
	case "face off":
		r.faces = 0
		return ""
	case "face on":
		if r.here && r.faces == 0 {
			again := m.open && !r.has
			r.faces = 1
			if again {
				r.has = true
				m.settleMode()
				m.drawn(i)
			}
		}
		return ""
	case "leave":
		if !m.open && m.now < m.tellAt {
			m.out.Told[i] = "" // it left before there was anything to tell
		}
		r.here, r.has = false, r.has && !m.open
		return ""
	case "distrust":
		r.trusted, r.has = false, r.has && !m.open
		return ""
	}
	switch {
	case !r.here || !r.trusted:
		return api.VerdictNotTrusted
	case a.What == "foreign ask":
		return api.VerdictUnknownAsk
	case m.open && (!r.has || r.faces == 0):
		return api.VerdictNotOffered
	case a.What == "foreign digest":
		return api.VerdictWrongDigest
	case !m.open:
		return api.VerdictTooLate
	case a.What == "invalid":
		return api.VerdictInvalid
	case a.What == "wide":
		return api.VerdictScope
	}
	kind, how := "user", api.SettledLocally
	if m.s.Remotes[i].Device {
		kind, how = "device", api.SettledRemotely
	}
	askers := []int{}
	for k := range m.askers {
		askers = append(askers, k)
	}
	m.end(string(ask.Answered), a.What != "deny", fmt.Sprintf("%s remote %d", kind, i), i, how)
	if m.broken() {
		return api.VerdictNotRecorded
	}
	for _, k := range askers {
		m.out.Askers[k].Grant = a.What == "grant"
	}
	return api.VerdictAccepted
}
