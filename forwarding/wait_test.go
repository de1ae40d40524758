package forwarding

import (
	"testing"
	"time"

	"permd/liveness"
)

// Every cell of the table at step, with each boundary at, just before and just
// after.
func TestWaitStep(t *testing.T) {
	const timeout = time.Minute
	type in struct {
		s    sign
		end  ending
		next time.Duration
	}
	yes := func(at time.Duration) sign { return sign{at: at, judged: true, answer: liveness.Yes} }
	no := func(at time.Duration) sign { return sign{at: at, judged: true, answer: liveness.No} }
	unknown := func(at time.Duration) sign { return sign{at: at, judged: true, answer: liveness.Unknown} }
	time_ := func(at time.Duration) sign { return sign{at: at} }
	shown := func(at time.Duration) sign { return sign{at: at, shown: true} }
	day := 24 * time.Hour
	for _, c := range []struct {
		name    string
		timeout time.Duration
		steps   []in
	}{
		{"yes for 30 days", timeout, []in{{yes(0), waitsOn, 0}, {time_(30 * day), waitsOn, 0}, {yes(31 * day), waitsOn, 0}}},
		{"no just below the grace", timeout, []in{{no(0), waitsOn, Grace}, {time_(Grace - 1), waitsOn, Grace}}},
		{"no at the grace", timeout, []in{{no(0), waitsOn, Grace}, {time_(Grace), notServing, 0}}},
		{"no just above the grace", timeout, []in{{no(0), waitsOn, Grace}, {no(Grace + 1), notServing, 0}}},
		{"no, then yes, then no", timeout, []in{{no(0), waitsOn, Grace}, {yes(Grace - 1), waitsOn, 0}, {no(Grace), waitsOn, 2 * Grace},
			{no(2*Grace - 1), waitsOn, 2 * Grace}, {no(2 * Grace), notServing, 0}}},
		{"no, then unknown, then no", timeout, []in{{no(0), waitsOn, Grace}, {unknown(time.Second), waitsOn, time.Second + timeout},
			{no(3 * time.Second), waitsOn, 3*time.Second + Grace}, {time_(3*time.Second + Grace), notServing, 0}}},
		{"no although shown", timeout, []in{{shown(0), waitsOn, 0}, {no(0), waitsOn, Grace}, {time_(Grace), notServing, 0}}},
		{"nothing seen counts as unknown", timeout, []in{{time_(0), waitsOn, timeout}, {time_(timeout), timedOut, 0}}},
		{"unknown just below the timeout", timeout, []in{{unknown(0), waitsOn, timeout}, {time_(timeout - 1), waitsOn, timeout}}},
		{"unknown at the timeout", timeout, []in{{unknown(0), waitsOn, timeout}, {unknown(timeout), timedOut, 0}}},
		{"unknown just above the timeout", timeout, []in{{unknown(0), waitsOn, timeout}, {unknown(timeout + 1), timedOut, 0}}},
		{"unknown, but shown", timeout, []in{{unknown(0), waitsOn, timeout}, {shown(timeout - 1), waitsOn, 0}, {time_(30 * day), waitsOn, 0}}},
		{"shown stays shown", timeout, []in{{shown(0), waitsOn, 0}, {yes(1), waitsOn, 0}, {unknown(day), waitsOn, 0}, {time_(30 * day), waitsOn, 0}}},
		{"unknown after yes has the whole timeout", timeout, []in{{yes(0), waitsOn, 0}, {unknown(day), waitsOn, day + timeout},
			{time_(day + timeout - 1), waitsOn, day + timeout}, {time_(day + timeout), timedOut, 0}}},
		{"a timeout of zero", 0, []in{{unknown(0), timedOut, 0}}},
		{"a timeout below zero", -1, []in{{unknown(0), timedOut, 0}}},
		{"a timeout of zero does not hurt a yes", 0, []in{{yes(0), waitsOn, 0}, {time_(day), waitsOn, 0}}},
		{"a timeout of zero does not shorten the grace", 0, []in{{no(0), waitsOn, Grace}, {time_(Grace - 1), waitsOn, Grace}, {time_(Grace), notServing, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := waiting{timeout: c.timeout}
			for i, s := range c.steps {
				var next time.Duration
				var end ending
				w, next, end = w.step(s.s)
				if end != s.end || next != s.next {
					t.Fatalf("step %d: ends %d, next %s; want %d, %s", i+1, end, next, s.end, s.next)
				}
			}
		})
	}
}
