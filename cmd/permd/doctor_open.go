package main

import (
	"fmt"
	"os"
	"slices"

	claudeset "permd/clients/claude/settings"
)

// whatIsOpen says what Claude Code itself leaves open, and what to do about
// it. A root-owned file closes what a user or a repository can switch off.
func (x *doctor) whatIsOpen(c *clientReport, files []*claudeFile, managed bool) {
	x.offSwitches(c, files, managed)
	note := func(text, remedy string) { x.add(openArea, levelNote, text, remedy) }
	for _, f := range files {
		for _, h := range f.hooks {
			if h.kind == "http" {
				note(fmt.Sprintf("%s: hooks.%s calls %s: a hook over HTTP that cannot be reached lets the call run", f.path, h.event, h.command),
					"permd decides beside it, and its refusal holds; make the other a command, too")
			}
		}
	}
	teammates := "a teammate in a tmux pane shows its questions at the lead and tells no hook of them"
	if i := slices.IndexFunc(files, func(f *claudeFile) bool { return f.teammates == "tmux" }); i >= 0 {
		teammates += " (teammateMode is tmux in " + files[i].path + ")"
	}
	note(teammates, "keep a desk open: then permd waits before the call and you answer there; without one the lead's dialog decides")
	note("when the time-out of a hook passes, Claude ends it and goes on without it",
		"permd's own deadlines are shorter than the 24 hours that setup writes; a call that outlives them falls back to Claude's own prompt")
	note("what you allow in Claude's own dialog runs without permd's last check",
		"the record says handed_to_client_dialog; client_dialog = \"off\" in "+x.dirs.Config+"/config.toml asks at the desk instead")
	note("a file that you mention with @ is read without a hook", "do not mention secrets")
	note("in the terminal, no hook runs before you trust the folder", "trust only folders whose .claude you have read")
}

// offSwitches are what makes Claude run without its hooks.
func (x *doctor) offSwitches(c *clientReport, files []*claudeFile, managed bool) {
	disabled := ""
	for _, f := range files {
		if f.broken == nil && f.disable != nil {
			if *f.disable {
				disabled = f.path
			}
			break // the strongest file that says anything counts
		}
	}
	if managed {
		x.ok(openArea, "the root-owned settings keep the hooks on whatever a user or a repository switches off")
		return
	}
	c.RepositoryCanSwitchOff = true
	if disabled != "" {
		c.IfHookDies = diesRuns
		c.Why = append(c.Why, disabled+" switches every hook off (disableAllHooks)")
		x.add(openArea, levelFix, disabled+" sets disableAllHooks: no hook runs here", "remove it there, or start with permd run -- claude, or permd setup claude --system")
	}
	system := "permd setup claude --system writes the root-owned file that survives it"
	x.add(openArea, levelNote, "disableAllHooks in a project's .claude/settings.json or settings.local.json switches every hook off", "start with permd run -- claude, which passes its hooks by --settings; "+system)
	x.add(openArea, levelNote, "claude --bare, --safe-mode, --restricted, --setting-sources and another --settings start without your hooks; so do CLAUDE_CODE_SIMPLE, CLAUDE_CODE_SAFE_MODE and CLAUDE_CODE_RESTRICTED in the environment", "permd denies these to agents; "+system)
	if off := claudeset.Off(nil, os.Environ()); off != "" {
		c.IfHookDies = diesRuns
		c.Why = append(c.Why, off+" is set here, and with it Claude runs no hook")
		x.add(openArea, levelFix, off+" is set in this environment: a claude started from here runs no hook", "unset "+off+", or "+system)
	}
	x.add(openArea, levelNote, "one wrong value anywhere in a settings file makes Claude ignore the whole file, without a word in -p", "doctor sees broken JSON, not every wrong value; start with permd run -- claude; "+system)
}
