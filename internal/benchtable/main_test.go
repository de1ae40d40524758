package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// all is a run in which every metric that must be there stands at its bound.
func all(change map[string]string) string {
	var b strings.Builder
	b.WriteString("goos: linux\npkg: permd/hook\n")
	for _, x := range bounds {
		v := fmt.Sprint(x.limit)
		if c, ok := change[x.metric]; ok {
			v = c
		} else if x.extra {
			continue
		}
		if v != "" {
			fmt.Fprintf(&b, "BenchmarkA/%s-2 \t 10\t 123 ns/op\t %s %s\n", x.metric, v, x.metric)
		}
	}
	b.WriteString("PASS\nok  \tpermd/hook\t1.2s\n")
	return b.String()
}

func table(t *testing.T, in string, partial bool) (out, rest string, good bool) {
	t.Helper()
	var o, e strings.Builder
	r, err := read(strings.NewReader(in), &e)
	if err != nil {
		t.Fatal(err)
	}
	good = r.report(&o, partial)
	return o.String(), e.String(), good
}

func TestBounds(t *testing.T) {
	cases := []struct {
		name    string
		in      string
		partial bool
		good    bool
		want    string
	}{
		{"each at its bound", all(nil), false, true, "hook-x-hello-sync"},
		{"a maximum exceeded", all(map[string]string{"hook-rss-MiB": "8.1"}), false, false, "EXCEEDED"},
		{"a minimum missed", all(map[string]string{"relay-x-poll250": "199"}), false, false, "EXCEEDED"},
		{"better on both sides", all(map[string]string{"hook-rss-MiB": "2", "relay-x-poll250": "1500"}), false, true, "1500"},
		{"not a number", all(map[string]string{"headofline-x": "NaN"}), false, false, "NaN"},
		{"endless", all(map[string]string{"headofline-x": "+Inf"}), false, false, "EXCEEDED"},
		{"negative faults do not hide", all(map[string]string{"load-faults": "1"}), false, false, "EXCEEDED"},
		{"an extra one at its bound", all(map[string]string{"group-x-fsync-each": "10"}), false, true, "group-x"},
		{"not measured", all(map[string]string{"parent-death-ms": ""}), false, false, "NOT MEASURED"},
		{"not measured, chosen run", all(map[string]string{"parent-death-ms": ""}), true, true, "hook-rss-MiB"},
		{"nothing at all", "", false, false, "NOT MEASURED"},
		{"nothing at all, chosen run", "", true, true, "metric"},
		{"a failed benchmark", all(nil) + "--- FAIL: BenchmarkB\nFAIL\n", false, false, "failed"},
		{"a failed package", all(nil) + "FAIL\tpermd/node [build failed]\n", false, false, "failed"},
		{"a panic", all(nil) + "panic: oh\n", false, false, "failed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			out, _, good := table(t, c.in, c.partial)
			if good != c.good || !strings.Contains(out, c.want) {
				t.Errorf("good %v, want %v, with %q in\n%s", good, c.good, c.want, out)
			}
		})
	}
}

func TestMedianOfRunsAndWorstOfBenchmarks(t *testing.T) {
	in := `BenchmarkA-2  1  5 ns/op  9 hook-rss-MiB
BenchmarkA-2  1  5 ns/op  3 hook-rss-MiB
BenchmarkA-2  1  5 ns/op  4 hook-rss-MiB
BenchmarkB-2  1  5 ns/op  5 hook-rss-MiB  300 relay-x-poll250
BenchmarkC-2  1  5 ns/op  250 relay-x-poll250
`
	out, _, good := table(t, in, true)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if !good || len(lines) != 3 {
		t.Fatalf("good %v\n%s", good, out)
	}
	for i, want := range [][]string{{"hook-rss-MiB", "5", "≤", "8", "ok", "BenchmarkB-2"}, {"relay-x-poll250", "250", "≥", "200", "ok", "BenchmarkC-2"}} {
		f := strings.Fields(lines[i+1])
		if !slices.Equal(f[len(f)-len(want):], want) {
			t.Errorf("row %q, want %q at its end", f, want)
		}
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median %v", got)
	}
}

func TestWorse(t *testing.T) {
	most, least, nan := bound{}, bound{least: true}, math.NaN()
	for _, c := range []struct {
		b    bound
		a, c float64
		want bool
	}{
		{most, 2, 1, true}, {most, 1, 2, false}, {most, 1, 1, false}, {most, nan, 9, true}, {most, 9, nan, false},
		{least, 1, 2, true}, {least, 2, 1, false}, {least, 1, 1, false}, {least, nan, 0, true}, {least, 0, nan, false},
	} {
		if got := c.b.worse(c.a, c.c); got != c.want {
			t.Errorf("worse(%v, %v), least %v: %v", c.a, c.c, c.b.least, got)
		}
	}
}

func TestWhatIsNoResultIsPassedOn(t *testing.T) {
	lines := []string{
		"goos: linux", "--- SKIP: BenchmarkHook", "    hook_test.go:1: jq is missing", "Benchmark", "BenchmarkA-2", "BenchmarkA-2 many 1 ns/op",
		"BenchmarkA-2 1 x ns/op", "BenchmarkA-2 1 2 ns/op 3", "ok  \tpermd/hook\t1.2s", "Benchmarks follow 1 2",
	}
	out, rest, good := table(t, strings.Join(lines, "\n"), true)
	if rest != strings.Join(lines, "\n")+"\n" || !good || strings.Count(out, "\n") != 1 {
		t.Errorf("good %v, passed on %q, table\n%s", good, rest, out)
	}
	if _, err := read(strings.NewReader(strings.Repeat("x", 2<<20)), &strings.Builder{}); err == nil {
		t.Error("an endless line is taken in")
	}
}

func TestEachMetricHasOneBound(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range bounds {
		if seen[b.metric] || b.what == "" || strings.ContainsAny(b.metric, " \t") {
			t.Errorf("bound %+v", b)
		}
		seen[b.metric] = true
	}
}
