package main

import (
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// events turns "action package test output" lines into go test's events.
func events(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		f := strings.SplitN(l, " ", 4)
		for len(f) < 4 {
			f = append(f, "")
		}
		j, err := json.Marshal(event{f[0], f[1], strings.ReplaceAll(f[2], "-", ""), strings.ReplaceAll(f[3], "|", "\n")})
		if err != nil {
			panic(err)
		}
		b.Write(append(j, '\n'))
	}
	return b.String()
}

func TestVerdicts(t *testing.T) {
	pass := []string{"run p A", "output p A === RUN   A|", "output p A noise|", "pass p A", "output p - PASS|", "output p - ok  \tp\t0.1s|", "pass p"}
	skip := []string{"run p B", "output p B     b_test.go:3: no tmux|", "output p B --- SKIP: B (0.00s)|", "skip p B"}
	cases := []struct {
		name      string
		in        string
		ci, dev   bool
		want, not string
	}{
		{"all pass", events(pass...), true, true, "ok  \tp\t0.1s\n1 passed, 0 failed\n", "noise"},
		{"a skip says why", events(append(skip, pass...)...), false, true, "skipped: p B: b_test.go:3: no tmux\n", "=== RUN"},
		{"a skip is counted", events(append(skip, pass...)...), false, true, "1 passed, 0 failed, 1 skipped\n", "noise"},
		{"skipped once, passed once", events(append(skip, append(pass, "run p B", "pass p B")...)...), true, true, "2 passed, 0 failed\n", "skipped"},
		{"passed once, skipped once", events(append(append(pass, "run p B", "pass p B"), skip...)...), true, true, "2 passed, 0 failed\n", "skipped"},
		{"passed once, failed once", events(append(pass, "output p A why|", "fail p A", "fail p")...), false, false, "why\n", "ok?"},
		{"failed once, passed once", events(append([]string{"output p A why|", "fail p A", "fail p"}, pass...)...), false, false, "failed: p A\n0 passed, 1 failed\n", "noise"},
		{"does not build", events(append([]string{"build-output q - q.go:1: wrong|", "build-fail q", "output q - FAIL\tq [build failed]|", "fail q"}, pass...)...), false, false, "q.go:1: wrong\nFAIL\tq [build failed]\n", "noise"},
		{"a package that does not build is one failure", events(append([]string{"fail q"}, pass...)...), false, false, "failed: q\n1 passed, 1 failed\n", "noise"},
		{"leak after the last test", events(append(pass, "output p - goleak: found|", "fail p")...), false, false, "goleak: found\nfailed: p\n1 passed, 1 failed\n", "noise"},
		{"died in a test", events("run p A", "output p A stuck here|", "output p - panic: test timed out|", "fail p"), false, false, "stuck here\nfailed: p A\n0 passed, 1 failed\n", "xx"},
		{"package without tests", events(append(pass, "output q - ?   \tq\t[no test files]|", "skip q")...), true, true, "1 passed, 0 failed\n", "skipped"},
		{"nothing ran", events("pass p"), false, false, "0 passed, 0 failed\n", "skipped"},
		{"no input", "", false, false, "0 passed, 0 failed\n", "skipped"},
		{"other lines are shown", "a shell says no\n" + events(pass...) + "null\n{}\n", true, true, "a shell says no\n", "noise"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for ci, want := range map[bool]bool{true: c.ci, false: c.dev} {
				var out strings.Builder
				r, err := read(strings.NewReader(c.in), &out)
				if err != nil {
					t.Fatal(err)
				}
				if got := r.report(&out, ci); got != want {
					t.Errorf("ci %v: %v, want %v", ci, got, want)
				}
				if !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), c.not) {
					t.Errorf("ci %v: want %q and not %q in\n%s", ci, c.want, c.not, out.String())
				}
				lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
				if last := lines[len(lines)-1]; !strings.Contains(last, " passed, ") {
					t.Errorf("last line %q", last)
				}
			}
		})
	}
}
