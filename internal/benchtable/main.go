// Command benchtable reads the output of go test -bench on standard input and
// prints one table: each metric that the project promises, its value, and the
// bound beside it. It exits 1 when a bound is exceeded, when a promised metric
// was not measured, or when a benchmark failed. With -partial, for a run of
// chosen benchmarks, what was not measured is left out.
//
// A benchmark that ran several times counts with its median; of several
// benchmarks that report one metric the worst counts. What is not a result is
// passed on to standard error.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

func main() {
	partial := flag.Bool("partial", false, "leave out what was not measured")
	flag.Parse()
	run, err := read(os.Stdin, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
	if !run.report(os.Stdout, *partial) {
		os.Exit(1)
	}
}

// results are the samples by metric, then by benchmark.
type results struct {
	samples map[string]map[string][]float64
	failed  bool
}

// read takes in the output of a benchmark run and passes the rest on.
func read(in io.Reader, rest io.Writer) (*results, error) {
	r := &results{samples: map[string]map[string][]float64{}}
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := sc.Text()
		if !r.take(line) {
			if strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "panic:") {
				r.failed = true
			}
			fmt.Fprintln(rest, line)
		}
	}
	return r, sc.Err()
}

// take reads "BenchmarkName-2  10  123 ns/op  1.2 some-metric".
func (r *results) take(line string) bool {
	f := strings.Fields(line)
	if len(f) < 4 || len(f)%2 != 0 || !strings.HasPrefix(f[0], "Benchmark") {
		return false
	}
	if _, err := strconv.ParseUint(f[1], 10, 64); err != nil {
		return false
	}
	values := make([]float64, 0, len(f)/2-1)
	for i := 2; i < len(f); i += 2 {
		v, err := strconv.ParseFloat(f[i], 64)
		if err != nil {
			return false
		}
		values = append(values, v)
	}
	for i, v := range values {
		metric := f[3+2*i]
		if r.samples[metric] == nil {
			r.samples[metric] = map[string][]float64{}
		}
		r.samples[metric][f[0]] = append(r.samples[metric][f[0]], v)
	}
	return true
}

// value is the worst median of a metric and the benchmark it comes from.
func (r *results) value(b bound) (v float64, from string, ok bool) {
	for name, samples := range r.samples[b.metric] {
		m := median(samples)
		if !ok || b.worse(m, v) || (m == v && name < from) {
			v, from, ok = m, name, true
		}
	}
	return v, from, ok
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// report prints the table and says whether everything keeps its bound.
func (r *results) report(out io.Writer, partial bool) bool {
	good := !r.failed
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tmetric\tvalue\tbound\t\tbenchmark")
	for _, b := range bounds {
		limit := "≤ " + number(b.limit)
		if b.least {
			limit = "≥ " + number(b.limit)
		}
		v, from, ok := r.value(b)
		switch {
		case !ok && (partial || b.extra):
			continue
		case !ok:
			good = false
			fmt.Fprintf(w, "%s\t%s\t-\t%s\tNOT MEASURED\t\n", b.what, b.metric, limit)
			continue
		}
		verdict := "ok"
		if !b.holds(v) {
			verdict, good = "EXCEEDED", false
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", b.what, b.metric, number(v), limit, verdict, from)
	}
	if r.failed {
		fmt.Fprintln(w, "a benchmark failed: see its own output")
	}
	return w.Flush() == nil && good
}

// number keeps three digits that matter.
func number(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
