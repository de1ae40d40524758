package hook

import (
	"strings"
	"testing"
)

func TestParseArgs(t *testing.T) {
	for _, c := range []struct {
		args string
		want options
		err  string
	}{
		{"claude", options{client: "claude"}, ""},
		{"--gate claude", options{client: "claude", gate: true}, ""},
		{"claude --gate", options{client: "claude", gate: true}, ""},
		{"--no-start claude", options{client: "claude", noStart: true}, ""},
		{"--root /r --gate codex", options{client: "codex", gate: true, root: "/r"}, ""},
		{"--root=/r codex", options{client: "codex", root: "/r"}, ""},
		{"", options{}, "no client"},
		{"--gate", options{}, "no client"},
		{"--root", options{}, "needs a directory"},
		{"--root r claude", options{}, "not an absolute path"},
		{"--root= claude", options{}, "not an absolute path"},
		{"--root claude", options{}, "not an absolute path"},
		{"--gat claude", options{}, "unknown option"},
		{"-gate claude", options{}, "unknown option"},
		{"--gate=false claude", options{}, "unknown option"},
		{"-- claude", options{}, "unknown option"},
		{"claude codex", options{}, "more than one client"},
		{"--gate --no-start claude", options{}, "not for gates"},
	} {
		got, err := parseArgs(strings.Fields(c.args))
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%q: %+v, %v; want %+v", c.args, got, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), usage)):
			t.Errorf("%q: error %v, want %q and the usage", c.args, err, c.err)
		case c.err != "" && got != (options{}):
			t.Errorf("%q: %+v beside an error", c.args, got)
		}
	}
}
