package story

import (
	"bytes"
	"testing"
	"time"

	"permd/ask"
	"permd/review"
)

// all tells everything there is to tell of some records; it must not panic.
func all(records []review.Record) {
	for _, a := range Asks(records) {
		_ = told(a)
		for _, s := range a.Steps {
			_ = s.Text
		}
	}
	Relays(records)
	At(records, time.Unix(1e9, 0))
	s := statsOf(records)
	s.Kinds(Saved)
	var u Undecided
	for i := range records {
		u.Add(&records[i])
	}
}

// Whatever lines a log has, and in whatever order: there is a story.
func FuzzStory(f *testing.F) {
	seeds := []func(l *logs){
		func(l *logs) { l.twoHops(5, "a", "deny", user("lead", "desk")) },
		func(l *logs) {
			l.begins(0, "nlead", "lead")
			l.relays(1, "nmid", "mid", "lead")
			l.add(103, "nlead", review.ChildGone, nil, "node=nmid")
		},
		func(l *logs) {
			l.add(100, "nleaf", review.HandedToClientDialog, nil, "session=leaf", "ask=c", "cmd=x")
			l.add(101, "nleaf", review.Effect, &ask.By{Kind: ask.KindClientDialog, Inferred: true}, "session=leaf", "ask=c", "effect=ran")
			l.add(102, "nlead", review.AnswerLate, nil, "ask=c", "surface=desk")
		},
	}
	for _, say := range seeds { // small ones: the engine makes them smaller still, at length
		var l logs
		say(&l)
		var seed []byte
		for _, r := range l.all {
			raw, err := ask.Encode(r.Line)
			if err != nil {
				f.Fatal(err)
			}
			seed = append(append(seed, raw...), '\n')
		}
		f.Add(seed, byte(3))
	}
	f.Fuzz(func(t *testing.T, log []byte, writers byte) {
		var records []review.Record
		for i, raw := range bytes.Split(log, []byte("\n")) {
			l, err := review.ParseLine(raw)
			if err != nil {
				continue
			}
			writer := []string{"nlead", "nmid", "nleaf", "nelse"}[i%int(writers%4+1)]
			records = append(records, review.Record{Line: l, Writer: writer})
		}
		all(records)
	})
}

// Every beginning of a record has its story, and taking away any one record
// breaks none.
func TestStoriesOfParts(t *testing.T) {
	var l logs
	l.begins(0, "nlead", "lead")
	l.twoHops(5, "a", "allow", user("lead", "desk"))
	l.twoHops(60, "b", "deny", user("lead", "desk"))
	for i := range l.all {
		all(l.all[:i])
		all(l.all[i:])
		without := append(append([]review.Record(nil), l.all[:i]...), l.all[i+1:]...)
		all(without)
		for _, a := range Asks(without) {
			if d := a.Decision; d == nil || d.By.Decider().Surface != "desk" {
				t.Errorf("without record %d (%s) ask %s was decided by %+v", i, l.all[i].Event, a.ID, d)
			}
		}
	}
}

// An ask with very many records is told, and not in the time of their square.
func TestStoryOfManyRecords(t *testing.T) {
	var l logs
	l.twoHops(0, "a", "allow", user("lead", "desk"))
	for i := range int64(20_000) {
		l.add(100+i, "nlead", review.AnswerLate, nil, "ask=a", "surface=desk")
	}
	if a := Asks(l.all)[0]; len(a.Steps) != 20_009 || a.Decision.Verdict != ask.Allow {
		t.Errorf("%d steps, %+v", len(a.Steps), a.Decision)
	}
}
