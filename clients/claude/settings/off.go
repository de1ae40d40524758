package settings

import (
	"slices"
	"strings"
)

// off are the options and variables with which Claude runs no hook, not even
// one that --settings names. Only root's file survives them.
var (
	offOptions   = []string{"--bare", "--safe-mode"}
	offVariables = []string{"CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE"}
)

// Off names the option among args, or the variable in env ("K=V"), with which
// Claude would run no hook of a user, however it is passed; "" for none.
// Options end at "--".
func Off(args, env []string) string {
	for _, a := range args {
		if a == "--" {
			break
		}
		name, _, _ := strings.Cut(a, "=")
		if slices.Contains(offOptions, name) {
			return name
		}
	}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if slices.Contains(offVariables, name) && !slices.Contains([]string{"", "0", "false", "no", "off"}, strings.ToLower(value)) {
			return name
		}
	}
	return ""
}
