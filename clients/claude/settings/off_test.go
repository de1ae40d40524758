package settings

import (
	"strings"
	"testing"
)

func TestOff(t *testing.T) {
	for _, k := range []struct{ args, env, want string }{
		{"-p hi", "HOME=/h", ""},
		{"-p hi --bare", "", "--bare"},
		{"--safe-mode", "", "--safe-mode"},
		{"--bare=true", "", "--bare"},
		{"-p -- --bare", "", ""},
		{"--barely -bare bare", "", ""},
		{"--restricted --setting-sources project", "", ""}, // --settings still counts
		{"", "CLAUDE_CODE_SIMPLE=1", "CLAUDE_CODE_SIMPLE"},
		{"", "CLAUDE_CODE_SAFE_MODE=true", "CLAUDE_CODE_SAFE_MODE"},
		{"", "CLAUDE_CODE_SIMPLE=0 CLAUDE_CODE_SAFE_MODE= CLAUDE_CODE_SIMPLE_SYSTEM_PROMPT=1 CLAUDE_CODE_SIMPLE=False", ""},
		{"", "CLAUDE_CODE_SIMPLE=maybe", "CLAUDE_CODE_SIMPLE"}, // nobody knows what Claude makes of it
	} {
		if got := Off(strings.Fields(k.args), strings.Fields(k.env)); got != k.want {
			t.Errorf("%q with %q: %q, want %q", k.args, k.env, got, k.want)
		}
	}
}
