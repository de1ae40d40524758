package story

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"permd/ask"
	"permd/review"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 3, 10, 0, 0, 0, time.UTC)

// moment is the wall clock ms milliseconds after the start.
func moment(ms int64) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// logs makes records as nodes write them, in the order of their times.
type logs struct {
	seq map[string]uint64
	all []review.Record
}

// add writes one record: "key=value" sets a field, and these set a part of the
// record: session=, via=SESSION@NODE (once a hop), ask=, verdict=, outcome=,
// reason=, cmd=. by is the decider.
func (l *logs) add(ms int64, writer string, event review.Name, by *ask.By, parts ...string) *review.Record {
	if l.seq == nil {
		l.seq = map[string]uint64{}
	}
	l.seq[writer]++
	r := review.Record{Writer: writer, File: "000001.jsonl"}
	r.V, r.Seq, r.BootMS, r.Event, r.By = 1, l.seq[writer], 1000+ms, event, by
	r.Prev = ask.Digest{byte(r.Seq), 1, writer[0]}
	r.Time = moment(ms).Format("2006-01-02T15:04:05.000000000Z")
	r.Fields = map[string]string{}
	for _, p := range parts {
		k, v, _ := strings.Cut(p, "=")
		switch k {
		case "session":
			r.Session = v
		case "via":
			s, n, _ := strings.Cut(v, "@")
			r.Path = append(r.Path, ask.Hop{Session: s, Node: n})
		case "ask":
			r.Ask = v
		case "verdict":
			var x ask.Verdict
			if err := x.UnmarshalText([]byte(v)); err != nil {
				panic(err)
			}
			r.Verdict = &x
		case "outcome":
			r.Outcome = ask.Outcome(v)
		case "reason":
			r.Reason = v
		case "cmd":
			r.Action = &review.Action{Client: "claude", Tool: "bash", ClientTool: "Bash", Command: v}
		default:
			r.Fields[k] = v
		}
	}
	l.all = append(l.all, r)
	return &l.all[len(l.all)-1]
}

func user(at, surface string) *ask.By {
	return &ask.By{Kind: ask.KindUser, Session: at, Surface: surface}
}

func through(b *ask.By, sessions ...string) *ask.By {
	for i := len(sessions) - 1; i >= 0; i-- {
		f := ask.Forwarded(sessions[i], *b)
		b = &f
	}
	return b
}

// twoHops is an ask of leaf over mid to lead, where by decides it.
func (l *logs) twoHops(ms int64, id string, verdict string, by *ask.By) {
	a, o := "ask="+id, "outcome=answered"
	v := "verdict=" + verdict
	name := map[string]review.Name{"allow": review.ForwardedApproved, "deny": review.ForwardedDenied}[verdict]
	leaf, mid := "via=leaf@nleaf", "via=mid@nmid"
	l.add(ms, "nleaf", review.RequestCreated, nil, "session=leaf", a, "cmd=make", "targetSessionId=mid", "channel=env")
	l.add(ms+1, "nmid", review.RequestCreated, nil, "session=leaf", a, leaf, "cmd=make", "targetSessionId=lead", "responderSessionId=mid")
	l.add(ms+2, "nlead", review.ForwardedPrompted, nil, "session=leaf", a, leaf, mid, "cmd=make", "responderSessionId=lead")
	l.add(ms+10, "nlead", name, by, "session=leaf", a, leaf, mid, v, o, "cmd=make", "responderSessionId=lead", "waited_ms=8")
	l.add(ms+11, "nmid", review.ResponseReceived, through(by, "lead"), "session=leaf", a, leaf, v, o, "targetSessionId=lead", "responderSessionId=mid")
	l.add(ms+12, "nleaf", review.ResponseReceived, through(by, "mid", "lead"), "session=leaf", a, v, o, "cmd=make", "targetSessionId=mid")
	if verdict == "allow" {
		l.add(ms+13, "nleaf", review.Released, nil, "session=leaf", a)
		l.add(ms+30, "nleaf", review.Effect, nil, "session=leaf", a, "effect=ran", "exit_code=0")
	} else {
		l.add(ms+13, "nleaf", review.AskDenied, through(by, "mid", "lead"), "session=leaf", a, v, o)
	}
	l.add(ms+14, "nmid", review.AnswerDelivered, nil, "session=leaf", a, "delivered=released")
}

// told is a story in one line.
func told(a *Ask) string {
	d := "nobody"
	if a.Decision != nil {
		d = fmt.Sprintf("%s by %s", a.Decision.Verdict, By(&a.Decision.By))
		if a.Decision.Outcome != ask.Answered {
			d += ", " + string(a.Decision.Outcome)
		}
		if !a.Decision.Confirmed {
			d += ", hearsay"
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%s@%s: %s; %s %s", a.Session, a.Node, d, a.Release, a.Effect))
}
