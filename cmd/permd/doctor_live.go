package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"permd/ask"
	"permd/authority"
	claudeset "permd/clients/claude/settings"
	"permd/internal/standin"
)

// liveTime bounds one start of the real client.
const liveTime = 60 * time.Second

const liveArea = "proved with the real client"

// secretText is in the file that the client is let read.
const secretText = "read through the gate of permd"

// proveClaude starts the installed client without a terminal, with a home,
// settings and a model of its own and the hook commands of the real settings.
// Whatever the gate lets through does no harm.
func (x *doctor) proveClaude(ctx context.Context) {
	c := x.report.Claude
	if c.Path == "" {
		x.add(liveArea, levelBlind, "claude is not in PATH, so nothing was proved", "install Claude Code")
		return
	}
	hooks, managed := x.installedHooks()
	if hooks == nil && !managed {
		x.add(liveArea, levelBlind, "permd's hooks are not installed, so there is nothing to prove", "permd setup claude")
		return
	}
	l := &liveClaude{path: c.Path, hooks: hooks}
	x.proveDeny(ctx, l)
	x.proveAllow(ctx, l)
	if !managed {
		x.proveGuard(ctx, l)
	}
}

// installedHooks are permd's own hooks as they stand in the user's settings;
// managed says that root's file has them, which every client reads by itself.
func (x *doctor) installedHooks() (hooks map[string][]any, managed bool) {
	for _, f := range x.claudeFiles() {
		if f.missing || f.broken != nil {
			continue
		}
		for _, h := range f.hooks {
			switch {
			case !h.ours() || f.kind == "project" || f.kind == "local" || strings.HasSuffix(h.command, " --observe claude"):
			case f.kind == "managed":
				managed = true
			default:
				if hooks == nil {
					hooks = map[string][]any{}
				}
				hooks[h.event] = append(hooks[h.event], oneHook(h.matcher, h.command, h.timeout))
			}
		}
	}
	if managed {
		hooks = nil
	}
	return hooks, managed
}

func oneHook(matcher, command string, timeout float64) any {
	g := map[string]any{"hooks": []any{map[string]any{"type": "command", "command": command, "timeout": timeout}}}
	if matcher != "" {
		g["matcher"] = matcher
	}
	return g
}

// proveDeny has the model ask for what no agent may do. An allow rule of the
// client's own stands behind, so that an open gate shows as a run.
func (x *doctor) proveDeny(ctx context.Context, l *liveClaude) {
	protected := authority.Sentence(ask.Decision{By: ask.By{Kind: ask.KindProtection}})
	r := l.run(ctx, standin.Bash("touch ran-denied; permd grant --help"))
	switch {
	case r.err != nil:
		x.add(liveArea, levelBlind, "deny: "+r.err.Error(), "see whether claude -p works here")
	case r.ran("ran-denied"):
		x.add(liveArea, levelFix, "deny: the call RAN: the gate is open", "see the findings above; until then start agents with permd run")
	case !strings.Contains(r.told, protected):
		x.add(liveArea, levelFix, "deny: the call was refused, but not by policy; the model was told: "+r.told, "see the findings above")
	default:
		x.ok(liveArea, "deny: a call that policy denies was refused in %s; the model was told: %s", r.took, r.told)
	}
}

// proveAllow has the model read a file of its project, which policy lets it do
// unless a rule says otherwise: a gate that refuses everything is none.
func (x *doctor) proveAllow(ctx context.Context, l *liveClaude) {
	r := l.run(ctx, standin.Calls(standin.Use("Read", map[string]string{"file_path": l.projectFile()})))
	switch {
	case r.err != nil:
		x.add(liveArea, levelBlind, "allow: "+r.err.Error(), "see whether claude -p works here")
	case strings.Contains(r.told, secretText):
		x.ok(liveArea, "allow: a file of the project was read in %s", r.took)
	case strings.Contains(r.told, "rule"):
		x.add(liveArea, levelNote, "allow: a read inside the project was refused: "+r.told, "this is well if you want your rules to refuse it")
	default:
		x.add(liveArea, levelFix, "allow: a read inside the project was refused, and by no rule: "+r.told, "see the findings above")
	}
}

// proveGuard takes the hook away.
func (x *doctor) proveGuard(ctx context.Context, l *liveClaude) {
	gone := &liveClaude{path: l.path, hooks: map[string][]any{
		"PreToolUse": {oneHook("*", claudeset.Command("/nonexistent/permd-hook", x.app.root, true), claudeset.GateTimeout)}}}
	r := gone.run(ctx, standin.Bash("touch ran-unguarded"))
	switch {
	case r.err != nil:
		x.add(liveArea, levelBlind, "guard: "+r.err.Error(), "see whether claude -p works here")
	case r.ran("ran-unguarded"):
		x.add(liveArea, levelFix, "guard: with the hook missing the call RAN", "this Claude does not heed the guard; tell permd's authors its version")
	default:
		x.ok(liveArea, "guard: with the hook missing a call was refused in %s", r.took)
	}
}

// liveClaude starts one client a scenario.
type liveClaude struct {
	path  string
	hooks map[string][]any
}

// The project's file, by the name that the stand-in replaces.
func (*liveClaude) projectFile() string { return "$CWD/README.md" }

// liveResult is what a run left.
type liveResult struct {
	files []string
	told  string // what the client told the model of its call, on one line
	took  time.Duration
	err   error
}

func (r liveResult) ran(name string) bool { return slices.Contains(r.files, name) }

// dummyKey is no key: the client wants one, the stand-in does not look.
const dummyKey = "sk-ant-dummy-for-the-stand-in-model"

func (l *liveClaude) run(ctx context.Context, step standin.Step) (r liveResult) {
	dir, err := os.MkdirTemp("", "permd-doctor-")
	if err != nil {
		return liveResult{err: err}
	}
	defer removeSoon(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return liveResult{err: err}
	}
	project := filepath.Join(dir, "project")
	if err := l.furnish(dir, project); err != nil {
		return liveResult{err: err}
	}
	model, err := standin.Start(ctx, standin.Config{Scenarios: map[string][]standin.Step{"doctor": {step}}, Cwd: project})
	if err != nil {
		return liveResult{err: err}
	}
	defer model.Close()
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.path, "-p", "SCENARIO:doctor go")
	cmd.Dir, cmd.Env = project, liveEnv(dir, project, model.URL())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err = cmd.Run()
	r.took = time.Since(began).Round(time.Millisecond)
	if cmd.Process != nil { // what it left running in its group
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if len(model.Requests()) == 0 {
		r.err = fmt.Errorf("claude never asked its model (%v): %.200q", err, strings.TrimSpace(out.String()))
		return r
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r.err = fmt.Errorf("claude did not end within %s", liveTime)
		return r
	}
	r.told = oneLine(strings.Join(model.Told(), " "))
	entries, err := os.ReadDir(project)
	for _, e := range entries {
		r.files = append(r.files, e.Name())
	}
	r.err = err
	return r
}

// furnish makes home, settings and project. The client finds its first-start
// questions answered and the project trusted.
func (l *liveClaude) furnish(dir, project string) error {
	config := filepath.Join(dir, "home", ".claude")
	for _, d := range []string{config, project, filepath.Join(dir, "tmp")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	files := map[string]any{
		filepath.Join(config, "settings.json"): map[string]any{
			"hooks":       l.hooks,
			"permissions": map[string]any{"allow": []string{"Bash", "Read"}, "defaultMode": "default"},
		},
		filepath.Join(config, ".claude.json"): map[string]any{
			"hasCompletedOnboarding": true,
			"theme":                  "dark",
			"customApiKeyResponses":  map[string]any{"approved": []string{dummyKey[len(dummyKey)-20:]}, "rejected": []string{}},
			"projects":               map[string]any{project: map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
		},
	}
	for path, v := range files {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(project, "README.md"), []byte(secretText+"\n"), 0o600)
}

// liveEnv is the whole environment of the client: nothing of the caller's
// keys, and no way off this machine.
func liveEnv(dir, project, model string) []string {
	env := []string{
		"HOME=" + filepath.Join(dir, "home"), "CLAUDE_CONFIG_DIR=" + filepath.Join(dir, "home", ".claude"),
		"PWD=" + project, "TMPDIR=" + filepath.Join(dir, "tmp"), "CLAUDE_CODE_TMPDIR=" + filepath.Join(dir, "tmp"),
		"ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=" + dummyKey,
		// Port 9 on loopback is closed: whatever would leave this machine fails at once.
		"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost",
		"DO_NOT_TRACK=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
		"DISABLE_AUTOUPDATER=1", "DISABLE_UPDATES=1",
	}
	for _, k := range []string{"PATH", "LANG", "LC_ALL", "TERM"} {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	return env
}

func oneLine(s string) string {
	s = flat(s)
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

// removeSoon removes a folder in which a client that shuts down may still
// write for a moment.
func removeSoon(dir string) {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for range 30 {
		if os.RemoveAll(dir) == nil {
			return
		}
		<-again.C
	}
}
