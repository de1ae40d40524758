// Command skips reads the events of go test -json on standard input and prints
// what a person wants of them: each package's line, the output of what failed,
// the reason of what was skipped, and at the end "N passed, N failed" alone on a
// line. It exits 1 when a test or a package failed, when nothing passed, and,
// with CI=true, when a test was skipped: a proof that did not run is none.
//
// A test may come several times, for example as root and as a plain user. It
// failed if it failed once, and was skipped only if it never ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	r, err := read(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "skips:", err)
		os.Exit(1)
	}
	if !r.report(os.Stdout, os.Getenv("CI") == "true") {
		os.Exit(1)
	}
}

// event is one line of go test -json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

type key struct{ pkg, test string }

func (k key) String() string {
	if k.test == "" {
		return k.pkg
	}
	return k.pkg + " " + k.test
}

// ending orders how a test can end: the highest of several counts.
type ending int

const (
	skipped ending = iota + 1
	passed
	failed
)

type results struct {
	ended   map[key]ending
	reasons map[key]string   // of skips
	output  map[key][]string // of tests that have not ended
	broken  map[string]bool  // packages that failed
}

func read(in io.Reader, out io.Writer) (*results, error) {
	r := &results{map[key]ending{}, map[key]string{}, map[key][]string{}, map[string]bool{}}
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var e event
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil || e.Action == "" {
			fmt.Fprintln(out, sc.Text())
			continue
		}
		r.take(e, out)
	}
	return r, sc.Err()
}

func (r *results) take(e event, out io.Writer) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "output":
		if e.Test != "" {
			r.output[k] = append(r.output[k], e.Output)
		} else if e.Output != "PASS\n" {
			fmt.Fprint(out, e.Output)
		}
	case "pass":
		r.end(k, passed)
	case "skip":
		r.reasons[k] = reason(r.output[k])
		r.end(k, skipped)
	case "fail":
		if e.Test != "" {
			r.show(k, out)
			r.end(k, failed)
			return
		}
		r.broken[e.Package] = true
		// What a package that died was doing is told by its tests without an end.
		for _, open := range slices.SortedFunc(maps.Keys(r.output), compare) {
			if open.pkg == e.Package {
				r.show(open, out)
				r.end(open, failed)
			}
		}
	}
}

func compare(a, b key) int {
	if c := strings.Compare(a.pkg, b.pkg); c != 0 {
		return c
	}
	return strings.Compare(a.test, b.test)
}

func (r *results) end(k key, how ending) {
	delete(r.output, k)
	if k.test != "" {
		r.ended[k] = max(r.ended[k], how)
	}
}

func (r *results) show(k key, out io.Writer) {
	for _, line := range r.output[k] {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(out, line)
		}
	}
}

// reason is what a test said before it was skipped, without the runner's lines.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		if t := strings.TrimSpace(line); !strings.HasPrefix(t, "===") && !strings.HasPrefix(t, "--- SKIP") && t != "" {
			said = append(said, t)
		}
	}
	return strings.Join(said, " ")
}

// report prints the sums and says whether the run counts as passed.
func (r *results) report(out io.Writer, ci bool) bool {
	n := map[ending]int{}
	blamed := map[string]bool{}
	var skips, fails []key
	for k, how := range r.ended {
		n[how]++
		switch how {
		case failed:
			fails, blamed[k.pkg] = append(fails, k), true
		case skipped:
			skips = append(skips, k)
		}
	}
	for pkg := range r.broken {
		if !blamed[pkg] { // it did not build, or failed outside its tests
			fails, n[failed] = append(fails, key{pkg, ""}), n[failed]+1
		}
	}
	slices.SortFunc(fails, compare)
	slices.SortFunc(skips, compare)
	for _, k := range fails {
		fmt.Fprintln(out, "failed:", k)
	}
	for _, k := range skips {
		fmt.Fprintf(out, "skipped: %s: %s\n", k, r.reasons[k])
	}
	if ci && n[skipped] > 0 {
		fmt.Fprintln(out, "with CI=true a skip is a failure")
	}
	fmt.Fprintf(out, "%d passed, %d failed", n[passed], n[failed])
	if n[skipped] > 0 {
		fmt.Fprintf(out, ", %d skipped", n[skipped])
	}
	fmt.Fprintln(out)
	return n[failed] == 0 && n[passed] > 0 && !(ci && n[skipped] > 0)
}
