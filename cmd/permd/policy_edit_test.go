package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"permd/desk/desktest"
	"permd/session"
)

// terminal runs a command on a terminal: each text that is seen is answered
// with the one after it. It returns the exit code and all that was shown.
func terminal(t *testing.T, cmd *exec.Cmd, talk ...string) (int, string) {
	t.Helper()
	tty, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var out bytes.Buffer
	shown := func() string { mu.Lock(); defer mu.Unlock(); return out.String() }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	copied, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(copied)
		b := make([]byte, 4096)
		for {
			n, err := tty.Read(b)
			mu.Lock()
			out.Write(b[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() { defer close(ended); _ = cmd.Wait() }()
	defer func() {
		_ = cmd.Process.Kill()
		<-ended
		slave.Close()
		tty.Close()
		<-copied
	}()
	from := 0
	for i := 0; i+1 < len(talk); i += 2 {
		desktest.Eventually(t, "the terminal with "+talk[i], func() bool { return strings.Contains(shown()[from:], talk[i]) })
		from = len(shown())
		if _, err := io.WriteString(tty, talk[i+1]+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	desktest.Eventually(t, "the end of the command", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	return cmd.ProcessState.ExitCode(), strings.ReplaceAll(shown(), "\r\n", "\n")
}

// Rules are edited as with visudo: nothing is saved that has a fault or that
// the person did not see and want.
func TestPolicyEdit(t *testing.T) {
	permd := installed(t)
	root := t.TempDir()
	if err := os.Chmod(root, 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := session.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(d.Config, "policy.toml")
	is := func() string {
		b, err := os.ReadFile(rules)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}
	holds := func(command string) string {
		b, _ := exec.Command(permd, "--root", root, "policy", "explain", "--cwd", "/w", command).Output()
		line, _, _ := strings.Cut(string(b), "\n")
		verdict, _, _ := strings.Cut(line, ":")
		return verdict
	}
	edit := func(editor string, args ...string) *exec.Cmd {
		c := exec.Command(permd, append([]string{"--root", root, "policy", "edit"}, args...)...)
		c.Env = append(os.Environ(), "TERM=xterm", "VISUAL=", "EDITOR="+editor)
		return c
	}

	// Given up: nothing is left behind.
	if code, out := terminal(t, edit("true"), "Save this? Type yes:", "no"); code != 1 || is() != "" || !strings.Contains(out, "+ command = \"go test *\"") {
		t.Errorf("%d: %q\n%s", code, is(), out)
	}
	// The starter, saved and applied.
	code, out := terminal(t, edit("true"), "Save this? Type yes:", "yes", "Let this come into force? Type yes:", "yes")
	if code != 0 || is() != string(starter) || holds("go test ./...") != "allow" || !strings.Contains(out, "applied") {
		t.Errorf("%d, go test %s\n%s", code, holds("go test ./..."), out)
	}
	// A tightening edit holds when it is saved.
	code, out = terminal(t, edit("sed -i 's/go vet/go env/; s/\"go test \\*\"/\"go test -short *\"/; s/\\[\"go test .*\\.\"\\]/[]/'"), "Save this? Type yes:", "no")
	if code != 1 || !strings.Contains(out, "- command = \"go vet *\"") || !strings.Contains(out, "+ command = \"go env *\"") || is() != string(starter) {
		t.Errorf("%d\n%s", code, out)
	}
	code, out = terminal(t, edit("sed -i '/^command = \"make test\"/s/test/tests/'"), "Save this? Type yes:", "yes", "Let this come into force? Type yes:", "no")
	if code != 1 || holds("make test") != "ask" || holds("make tests") != "ask" || !strings.Contains(out, "+ allow command = \"make tests\"") {
		t.Errorf("%d: make test %s, make tests %s\n%s", code, holds("make test"), holds("make tests"), out)
	}
	// A fault: back to the editor or give up. Nothing is saved.
	was := is()
	code, out = terminal(t, edit("sed -i 's/^action/aktion/'"), "Edit again? Type yes:", "yes", "Edit again? Type yes:", "")
	if code != 1 || is() != was || !strings.Contains(out, `unknown key "aktion"; did you mean "action"?`) {
		t.Errorf("%d\n%s", code, out)
	}
	// Nothing changed, a failing editor, another file, no terminal.
	if code, out := terminal(t, edit("true")); code != 0 || !strings.Contains(out, "nothing was changed") {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out := terminal(t, edit("false")); code != 2 || !strings.Contains(out, "the editor failed") {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out := terminal(t, edit("true", "/etc/passwd")); code != 2 || !strings.Contains(out, "no file of your rules") {
		t.Errorf("%d\n%s", code, out)
	}
	if out, err := edit("true").CombinedOutput(); err == nil || !strings.Contains(string(out), "needs a terminal") {
		t.Errorf("%v: %s", err, out)
	}
	code, out = terminal(t, edit(`printf '[[rule]]\naction = "deny"\ncommand = "make *"\n' >`, "policy.d/more.toml"), "Save this? Type yes:", "yes", "Let this come into force? Type yes:", "yes")
	if code != 0 || holds("make x") != "deny" || !strings.Contains(out, "+ allow command = \"make tests\"") { // the edit from before waited
		t.Errorf("%d: %s\n%s", code, holds("make x"), out)
	}
	code, out = terminal(t, edit("sed -i 's/make/cmake/'", "policy.d/more.toml"), "Save this? Type yes:", "yes", "Let this come into force? Type yes:", "yes")
	if code != 0 || holds("make tests") != "allow" || holds("cmake x") != "deny" || !strings.Contains(out, "- deny command = \"make *\"") {
		t.Errorf("%d: %s\n%s", code, holds("make tests"), out)
	}
	code, out = terminal(t, edit("sed -i 's/cmake \\*/*/'", "policy.d/more.toml"), "Save this? Type yes:", "yes")
	if code != 0 || holds("make tests") != "deny" || !strings.Contains(out, "saved, and in force") {
		t.Errorf("%d: %s\n%s", code, holds("make tests"), out)
	}
	if _, err := os.Stat(filepath.Join(d.State, "edit")); !os.IsNotExist(err) {
		t.Errorf("the copy is left behind: %v", err)
	}
}

func TestDifference(t *testing.T) {
	for _, x := range []struct{ before, after, want string }{
		{"", "a\n", "+ a\n"},
		{"a\nb\nc\n", "a\nx\nc\n", "- b\n+ x\n"},
		{"a\nb\nc\nd\n", "a\nc\nx\nd\n", "- b\n  c\n+ x\n"},
		{"a\n", "a\n", ""},
		{"a\na\n", "a\n", "- a\n"},
	} {
		if got := difference(x.before, x.after); got != x.want {
			t.Errorf("%q to %q: %q, want %q", x.before, x.after, got, x.want)
		}
	}
	long := strings.Repeat("x\n", 3000)
	if got := difference(long+"b\n", "a\n"+strings.ReplaceAll(long, "x", "y")); !strings.HasPrefix(got, "- x") || strings.Count(got, "\n") != 6002 {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
}
