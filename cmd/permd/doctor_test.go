package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	claudeset "permd/clients/claude/settings"
	"permd/internal/host"
	"permd/internal/realclient"
	"permd/session"
)

// machine is a place for a doctor of its own: nothing of this machine's
// settings is in it.
type machine struct {
	t    *testing.T
	dir  string
	hook string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "pd-") // short: sockets would lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, dir: dir}
	for _, d := range []string{"home/.claude", "project/.claude", "managed/managed-settings.d", "proc/sys/fs/inotify", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m.write("proc/sys/fs/inotify/max_user_instances", "128\n")
	t.Setenv("PATH", "") // no claude unless a test brings one
	return m
}

func (m *machine) write(path, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, path), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// installed is a settings file with permd's hooks, made of what is there.
func (m *machine) installed(before string) string {
	m.t.Helper()
	c, err := claudeset.Install([]byte(before), m.hook, m.dir+"/root")
	if err != nil {
		m.t.Fatal(err)
	}
	return string(c.After)
}

func (m *machine) doctor() *doctor {
	m.t.Helper()
	d, err := session.Find(filepath.Join(m.dir, "root"))
	if err != nil {
		m.t.Fatal(err)
	}
	return &doctor{app: &app{root: d.Root, out: new(bytes.Buffer), err: new(bytes.Buffer)}, dirs: d, hook: m.hook,
		home: filepath.Join(m.dir, "home"), managed: filepath.Join(m.dir, "managed"), project: filepath.Join(m.dir, "project"), proc: filepath.Join(m.dir, "proc"),
		report: doctorReport{Version: version, Findings: []finding{}}}
}

// has says whether a finding of this level holds every text.
func (x *doctor) has(l level, texts ...string) bool {
next:
	for _, f := range x.report.Findings {
		if f.Level != l {
			continue
		}
		for _, t := range texts {
			if !strings.Contains(f.Text+" → "+f.Remedy, t) {
				continue next
			}
		}
		return true
	}
	return false
}

func (x *doctor) String() string {
	b, _ := json.MarshalIndent(x.report, "", " ")
	return string(b)
}

// What Claude would do with a call whose hook is gone, and who can switch the
// hooks off, by what stands in its files.
func TestClaudeSettings(t *testing.T) {
	hooks := (&machine{t: t, dir: "/d", hook: "/opt/permd-hook"}).installed
	type files map[string]string
	const user, project, local, managed = "home/.claude/settings.json", "project/.claude/settings.json", "project/.claude/settings.local.json", "managed/managed-settings.d/50-permd.json"
	for _, c := range []struct {
		name  string
		files files
		dies  dies
		off   bool
		level level // of the finding that holds the texts
		texts []string
	}{
		{"nothing installed", nil, diesRuns, true, levelFix, []string{"hooks are not installed", "permd setup claude"}},
		{"nothing set: auto", nil, diesRuns, true, levelFix, []string{"own default is auto"}},
		{"installed for the user", files{user: hooks("")}, diesAsks, true, levelOK, []string{"installed in", user, "(user)"}},
		{"installed by root", files{managed: hooks("")}, diesAsks, false, levelOK, []string{"root-owned settings keep the hooks on"}},
		{"a repository switches off", files{user: hooks(""), project: `{"disableAllHooks":true}`}, diesRuns, true, levelFix, []string{project, "disableAllHooks", "permd run"}},
		{"a stronger file keeps them on", files{user: hooks(""), project: `{"disableAllHooks":true}`, local: `{"disableAllHooks":false}`}, diesAsks, true, levelNote, []string{"disableAllHooks"}},
		{"root keeps them on", files{managed: hooks(""), project: `{"disableAllHooks":true}`}, diesAsks, false, levelOK, []string{"root-owned"}},
		{"the user switched off", files{user: strings.Replace(hooks(""), `{`, `{"disableAllHooks":true,`, 1)}, diesRuns, true, levelFix, []string{user, "disableAllHooks"}},
		{"broken", files{user: hooks("") + "}"}, diesRuns, true, levelFix, []string{user, "is broken", "ignores it whole"}},
		{"broken project file hides a wide allow", files{user: hooks(""), project: `{"permissions":{"allow":["Bash"]}`}, diesAsks, true, levelFix, []string{project, "is broken"}},
		{"wide allow of a project", files{user: hooks(""), project: `{"permissions":{"allow":["Bash"]}}`}, diesRuns, true, levelFix, []string{project, `wide allow "Bash"`, "by hand"}},
		{"wide allow of the user", files{user: strings.Replace(hooks(`{"permissions":{"allow":["X"]}}`), `"X"`, `"Bash(*)"`, 1)}, diesRuns, true, levelFix, []string{user, `wide allow "Bash(*)"`, "permd setup claude"}},
		{"bypass in the local file", files{user: hooks(""), local: `{"permissions":{"defaultMode":"bypassPermissions"}}`}, diesRuns, true, levelFix, []string{local, "bypassPermissions", "unasked"}},
		{"the local file asks", files{user: strings.Replace(hooks(""), `"default"`, `"acceptEdits"`, 1), local: `{"permissions":{"defaultMode":"plan"}}`}, diesAsks, true, levelOK, []string{"installed in"}},
		{"short patience", files{user: strings.Replace(hooks(""), "86400", "10", 1)}, diesAsks, true, levelFix, []string{"10 seconds"}},
		{"another permd", files{user: strings.ReplaceAll(hooks(""), "/opt/permd-hook", "/old/permd-hook")}, diesAsks, true, levelFix, []string{"not these, or not all", "/old/permd-hook"}},
		{"one event is missing", files{user: strings.Replace(hooks(""), "PostToolUseFailure", "Stop", 1)}, diesAsks, true, levelFix, []string{"not these, or not all"}},
		{"http", files{user: hooks(""), project: `{"hooks":{"PreToolUse":[{"hooks":[{"type":"http","url":"http://127.0.0.1:1/gate"}]}]}}`}, diesAsks, true, levelNote, []string{"over HTTP", "127.0.0.1:1/gate"}},
		{"teammates in panes", files{user: strings.Replace(hooks(""), `{`, `{"teammateMode":"tmux",`, 1)}, diesAsks, true, levelNote, []string{"teammate in a tmux pane", user}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.hook = "/opt/permd-hook"
			for path, text := range c.files {
				m.write(path, strings.ReplaceAll(text, "/d/root", m.dir+"/root"))
			}
			x := m.doctor()
			x.lookAtClaude(t.Context())
			r := x.report.Claude
			if r.IfHookDies != c.dies || r.RepositoryCanSwitchOff != c.off || (c.dies == diesRuns) != (len(r.Why) > 0) {
				t.Errorf("if the hook dies %s, switched off %v; want %s, %v\n%s", r.IfHookDies, r.RepositoryCanSwitchOff, c.dies, c.off, x)
			}
			if !x.has(c.level, c.texts...) {
				t.Errorf("no finding of level %s with %q\n%s", c.level, c.texts, x)
			}
			if want := c.level == levelFix || c.dies == diesRuns; (x.report.code() == 1) != want {
				t.Errorf("exit code %d\n%s", x.report.code(), x)
			}
		})
	}
}

// Hooks that only observe are to be put right, and said to be what they are.
func TestObservingIsSaid(t *testing.T) {
	m := newMachine(t)
	m.hook = "/opt/permd-hook"
	c, err := claudeset.Observe([]byte(`{"permissions":{"defaultMode":"default"}}`), m.hook, m.dir+"/root")
	if err != nil {
		t.Fatal(err)
	}
	m.write("home/.claude/settings.json", string(c.After))
	x := m.doctor()
	x.lookAtClaude(t.Context())
	if !x.has(levelFix, "permd observes only") || x.has(levelOK, "hooks are installed") || x.has(levelFix, "seconds; after them") {
		t.Errorf("%s", x)
	}
}

// Each line of what Claude leaves open is said, and has a remedy.
func TestWhatIsLeftOpenIsSaid(t *testing.T) {
	m := newMachine(t)
	m.hook = "/opt/permd-hook"
	m.write("home/.claude/settings.json", m.installed(""))
	x := m.doctor()
	x.lookAtClaude(t.Context())
	for _, text := range []string{"time-out of a hook", "--bare", "--safe-mode", "--setting-sources", "disableAllHooks", "ignore the whole file", "teammate in a tmux pane", "own dialog", "with @", "trust the folder"} {
		if !x.has(levelNote, text) {
			t.Errorf("nothing about %s", text)
		}
	}
	for _, f := range x.report.Findings {
		if (f.Level == levelOK) != (f.Remedy == "") {
			t.Errorf("%s without a remedy, or well with one: %s", f.Level, f.Text)
		}
	}
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		levels []level
		code   int
	}{
		{nil, 0}, {[]level{levelOK, levelNote}, 0}, {[]level{levelBlind}, 2}, {[]level{levelBlind, levelFix, levelOK}, 1}, {[]level{levelFix}, 1},
	} {
		var r doctorReport
		for _, l := range c.levels {
			r.Findings = append(r.Findings, finding{Level: l})
		}
		if got := r.code(); got != c.code {
			t.Errorf("%v: %d, want %d", c.levels, got, c.code)
		}
	}
}

// Below an agent PATH may be the agent's: a program there is named, not run.
func TestBelowAnAgentNoProgramIsRun(t *testing.T) {
	m := newMachine(t)
	tools := filepath.Join(m.dir, "tools")
	if err := os.Mkdir(tools, 0o700); err != nil {
		t.Fatal(err)
	}
	m.write("tools/claude", "#!/bin/sh\necho ran >"+m.dir+"/ran\necho "+provedClaude+" '(Claude Code)'\n")
	if err := os.Chmod(filepath.Join(tools, "claude"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools)
	x := m.doctor()
	x.governed = "n1-2"
	x.lookAtClaude(t.Context())
	if _, err := os.Stat(m.dir + "/ran"); err == nil || x.report.Claude.Version != "" || !x.has(levelNote, "below an agent") {
		t.Errorf("the program was run: %v\n%s", err, x)
	}
	x = m.doctor()
	x.lookAtClaude(t.Context())
	if x.report.Claude.Version != provedClaude || !x.has(levelOK, "which permd was proved with") {
		t.Errorf("%s", x)
	}
}

// A program that does not answer is given up.
func TestAClaudeThatFailsIsNotLookedAt(t *testing.T) {
	m := newMachine(t)
	m.write("claude", "#!/bin/sh\nexit 3\n")
	if err := os.Chmod(m.dir+"/claude", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", m.dir)
	x := m.doctor()
	x.lookAtClaude(t.Context())
	if !x.has(levelBlind, "--version: exit status 3") {
		t.Errorf("%s", x)
	}
}

func TestDirectoriesOfOthers(t *testing.T) {
	m := newMachine(t)
	x := m.doctor()
	x.lookAtDirs()
	if x.report.code() != 0 {
		t.Errorf("missing directories are a fault:\n%s", x)
	}
	for _, dir := range []string{x.dirs.Config, x.dirs.State, x.dirs.Review()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	x = m.doctor()
	x.lookAtDirs()
	n := 0
	for _, f := range x.report.Findings {
		if f.Level == levelFix && f.Remedy != "" {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d of 3 open directories were seen:\n%s", n, x)
	}
	if _, err := os.Stat(x.dirs.Run); err == nil {
		t.Error("a look made a directory")
	}
}

func TestTheRecord(t *testing.T) {
	m := newMachine(t)
	x := m.doctor()
	x.lookAtRecord()
	if !x.has(levelOK, "no record yet") || !x.has(levelOK, "can be written") || x.report.code() != 0 {
		t.Fatalf("%s", x)
	}
	for _, d := range []string{x.dirs.State, x.dirs.Review(), filepath.Join(x.dirs.Review(), "cmd")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(x.dirs.Review(), "cmd", "000001.jsonl"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x = m.doctor()
	x.lookAtRecord()
	if !x.has(levelFix, "tampered") || x.report.code() != 1 {
		t.Errorf("%s", x)
	}
}

// A fault in a rule file is named with its place.
func TestRuleFiles(t *testing.T) {
	m := newMachine(t)
	x := m.doctor()
	x.lookAtRules()
	if !x.has(levelOK, "0 files") {
		t.Errorf("%s", x)
	}
	if err := os.MkdirAll(filepath.Join(x.dirs.Config, "policy.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(m.dir, "project/.permd"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.write("root/config/policy.toml", "")
	m.write("root/config/policy.d/b.toml", "\ncolour = 1\n")
	m.write("project/.permd/policy.toml", "x")
	x = m.doctor()
	x.lookAtRules()
	if !x.has(levelFix, "policy.d/b.toml:2:1: ") || !x.has(levelFix, "project/.permd/policy.toml:1:") || x.report.code() != 1 {
		t.Errorf("%s", x)
	}
	if _, err := os.Stat(x.dirs.State); err == nil {
		t.Error("a look applied rules")
	}
}

// A node or desk that holds its lock and does not answer is stuck.
func TestWhoDoesNotAnswer(t *testing.T) {
	m := newMachine(t)
	x := m.doctor()
	if err := x.dirs.Make(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{string(x.dirs.Node("n1-2")), x.dirs.Desk()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := host.AcquireLock(filepath.Join(dir, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	x.lookAtDesk(t.Context())
	x.lookAtNodes(t.Context())
	if !x.has(levelFix, "node n1-2", "does not answer", "restart that agent") || !x.has(levelFix, "desk process runs but does not answer", "permd stop") {
		t.Errorf("%s", x)
	}
}

// What only root may write is refused to others before anything is looked at.
func TestSystemNeedsRoot(t *testing.T) {
	if _, err := os.Stat(managedClaude); err == nil {
		t.Skip("this machine has root-owned settings of permd")
	}
	dir, err := os.MkdirTemp("", "permd-system-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := link(self, filepath.Join(dir, "permd")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "permd"), "setup", "claude", "--system", "--yes")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	var x *exec.ExitError
	if !errors.As(err, &x) || x.ExitCode() != 1 || !strings.Contains(string(out), "run it with sudo") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(managedClaude); err == nil {
		t.Error("a file of root was written")
	}
}

// The gate is proved with the real client: permd-hook and permd are built and
// installed as make install does, and once more with a gate that is open.
func TestLive(t *testing.T) {
	c := realclient.Claude(t)
	path := os.Getenv("PATH")
	m := newMachine(t)
	t.Setenv("PATH", filepath.Dir(c.Path)+string(filepath.ListSeparator)+path)
	bin := filepath.Join(m.dir, "bin")
	build := exec.Command("go", "build", "-o", bin+"/", "permd/cmd/permd", "permd/cmd/permd-hook")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.hook = filepath.Join(bin, "permd-hook")
	m.write("home/.claude/settings.json", m.installed(""))

	x := m.doctor()
	x.lookAtClaude(t.Context())
	x.proveClaude(t.Context())
	for _, text := range []string{"deny: ", "allow: ", "guard: "} {
		if !x.has(levelOK, text) {
			t.Errorf("%q was not proved", text)
		}
	}
	if x.report.code() != 0 || t.Failed() {
		t.Errorf("%s", x)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "permd-doctor-*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}

	// A gate that is not there shows as a call that ran.
	open := strings.ReplaceAll(m.installed(""), "|| { echo \\\"permd unavailable\\\" >&2; exit 2; }", "|| true")
	m.write("home/.claude/settings.json", strings.ReplaceAll(open, m.hook, "/nowhere/permd-hook"))
	x = m.doctor()
	x.lookAtClaude(t.Context())
	l := &liveClaude{path: c.Path}
	l.hooks, _ = x.installedHooks()
	x.proveDeny(t.Context(), l)
	if !x.has(levelFix, "the call RAN") {
		t.Errorf("an open gate was not seen:\n%s", x)
	}

	// Nor is a client that never asks its model.
	x = m.doctor()
	x.proveDeny(t.Context(), &liveClaude{path: "/bin/true"})
	if !x.has(levelBlind, "never asked its model") {
		t.Errorf("%s", x)
	}
}

// Reports print what files say without letting it control the terminal.
func TestTextOfFilesIsMadeVisible(t *testing.T) {
	m := newMachine(t)
	m.write("project/.claude/settings.json", `{"permissions":{"defaultMode":"by\u001b[2Jpass"}}`)
	x := m.doctor()
	x.lookAtClaude(t.Context())
	err := x.print(false)
	out := x.app.out.(*bytes.Buffer).String()
	var e *exitError
	if !errors.As(err, &e) || e.Code != 1 || strings.ContainsRune(out, 0x1b) || !strings.Contains(out, "if the hook dies: RUNS") {
		t.Errorf("%v\n%q", err, out)
	}
	x.app.out = new(bytes.Buffer)
	if err := x.print(true); fmt.Sprint(err) != "exit 1" {
		t.Errorf("%v", err)
	}
	var r doctorReport
	if err := json.Unmarshal(x.app.out.(*bytes.Buffer).Bytes(), &r); err != nil || r.Claude.IfHookDies != diesRuns {
		t.Errorf("%v: %s", err, x.app.out)
	}
}
