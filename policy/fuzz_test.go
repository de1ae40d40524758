package policy

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"permd/ask"
	"permd/policy/shell"
)

// seedCommands are the commands of the field cases and of the conformance
// rows, and one disguise of each denied command.
func seedCommands(f *testing.F) []string {
	f.Helper()
	var out []string
	for _, name := range []string{"testdata/cases.jsonl", "testdata/rows.jsonl"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			var c struct {
				Command string
				Calls   []struct{ Command string }
			}
			if err := json.Unmarshal(line, &c); err != nil {
				f.Fatal(err)
			}
			c.Calls = append(c.Calls, struct{ Command string }{c.Command})
			for _, call := range c.Calls {
				if call.Command != "" && len(call.Command) < 1<<10 {
					out = append(out, call.Command)
				}
			}
		}
	}
	for _, d := range deniedCommands {
		out = append(out, strings.Join(d.argv, " "))
	}
	return out
}

// Whatever is denied stays denied when something harmless stands before it,
// and deciding neither fails nor takes long.
func FuzzPrefix(f *testing.F) {
	for _, s := range seedCommands(f) {
		f.Add(s)
	}
	p := everythingBut(f)
	f.Fuzz(func(t *testing.T, cmd string) {
		start := time.Now()
		in := input(p, bash(cmd))
		in.Self = self
		r := Decide(in)
		if d := time.Since(start); d > 20*time.Second {
			t.Fatalf("%v for %d bytes", d, len(cmd))
		}
		if len(r.Reasons) == 0 && r.Verdict != ask.Allow {
			t.Fatal("a verdict without a reason")
		}
		if r.Verdict != ask.Deny {
			return
		}
		for _, pre := range []string{"true; ", "true && ", "cd . && ", "# a note\n", "\n", "ls\n", "ls & "} {
			in.Action = bash(pre + cmd)
			if len(in.Action.Command) <= shell.MaxBytes && Decide(in).Verdict != ask.Deny {
				t.Fatalf("%q is denied, %q is not", cmd, pre+cmd)
			}
		}
	})
}

// A plain command written again, every word in quotes, is the same command and
// gets the same verdict.
func FuzzWords(f *testing.F) {
	for _, s := range seedCommands(f) {
		f.Add(s)
	}
	p := everythingBut(f)
	f.Fuzz(func(t *testing.T, cmd string) {
		s := shell.Read(cmd, shell.Env{Cwd: proj, Home: home})
		if !s.Plain() {
			return
		}
		argv, ok := s.Units[0].Argv()
		if !ok {
			t.Fatalf("plain, and not literal: %q", cmd)
		}
		var words []string
		for _, w := range argv {
			words = append(words, single(w))
		}
		text := strings.Join(words, " ")
		again := shell.Read(text, shell.Env{Cwd: proj, Home: home})
		if !again.Plain() {
			if len(text) > shell.MaxBytes {
				return
			}
			t.Fatalf("%q is plain, %q is not: %s", cmd, text, again.Floor)
		}
		if got, _ := again.Units[0].Argv(); !slices.Equal(got, argv) {
			t.Fatalf("%q: %q, written again %q", cmd, argv, got)
		}
		if a, b := decide(p, bash(cmd)).Verdict, decide(p, bash(text)).Verdict; a != b {
			t.Fatalf("%q is %s, %q is %s", cmd, a, text, b)
		}
		if pattern, err := parseArgv(quoteArgv(argv)); err == nil && !strings.Contains(argv[0], "=") && !pattern.permits(argv) {
			t.Fatalf("the rule for exactly %q does not permit it", argv)
		}
	})
}
