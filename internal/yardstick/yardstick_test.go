package yardstick

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func build(t *testing.T, name string) string {
	t.Helper()
	// The test cache does not see what go build reads.
	for _, dir := range []string{name, "mailbox"} {
		if _, err := os.ReadDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "permd/internal/yardstick/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return out
}

func output(t *testing.T, stdin string, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, stderr.Bytes())
	}
	return string(b)
}

// serve starts a program that says "ready" and ends with its input.
func serve(t *testing.T, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%q: %v", argv, err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q said %q, %v", argv, line, err)
	}
}

func TestHello(t *testing.T) {
	t.Parallel()
	hello, dir := build(t, "hello"), t.TempDir()
	for n := 1; n <= 2; n++ {
		if got := output(t, "", hello, dir); got != "hello\n" {
			t.Errorf("it said %q", got)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "hello")); err != nil || len(b) != n*220 {
			t.Errorf("%d bytes after %d runs, %v", len(b), n, err)
		}
	}
	if err := exec.Command(hello, filepath.Join(dir, "missing")).Run(); err == nil {
		t.Error("a record that cannot be kept is no error")
	}
}

func TestHookbash(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool)
		}
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "hook.sh")
	if err := os.WriteFile(script, []byte(output(t, "", build(t, "hookbash"))), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ command, want string }{
		{"git status", "allow"}, {"rm -rf /", "deny"}, {"make", "ask"},
	} {
		got := output(t, `{"tool_name":"Bash","tool_input":{"command":"`+c.command+`"}}`, "bash", script, dir)
		if !strings.Contains(got, `"permissionDecision":"`+c.want+`"`) {
			t.Errorf("%s: %s, want %s", c.command, got, c.want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "hookbash")); err != nil || bytes.Count(b, []byte("\n")) != 3 {
		t.Errorf("the record is %q, %v", b, err)
	}
}

func TestRelays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		count int
		least time.Duration
	}{{"filerelay", 50, 0}, {"poll250", 2, 250 * time.Millisecond}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			program, dir := build(t, c.name), t.TempDir()
			serve(t, program, "parent", dir)
			lines := strings.Fields(output(t, "", program, "child", dir, strconv.Itoa(c.count)))
			if len(lines) != c.count {
				t.Fatalf("%d answers, want %d", len(lines), c.count)
			}
			for _, l := range lines {
				ns, err := strconv.ParseInt(l, 10, 64)
				if err != nil || time.Duration(ns) < max(c.least, 1) {
					t.Errorf("an answer took %q", l)
				}
			}
			left, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
			if err != nil || len(left) != 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}

func TestTicker(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "beat")
	serve(t, build(t, "ticker"), file, "10ms")
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(file); err == nil && len(b) == 64 && binary.BigEndian.Uint64(b) >= 3 {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("no third beat within 10 s")
		}
	}
}

func TestSpawn(t *testing.T) {
	t.Parallel()
	spawn, dir := build(t, "spawn"), t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte("input\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := output(t, "", spawn, "2", in, "/bin/sh", "-c", "read x; test $x = input && exit 7", "--", "/bin/sh", "-c", "kill -9 $$")
	var want = []string{"0 7", "1 -1", "0 7", "1 -1"}
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) != len(want) {
		t.Fatalf("it said %q", got)
	}
	for i, l := range lines {
		f := strings.Fields(l)
		if len(f) != 5 || f[0]+" "+f[4] != want[i] {
			t.Errorf("line %d is %q, want %q", i, l, want[i])
			continue
		}
		for _, n := range f[1:4] {
			if v, err := strconv.ParseInt(n, 10, 64); err != nil || v <= 0 {
				t.Errorf("line %d: figure %q", i, n)
			}
		}
	}
	for _, args := range [][]string{{}, {"0", in, "/bin/true"}, {"1", in, "--", "/bin/true"}, {"1", in + "x", "/bin/true"}, {"1", in, "/missing"}} {
		if err := exec.Command(spawn, args...).Run(); err == nil {
			t.Errorf("%q is no error", args)
		}
	}
}
