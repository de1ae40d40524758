package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// trial makes calls of every kind and keeps what came of them.
type trial struct {
	*scene
	t *testing.T
}

func newTrial(t *testing.T, r *Rig) *trial {
	r.Config("asks_a_minute = 1000000\n")
	r.Policy(rules)
	s := &scene{r: r}
	s.lead = r.Agent(AgentOptions{Session: "lead"})
	s.child = r.Agent(AgentOptions{Session: "child", Under: s.lead, Env: below(s.lead)})
	s.back()
	return &trial{s, t}
}

// round makes one call of each kind: allowed by a rule, denied by one, allowed
// by a person, allowed by a person for a child.
func (x *trial) round(i int) (out []done) {
	x.t.Helper()
	stop := make(chan struct{})
	answered := make(chan struct{})
	go func() { // the person
		defer close(answered)
		for {
			for _, s := range x.desk.Waiting() {
				x.reply(s, true)
			}
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	out = append(out, x.begin(x.lead, "make check").land(), x.begin(x.lead, fmt.Sprint("rm ", i)).land(),
		x.begin(x.lead, fmt.Sprint("touch yes ", i)).land(), x.begin(x.child, fmt.Sprint("touch yes too ", i)).land())
	close(stop)
	<-answered
	if out[1].got.Allowed() {
		x.t.Errorf("a denied call was let run: %+v", out[1])
	}
	return out
}

// well reports whether every call ended as it should when nothing is wrong.
func well(list []done) bool {
	return list[0].got.Allowed() && list[1].got.Decision == "deny" && list[2].got.Allowed() && list[3].got.Allowed()
}

// recover waits until calls work again. The surface may have to come back, to
// another node.
func (x *trial) recover(what string) {
	x.t.Helper()
	// A node without children looks at its place once a minute.
	deadline := time.Now().Add(75 * time.Second)
	var list []done
	for i := 1000; ; i++ {
		x.lead.Send("SessionStart", nil)
		x.child.Send("SessionStart", nil)
		desk, err := x.r.tryAttach(x.r.Dirs.Node(x.lead.Node()).Sock(), nil)
		if err == nil {
			x.desk.Close()
			x.desk = desk
			if list = x.round(i); well(list) {
				return
			}
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("%s: calls do not work again: %v, %+v", what, err, list)
		}
	}
}

// said reports whether a refusal says one of these words.
func said(d done, words ...string) bool {
	text := d.got.Reason + d.got.Stderr
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}
