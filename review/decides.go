package review

import "permd/ask"

// Decides says what l, as the record of the node that decided, decides of its
// ask; false for every other record, also for one that passes on what another
// node decided. A client's own dialog is known only by what ran afterwards, so
// an effect that names it decides, too.
func (l *Line) Decides() (ask.Verdict, bool) {
	if l.By == nil || l.By.Kind == ask.KindForwarded {
		return ask.Deny, false
	}
	v, ok := deciding(l.Event)
	if !ok || l.Event == Effect && !l.Ran() {
		return ask.Deny, false
	}
	return v, true
}

// deciding gives the verdict that events of a name have where they decide.
func deciding(n Name) (ask.Verdict, bool) {
	switch n {
	case AskApproved, AskSessionApproved, AskAutoApproved, ForwardedApproved, ForwardedAutoApproved, Effect:
		return ask.Allow, true
	case AskDenied, AskBlocked, AskExpired, AskWithdrawn, AskUnavailable, AskDismissed,
		ForwardedDenied, ForwardedAutoDenied, ForwardedEnded:
		return ask.Deny, true
	}
	return ask.Deny, false
}

// Ran says whether l is the report that something was run.
func (l *Line) Ran() bool {
	switch l.Event {
	case Effect:
		e := l.Fields[string(KeyEffect)]
		return e == "ran" || e == "failed"
	case RanUngated, RanOther:
		return true
	}
	return false
}
