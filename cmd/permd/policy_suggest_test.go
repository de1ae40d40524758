package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"permd/ask"
	"permd/policy"
	"permd/review"
	"permd/session"
)

// What was allowed three times is suggested, as rules that hold as printed.
func TestPolicySuggest(t *testing.T) {
	permd := installed(t)
	root := t.TempDir()
	if err := os.Chmod(root, 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := session.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (int, string) {
		c := exec.Command(permd, append([]string{"--root", root, "policy", "suggest"}, args...)...)
		out, _ := c.CombinedOutput()
		return c.ProcessState.ExitCode(), string(out)
	}
	if code, out := run(); code != 1 || !strings.Contains(out, "there is no record yet") {
		t.Errorf("%d: %s", code, out)
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 0 {
		t.Errorf("looking made %v, %v", entries, err)
	}
	if code, out := run("--least", "0"); code != 2 || !strings.Contains(out, "at least 1") {
		t.Errorf("%d: %s", code, out)
	}
	if err := os.MkdirAll(d.Config, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Config, "policy.toml"), []byte("[[rule]]\naction = \"allow\"\ncommand = \"make lint\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{}
	for i, command := range []string{"go test ./a", "go test ./b | tail", "go test ./...", "make x", "make x", "make x"} {
		id := "a" + string(rune('1'+i))
		for _, e := range []review.Event{
			{Name: review.AskWaiting, Session: "s1", Ask: id, Action: &review.Action{Client: "claude", Tool: ask.ToolBash, ClientTool: "Bash", Cwd: "/w", Command: command}},
			{Name: review.AskApproved, Session: "s1", Ask: id, By: &ask.By{Kind: ask.KindUser}},
		} {
			if err := a.note(d, e); err != nil {
				t.Fatal(err)
			}
		}
	}
	code, out := run()
	if code != 0 {
		t.Fatalf("%d: %s", code, out)
	}
	for _, want := range []string{
		"# 6 calls within 30 days, 6 of them you were asked about.\n",
		"# allowed 3 times in 1 sessions, last on 20",
		"command = \"go test *\"\n", "command = \"make x\"\n",
		"policy.toml:1: allow command = \"make lint\"\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if _, err := policy.Decode("suggested.toml", []byte(out), policy.LayerUser); err != nil {
		t.Errorf("what is printed is no rule file: %v", err)
	}
	if code, out := run("--json", "--least", "4"); code != 0 || !strings.HasPrefix(out, `{"calls":6,"asked":6,"suggestions":[],"idle":[{"rule":{"action":"allow","command":"make lint"}`) {
		t.Errorf("%d: %s", code, out)
	}
}
