package session

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestValid(t *testing.T) {
	for _, s := range []string{"a", "claude-af9a28f9-9eab-4860-9cc4-0d2d2ba503a7", "n1-2", "A.b_c-9", strings.Repeat("x", 64)} {
		if !Valid(s) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{"", ".", "..", ".a", "a/b", "../a", "a\x00", "a b", "a\n", "ä", strings.Repeat("x", 65), "a:b", "a\\b", "%2e", "a*"} {
		if Valid(s) {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestID(t *testing.T) {
	for in, want := range map[string]string{
		"af9a-28": "claude-af9a-28", "": "", "  ": "", "unknown": "", "Unknown": "", " UNKNOWN ": "", " a ": "claude-a",
	} {
		if got := ID("claude", in); got != want {
			t.Errorf("ID(%q) = %q, want %q", in, got, want)
		}
	}
	for _, in := range []string{"../../x", "a/b", strings.Repeat("y", 80), "a b", "日本"} {
		got := ID("claude", in)
		if !Valid(got) || !strings.HasPrefix(got, "claude-x") {
			t.Errorf("ID(%q) = %q", in, got)
		}
	}
	if ID("claude", "a/b") == ID("claude", "a.b") || ID("claude", "a/b") == ID("claude", "a/c") {
		t.Error("two ids folded into one")
	}
}

func TestSubAndNodeID(t *testing.T) {
	root := ID("claude", "af9a28f9-9eab-4860-9cc4-0d2d2ba503a7")
	a, b := Sub(root, "adaa760ee05dcd046"), Sub(root, "x")
	if a == b || !Valid(a) || !strings.HasPrefix(a, root+".") || Sub(root, "x") != b {
		t.Errorf("Sub: %q, %q", a, b)
	}
	if s := Sub(strings.Repeat("r", 64), "x"); !Valid(s) {
		t.Errorf("Sub of a long root: %q", s)
	}
	if NodeID(1, 2) == NodeID(12, 2) || NodeID(7, 1) == NodeID(7, 2) {
		t.Error("two processes share a node")
	}
	if id := NodeID(4194304, ^uint64(0)); !Valid(id) || len(id) > 24 {
		t.Errorf("node id %q is too long for a socket path", id)
	}
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"claude-a": "claude-a", "claude:a": "claude-a", " claude:a ": "claude-a", "unknown": "", "": "", "claude:unknown": "", "claude:": "",
		"a/b": "", "..": "", "n12-ab": "n12-ab", "pi:/tmp/x": ID("pi", "/tmp/x"),
	} {
		if got := Canonical(in); got != want {
			t.Errorf("Canonical(%q) = %q, want %q", in, got, want)
		}
	}
}

// Whatever a client calls a session, its id is safe as a file name.
func TestIDsAreAlwaysSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.String().Draw(t, "raw")
		if id := ID("claude", raw); id != "" && !Valid(id) {
			t.Fatalf("ID(%q) = %q", raw, id)
		}
		if id := Canonical(raw); id != "" && !Valid(id) {
			t.Fatalf("Canonical(%q) = %q", raw, id)
		}
		if id := Sub("claude-a", raw); !Valid(id) {
			t.Fatalf("Sub(%q) = %q", raw, id)
		}
	})
}
