package hook

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// benchNode says what permd-hook talks to in the benchmarks: "real" is the
// permd of this module, "fake" a node that reads the call, appends one record,
// syncs its data and answers, and does nothing else.
var benchNode = cmp.Or(os.Getenv("HOOK_BENCH_NODE"), "fake")

// event is a call that policy allows by itself: a plain read of the project.
const event = `{"session_id":"af9a28f9-9eab-4860-9cc4-0d2d2ba503a7","transcript_path":"/home/me/.claude/projects/p/af9a28f9.jsonl","cwd":"CWD","prompt_id":"a4d3255a-2f9b-432b-b41c-6f5587aec893","permission_mode":"default","effort":{"level":"medium"},"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"git status","description":"look"},"tool_use_id":"toolu_25e98ac1e53041b4a17e"}`

// bench is a root with a running node, permd-hook and the yardsticks, all
// built as they are installed.
type bench struct {
	*world
	event string // file with the event
	spawn string
	env   []string
}

func newBench(b *testing.B) *bench {
	b.Helper()
	w := newWorld(b)
	fake := w.bin
	w.bin = filepath.Join(w.root, "bin")
	if err := os.Mkdir(w.bin, 0o700); err != nil {
		b.Fatal(err)
	}
	project := filepath.Join(w.root, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		b.Fatal(err)
	}
	bn := &bench{world: w, event: filepath.Join(w.root, "event"), spawn: filepath.Join(w.bin, "spawn")}
	for _, pkg := range []string{"cmd/permd-hook", "internal/yardstick/hello", "internal/yardstick/spawn", "internal/yardstick/hookbash"} {
		bn.build(pkg)
	}
	switch benchNode {
	case "real":
		bn.build("cmd/permd")
	case "fake":
		if err := os.Link(filepath.Join(fake, "permd"), filepath.Join(w.bin, "permd")); err != nil {
			b.Fatal(err)
		}
		w.set("start", "record")
	default:
		b.Fatalf("HOOK_BENCH_NODE is %q, want real or fake", benchNode)
	}
	if err := os.WriteFile(bn.event, []byte(strings.ReplaceAll(event, "CWD", project)), 0o600); err != nil {
		b.Fatal(err)
	}
	// The variables that Claude Code sets, among as many others as are usual.
	bn.env = append(os.Environ(), "CLAUDE_PID="+strconv.Itoa(os.Getpid()), "CLAUDE_PROJECT_DIR="+project,
		"CLAUDE_CODE_SESSION_ID=af9a28f9-9eab-4860-9cc4-0d2d2ba503a7", "CLAUDE_CODE_ENTRYPOINT=cli", "CLAUDE_CODE_SESSION_ATTENDED=1")
	bn.first(b)
	return bn
}

// build builds a program and copies it to its place. What the linker has just
// written lies scattered in the page cache, which alone costs permd-hook 12 % at
// each start until it is read from the disk again; a copy lies as one read does.
func (bn *bench) build(pkg string) {
	bn.t.Helper()
	built := filepath.Join(bn.t.TempDir(), filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", built, "permd/"+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		bn.t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(built)
	if err != nil {
		bn.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bn.bin, filepath.Base(pkg)), program, 0o700); err != nil {
		bn.t.Fatal(err)
	}
}

func (bn *bench) hook() []string {
	return []string{filepath.Join(bn.bin, "permd-hook"), "--root", bn.root, "--gate", "claude"}
}

func (bn *bench) hello() []string {
	return []string{filepath.Join(bn.bin, "hello"), bn.root}
}

// script is the hook for bash and jq, nil when they are not here.
func (bn *bench) script(b *testing.B) []string {
	for _, tool := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			b.Skip("needs " + tool)
		}
	}
	text, err := exec.Command(filepath.Join(bn.bin, "hookbash")).Output()
	if err != nil {
		b.Fatal(err)
	}
	bn.set("hook.sh", string(text))
	bash, err := exec.LookPath("bash")
	if err != nil {
		b.Fatal(err)
	}
	return []string{bash, filepath.Join(bn.root, "hook.sh"), bn.root}
}

// first starts the node, and makes sure that what is timed is an allow.
func (bn *bench) first(b *testing.B) {
	b.Helper()
	in, err := os.Open(bn.event)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	cmd := exec.Command(bn.hook()[0], bn.hook()[1:]...)
	cmd.Stdin, cmd.Env = in, bn.env
	if got := run(b, cmd); got.code != 0 || !strings.Contains(got.stdout, `"permissionDecision":"allow"`) {
		b.Fatalf("%v, want an allow", got)
	}
	if benchNode == "real" {
		bn.adoptRealNode(b)
	}
}

// adoptRealNode makes the node known to endNodes.
func (bn *bench) adoptRealNode(b *testing.B) {
	facts, err := filepath.Glob(filepath.Join(bn.root, "run", "nodes", "*", "facts"))
	if err != nil || len(facts) != 1 {
		b.Fatalf("facts of one node: %q, %v", facts, err)
	}
	text, err := os.ReadFile(facts[0])
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if pid, ok := strings.CutPrefix(line, "node-pid "); ok {
			appendLine(bn.root, "starts", strings.TrimSpace(pid)+" real")
		}
	}
}

// runs are the figures of one program.
type runs struct{ wall, cpu, peak []float64 }

// alternate runs the programs in turn and checks that each ended well.
func (bn *bench) alternate(b *testing.B, rounds int, programs ...[]string) []runs {
	b.Helper()
	args := []string{strconv.Itoa(rounds), bn.event}
	for i, p := range programs {
		if i > 0 {
			args = append(args, "--")
		}
		args = append(args, p...)
	}
	cmd := exec.Command(bn.spawn, args...)
	cmd.Env = bn.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	got := make([]runs, len(programs))
	for line := range strings.Lines(string(out)) {
		var f [5]int
		for i, s := range strings.Fields(line) {
			if f[i], err = strconv.Atoi(s); err != nil {
				b.Fatalf("spawn said %q", line)
			}
		}
		if f[4] != 0 {
			b.Fatalf("%q ended with %d", programs[f[0]], f[4])
		}
		r := &got[f[0]]
		r.wall = append(r.wall, float64(f[1]))
		r.cpu = append(r.cpu, float64(f[2]))
		r.peak = append(r.peak, float64(f[3]))
	}
	return got
}

func median(v []float64) float64 {
	slices.Sort(v)
	if len(v)%2 == 1 {
		return v[len(v)/2]
	}
	return (v[len(v)/2-1] + v[len(v)/2]) / 2
}

// BenchmarkHook is a call that policy allows, through a live node, beside a
// hello-world that makes one durable append in the same directory.
func BenchmarkHook(b *testing.B) {
	bn := newBench(b)
	const least = 100
	got := bn.alternate(b, max(least, b.N), bn.hello(), bn.hook())
	hello, hook := got[0], got[1]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(hook.wall)/median(hello.wall), "hook-x-hello-sync")
	b.ReportMetric(median(hook.cpu)/median(hello.cpu), "hook-cpu-x-hello-sync")
	b.ReportMetric(slices.Max(hook.peak)/1024, "hook-rss-MiB")
	b.ReportMetric(median(hook.wall)/1e3, "hook-us")
	b.ReportMetric(median(hello.wall)/1e3, "hello-sync-us")
}

// BenchmarkHookBash is the same call beside a hook in bash and jq.
func BenchmarkHookBash(b *testing.B) {
	bn := newBench(b)
	const least = 20
	got := bn.alternate(b, max(least, b.N), bn.hook(), bn.script(b))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(got[1].wall)/median(got[0].wall), "hook-x-bashjq")
}
