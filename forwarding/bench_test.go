package forwarding

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"permd/ask"
)

// The benchmarks run whole processes and report ratios; b.N plays no part.

const (
	benchRounds = 5
	benchAsks   = 400 // a round
	benchWarm   = 20  // before, on both sides of a comparison: a start is no relay
)

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	s := slices.Clone(d)
	slices.Sort(s)
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func median(d []time.Duration) time.Duration { return quantile(d, 0.5) }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func medianOf(r []float64) float64 {
	s := slices.Clone(r)
	slices.Sort(s)
	return s[len(s)/2]
}

// yardstick builds a bare program.
func yardstick(b *testing.B, name string) string {
	b.Helper()
	out := filepath.Join(b.TempDir(), name)
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, "permd/internal/yardstick/"+name)
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, text)
	}
	return out
}

// bare asks count times through a yardstick's parent and child, after warm
// times that are not counted.
func bare(b *testing.B, program, dir string, count, warm int) []time.Duration {
	b.Helper()
	parent := exec.Command(program, "parent", dir)
	in, err := parent.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := parent.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = parent.Wait()
	}()
	if s, err := bufio.NewReader(out).ReadString('\n'); err != nil || s != "ready\n" {
		b.Fatal(s, err)
	}
	text, err := exec.Command(program, "child", dir, strconv.Itoa(count+warm)).Output()
	if err != nil {
		b.Fatal(err)
	}
	var list []time.Duration
	for f := range strings.FieldsSeq(string(text)) {
		ns, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, time.Duration(ns))
	}
	if len(list) != count+warm {
		b.Fatalf("%d answers to %d asks", len(list), count+warm)
	}
	return list[warm:]
}

// took checks answers and returns how long each took.
func took(b *testing.B, list []answer, count int) []time.Duration {
	b.Helper()
	if len(list) != count {
		b.Fatalf("%d answers to %d asks", len(list), count)
	}
	var d []time.Duration
	for _, a := range list {
		if a.verdict != "allow" {
			b.Fatalf("%+v", a)
		}
		d = append(d, a.took)
	}
	return d
}

var benchSeq int

func childName() string { benchSeq++; return fmt.Sprintf("c%d", benchSeq) }

// relay asks count times, one after the other, from one child process.
func relay(b *testing.B, root string, count int) []time.Duration {
	b.Helper()
	p := run(b, job{Do: "child", Root: root, Node: childName(), Parent: "lead", Count: count, Warm: benchWarm}).ready()
	return took(b, p.all(), count)
}

// BenchmarkRelay compares an ask that is answered at once with the bare relay
// of the same folder, and with one that polls.
func BenchmarkRelay(b *testing.B) {
	root := rootDir(b)
	floor, poll := yardstick(b, "filerelay"), yardstick(b, "poll250")
	run(b, job{Do: "parent", Root: root, Node: "lead"}).ready()
	relay(b, root, 100)
	for b.Loop() {
		var p50, p99 []float64
		var ours []time.Duration
		for i := range benchRounds {
			base := bare(b, floor, filepath.Join(root, fmt.Sprintf("floor-%d-%d", b.N, i)), benchAsks, benchWarm)
			d := relay(b, root, benchAsks)
			ours = append(ours, d...)
			p50 = append(p50, ratio(median(d), median(base)))
			p99 = append(p99, ratio(quantile(d, 0.99), quantile(base, 0.99)))
		}
		slow := bare(b, poll, filepath.Join(root, fmt.Sprintf("poll-%d", b.N)), 4, 0)
		b.ReportMetric(medianOf(p50), "relay-p50-x-floor")
		b.ReportMetric(medianOf(p99), "relay-p99-x-floor")
		b.ReportMetric(ratio(median(slow), median(ours)), "relay-x-poll250")
		b.ReportMetric(float64(median(ours).Microseconds()), "relay-p50-us")
	}
}

// BenchmarkFlat compares one child with one among 1,000 registered ones, and
// with one whose parent's mailbox holds 1,000 files that are nobody's.
func BenchmarkFlat(b *testing.B) {
	for b.Loop() {
		var crowd, stale []float64
		one, many, junk := rootDir(b), rootDir(b), rootDir(b)
		for _, root := range []string{one, many, junk} {
			run(b, job{Do: "parent", Root: root, Node: "lead"}).ready()
		}
		run(b, job{Do: "crowd", Root: many, Node: "other", Parent: "lead", Count: 1000}).ready()
		box := filepath.Join(junk, "run", "nodes", "lead", "mail")
		for i := range 1000 {
			for _, name := range []string{fmt.Sprintf("new/stale-%d.json", i), fmt.Sprintf("tmp/gone~%d", i)} {
				if err := os.WriteFile(filepath.Join(box, name), []byte("x"), 0o600); err != nil {
					b.Fatal(err)
				}
			}
		}
		for _, root := range []string{one, many, junk} {
			relay(b, root, 100)
		}
		for range benchRounds {
			base := median(relay(b, one, benchAsks))
			crowd = append(crowd, ratio(median(relay(b, many, benchAsks)), base))
			stale = append(stale, ratio(median(relay(b, junk, benchAsks)), base))
		}
		b.ReportMetric(medianOf(crowd), "flat-children-x-1")
		b.ReportMetric(medianOf(stale), "flat-files-x-1")
		b.ReportMetric(max(medianOf(crowd), medianOf(stale)), "flat-1000-x-1")
	}
}

// BenchmarkLoad compares asks a second from 100 child processes with those
// from 10. Each child asks so often that what a process pays once, its first
// pages and its heap's growth, is not what is measured.
func BenchmarkLoad(b *testing.B) {
	root := rootDir(b)
	run(b, job{Do: "parent", Root: root, Node: "lead"}).ready()
	relay(b, root, 100)
	load := func(children, total int) float64 {
		var list []*process
		for range children {
			list = append(list, run(b, job{Do: "child", Root: root, Node: childName(), Parent: "lead", Count: total / children, Warm: 30}).ready())
		}
		begin := time.Now()
		for _, p := range list {
			p.do()
		}
		for _, p := range list {
			took(b, p.answers(), total/children)
		}
		d := time.Since(begin)
		for _, p := range list {
			_ = p.end()
		}
		return float64(total) / d.Seconds()
	}
	const asks = 40000
	for b.Loop() {
		var r []float64
		var rate float64
		for range 3 {
			few := load(10, asks)
			rate = load(100, asks)
			r = append(r, rate/few)
		}
		b.ReportMetric(medianOf(r), "load-100-x-10")
		b.ReportMetric(rate, "load-asks/s")
	}
}

// BenchmarkHeadOfLine compares asks beside one that waits for a person with
// asks beside none.
func BenchmarkHeadOfLine(b *testing.B) {
	root := rootDir(b)
	run(b, job{Do: "parent", Root: root, Node: "lead"}).ready()
	relay(b, root, 100)
	for b.Loop() {
		var r []float64
		for range benchRounds {
			base := median(relay(b, root, benchAsks))
			waiter := run(b, job{Do: "child", Root: root, Node: childName(), Parent: "lead", Count: 1, ID: "wait-"}).ready()
			waiter.do()
			r = append(r, ratio(median(relay(b, root, benchAsks)), base))
			waiter.kill()
		}
		b.ReportMetric(medianOf(r), "headofline-x")
	}
}

// BenchmarkParentDeath is the time from a SIGKILL to the child knowing.
func BenchmarkParentDeath(b *testing.B) {
	for b.Loop() {
		var d []time.Duration
		for range 10 {
			root := rootDir(b)
			parent := run(b, job{Do: "parent", Root: root, Node: "lead"}).ready()
			child := run(b, job{Do: "child", Root: root, Node: childName(), Parent: "lead", Count: 1, ID: "wait-"}).ready()
			child.do()
			time.Sleep(50 * time.Millisecond) // the ask is out, or the end is seen all the same
			begin := time.Now()
			_ = parent.cmd.Process.Kill()
			list := child.answers()
			d = append(d, time.Since(begin))
			if len(list) != 1 || list[0].verdict != "error" || !strings.Contains(list[0].text, "lost") && !strings.Contains(list[0].text, "reached") {
				b.Fatalf("%+v", list)
			}
			parent.kill()
			child.kill()
		}
		b.ReportMetric(float64(median(d).Microseconds())/1000, "parent-death-ms")
	}
}

// BenchmarkLetter is sealing and opening one ask.
func BenchmarkLetter(b *testing.B) {
	a, err := testAsk("c1", "ask-1")
	if err != nil {
		b.Fatal(err)
	}
	body, err := ask.Encode(a)
	if err != nil {
		b.Fatal(err)
	}
	key := newKey()
	l := Letter{Envelope: Envelope{Kind: KindAsk, ID: "ask-1", Origin: "c1", Digest: a.Digest, Counter: 1,
		From: Address{"c1", "i1", "c1"}, To: Address{"lead", "i1", "lead"}}, Body: body}
	for b.Loop() {
		raw, err := l.Seal(key)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Open(raw, key); err != nil {
			b.Fatal(err)
		}
	}
}
