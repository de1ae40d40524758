package session

import (
	"slices"
	"testing"
)

func env(kv ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return func(k string) string { return m[k] }
}

func TestCandidates(t *testing.T) {
	all := NamedBy{
		Self: []string{"claude-self"}, InProcess: "claude-root", Flag: "claude-flag", Client: "claude",
		ClientArgs: []string{"claude", "--parent-session-id", "arg"},
		Env:        env(EnvParent, "claude:par", EnvSession, "n1-2", "PI_SESSION_ID", "p", "CODEX_THREAD_ID", "c"),
		Tree:       func() []string { return []string{"n9-9"} },
	}
	with := func(f func(*NamedBy)) NamedBy { n := all; f(&n); return n }
	for _, c := range []struct {
		name string
		in   NamedBy
		want []Candidate
	}{
		{"nothing named", NamedBy{}, nil},
		{"everything, in order", all, []Candidate{
			{"claude-root", ChannelRegistry, "hook"}, {"claude-flag", ChannelEnv, "flag"}, {"claude-arg", ChannelEnv, "client-args"},
			{"claude-par", ChannelEnv, EnvParent}, {"n1-2", ChannelEnv, EnvSession}, {"pi-p", ChannelEnv, "PI_SESSION_ID"},
			{"codex-c", ChannelEnv, "CODEX_THREAD_ID"}, {"n9-9", ChannelEnv, "process-tree"}}},
		{"self is skipped and the search goes on", with(func(n *NamedBy) { n.InProcess = ""; n.Flag = "claude-self"; n.ClientArgs = nil }), []Candidate{
			{"claude-par", ChannelEnv, EnvParent}, {"n1-2", ChannelEnv, EnvSession}, {"pi-p", ChannelEnv, "PI_SESSION_ID"},
			{"codex-c", ChannelEnv, "CODEX_THREAD_ID"}, {"n9-9", ChannelEnv, "process-tree"}}},
		{"none by flag opts out of everything below", with(func(n *NamedBy) { n.InProcess = ""; n.Flag = "none" }), nil},
		{"none by flag keeps the in-process parent", with(func(n *NamedBy) { n.Flag = "None" }), []Candidate{{"claude-root", ChannelRegistry, "hook"}}},
		{"none by variable", NamedBy{Env: env(EnvParent, "none", EnvSession, "n1-2")}, nil},
		{"unknown and blank name nobody", NamedBy{Flag: " ", Env: env(EnvParent, "unknown", EnvSession, "  ", "PI_SESSION_ID", "UNKNOWN")}, nil},
		{"a path is nobody", NamedBy{Env: env(EnvParent, "../../etc", EnvSession, "..")}, nil},
		{"listed once", NamedBy{Flag: "n1-2", Env: env(EnvParent, "n1-2", EnvSession, "n1-2")}, []Candidate{{"n1-2", ChannelEnv, "flag"}}},
		{"argument in one word", NamedBy{Client: "claude", ClientArgs: []string{"claude", "--parent-session-id=z"}}, []Candidate{{"claude-z", ChannelEnv, "client-args"}}},
		{"argument after --", NamedBy{Client: "claude", ClientArgs: []string{"claude", "--", "--parent-session-id", "z"}}, nil},
		{"argument without value", NamedBy{Client: "claude", ClientArgs: []string{"claude", "--parent-session-id"}}, nil},
		{"only itself in the tree", NamedBy{Self: []string{"n1-2"}, Tree: func() []string { return []string{"n1-2", "n3-4"} }}, []Candidate{{"n3-4", ChannelEnv, "process-tree"}}},
	} {
		if got := Candidates(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %v\nwant %v", c.name, got, c.want)
		}
	}
}

func TestRegistry(t *testing.T) {
	var r Registry
	root, added := r.Add(Entry{ID: "root"})
	if !added {
		t.Fatal("a new session is not new")
	}
	a, _ := r.Add(Entry{ID: "root.a", Parent: "root", Agent: "one"})
	r.Add(Entry{ID: "root.b", Parent: "root"})
	r.Add(Entry{ID: "root.c", Parent: "root.b"})
	if _, added := r.Add(Entry{ID: "root.a", Parent: "root", Agent: "renamed"}); added {
		t.Error("a known session is new")
	}
	if e, _ := r.Get("root.a"); e.Agent != "renamed" {
		t.Errorf("agent is %q", e.Agent)
	}
	if up := r.Above("root.c"); !slices.Equal(up, []string{"root.b", "root"}) {
		t.Errorf("above root.c: %v", up)
	}
	a()
	a() // twice is harmless
	if _, ok := r.Get("root.a"); ok {
		t.Error("a disposed session is there")
	}
	if _, ok := r.Get("root.b"); !ok {
		t.Error("disposing one sibling took the other")
	}
	again, _ := r.Add(Entry{ID: "root.a"})
	a() // the old disposer must not take the new entry
	if _, ok := r.Get("root.a"); !ok {
		t.Error("an old disposer removed a new entry")
	}
	again()
	root()
	if n := len(r.List()); n != 2 {
		t.Errorf("%d sessions left, want 2", n)
	}
	r.Add(Entry{ID: "x", Parent: "y"})
	r.Add(Entry{ID: "y", Parent: "x"})
	if up := r.Above("x"); !slices.Equal(up, []string{"y"}) {
		t.Errorf("a cycle is walked for ever: %v", up)
	}
}
