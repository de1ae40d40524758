package tui

import (
	"slices"
	"time"

	"permd/api"
)

// item is one waiting ask on this face.
type item struct {
	id     string
	num    int // its number in line mode, never used again
	shown  api.Shown
	since  time.Time // when it began to wait
	hidden bool      // put away by the person, not answered
	onto   time.Time // when its text was put on the screen, zero if never
	sent   time.Time // when an answer was sent that has no verdict yet
	read   bool      // its whole text has been on the screen
}

// list is what waits, oldest first.
type list struct {
	items []*item
	last  int
}

// put adds an ask, or takes the newer form of one that is there.
func (l *list) put(s api.Shown, now time.Time) (it *item, fresh bool) {
	since := now.Add(-time.Duration(s.AgeMS) * time.Millisecond)
	if it := l.find(s.Ask.Body.ID); it != nil && it.shown.Ask.Digest != s.Ask.Digest {
		l.end(it.id) // never exchanged: it is another ask
	} else if it != nil {
		it.shown, it.sent = s, time.Time{}
		return it, false
	}
	l.last++
	it = &item{id: s.Ask.Body.ID, num: l.last, shown: s, since: since}
	i := len(l.items)
	for i > 0 && l.items[i-1].since.After(since) {
		i--
	}
	l.items = slices.Insert(l.items, i, it)
	return it, true
}

// end takes an ask off the list and returns it, nil if it was not there.
func (l *list) end(id string) *item {
	it := l.find(id)
	if it != nil {
		l.items = slices.DeleteFunc(l.items, func(x *item) bool { return x == it })
	}
	return it
}

func (l *list) find(id string) *item {
	for _, it := range l.items {
		if it.id == id {
			return it
		}
	}
	return nil
}

func (l *list) number(n int) *item {
	for _, it := range l.items {
		if it.num == n {
			return it
		}
	}
	return nil
}

// open are the asks that were not put away.
func (l *list) open() []*item {
	var out []*item
	for _, it := range l.items {
		if !it.hidden {
			out = append(out, it)
		}
	}
	return out
}

// clear empties the list: the connection it came over is gone.
func (l *list) clear() { l.items = nil }
