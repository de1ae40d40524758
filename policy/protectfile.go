package policy

import (
	"strings"
)

const (
	clientSettings = "settings, hooks or plugins of an agent's client, which hold the agent to permd"
	startFile      = "a start file of the shell, which could put another program in permd's place"
)

// startFiles are read by every shell of the user.
var startFiles = map[string]bool{
	".bashrc": true, ".bash_profile": true, ".bash_login": true, ".bash_logout": true, ".bash_aliases": true, ".profile": true, ".zshrc": true, ".zshenv": true,
	".zprofile": true, ".zlogin": true, ".zlogout": true, ".kshrc": true, ".mkshrc": true, ".cshrc": true, ".tcshrc": true, ".login": true,
	".pam_environment": true, ".xprofile": true, ".xsession": true, ".xsessionrc": true, ".inputrc": true, ".config/fish/config.fish": true,
}

// managedDirs hold what an administrator set for clients and shells.
var managedDirs = []string{"/etc/claude-code/", "/etc/codex/", "/etc/gemini-cli/", "/etc/opencode/", "/etc/permd/", "/etc/profile.d/", "/etc/zsh/",
	"/library/application support/claudecode/"}

var managedFiles = []string{"/etc/profile", "/etc/bash.bashrc", "/etc/bashrc", "/etc/zshrc", "/etc/zshenv", "/etc/zprofile", "/etc/environment", "/etc/ld.so.preload"}

// clientFile says why the file name must not be written. Name is in lower
// case when fold is set.
func clientFile(name, home string, fold bool) string {
	if fold {
		home = strings.ToLower(home)
	}
	lower := strings.ToLower(name)
	for _, dir := range managedDirs {
		if strings.HasPrefix(lower+"/", dir) {
			return clientSettings
		}
	}
	for _, f := range managedFiles {
		if lower == f {
			return startFile
		}
	}
	if home != "" {
		if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(home, "/")+"/"); ok {
			if startFiles[rest] || strings.HasPrefix(rest, ".config/fish/conf.d/") || strings.HasPrefix(rest, ".config/fish/functions/") ||
				strings.HasPrefix(rest, ".config/environment.d/") || strings.HasPrefix(rest, ".zshrc.d/") || strings.HasPrefix(rest, ".bashrc.d/") {
				return startFile
			}
			if homeClient(rest) {
				return clientSettings
			}
		}
	}
	for rest := name; rest != ""; {
		var seg string
		seg, rest, _ = strings.Cut(rest, "/")
		if projectClient(seg, rest) {
			return clientSettings
		}
	}
	return ""
}

// homeClient reports whether rest, below the home directory, holds a client.
func homeClient(rest string) bool {
	switch {
	case rest == ".claude.json", strings.HasPrefix(rest, ".claude.json."):
	case strings.HasPrefix(rest, ".claude/plugins/"):
	case rest == ".codex", strings.HasPrefix(rest, ".codex/"):
	case rest == ".config/opencode", strings.HasPrefix(rest, ".config/opencode/"):
	case rest == ".pi", strings.HasPrefix(rest, ".pi/"):
	case strings.HasPrefix(rest, ".local/share/claude/"):
	default:
		return false
	}
	return true
}

// projectClient reports whether the directory seg, with rest below it, is a
// client's settings in any directory.
func projectClient(seg, rest string) bool {
	next, below, _ := strings.Cut(rest, "/")
	switch seg {
	case ".claude":
		return next == "hooks" || strings.HasPrefix(next, "settings") && strings.HasSuffix(next, ".json") && below == ""
	case ".codex":
		return rest != ""
	case ".gemini":
		switch next {
		case "settings.json", "policies", "extensions", "hooks", "trustedFolders.json", "trustedfolders.json", ".env":
			return true
		}
	case ".opencode":
		switch next {
		case "plugin", "plugins", "opencode.json", "opencode.jsonc", "tool", "tools":
			return true
		}
	case ".pi":
		return rest != ""
	case "opencode.json", "opencode.jsonc":
		return rest == ""
	}
	return false
}
