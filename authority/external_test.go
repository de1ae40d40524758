package authority

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program writes a decider as a shell script.
func program(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "decider")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestExternal: a real process; only a whole answer with exit code 0 counts,
// everything else defers and says why.
func TestExternal(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Say
		why        string // part of the error, "" for none
	}{
		{"allow", `echo '{"decision":"allow","reason":"fine"}'`, SayAllow, ""},
		{"deny", `echo '{"decision": "deny", "reason": "not on a Friday"}'`, SayDeny, ""},
		{"defer", `echo '{"decision":"defer"}'`, SayDefer, ""},
		{"exit code", `echo '{"decision":"allow"}'; echo 'the service is down' >&2; exit 3`, SayDefer, "the service is down"},
		{"killed", `echo '{"decision":"allow"}'; kill -9 $$`, SayDefer, "killed"},
		{"silence", `cat >/dev/null`, SayDefer, "no answer"},
		{"garbage", `echo yes`, SayDefer, "no answer"},
		{"more than one answer", `echo '{"decision":"allow"}'; echo '{"decision":"allow"}'`, SayDefer, "follows"},
		{"too much", `echo '{"decision":"allow"}'; head -c 100000 /dev/zero`, SayDefer, "more than"},
		{"it does not read", `exec <&-; echo '{"decision":"deny"}'`, SayDeny, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &External{Exec: []string{program(t, c.text)}, Timeout: 10 * time.Second, Home: "/home/dev"}
			say, reason, err := x.Consult(t.Context(), newAsk(t, false))
			if say != c.want || (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s, %q, %v", say, reason, err)
			}
		})
	}
	for name, x := range map[string]*External{
		"not there":       {Exec: []string{"/nonexistent/decider"}, Timeout: time.Second},
		"no program":      {Timeout: time.Second},
		"no time":         {Exec: []string{"/bin/true"}},
		"must not be run": {Exec: []string{program(t, `echo '{"decision":"allow"}'`)}, Timeout: time.Second, Check: func() error { return errors.New("anybody may write it") }},
	} {
		if say, _, err := x.Consult(t.Context(), newAsk(t, false)); say != SayDefer || err == nil {
			t.Errorf("%s: %s, %v", name, say, err)
		}
	}
}

// TestExternalIsAskedTheWholeQuestion: the action as the agent wants it, and
// an environment that holds nothing of ours.
func TestExternalIsAskedTheWholeQuestion(t *testing.T) {
	t.Setenv("PERMD_SESSION", "secret")
	t.Setenv("OPENAI_API_KEY", "secret")
	dir := t.TempDir()
	x := &External{Exec: []string{program(t, `cat > `+dir+`/in; env > `+dir+`/env; pwd > `+dir+`/pwd; echo "$1" > `+dir+`/arg; echo '{"decision":"defer"}'`), "a b"},
		Timeout: 10 * time.Second, Home: "/home/dev", Because: "no rule allows it"}
	a := newAsk(t, false)
	if _, _, err := x.Consult(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var q Question
	if err := json.Unmarshal([]byte(read("in")), &q); err != nil {
		t.Fatal(err)
	}
	if q.V != 1 || q.Ask != "a" || q.Action == nil || q.Action.Command != command || q.Because != "no rule allows it" || q.From.Session != "child" || len(q.Path) != 1 || strings.Count(read("in"), "\n") != 1 {
		t.Errorf("%s", read("in"))
	}
	for l := range strings.Lines(read("env")) {
		name, _, _ := strings.Cut(l, "=")
		switch name {
		case "PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_":
		default:
			t.Errorf("its environment has %s", l)
		}
	}
	if strings.Contains(read("env"), "secret") || read("pwd") != "/\n" || read("arg") != "a b\n" {
		t.Errorf("%s %s %s", read("env"), read("pwd"), read("arg"))
	}
}

// TestExternalEndsWithItsTime: the whole group is killed, what it started too.
func TestExternalEndsWithItsTime(t *testing.T) {
	gone := func(file string) {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			// A killed child of a killed shell may wait to be reaped.
			state, rerr := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			if syscall.Kill(pid, 0) != nil || rerr == nil && strings.Contains(string(state), ") Z ") {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("process %d lives on", pid)
			}
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"hangs":                    `sleep 60 & echo $! > ` + dir + `/pid; wait`,
		"ends, its child does not": `sleep 60 & echo $! > ` + dir + `/pid; echo '{"decision":"allow"}'`,
		"ignores the signal":       `trap '' TERM INT HUP; sleep 60 & echo $! > ` + dir + `/pid; wait; wait`,
	} {
		x := &External{Exec: []string{program(t, text)}, Timeout: 300 * time.Millisecond}
		say, _, err := x.Consult(t.Context(), newAsk(t, false))
		if say != SayDefer || err == nil {
			t.Errorf("%s: %s, %v", name, say, err)
		}
		gone(dir + "/pid")
	}
	ctx, cancel := context.WithCancel(t.Context())
	x := &External{Exec: []string{program(t, `echo $$ > `+dir+`/pid; echo > `+dir+`/up; sleep 60`)}, Timeout: time.Minute}
	done := make(chan error, 1)
	go func() {
		_, _, err := x.Consult(ctx, newAsk(t, false))
		done <- err
	}()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(dir + "/up"); err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("it did not start")
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	gone(dir + "/pid")
}
