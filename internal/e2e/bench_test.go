package e2e

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

// BenchmarkParentDeath is the time from a parent node's SIGKILL to the end of
// the hook of a child whose ask waited there: real nodes, the child's own
// dialog opens. It is more than the time until the death is seen.
func BenchmarkParentDeath(b *testing.B) {
	r := New(b)
	x := &scene{r: r}
	x.lead = r.Agent(AgentOptions{Session: "lead"})
	x.child = r.Agent(AgentOptions{Session: "child", Attended: true, Env: []string{"PERMD_PARENT_SESSION=claude-lead"}})
	var took []time.Duration
	for b.Loop() {
		for i := range 20 {
			x.back()
			f := x.begin(x.child, fmt.Sprint("touch yes ", len(took)+i))
			x.shown()
			pid := r.nodePID(x.lead.Node())
			begin := time.Now()
			syscall.Kill(pid, syscall.SIGKILL)
			if d := f.land(); d.got.Decision != "ask" {
				b.Fatalf("%+v", d)
			}
			took = append(took, time.Since(begin))
		}
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "parent-death-ms")
}
