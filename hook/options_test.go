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
		{"claude", options{ensure: Agent{Client: "claude"}, client: "claude"}, ""},
		{"--gate claude", options{ensure: Agent{Client: "claude"}, client: "claude", gate: true}, ""},
		{"claude --gate", options{ensure: Agent{Client: "claude"}, client: "claude", gate: true}, ""},
		{"--no-start claude", options{ensure: Agent{Client: "claude"}, client: "claude", noStart: true}, ""},
		{"--root /r --gate codex", options{ensure: Agent{Client: "codex"}, client: "codex", gate: true, root: "/r"}, ""},
		{"--root=/r codex", options{ensure: Agent{Client: "codex"}, client: "codex", root: "/r"}, ""},
		{"--root /r --observe claude", options{ensure: Agent{Client: "claude"}, client: "claude", observe: true, root: "/r"}, ""},
		{"--gate --observe claude", options{}, "it is no gate"},
		{"--observe --ensure=7:99 claude", options{}, "stands alone"},
		{"--observe=true claude", options{}, "unknown option"},
		{"--ensure=7:99 claude", options{client: "claude", ensure: Agent{"claude", 7, 99}}, ""},
		{"--ensure=7 claude", options{}, "is no process"},
		{"--ensure=0:1 claude", options{}, "is no process"},
		{"--ensure=7:-1 claude", options{}, "is no process"},
		{"--ensure 7:1 claude", options{}, "unknown option"},
		{"--gate --ensure=7:99 claude", options{}, "stands alone"},
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
