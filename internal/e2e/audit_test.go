package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"permd/api"
	"permd/ask"
	"permd/internal/host"
	"permd/review"
)

// done is one gate call as its agent saw it.
type done struct {
	call, command string
	took          time.Duration
	end           time.Duration // boot-time clock
	got           Answer
	err           error // no answer was seen: the agent or the hook was killed
}

// death is a node that was killed, or whose agent was.
type death struct {
	node string
	at   time.Duration // boot-time clock, after the signal
}

// audit compares what hooks printed with what is on the record.
type audit struct {
	r     *Rig
	all   []review.Record
	asks  map[string][]review.Record // records that name an ask
	calls map[string][]string        // a client's call → its asks
}

func newAudit(r *Rig) *audit {
	a := &audit{r: r, all: r.Records(review.Filter{}), asks: map[string][]review.Record{}, calls: map[string][]string{}}
	for _, x := range a.all {
		if x.Err != nil || x.Ask == "" {
			continue
		}
		a.asks[x.Ask] = append(a.asks[x.Ask], x)
		if x.Action != nil && x.Action.Call != "" && !slices.Contains(a.calls[x.Action.Call], x.Ask) {
			a.calls[x.Action.Call] = append(a.calls[x.Action.Call], x.Ask)
		}
	}
	return a
}

// decides reports whether x is the record of the node that decided. A decision
// that another node passed on has a frame for that node around it.
func decides(x review.Record) bool {
	if x.By == nil || x.By.Kind == ask.KindForwarded {
		return false
	}
	switch x.Event {
	case review.AskApproved, review.AskDenied, review.AskSessionApproved, review.AskAutoApproved, review.AskBlocked,
		review.AskExpired, review.AskUnavailable, review.AskWithdrawn, review.AskDismissed,
		review.ForwardedApproved, review.ForwardedDenied, review.ForwardedEnded,
		review.ForwardedAutoApproved, review.ForwardedAutoDenied:
		return true
	}
	return false
}

func allows(x review.Record) bool {
	return x.Verdict != nil && *x.Verdict == ask.Allow && x.Outcome == ask.Answered || x.Event == review.AskAutoApproved
}

// deciding are the deciding records of an ask.
func (a *audit) deciding(id string) []review.Record {
	var out []review.Record
	for _, x := range a.asks[id] {
		if decides(x) {
			out = append(out, x)
		}
	}
	return out
}

// noAllowWithoutRecord: what a hook let run has the record of its allow, by
// somebody who may allow it.
func (a *audit) noAllowWithoutRecord(list []done) (allowed int) {
	for _, d := range list {
		if d.err != nil || !d.got.Allowed() {
			continue
		}
		allowed++
		ok := false
		for _, id := range a.calls[d.call] {
			for _, x := range a.deciding(id) {
				ok = ok || allows(x)
			}
		}
		if !ok {
			a.r.T.Errorf("%s (%s) was let run and no record allows it: %+v", d.call, d.command, d.got)
		}
		if strings.Contains(d.command, "no") || strings.HasPrefix(d.command, "rm ") {
			a.r.T.Errorf("%s (%s) was let run, which nobody allowed", d.call, d.command)
		}
	}
	return allowed
}

// answered reports whether somebody decided, and not the end of the waiting.
func answered(x review.Record) bool {
	return decides(x) && (x.Outcome == ask.Answered || x.Event == review.AskAutoApproved)
}

// oneDecision: an ask is answered once. A second node, or the same one started
// again, may answer only when the first was killed, or one between, before it
// could pass its answer on.
func (a *audit) oneDecision(deaths []death) {
	for id, list := range a.asks {
		var by []review.Record
		for _, x := range list {
			if answered(x) {
				by = append(by, x)
			}
		}
		for i, x := range by {
			cut := diedAfter(deaths, x.Writer, x.BootMS)
			for _, h := range x.Path {
				cut = cut || diedAfter(deaths, h.Node, x.BootMS)
			}
			for _, y := range by[i+1:] {
				if y.Writer == x.Writer && !diedBetween(deaths, x.Writer, x.BootMS, y.BootMS) || !cut {
					a.r.T.Errorf("ask %s was answered more than once: %s", id, raw(by))
				}
			}
		}
	}
}

// whatWasSaid: what a hook printed is what its node has on record: a refused
// call was not released, one that was let run was.
func (a *audit) whatWasSaid(list []done, deaths []death) {
	for _, d := range list {
		if d.err != nil || d.got.Decision != "allow" && d.got.Decision != "deny" {
			continue
		}
		released := false
		for _, id := range a.calls[d.call] {
			for _, x := range a.asks[id] {
				released = released || x.Event == review.Released || x.Event == review.AskAutoApproved
			}
		}
		if d.got.Decision == "deny" && released {
			a.r.T.Errorf("%s (%s) was refused, and its record says that it was released", d.call, d.command)
		}
		// A release is recorded without waiting for the disk, or for the kernel.
		if d.got.Decision == "allow" && !released && !diedAround(deaths, d.end) {
			a.r.T.Errorf("%s (%s) was let run, and its record does not say that it was released", d.call, d.command)
		}
	}
}

func diedAround(deaths []death, at time.Duration) bool {
	for _, d := range deaths {
		if (d.at - at).Abs() < time.Second {
			return true
		}
	}
	return false
}

// diedBetween reports whether the node was killed between two of its records.
func diedBetween(deaths []death, node string, from, to int64) bool {
	for _, d := range deaths {
		// The time is taken after the signal, when a new node may have written.
		if at := d.at.Milliseconds(); d.node == node && at >= from && at <= to+100 {
			return true
		}
	}
	return false
}

func diedAfter(deaths []death, node string, bootMS int64) bool {
	for _, d := range deaths {
		if d.node == node && d.at.Milliseconds() >= bootMS {
			return true
		}
	}
	return false
}

// nothingAcknowledgedIsLost: what a surface was told had been accepted is on
// the record as that surface said it.
func (a *audit) nothingAcknowledgedIsLost(list []given) (accepted int) {
	for _, g := range list {
		if g.err != nil || g.verdict.Verdict != api.VerdictAccepted {
			continue
		}
		accepted++
		ok := false
		for _, x := range a.deciding(g.ask) {
			ok = ok || x.By.Person() && x.Outcome == ask.Answered && allows(x) == g.allow
		}
		if !ok {
			a.r.T.Errorf("the answer to %s (%s) was accepted and is not on the record", g.ask, g.command)
		}
	}
	return accepted
}

// noAllowAfterDeath: whoever decided was alive then, and what waited for the
// dead is refused within the bound.
func (a *audit) noAllowAfterDeath(list []done, deaths []death, bound time.Duration) {
	for _, d := range list {
		if d.err != nil || !d.got.Allowed() {
			continue
		}
		for _, id := range a.calls[d.call] {
			for _, x := range a.deciding(id) {
				if !allows(x) {
					continue
				}
				for _, k := range deaths {
					late := d.end - k.at
					if k.node == x.Writer && k.at.Milliseconds() >= x.BootMS && late > bound {
						a.r.T.Errorf("%s was let run %s after the node that allowed it was killed", d.call, late)
					}
				}
			}
		}
	}
}

// noTrip: nothing that permd let run was taken for ungated.
func (a *audit) noTrip() {
	for _, x := range a.all {
		if x.Event == review.RanUngated || x.Event == review.RanOther {
			a.r.T.Errorf("the wire was tripped: %s", x.Raw)
		}
	}
}

func raw(list []review.Record) string {
	var b strings.Builder
	for _, x := range list {
		fmt.Fprintf(&b, "\n  %s: %s", x.Writer, x.Raw)
	}
	return b.String()
}

// verify fails when the record was tampered with, as the library and the
// command see it.
func (r *Rig) verify() review.Report {
	r.T.Helper()
	rep, err := review.Verify(r.Dirs.Review())
	if err != nil {
		r.T.Errorf("verify: %v", err)
	}
	if rep.Status == review.Tampered {
		r.T.Errorf("verify: %s", rep.String())
	}
	want := map[review.Status]int{review.Intact: 0, review.Tampered: 1, review.Incomplete: 2}[rep.Status]
	if code, out := r.Permd("review", "verify"); code != want {
		r.T.Errorf("permd review verify ended with %d, want %d: %s", code, want, out)
	}
	return rep
}

// swept ends all agents and checks that one more life of a node leaves nothing
// of the dead behind.
func (r *Rig) swept() {
	r.T.Helper()
	for _, a := range r.living() {
		a.Kill()
	}
	r.Until("all nodes to end with their agents", 15*time.Second, func() bool { return len(r.Nodes()) == 0 })
	last := r.Agent(AgentOptions{Session: "last"})
	last.Send("SessionStart", nil)
	left := func() (out []string) {
		filepath.WalkDir(r.Dirs.Run, func(p string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it is being removed
			}
			name, _ := filepath.Rel(r.Dirs.Run, p)
			switch {
			case err != nil:
				out = append(out, err.Error())
			case slices.Contains(standing, name), name == "sessions/"+last.ID(), name == "sessions/"+last.Node():
			case strings.HasPrefix(name, "nodes/"+last.Node()):
			default:
				out = append(out, name)
			}
			return nil
		})
		return out
	}
	deadline := time.Now().Add(10 * time.Second)
	for len(left()) > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond) // the node that reaps is another process
	}
	if l := left(); len(l) > 0 {
		r.T.Errorf("left behind: %q", l)
	}
	last.Kill()
	r.Until("the last node to end", 10*time.Second, func() bool { return len(r.Nodes()) == 0 })
	// Whatever the state directory holds is the record's, and none of it is
	// half written.
	filepath.WalkDir(r.Dirs.State, func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), host.TempPrefix) {
			r.T.Errorf("left behind: %s", p)
		}
		return nil
	})
}

// standing is what a runtime directory has without any node.
var standing = []string{".", "nodes", "sessions", "start.lock", "node-start.log",
	"desk", "desk/lock", "desk/start.lock", "desk/log", "desk/sock"}

// living are the agents that still run, of those this rig started.
func (r *Rig) living() (out []*Agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.started {
		if st, err := host.StartTime(a.PID); err == nil && st == a.Start {
			out = append(out, a)
		}
	}
	return out
}

// uptime is the clock of the records' boot_ms.
func (r *Rig) uptime() time.Duration {
	r.T.Helper()
	up, err := host.Uptime()
	if err != nil {
		r.T.Fatal(err)
	}
	return up
}

// seed is that of a test with random moments: printed, and given again with
// PERMD_E2E_SEED.
func (r *Rig) seed() uint64 {
	r.T.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("PERMD_E2E_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			r.T.Fatalf("PERMD_E2E_SEED: %v", err)
		}
	}
	r.T.Logf("seed: PERMD_E2E_SEED=%d", seed)
	return seed
}
