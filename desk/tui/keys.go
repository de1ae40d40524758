package tui

import tea "charm.land/bubbletea/v2"

// verb is what a key does.
type verb uint8

const (
	verbNone verb = iota
	verbAllow
	verbSession
	verbTree
	verbDeny
	verbReason
	verbYes
	verbNo
	verbNext
	verbPrev
	verbHide
	verbUnhide
	verbDown
	verbUp
	verbPageDown
	verbPageUp
	verbTop
	verbSuspend
	verbQuit
)

// binding is one line of the key map. Hints on the screen are made of it, so
// that none names a key that is dead.
type binding struct {
	verb  verb
	keys  []string
	hint  string // what the key does
	short string // the same where there is little room
}

// keymap is in the order of the hints.
var keymap = []binding{
	{verbYes, []string{"enter"}, "yes", "yes"},
	{verbNo, []string{"esc"}, "back", "back"},
	{verbPageDown, []string{"space", "pgdown", "f"}, "read on", "more"},
	{verbAllow, []string{"a"}, "allow once", "once"},
	{verbSession, []string{"s"}, "allow in this session", "sess"},
	{verbTree, []string{"t"}, "allow in the whole tree", "tree"},
	{verbDeny, []string{"d"}, "deny", "deny"},
	{verbReason, []string{"r"}, "deny with a reason", "why"},
	{verbNext, []string{"n", "tab"}, "next", "next"},
	{verbPrev, []string{"p", "shift+tab"}, "previous", "prev"},
	{verbHide, []string{"h"}, "put away", "hide"},
	{verbUnhide, []string{"u"}, "bring back what was put away", "back"},
	{verbQuit, []string{"q"}, "detach", "quit"},
	{verbPageUp, []string{"pgup", "b"}, "", ""},
	{verbDown, []string{"down", "j"}, "", ""},
	{verbUp, []string{"up", "k"}, "", ""},
	{verbTop, []string{"home", "g"}, "", ""},
	{verbSuspend, []string{"ctrl+z"}, "", ""},
}

// verbOf is what a key does; only exactly bound keys do anything.
func verbOf(k tea.KeyPressMsg) verb {
	name := k.Keystroke()
	for _, b := range keymap {
		for _, key := range b.keys {
			if key == name {
				return b.verb
			}
		}
	}
	return verbNone
}

// decides reports whether a verb answers, leads to an answer or puts an ask
// away. Such a key counts never when it is held.
func (v verb) decides() bool {
	switch v {
	case verbAllow, verbSession, verbTree, verbDeny, verbReason, verbYes, verbHide:
		return true
	}
	return false
}

// anytime reports whether a key counts also before the ask has been on the
// screen for a moment. Not even a letter that only scrolls, or detaches, does:
// it may be one of a text that was meant for another program. Taking back
// always counts.
func (v verb) anytime() bool { return v == verbSuspend || v == verbNo }

// scrolls reports whether a verb only moves the page.
func (v verb) scrolls() bool {
	switch v {
	case verbDown, verbUp, verbPageDown, verbPageUp, verbTop:
		return true
	}
	return false
}

// scope is how far the grant of a verb reaches.
func (v verb) scope() (string, bool) {
	switch v {
	case verbSession:
		return "session", true
	case verbTree:
		return "tree", true
	}
	return "", false
}
