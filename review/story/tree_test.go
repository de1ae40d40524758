package story

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"permd/review"
)

// drawn is a tree in one line, sorted.
func drawn(list []Session) string {
	var out []string
	for _, s := range list {
		t := s.ID + "@" + s.Node
		if s.Parent != "" {
			t += ">" + s.Parent
		}
		if s.Unserved {
			t += "!"
		}
		if s.Serving {
			t += "+"
		}
		if !s.Lost.IsZero() {
			t += "?"
		}
		out = append(out, t)
	}
	return strings.Join(out, " ")
}

func spans(list []Relay) string {
	var out []string
	for _, r := range list {
		to := "…"
		if !r.To.IsZero() {
			to = fmt.Sprint(r.To.Sub(start).Milliseconds())
		}
		if r.Lost {
			to += "?"
		}
		out = append(out, fmt.Sprintf("%s>%s %d-%s", r.Session, r.Parent, r.From.Sub(start).Milliseconds(), to))
	}
	return strings.Join(out, ", ")
}

func (l *logs) begins(ms int64, node, session string) {
	l.add(ms, node, review.NodeStarted, nil, "client=claude")
	l.add(ms, node, review.SessionStarted, nil, "session="+session, "client=claude")
	l.add(ms, node, review.ServingStarted, nil, "session="+session)
}

func (l *logs) relays(ms int64, node, session, parent string) {
	l.add(ms, node, review.RelayStarted, nil, "session="+session, "targetSessionId="+parent, "found_by=PERMD_SESSION")
}

func (l *logs) relaysNot(ms int64, node, session, parent string) {
	l.add(ms, node, review.RelayStopped, nil, "session="+session, "targetSessionId="+parent)
}

// One case a way in which a relay can begin and end.
func TestTree(t *testing.T) {
	for _, c := range []struct {
		name  string
		say   func(l *logs)
		tree  string
		spans string
	}{
		{"nobody", func(l *logs) {}, "", ""},
		{"one that relays", func(l *logs) {
			l.begins(0, "a", "lead")
			l.begins(1, "b", "sub")
			l.relays(2, "b", "sub", "lead")
		}, "lead@a+ sub@b>lead+", "sub>lead 2-…"},
		{"told twice", func(l *logs) {
			l.begins(0, "a", "lead")
			l.begins(1, "b", "sub")
			l.relays(2, "b", "sub", "lead")
			l.relays(5, "b", "sub", "lead")
		}, "lead@a+ sub@b>lead+", "sub>lead 2-…"},
		{"it stops", func(l *logs) {
			l.begins(0, "a", "lead")
			l.begins(1, "b", "sub")
			l.relays(2, "b", "sub", "lead")
			l.relaysNot(7, "b", "sub", "lead")
			l.relaysNot(8, "b", "sub", "lead")
		}, "lead@a+ sub@b+", "sub>lead 2-7"},
		{"a redirect", func(l *logs) {
			l.begins(0, "a", "first")
			l.begins(0, "c", "second")
			l.relays(2, "b", "sub", "first")
			l.relaysNot(7, "b", "sub", "first")
			l.relays(7, "b", "sub", "second")
			l.add(8, "a", review.ChildGone, nil, "node=b")
		}, "first@a+ second@c+ sub@b>second", "sub>first 2-7, sub>second 7-…"},
		{"a redirect whose stop is lost", func(l *logs) {
			l.relays(2, "b", "sub", "first")
			l.relays(7, "b", "sub", "second")
			l.relaysNot(9, "b", "sub", "first")
		}, "sub@b>second!", "sub>first 2-7, sub>second 7-…"},
		{"to one who does not serve", func(l *logs) {
			l.add(0, "a", review.SessionStarted, nil, "session=lead")
			l.relays(2, "b", "sub", "lead")
		}, "lead@a sub@b>lead!", "sub>lead 2-…"},
		{"the target's node by its id", func(l *logs) {
			l.begins(0, "a", "lead")
			l.relays(2, "b", "sub", "a")
		}, "lead@a+ sub@b>a", "sub>a 2-…"},
		{"the child ends", func(l *logs) {
			l.begins(0, "a", "lead")
			l.begins(1, "b", "sub")
			l.relays(2, "b", "sub", "lead")
			l.add(9, "b", review.SessionEnded, nil, "session=sub")
			l.add(9, "b", review.NodeEnded, nil)
		}, "lead@a+", "sub>lead 2-9"},
		{"its node ends", func(l *logs) {
			l.begins(1, "b", "sub")
			l.relays(2, "b", "sub", "lead")
			l.add(9, "b", review.NodeEnded, nil)
		}, "", "sub>lead 2-9"},
		{"the child is killed and its parent sees it", func(l *logs) {
			l.begins(0, "a", "lead")
			l.begins(1, "b", "sub")
			l.relays(2, "b", "sub", "lead")
			l.add(6, "a", review.ChildGone, nil, "node=b", "message=the agent has ended")
		}, "lead@a+ sub@b>lead+?", "sub>lead 2-6?"},
		{"and a sweep closes its log later", func(l *logs) {
			l.begins(0, "a", "lead")
			l.begins(1, "b", "sub")
			l.relays(2, "b", "sub", "lead")
			l.add(6, "a", review.ChildGone, nil, "node=b")
			l.add(900, "b", review.LogResumed, nil, "unclean=true")
			l.add(900, "b", review.LogHead, nil, "closing=true")
		}, "lead@a+", "sub>lead 2-6?"},
		{"it was only thought gone", func(l *logs) {
			l.begins(0, "a", "lead")
			l.begins(1, "b", "sub")
			l.relays(2, "b", "sub", "lead")
			l.add(6, "a", review.ChildGone, nil, "node=b")
			l.add(7, "b", review.RequestCreated, nil, "session=sub", "targetSessionId=lead")
		}, "lead@a+ sub@b>lead+", "sub>lead 2-…"},
		{"the parent is killed with an ask", func(l *logs) {
			l.begins(0, "a", "lead")
			l.begins(1, "b", "sub")
			l.relays(2, "b", "sub", "lead")
			l.add(6, "b", review.ParentLost, nil, "session=sub", "targetSessionId=lead")
			l.relaysNot(8, "b", "sub", "lead")
		}, "lead@a+? sub@b+", "sub>lead 2-8"},
		{"the parent comes back as another process", func(l *logs) {
			l.begins(0, "a", "lead")
			l.relays(2, "b", "sub", "lead")
			l.add(6, "b", review.ParentLost, nil, "session=sub", "targetSessionId=lead")
			l.relaysNot(8, "b", "sub", "lead")
			l.begins(20, "c", "lead")
			l.relays(22, "b", "sub", "lead")
		}, "lead@a+? lead@c+ sub@b>lead", "sub>lead 2-8, sub>lead 22-…"},
		{"known by its asks alone", func(l *logs) {
			l.begins(0, "a", "lead")
			l.begins(1, "b", "sub")
			l.add(3, "b", review.RequestCreated, nil, "session=sub", "ask=a", "targetSessionId=lead")
			l.add(5, "b", review.RequestCreated, nil, "session=sub", "ask=b", "targetSessionId=lead")
		}, "lead@a+ sub@b>lead+", "sub>lead 3-…"},
		{"its asks go elsewhere", func(l *logs) {
			l.add(3, "b", review.RequestCreated, nil, "session=sub", "ask=a", "targetSessionId=lead")
			l.add(5, "b", review.RequestCreated, nil, "session=sub", "ask=b", "targetSessionId=other")
		}, "sub@b>other!", "sub>lead 3-5, sub>other 5-…"},
		{"its ask is answered at home", func(l *logs) {
			l.add(3, "b", review.RequestCreated, nil, "session=sub", "ask=a", "targetSessionId=lead")
			l.add(4, "b", review.ForwardedPrompted, nil, "session=x", "ask=c", "via=x@n")
			l.add(4, "b", review.AskWaiting, nil, "session=other", "ask=d")
			l.add(5, "b", review.AskWaiting, nil, "session=sub", "ask=b")
		}, "sub@b", "sub>lead 3-5"},
		{"the parent of its ask is lost", func(l *logs) {
			l.add(3, "b", review.RequestCreated, nil, "session=sub", "ask=a", "targetSessionId=lead")
			l.add(4, "b", review.ParentLost, nil, "session=sub", "ask=a", "targetSessionId=other")
			l.add(5, "b", review.ParentLost, nil, "session=sub", "ask=a", "targetSessionId=lead")
		}, "sub@b", "sub>lead 3-5"},
		{"who relays for one below relays itself", func(l *logs) {
			l.add(3, "m", review.RequestCreated, nil, "session=sub", "ask=a", "via=sub@b", "responderSessionId=mid", "targetSessionId=lead")
		}, "mid@m>lead!", "mid>lead 3-…"},
		{"an ask on the way does not end what is told", func(l *logs) {
			l.relays(2, "b", "sub", "lead")
			l.add(3, "b", review.RequestCreated, nil, "session=sub", "ask=a", "targetSessionId=elsewhere")
			l.add(4, "b", review.AskWaiting, nil, "session=sub", "ask=b")
		}, "sub@b>lead!", "sub>lead 2-…"},
		{"told after its asks", func(l *logs) {
			l.add(3, "b", review.RequestCreated, nil, "session=sub", "ask=a", "targetSessionId=lead")
			l.relays(5, "b", "sub", "lead")
			l.add(6, "b", review.AskWaiting, nil, "session=sub", "ask=b")
			l.relaysNot(9, "b", "sub", "lead")
		}, "sub@b", "sub>lead 3-9"},
		{"a head in the middle ends nothing", func(l *logs) {
			l.begins(0, "a", "lead")
			l.add(6, "a", review.LogHead, nil)
		}, "lead@a+", ""},
		{"who relays nowhere stops nothing", func(l *logs) {
			l.relaysNot(0, "b", "sub", "lead")
			l.add(1, "b", review.SessionEnded, nil, "session=other")
			l.add(1, "x", review.NodeEnded, nil)
			l.add(1, "x", review.ChildGone, nil, "node=b")
		}, "sub@b", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l logs
			c.say(&l)
			if got := drawn(At(l.all, start.Add(time.Hour))); got != c.tree {
				t.Errorf("tree %s\nwant %s", got, c.tree)
			}
			if got := spans(Relays(l.all)); got != c.spans {
				t.Errorf("relays %s\nwant   %s", got, c.spans)
			}
		})
	}
}

// The tree at each moment is what the relays say for that moment.
func TestTreeAtEachMoment(t *testing.T) {
	var l logs
	l.begins(0, "a", "lead")
	l.begins(3, "b", "mid")
	l.relays(5, "b", "mid", "lead")
	l.begins(8, "c", "leaf")
	l.relays(9, "c", "leaf", "mid")
	l.relaysNot(20, "b", "mid", "lead")
	l.relaysNot(25, "c", "leaf", "mid")
	l.relays(25, "c", "leaf", "lead")
	l.add(40, "c", review.NodeEnded, nil)
	spans := Relays(l.all)
	for ms := range int64(50) {
		now := moment(ms)
		var want, got []string
		for _, r := range spans {
			if !r.From.After(now) && (r.To.IsZero() || r.To.After(now)) {
				want = append(want, r.Session+">"+r.Parent)
			}
		}
		for _, s := range At(l.all, now) {
			if s.Parent != "" {
				got = append(got, s.ID+">"+s.Parent)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("at %d ms: %q, the relays say %q", ms, got, want)
		}
	}
}

// What the tree says of each change is one visible line, and every beginning
// of the record is a tree.
func TestChanges(t *testing.T) {
	var l logs
	l.begins(0, "a", "lead")
	l.add(1, "b", review.SessionStarted, nil, "session=sub.1", "parent=lead\u202e", "client=claude", "agentName=explorer")
	l.relays(2, "b", "sub.1", "lead")
	l.add(3, "b", review.NoServingSession, nil, "session=sub.1", "targetSessionId=lead", "servingState=stale")
	l.add(4, "b", review.ParentLost, nil, "session=sub.1", "targetSessionId=lead", "message=EOF\n")
	l.relaysNot(5, "b", "sub.1", "lead")
	l.add(6, "b", review.ServingStopped, nil, "session=sub.1")
	l.add(7, "b", review.SessionEnded, nil, "session=sub.1")
	l.add(8, "a", review.LogResumed, nil, "unclean=true")
	var tr Tree
	var got []string
	for i := range l.all {
		if c, ok := tr.Add(&l.all[i]); ok {
			got = append(got, strings.TrimSpace(c.Session+" "+c.Text))
		}
		tr.Sessions()
	}
	want := []string{
		"lead begins", "lead takes asks of others",
		"sub.1 begins as a subagent of lead⟨U+202E⟩",
		"sub.1 relays to lead, found by PERMD_SESSION",
		"sub.1 finds that lead does not serve (stale)",
		"sub.1 loses lead while an ask is with it: EOF⟨U+000A⟩",
		"sub.1 no longer relays to lead",
		"sub.1 no longer takes asks of others",
		"sub.1 ends",
		"its node is seen to have ended without a word",
	}
	if !slices.Equal(got, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Nothing that can stand in a record makes the tree panic, and only the events
// that are announced change it.
func TestTreeTakesAnything(t *testing.T) {
	var tr Tree
	for _, n := range append(review.Names(), "something.new") {
		for _, v := range []string{"", "lead", "true", "\u202e"} {
			r := review.Record{Writer: v}
			r.Event, r.Session, r.Time = n, v, v
			r.Fields = map[string]string{}
			for _, k := range review.Keys() {
				r.Fields[string(k)] = v
			}
			_, changed := tr.Add(&r)
			announced := slices.ContainsFunc(Events(), func(p string) bool { return strings.HasPrefix(string(n), p) })
			if changed && !announced {
				t.Errorf("%s changes the tree and is not announced", n)
			}
			tr.Sessions()
		}
	}
	if _, changed := tr.Add(&review.Record{Err: review.ErrLine}); changed {
		t.Error("a record that cannot be read changes the tree")
	}
}
