package hook

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts are the exit codes as a client sees them. Their root is $R.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			w := newWorld(e.T().(testing.TB))
			e.Setenv("R", w.root)
			e.Setenv("BIN", w.bin)
			e.Setenv("CLAUDE_PID", strconv.Itoa(os.Getpid()))
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return os.WriteFile(filepath.Join(e.WorkDir, "stdin"), []byte("{}"), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// code N: the last command ended with N.
			"code": func(ts *testscript.TestScript, neg bool, args []string) {
				got := "0"
				if b, err := os.ReadFile(ts.MkAbs("code")); err == nil {
					got = string(b)
				}
				if neg || len(args) != 1 || got != args[0]+"\n" {
					ts.Fatalf("code %q, want %q", got, args)
				}
			},
		},
	})
}
