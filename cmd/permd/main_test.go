package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"permd/hook"
	"permd/internal/realclient"
)

var update = flag.Bool("update", false, "write what commands print into the scripts")

// In scripts this test binary is permd, permd-hook and a stand-in for claude,
// by the name it is called with.
func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){
		"permd":      func() { os.Exit(permd()) },
		"permd-hook": func() { os.Exit(hook.Main(os.Args[1:], os.Environ(), 0, 1, 2)) },
	})
}

// leakless fails when a test left a goroutine.
type leakless struct{ m *testing.M }

func (l leakless) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// The scripts call the real main. $R is a root that does not exist yet, $BIN
// holds permd and permd-hook side by side.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup:               setupScript,
		Condition:           scriptCondition,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "same": same},
	})
}

func setupScript(e *testscript.Env) error {
	bin := filepath.Join(e.WorkDir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, name := range []string{"permd", "permd-hook"} {
		if err := link(self, filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	e.Setenv("BIN", bin)
	e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
	e.Setenv("R", filepath.Join(e.WorkDir, "r"))
	e.Setenv("GORACE", "atexit_sleep_ms=0")
	// What the person who runs the tests has set up is not for a script.
	for _, k := range []string{"PERMD_SESSION", "PERMD_PARENT_SESSION", "PERMD_SOCKET", "CLAUDE_CONFIG_DIR", "CLAUDE_PID", "TMUX"} {
		e.Setenv(k, "")
	}
	return nil
}

// link puts one program in place under another name; across file systems it
// copies.
func link(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// scriptCondition knows [root] and [claude], the client's being in the cache.
func scriptCondition(name string) (bool, error) {
	switch name {
	case "root":
		return os.Getuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// exits N COMMAND [ARG...]: the command ends with code N.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var x *exec.ExitError
	if errors.As(err, &x) {
		got = x.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", strings.Join(args[1:], " "), err)
	}
	if got != want {
		ts.Fatalf("%s ended with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// same A B: two files have the same bytes.
func same(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same A B")
	}
	if (ts.ReadFile(args[0]) == ts.ReadFile(args[1])) == neg {
		ts.Fatalf("%s and %s: same is %v", args[0], args[1], neg)
	}
}

// The version that doctor compares with is the one the tests run with.
func TestProvedVersion(t *testing.T) {
	if provedClaude != realclient.ClaudeVersion {
		t.Errorf("doctor says permd was proved with Claude Code %s; the tests run %s", provedClaude, realclient.ClaudeVersion)
	}
}
