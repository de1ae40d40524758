package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkPolicyExplain measures "permd policy explain" from start to end,
// the built program with a file of 50 and of 1,000 rules, beside a program that
// starts and writes one line, in turn. 1,000 actions on one standard input say what one of
// them costs when the start is shared.
func BenchmarkPolicyExplain(b *testing.B) {
	dir := b.TempDir()
	for name, pkg := range map[string]string{"permd": "permd/cmd/permd", "hello": "permd/internal/yardstick/hello"} {
		c := exec.Command("go", "build", "-o", filepath.Join(dir, name), pkg)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	file := func(n int) string {
		var t strings.Builder
		for i := range n {
			switch i % 3 {
			case 0:
				fmt.Fprintf(&t, "[[rule]]\naction = \"allow\"\ncommand = \"tool%d run *\"\n", i)
			case 1:
				fmt.Fprintf(&t, "[[rule]]\naction = \"deny\"\npath = \"src/part%d/**\"\n", i)
			case 2:
				fmt.Fprintf(&t, "[[rule]]\naction = \"ask\"\nserver = \"server%d\"\nname = \"drop_*\"\n", i)
			}
		}
		name := filepath.Join(dir, fmt.Sprint(n, ".toml"))
		if err := os.WriteFile(name, []byte(t.String()), 0o600); err != nil {
			b.Fatal(err)
		}
		return name
	}
	few, many, log := file(50), file(1000), b.TempDir()
	line := []byte(`{"tool":"bash","command":"cd sub && tool3 run x 2>&1 | tail -5 && git log --oneline -3","cwd":"/w","project":"/w","home":"/home/u"}` + "\n")
	run := func(in []byte, program string, args ...string) float64 {
		c := exec.Command(filepath.Join(dir, program), args...)
		c.Stdin = bytes.NewReader(in)
		var said bytes.Buffer
		c.Stderr = &said
		began := time.Now()
		if err := c.Run(); err != nil {
			b.Fatalf("%s: %v: %.300s", program, err, said.String())
		}
		return float64(time.Since(began).Microseconds()) / 1000
	}
	explain := []string{"--root", filepath.Join(dir, "root"), "policy", "explain", "--json", "--policy"}
	var hello, fifty, thousand, lines []float64
	for range 3 { // warm
		run(nil, "hello", log)
		run(line, "permd", append(explain, many)...)
	}
	for b.Loop() {
		hello = append(hello, run(nil, "hello", log))
		fifty = append(fifty, run(line, "permd", append(explain, few)...))
		thousand = append(thousand, run(line, "permd", append(explain, many)...))
		lines = append(lines, run(bytes.Repeat(line, 1000), "permd", append(explain, many)...))
	}
	middle := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	h, f, m, l := middle(hello), middle(fifty), middle(thousand), middle(lines)
	b.ReportMetric(f, "explain-50-ms")
	b.ReportMetric(m, "explain-1000-ms")
	b.ReportMetric(f/h, "explain-50-x-hello")
	b.ReportMetric((l-m)*1000/999, "explain-line-µs")
}
