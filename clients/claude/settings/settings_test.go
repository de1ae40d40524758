package settings

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const hook = "/opt/permd/bin/permd-hook"

func install(t *testing.T, in string) *Change {
	t.Helper()
	c, err := Install([]byte(in), hook, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// same compares two files as JSON values.
func same(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		t.Fatalf("not JSON:\n%s\n%s", a, b)
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

var files = map[string]string{
	"empty":         ``,
	"object":        `{}`,
	"asking":        `{"permissions":{"defaultMode":"default","allow":["Bash(git status)","Read"]}}`,
	"wide":          `{"model":"x","permissions":{"allow":["Bash","Read","Bash(*)","Bash(git status)","mcp__git","mcp__git__log"],"defaultMode":"bypassPermissions"}}`,
	"hooks of some": `{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"/usr/bin/mine"}]}],"Stop":[{"hooks":[{"type":"command","command":"x"}]}]}}`,
	"disabled":      `{"disableAllHooks":true,"z":1,"a":[1,2,{"b":null}]}`,
	"order":         "{\n  \"zeta\": 1.50,\n  \"alpha\": 12345678901234567890,\n  \"permissions\": {\"deny\": [\"Read(./.env)\"]}\n}\n",
}

func TestInstallIsIdempotentAndUndoGivesTheFileBack(t *testing.T) {
	for name, in := range files {
		c := install(t, in)
		if !c.Changes() || !Installed(c.After, hook, "") {
			t.Errorf("%s: not installed:\n%s", name, c.After)
		}
		if p, err := Problems(c.After); err != nil || len(p) != 0 {
			t.Errorf("%s: left %v, %v", name, p, err)
		}
		again, err := Install(c.After, hook, "")
		if err != nil || again.Changes() || string(again.After) != string(c.After) {
			t.Errorf("%s: a second install changes %v, %v", name, again.Lines, err)
		}
		u, err := Undo(c.After, c.Taken)
		if err != nil {
			t.Fatal(err)
		}
		want := in
		if strings.TrimSpace(in) == "" {
			want = "{}"
		}
		if name == "wide" { // entries come back at the end of their list
			if strings.Contains(string(u.After), "permd") || !strings.Contains(string(u.After), `"Bash(*)"`) || !strings.Contains(string(u.After), "bypassPermissions") {
				t.Errorf("%s: undo left\n%s", name, u.After)
			}
		} else if !same(t, want, string(u.After)) {
			t.Errorf("%s: undo gives\n%s\nwant\n%s", name, u.After, want)
		}
		if v, err := Undo(u.After, c.Taken); err != nil || strings.Contains(string(v.After), "permd-hook") {
			t.Errorf("%s: a second undo: %v", name, err)
		}
	}
}

func TestInstallKeepsWhatIsNotOurs(t *testing.T) {
	c := install(t, files["order"])
	s := string(c.After)
	for _, must := range []string{"1.50", "12345678901234567890", `"Read(./.env)"`} {
		if !strings.Contains(s, must) {
			t.Errorf("%s is gone:\n%s", must, s)
		}
	}
	if strings.Index(s, "zeta") > strings.Index(s, "alpha") {
		t.Error("the order of members changed")
	}
	c = install(t, files["hooks of some"])
	if !strings.Contains(string(c.After), "/usr/bin/mine") || !strings.Contains(string(c.After), `"Stop"`) {
		t.Errorf("somebody else's hooks are gone:\n%s", c.After)
	}
}

// The caller compares what it read with what is there before it writes.
func TestTheInputIsLeftAlone(t *testing.T) {
	for name, in := range files {
		b := []byte(in)
		c, err := Install(b, hook, "")
		if err != nil || string(b) != in || string(c.Before) != in {
			t.Errorf("%s: install made of its input\n%s\n%v", name, b, err)
		}
		after := string(c.After)
		u, err := Undo(c.After, c.Taken)
		if err != nil || string(c.After) != after || string(u.Before) != after {
			t.Errorf("%s: undo made of its input\n%s\n%v", name, c.After, err)
		}
	}
}

// A person's own layout stays, and the one Claude writes stays that one.
func TestTheLayoutStays(t *testing.T) {
	canonical := "{\n  \"model\": \"x\",\n  \"permissions\": {\n    \"allow\": [\n      \"Read\"\n    ]\n  }\n}\n"
	for _, in := range []string{canonical, strings.TrimSpace(canonical), files["order"], "{ \"a\" : 1 ,\n\t\"b\":[ ] }"} {
		c := install(t, in)
		if !strings.Contains(string(c.After), `>&2; exit 2; }`) {
			t.Errorf("a person cannot read the command:\n%s", c.After)
		}
		if in == canonical {
			if got := string(c.After); indented(c.After) != got || !strings.HasSuffix(got, "\n}\n") {
				t.Errorf("Claude's own layout is lost:\n%s", got)
			}
		}
		u, err := Undo(c.After, c.Taken)
		if err != nil || string(u.After) != in {
			t.Errorf("undo gives other bytes, %v:\n%q\n%q", err, u.After, in)
		}
	}
}

// Past its time-out Claude ends a hook and runs the call, so a shorter one is
// no installed gate.
func TestAnotherTimeoutIsPutRight(t *testing.T) {
	for _, to := range []string{"10", "86400.5", `"86400"`, "null"} {
		in := strings.Replace(string(install(t, "").After), "86400", to, 1)
		if Installed([]byte(in), hook, "") {
			t.Errorf("timeout %s counts as installed", to)
		}
		c := install(t, in)
		if !c.Changes() || !Installed(c.After, hook, "") || strings.Count(string(c.After), "--gate claude") != 1 {
			t.Errorf("timeout %s is left:\n%s", to, c.After)
		}
	}
}

func TestInstallReplacesAnOlderPath(t *testing.T) {
	c := install(t, `{}`)
	d, err := Install(c.After, "/home/dev/it's here/permd-hook", "/r oot")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(d.After), hook) || !Installed(d.After, "/home/dev/it's here/permd-hook", "/r oot") {
		t.Errorf("old hooks stay:\n%s", d.After)
	}
	u, err := Undo(d.After, c.Taken)
	if err != nil || strings.Contains(string(u.After), "permd-hook") {
		t.Errorf("undo left ours: %v\n%s", err, u.After)
	}
}

func TestUndoLeavesWhatChangedSince(t *testing.T) {
	c := install(t, `{"permissions":{"defaultMode":"acceptEdits"}}`)
	changed := strings.Replace(string(c.After), `"default"`, `"plan"`, 1)
	u, err := Undo([]byte(changed), c.Taken)
	if err != nil || !strings.Contains(string(u.After), `"plan"`) || strings.Contains(string(u.After), "acceptEdits") {
		t.Errorf("a mode that was changed since was overwritten: %v\n%s", err, u.After)
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	for name, in := range map[string]string{
		"half":            `{"permissions":{`,
		"comment":         "{\n// note\n}",
		"trailing comma":  `{"a":1,}`,
		"array":           `[]`,
		"string":          `"x"`,
		"duplicate":       `{"hooks":{},"hooks":{}}`,
		"two values":      `{} {}`,
		"hooks a list":    `{"hooks":[]}`,
		"group a string":  `{"hooks":{"PreToolUse":["x"]}}`,
		"allow a string":  `{"permissions":{"allow":"Bash"}}`,
		"permissions bad": `{"permissions":[]}`,
		"too large":       `{"a":"` + strings.Repeat("x", MaxFile) + `"}`,
	} {
		if c, err := Install([]byte(in), hook, ""); !errors.Is(err, ErrSettings) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
		if c, err := Undo([]byte(in), nil); !errors.Is(err, ErrSettings) {
			t.Errorf("undo of %s: %v, %v", name, c, err)
		}
	}
}

func TestWide(t *testing.T) {
	for e, want := range map[string]bool{
		"Bash": true, "Bash(*)": true, "Bash(:*)": true, "Bash()": true, " Bash ": true, "Write": true, "Edit(**)": true, "mcp__git": true,
		"mcp__git__*": true, "*": true, "WebFetch(domain:*)": true,
		"Bash(git status)": false, "Bash(git *)": false, "Read": false, "Grep": false, "mcp__git__log": false, "WebFetch(domain:go.dev)": false, "Edit(src/**)": false, "": false,
	} {
		if wide(e) != want {
			t.Errorf("%q: wide = %v", e, !want)
		}
	}
}

// The guard is run by a real shell: a missing binary refuses, and the path
// survives quoting.
func TestCommandInAShell(t *testing.T) {
	dir := t.TempDir() + "/it's $HOME"
	out, err := exec.Command("sh", "-c", Command(dir+"/permd-hook", "", true)).CombinedOutput()
	var x *exec.ExitError
	if !errors.As(err, &x) || x.ExitCode() != 2 || !strings.Contains(string(out), "permd unavailable") {
		t.Errorf("a missing gate: %v %s", err, out)
	}
	if err := exec.Command("mkdir", "-p", dir).Run(); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho \"$@\"; exit 2\n"
	if err := writeExecutable(dir+"/permd-hook", script); err != nil {
		t.Fatal(err)
	}
	out, err = exec.Command("sh", "-c", Command(dir+"/permd-hook", "/a 'b", true)).CombinedOutput()
	if !errors.As(err, &x) || x.ExitCode() != 2 || !strings.HasPrefix(string(out), "--root /a 'b --gate claude\n") {
		t.Errorf("arguments: %v %s", err, out)
	}
	for _, gate := range []bool{true, false} {
		if c := Command(dir+"/permd-hook", "/a 'b", gate); !ours.MatchString(c) {
			t.Errorf("not recognised as ours: %s", c)
		}
	}
	for _, c := range []string{"permd-hook claude", "'/x/permd-hook' claude; rm x", "'/x/other' claude", "'/x/permd-hook' --gate codex"} {
		if ours.MatchString(c) {
			t.Errorf("taken for ours: %s", c)
		}
	}
}

func TestFlag(t *testing.T) {
	s, err := Flag(hook, "/root dir")
	if err != nil || !Installed([]byte(s), hook, "/root dir") || !strings.Contains(s, `"disableAllHooks":false`) {
		t.Errorf("%v %s", err, s)
	}
}

// Whatever members a file has, installing and undoing gives an equal file.
func TestUndoLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := map[string]any{}
		for _, k := range rapid.SliceOfDistinct(rapid.StringMatching(`[a-z]{1,8}`), func(s string) string { return s }).Draw(t, "keys") {
			if k == "hooks" || k == "permissions" {
				continue
			}
			m[k] = rapid.OneOf(rapid.Just[any](nil), rapid.Just[any](true), rapid.Map(rapid.String(), func(s string) any { return s })).Draw(t, k)
		}
		in, _ := json.Marshal(m)
		c, err := Install(in, hook, "")
		if err != nil {
			t.Fatal(err)
		}
		u, err := Undo(c.After, c.Taken)
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]any
		if json.Unmarshal(u.After, &out) != nil {
			t.Fatal("no object")
		}
		again, _ := json.Marshal(out)
		if string(again) != string(in) {
			t.Fatalf("got %s, want %s", again, in)
		}
	})
}

// Hooks that observe stand alone: nothing else of the file changes, a gate is
// not replaced by them, and both are taken out again.
func TestObserveIsIdempotentAndUndoGivesTheFileBack(t *testing.T) {
	for name, in := range files {
		c, err := Observe([]byte(in), hook, "/r")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !c.Changes() || len(c.Taken) != 0 || !Observed(c.After) || Installed(c.After, hook, "/r") {
			t.Errorf("%s: %v\n%s", name, c.Lines, c.After)
		}
		if strings.Contains(string(c.After), "--gate") || strings.Count(string(c.After), " --observe claude") != len(events) {
			t.Errorf("%s: it decides:\n%s", name, c.After)
		}
		again, err := Observe(c.After, hook, "/r")
		if err != nil || again.Changes() {
			t.Errorf("%s: a second time: %v, %v", name, again.Lines, err)
		}
		u, err := Undo(c.After, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := in
		if want == "" {
			want = "{}"
		}
		if !same(t, string(u.After), want) {
			t.Errorf("%s: undone:\n%s", name, u.After)
		}
		governed, err := Install(c.After, hook, "/r")
		if err != nil || Observed(governed.After) || !Installed(governed.After, hook, "/r") {
			t.Errorf("%s: setup after it: %v\n%s", name, err, governed.After)
		}
		if _, err := Observe(governed.After, hook, "/r"); !errors.Is(err, ErrGoverned) {
			t.Errorf("%s: a gate is replaced: %v", name, err)
		}
	}
	if Observed([]byte(`{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"echo --observe claude"}]}]}}`)) || Observed([]byte("{")) {
		t.Error("taken for ours")
	}
}
