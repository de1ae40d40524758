package api

import (
	"encoding/hex"
	"fmt"
	"unicode/utf8"

	"permd/ask"
)

// Bounds of what one message may list.
const (
	MaxSessions = 4096
	maxLabel    = 256
)

func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ask.ErrInvalid}, a...)...)
}

func checkIDs(what string, ids ...string) error {
	for _, id := range ids {
		if !ask.ValidID(id) {
			return invalid("%s %s", what, ask.Quote(id))
		}
	}
	return nil
}

// Check refuses an answerer without a name, with fewer than no faces, or with
// a cap that is no scope.
func (a *Attach) Check() error {
	if a.Surface == "" || len(a.Surface) > ask.MaxName || ask.VisibleLine(a.Surface) != a.Surface {
		return invalid("surface %s; a name has 1 to %d visible bytes", ask.Quote(a.Surface), ask.MaxName)
	}
	if len(a.Label) > maxLabel || !utf8.ValidString(a.Label) {
		return invalid("label of %d bytes", len(a.Label))
	}
	if a.Faces < 0 {
		return invalid("%d faces", a.Faces)
	}
	if a.Cap.Width() > ask.ScopeUser.Width() {
		return invalid("scope %s", ask.Quote(string(a.Cap)))
	}
	return nil
}

// Check refuses a number below none.
func (f *Faces) Check() error {
	if f.Faces < 0 {
		return invalid("%d faces", f.Faces)
	}
	return nil
}

// Check refuses an ask that a surface could not show, and offers that it must
// not.
func (s *Shown) Check() error {
	if s.Ask == nil {
		return invalid("no ask to show")
	}
	seen := map[string]bool{}
	for i := range s.Offers {
		o := &s.Offers[i]
		if err := o.Check(); err != nil {
			return err
		}
		if seen[o.ID] {
			return invalid("offer %s twice", o.ID)
		}
		seen[o.ID] = true
	}
	if s.AgeMS < 0 || s.Denied < 0 {
		return invalid("waiting %d ms, denied %d times", s.AgeMS, s.Denied)
	}
	return nil
}

// Check refuses a snapshot with an ask that could not be shown or stands
// twice.
func (s *Snapshot) Check() error {
	seen := map[string]bool{}
	for i := range s.Asks {
		if err := s.Asks[i].Check(); err != nil {
			return err
		}
		id := s.Asks[i].Ask.Body.ID
		if seen[id] {
			return invalid("ask %s twice", id)
		}
		seen[id] = true
	}
	return s.Sessions.Check()
}

// Check refuses sessions without a valid id.
func (s *Sessions) Check() error {
	if len(s.Sessions) > MaxSessions {
		return invalid("%d sessions, at most %d are allowed", len(s.Sessions), MaxSessions)
	}
	for i := range s.Sessions {
		if err := checkIDs("session", s.Sessions[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// Check refuses an end of no ask.
func (s *Settled) Check() error { return checkIDs("ask", s.Ask) }

// Check refuses a receipt for no ask.
func (d *Delivered) Check() error { return checkIDs("ask", d.Ask) }

// Check refuses a sighting of no ask.
func (o *OnScreen) Check() error { return checkIDs("ask", o.Ask) }

// Check refuses a verdict that says nothing.
func (v *AnswerVerdict) Check() error {
	if v.Verdict == "" {
		return invalid("an empty verdict")
	}
	return nil
}

// Check refuses a call of no operation.
func (c *Call) Check() error { return checkIDs("operation", c.Op) }

// Check refuses a registration that names no living child, or claims ids that
// no node would give.
func (r *Register) Check() error {
	if err := checkIDs("node", r.Node, r.Instance); err != nil {
		return err
	}
	if r.PID <= 0 {
		return invalid("process %d", r.PID)
	}
	if _, err := hex.DecodeString(r.Ticket); err != nil || len(r.Ticket) > 2*maxTicket {
		return invalid("a ticket that is not hex")
	}
	return checkChildren(r.Sessions)
}

const maxTicket = 64 // bytes

// Check refuses sessions without valid ids.
func (c *Children) Check() error { return checkChildren(c.Sessions) }

func checkChildren(list []ChildSession) error {
	if len(list) > MaxSessions {
		return invalid("%d sessions, at most %d are allowed", len(list), MaxSessions)
	}
	for _, s := range list {
		if err := checkIDs("session", s.Session, s.Parent); err != nil {
			return err
		}
		if s.Session == s.Parent {
			return invalid("session %s names itself as its parent", s.Session)
		}
	}
	return nil
}

// KeyBytes is the size of a registration's key.
const KeyBytes = 32

// Check refuses an acceptance without a whole key.
func (r *Registered) Check() error {
	for _, k := range []string{r.Key, r.BeatKey} {
		if k == "" && r.Key != "" {
			continue // beats may carry none
		}
		if b, err := hex.DecodeString(k); err != nil || len(b) != KeyBytes {
			return invalid("a key that is not %d bytes of hex", KeyBytes)
		}
	}
	if err := checkIDs("node", r.Node, r.Instance); err != nil {
		return err
	}
	return checkServing(r.Serving, r.Verified)
}

// Check refuses sessions without valid ids.
func (s *Serving) Check() error { return checkServing(s.Sessions, s.Verified) }

func checkServing(sessions []string, proofs []Proof) error {
	if len(sessions) > MaxSessions || len(proofs) > MaxSessions {
		return invalid("%d sessions, %d proofs, at most %d are allowed", len(sessions), len(proofs), MaxSessions)
	}
	if err := checkIDs("session", sessions...); err != nil {
		return err
	}
	for _, p := range proofs {
		if err := checkIDs("session", p.Session, p.Parent); err != nil {
			return err
		}
	}
	return nil
}
