//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// onCPU is the time a process has spent on a processor, in all its threads.
func onCPU(b *testing.B, pid int) time.Duration {
	b.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(tasks) == 0 {
		b.Fatalf("process %d: %v", pid, err)
	}
	var sum time.Duration
	for _, t := range tasks {
		raw, err := os.ReadFile(t)
		if err != nil {
			continue // a thread that has just ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(raw))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// resident is the memory of a process that is in use, in KiB.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); f[0] == "VmRSS:" {
			kib, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// BenchmarkIdle is what nodes cost that have nothing to do: one without
// children, one with a child beside a bare ticker of the beat's period, and
// each further session.
func BenchmarkIdle(b *testing.B) {
	const window = 60 * time.Second
	r := New(b)
	r.Policy(rules)
	alone := r.Agent(AgentOptions{Session: "alone"})
	alone.Send("SessionStart", nil)
	alone.Gate(Bash("make check"))

	l, _ := lead(r, "lead", true)
	child := r.Agent(AgentOptions{Session: "child", Under: l, Env: below(l)})
	if got := child.Gate(Bash("touch x")); !got.Allowed() {
		b.Fatalf("%+v", got)
	}
	ticker := filepath.Join(b.TempDir(), "ticker")
	if out, err := exec.Command("go", "build", "-o", ticker, "permd/internal/yardstick/ticker").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	floor := exec.Command(ticker, filepath.Join(b.TempDir(), "beat"))
	in, err := floor.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := floor.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { in.Close(); floor.Wait() }()
	pids := []int{r.nodePID(alone.Node()), r.nodePID(l.Node()), floor.Process.Pid}
	// What the calls above left to do: reaping takes four seconds, and within
	// a minute the heads of the logs go into the ledger, which costs an fsync.
	time.Sleep(63 * time.Second)
	for b.Loop() {
		var before [3]time.Duration
		for i, p := range pids {
			before[i] = onCPU(b, p)
		}
		time.Sleep(window)
		var used [3]time.Duration
		for i, p := range pids {
			used[i] = onCPU(b, p) - before[i]
		}
		perMinute := func(d time.Duration) float64 { return d.Seconds() * 1000 * (time.Minute.Seconds() / window.Seconds()) }
		b.ReportMetric(perMinute(used[0]), "idle-cpu-ms/min")
		b.ReportMetric(perMinute(used[2]), "ticker-cpu-ms/min")
		b.ReportMetric(used[1].Seconds()/max(used[2].Seconds(), 1e-9), "idle-beat-x-ticker")
		b.ReportMetric(resident(b, pids[0])/1024, "idle-rss-MiB")
		// The heap grows with work, by pieces that are far more than a session
		// is: that is done first, and many sessions share what is left of it.
		const more = 400
		for range more {
			alone.Gate(Bash("make check"))
		}
		small := resident(b, pids[0])
		for i := range more {
			x := Bash("make check")
			x.Agent = fmt.Sprint("agent", i)
			alone.Gate(x)
		}
		b.ReportMetric(max(0, resident(b, pids[0])-small)/more, "idle-session-KiB")
		b.ReportMetric(0, "ns/op")
	}
}
