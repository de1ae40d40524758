package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"permd/clients/claude"
	claudeset "permd/clients/claude/settings"
)

// provedClaude is the release of Claude Code that permd's tests run with.
const provedClaude = "2.1.332"

const (
	claudeArea = "Claude Code"
	openArea   = "what Claude Code leaves open"
)

// claudeFile is one of Claude's settings files, read leniently: doctor wants
// to see what Claude would see.
type claudeFile struct {
	path, kind string // kind is managed, local, project or user
	data       []byte
	missing    bool
	broken     error // Claude ignores the file whole

	mode      string
	disable   *bool
	teammates string
	hooks     []claudeHook
}

// claudeHook is one handler of one event.
type claudeHook struct {
	event, matcher, kind, command string
	timeout                       float64 // seconds, 0 when the file names none
}

// ours says whether the handler starts some permd.
func (h claudeHook) ours() bool {
	return h.kind == "command" && strings.Contains(h.command, "/permd-hook'")
}

func readClaudeFile(path, kind string) *claudeFile {
	f := &claudeFile{path: path, kind: kind}
	f.data, f.broken = readSettings(path)
	if f.missing = f.broken == nil && f.data == nil; f.missing || f.broken != nil {
		return f
	}
	var v struct {
		Disable   *bool  `json:"disableAllHooks"`
		Teammates string `json:"teammateMode"`
		Perm      struct {
			Mode string `json:"defaultMode"`
		} `json:"permissions"`
		Hooks map[string][]struct {
			Matcher string `json:"matcher"`
			Hooks   []struct {
				Type    string  `json:"type"`
				Command string  `json:"command"`
				URL     string  `json:"url"`
				Timeout float64 `json:"timeout"`
			} `json:"hooks"`
		} `json:"hooks"`
	}
	if f.broken = json.Unmarshal(f.data, &v); f.broken != nil {
		return f
	}
	f.mode, f.disable, f.teammates = v.Perm.Mode, v.Disable, v.Teammates
	for event, groups := range v.Hooks {
		for _, g := range groups {
			for _, h := range g.Hooks {
				f.hooks = append(f.hooks, claudeHook{event, g.Matcher, h.Type, h.Command + h.URL, h.Timeout})
			}
		}
	}
	slices.SortFunc(f.hooks, func(a, b claudeHook) int { return strings.Compare(a.event+a.command, b.event+b.command) })
	return f
}

// claudeFiles are the settings in effect here, the strongest first. A project
// that is the home directory has none of its own.
func (x *doctor) claudeFiles() []*claudeFile {
	files := []*claudeFile{readClaudeFile(filepath.Join(x.managed, "managed-settings.json"), "managed")}
	more, _ := filepath.Glob(filepath.Join(x.managed, "managed-settings.d", "*.json"))
	for _, m := range more {
		files = append(files, readClaudeFile(m, "managed"))
	}
	user := filepath.Join(x.userClaude(), "settings.json")
	for _, p := range []struct{ name, kind string }{{"settings.local.json", "local"}, {"settings.json", "project"}} {
		if path := filepath.Join(x.project, ".claude", p.name); !sameFile(path, user) {
			files = append(files, readClaudeFile(path, p.kind))
		}
	}
	return append(files, readClaudeFile(user, "user"))
}

func (x *doctor) userClaude() string {
	if x.config != "" {
		return x.config
	}
	return filepath.Join(x.home, ".claude")
}

func sameFile(a, b string) bool {
	sa, err := os.Stat(a)
	if err != nil {
		return filepath.Clean(a) == filepath.Clean(b)
	}
	sb, err := os.Stat(b)
	return err == nil && os.SameFile(sa, sb)
}

func (x *doctor) lookAtClaude(ctx context.Context) {
	c := &clientReport{Client: claude.Name, Hooks: []string{}, IfHookDies: diesAsks}
	x.report.Claude = c
	x.findClaude(ctx, c)
	files := x.claudeFiles()
	managed := x.lookAtHooks(c, files)
	x.lookAtBase(c, files)
	x.whatIsOpen(c, files, managed)
}

// findClaude says which Claude would be started from here. Below a governed
// agent it starts nothing: PATH may be the agent's.
func (x *doctor) findClaude(ctx context.Context, c *clientReport) {
	path, err := exec.LookPath("claude")
	if err != nil {
		for _, p := range []string{".local/bin/claude", ".claude/local/claude"} {
			if full := filepath.Join(x.home, p); path == "" && executable(full) {
				path = full
			}
		}
	}
	if path == "" {
		x.add(claudeArea, levelNote, "claude is not in PATH", "install Claude Code, or call doctor with its directory in PATH")
		return
	}
	if c.Path = path; x.governed != "" {
		x.add(claudeArea, levelNote, path+" is there; doctor starts no program below an agent", "run permd doctor in a terminal of your own for its version")
		return
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = append(os.Environ(), "DISABLE_AUTOUPDATER=1")
	cmd.WaitDelay = lookTime / 10
	out, err := cmd.Output()
	if err != nil {
		x.add(claudeArea, levelBlind, path+" --version: "+err.Error(), "see whether it starts")
		return
	}
	c.Version, _, _ = strings.Cut(strings.TrimSpace(string(out)), " ")
	if c.Version != provedClaude {
		x.add(claudeArea, levelNote, fmt.Sprintf("%s is version %s; permd was proved with %s", path, c.Version, provedClaude), "permd doctor --live proves this one")
		return
	}
	x.ok(claudeArea, "%s is version %s, which permd was proved with", path, c.Version)
}

func executable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
}

// lookAtHooks says in which files permd's hooks stand, and whether a managed
// one is among them.
func (x *doctor) lookAtHooks(c *clientReport, files []*claudeFile) (managed bool) {
	if x.config != "" {
		x.add(claudeArea, levelNote, "CLAUDE_CONFIG_DIR is set: Claude reads its settings from "+x.config, "permd setup claude --file "+filepath.Join(x.config, "settings.json"))
	}
	seen := false
	for _, f := range files {
		switch {
		case f.missing:
			continue
		case f.broken != nil:
			x.add(claudeArea, levelFix, f.path+" is broken, and Claude ignores it whole, without a word in -p: "+f.broken.Error(), "correct it")
			continue
		}
		i := slices.IndexFunc(f.hooks, claudeHook.ours)
		if i >= 0 && f.disable != nil && *f.disable {
			seen = true // offSwitches says it
			continue
		}
		seen = seen || i >= 0
		switch short := f.short(); {
		case short != "":
			x.add(claudeArea, levelFix, f.path+": "+short, "permd setup claude"+fileFlag(f)+" puts it right")
		case x.hook != "" && claudeset.Installed(f.data, x.hook, x.app.root):
			c.Hooks = append(c.Hooks, f.path)
			managed = managed || f.kind == "managed"
			x.ok(claudeArea, "hooks are installed in %s (%s)", f.path, f.kind)
		case i >= 0 && claudeset.Observed(f.data):
			x.add(claudeArea, levelFix, f.path+": permd observes only: what it would have decided is recorded, and nothing is decided", "permd setup claude"+fileFlag(f)+" puts Claude under it")
		case i >= 0:
			x.add(claudeArea, levelFix, f.path+" has hooks of permd, but not these, or not all: "+f.hooks[i].command, "permd setup claude"+fileFlag(f)+" puts them right")
		}
	}
	if !seen {
		x.add(claudeArea, levelFix, "permd's hooks are not installed: only sessions that permd run started are governed", "permd setup claude")
	}
	return managed
}

// short names a gate whose time-out is shorter than permd's own deadlines:
// when it passes, Claude runs the call.
func (f *claudeFile) short() string {
	for _, h := range f.hooks {
		if h.ours() && !strings.HasSuffix(h.command, " --observe claude") && (h.event == "PreToolUse" || h.event == "PermissionRequest") && h.timeout < claudeset.GateTimeout {
			return fmt.Sprintf("hooks.%s gives permd %g seconds; after them Claude goes on without it", h.event, h.timeout)
		}
	}
	return ""
}

func fileFlag(f *claudeFile) string {
	switch f.kind {
	case "user":
		return ""
	case "managed":
		return " --system"
	}
	return " --file " + f.path
}

// asking are the modes in which Claude runs nothing unasked that no rule
// allows.
var asking = []string{"default", "manual", "plan", "dontAsk"}

// lookAtBase finds out what Claude does with a call when no hook speaks.
// Lists of all files are merged; of single settings the strongest file counts.
func (x *doctor) lookAtBase(c *clientReport, files []*claudeFile) {
	runs := func(why, remedy string) {
		c.IfHookDies, c.Why = diesRuns, append(c.Why, why)
		x.add(claudeArea, levelFix, why, remedy)
	}
	mode, from := "", ""
	for _, f := range files {
		if f.missing || f.broken != nil {
			continue
		}
		if mode == "" && f.mode != "" {
			mode, from = f.mode, f.path
		}
		lines, err := claudeset.Problems(f.data)
		if err != nil {
			x.add(claudeArea, levelFix, f.path+": "+err.Error(), "correct it")
			continue
		}
		for _, l := range lines {
			// The mode is judged below, the switch in offSwitches: for both the
			// strongest file counts.
			if !strings.HasPrefix(l, "set ") {
				runs(f.path+": to do: "+l, x.byHand(f))
			}
		}
	}
	switch {
	case mode == "":
		runs("no file sets permissions.defaultMode, and Claude's own default is auto: it runs most calls unasked", "permd setup claude")
	case !slices.Contains(asking, mode):
		runs(fmt.Sprintf("%s sets permissions.defaultMode to %q: calls run unasked", from, mode), "set it to \"default\" there, or permd setup claude")
	}
}

func (x *doctor) byHand(f *claudeFile) string {
	if f.kind == "user" {
		return "permd setup claude does it"
	}
	return "change that file by hand; it is not yours alone"
}
